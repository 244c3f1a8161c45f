"""Does a step answer alike about the same records, whatever is beside them?

Rule: the first records that come to a step under new code are computed once together and once in pieces. A step whose
answers differ uses chance, a clock or a counter, and its results depend on where chunks are cut. The first piece finds
what the records before have left outside of stores. Before each later one it is put back, as for another process.
This is only a check: the results that count are computed as usual, with that put back.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ...state.errors import ReplayError
from ...state.records.batches import NO_OFFSET, Batch, Chunk
from ..graph.graph import Node
from ..operators.base.operator import Operator
from .held_state import Kept, Outside, functions_of

RECORDS = 1_000
"""So many are looked at, of each task's first chunk."""

Answer = tuple[str, ...]
"""Place of the record that caused it, key, value and time of what was forwarded, and perhaps the topic, partition or
child to which it goes, as text, in which NaN equals NaN.
"""


def difference(operator: Operator, node: Node, batch: Batch, chunk: Chunk) -> str | None:
    """What differs first, in a sentence; None: nothing. A step that fails is not looked at."""
    rows = np.arange(min(len(batch), RECORDS))
    kept = Kept(functions_of(node))
    try:
        together = _answers(operator, batch, chunk, rows)
        outside = kept.outside()
        apart = list[Answer]()
        for begin, end in pairwise(cuts(len(rows))):
            if begin:
                kept.put_back()
            apart += _answers(operator, batch, chunk, rows[begin:end])
    except ReplayError:
        return None
    finally:
        kept.put_back()
    return None if together == apart else in_a_sentence(together, apart, outside)


def cuts(rows: int) -> list[int]:
    """Where the pieces of so many rows begin, and where the last one ends. The first piece has one row: whoever counts
    from the start again behind it, even up to two, is out of step.
    """
    return sorted({0, min(1, rows), (rows + 1) // 2, rows})


def in_a_sentence(together: Sequence[Answer], apart: Sequence[Answer], outside: Outside) -> str:
    """The first answer that differs, as text; if one list is longer, its first answer beyond the other. ``outside``:
    what the functions hold outside of stores.
    """
    at = next((at for at, pair in enumerate(zip(together, apart, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(together), len(apart)) if at is None else at
    one, other = (answers[at] if at < len(answers) else None for answers in (together, apart))
    where = slice(1, 3 if one is None or other is None or one[1:3] != other[1:3] else None)
    record = (one or other or ("",))[0]
    said = f"of the record {record}, it gave {_said(one, where)}, and then {_said(other, where)}"
    return said + held_in_a_sentence(outside)


def held_in_a_sentence(outside: Outside) -> str:
    """What to do about state outside of stores, behind a sentence that says what it did."""
    named = outside.changed or outside.unknown
    if not named:
        return ""
    verb, them = ("change", "them") if len(named) > 1 else ("changes", "it")
    verb = verb if outside.changed else "may change"
    return f"; {' and '.join(named)} {verb} while records are processed; keep {them} in a store"


def _said(answer: Answer | None, where: slice) -> str:
    return "nothing else" if answer is None else ", ".join(answer[where])


def forwarded_answers(forwarded: Batch, chunk: Chunk) -> list[Answer]:
    """All that is forwarded, in order."""
    keys, values = forwarded.keys.typed(forwarded.key).to_pylist(), forwarded.value.all().to_pylist()
    causes, valid, times = forwarded.cause.tolist(), forwarded.valid.tolist(), forwarded.time_ms.tolist()
    return [
        (place_in(chunk, cause), f"key {key!r}", f"value {(value if is_there else None)!r}", f"time {time_ms}")
        for cause, key, value, is_there, time_ms in zip(causes, keys, values, valid, times, strict=True)
    ]


def answers_of(operator: Operator | None, forwarded: Batch, chunk: Chunk) -> list[Answer]:
    """All that the ``operator`` has forwarded last, in order, with the topics or children that it chose."""
    answers = forwarded_answers(forwarded, chunk)
    for what, chosen in (("topic", operator.topics), ("child", operator.addressed)) if operator is not None else ():
        if chosen is not None and len(chosen) == len(answers):  # record by record, only the last one is known
            answers = [(*one, f"{what} {name!r}") for one, name in zip(answers, chosen, strict=True)]
    return answers


def place_in(chunk: Chunk, cause: int) -> str:
    """Of the record of that row."""
    topic, offset = chunk.topics[chunk.origin[cause]], int(chunk.offset[cause])
    # A test driver's record may have the offset that the test gave it. Of what an earlier part handed over, the context
    # may be another record than the cause.
    is_own = chunk.is_record[cause] and chunk.context_topics[chunk.context_source[cause]] == topic
    if is_own and chunk.context_offset[cause] != NO_OFFSET:
        offset = int(chunk.context_offset[cause])
    return f"{topic}-{chunk.partition}, offset {offset}"


def _answers(operator: Operator, batch: Batch, chunk: Chunk, rows: np.ndarray) -> list[Answer]:
    return answers_of(operator, operator.process(batch.take(rows), chunk), chunk) if len(rows) else []
