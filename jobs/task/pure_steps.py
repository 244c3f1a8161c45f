"""Does a step answer alike about the same records, whatever stands beside them?

Rule: the first records that come to a step under new code are computed once together and once in pieces; a step whose
answers differ has chance, a clock or a counter in it, and its results depend on where chunks are cut. This only looks:
the results that count are computed as ever.
"""

import numpy as np

from ...state.errors import ReplayError
from ...state.records.batches import Batch, Chunk
from ..operators.operator import Operator

RECORDS = 1_000
"""So many are looked at, of each task's first chunk."""
PIECES = 3


def difference(operator: Operator, batch: Batch, chunk: Chunk) -> str | None:
    """What differs first, in a sentence; None: nothing. A step that fails is not looked at."""
    rows = np.arange(min(len(batch), RECORDS))
    try:
        together = _answers(operator, batch, chunk, rows)
        apart = [answer for piece in np.array_split(rows, PIECES) for answer in _answers(operator, batch, chunk, piece)]
    except ReplayError:
        return None
    if together == apart:
        return None
    pairs = zip(together, apart, strict=False)
    one, other = next((pair for pair in pairs if pair[0] != pair[1]), (together or apart)[-1:] * 2)
    cause = one[0]
    place = f"{chunk.topics[chunk.source[cause]]}-{chunk.partition}, offset {chunk.offset[cause]}"
    return f"of the record {place}, it gave {', '.join(one[1:])}, and then {', '.join(other[1:])}"


def _answers(operator: Operator, batch: Batch, chunk: Chunk, rows: np.ndarray) -> list[tuple[int, str, str]]:
    """Cause, key and value of all that is forwarded, as text, in which NaN equals NaN."""
    if not len(rows):
        return []
    found = operator.process(batch.take(rows), chunk)
    keys, values = found.keys.typed(found.key).to_pylist(), found.value.all().to_pylist()
    columns = zip(found.cause.tolist(), keys, values, strict=True)
    return [(cause, f"key {key!r}", f"value {value!r}") for cause, key, value in columns]
