"""Records of a landed topic, as people look at them.

Owns which of them are the last. Rule: of those with the highest offsets of each partition, those with the highest
times. What is out of play (`replay exclude`) is none.
"""

import pyarrow as pa

from ...state.tables.warehouse import Warehouse
from ..tape.landed_slice import Slice
from ..tape.landed_topic import Landed
from .landed_tables import RECORDS, records_of
from .row_choice import RowChoice


def last_landed(warehouse: Warehouse, topic: str, last: int, key: str | None = None) -> tuple[pa.Table, int]:
    """The ``last`` records of ``topic``, the newest last; and how many it has. ``key``: of those with the key alone, as
    text in UTF-8.

    Columns are partition, offset, timestamp (ms), key, value and headers, in bytes as they landed. With a key all of
    the topic is read, without one the ends of its partitions. Raises ConfigError for a topic that has not landed.
    """
    landed = Landed.of(warehouse, topic)
    tables, total = [RECORDS.empty_table()], 0
    for partition, end in landed.ends.items():
        whole = landed.slice(partition, 0, end)
        part, chosen = whole if key is not None else _end_of(whole, last), RowChoice(key)
        rows = records_of(part, int(partition), lambda chunk, chosen=chosen: chosen.of(chunk)[0])  # type: ignore[misc]
        total += len(rows) if key is not None else whole.count()
        tables.append(rows.slice(max(0, len(rows) - last)))
    rows = pa.concat_tables(tables).sort_by([(name, "ascending") for name in ("timestamp", "partition", "offset")])
    return rows.slice(max(0, len(rows) - last)), total


def _end_of(whole: Slice, last: int) -> Slice:
    """The end of a partition that has ``last`` records, or all. Between offsets there may be holes."""
    width = last
    # Twice as far each time: count opens only files that are cut, and the records are read once, when the width is
    # known.
    while (end := whole.part(whole.end - width, whole.end)).count() < last and width < whole.end:
        width *= 2
    return end
