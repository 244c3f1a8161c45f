"""The position of recorded times among records: behind all of their time, before all later ones.

Owns the arithmetic of that order, which planner and tapes share. Rule: in doubled milliseconds a record of time t is at
2 t and a recorded time T at 2 T + 1. Records that follow the recorded time in its partition are at 2 T + 2 at least,
whatever their own time. So once every partition has recorded T, all records that are still to come are behind T, and
the order is the same wherever increments are cut. On a tape of causes a recorded time is a row of time T + 1 whose
sub-topology is BEFORE_ALL.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..landing.recorded_time import Recorded

BEFORE_ALL = -1
"""``cause_sub`` of a recorded time: before the records of its millisecond."""
ADVANCE = "advance"
"""Column of a queue's rows: number of the recorded time that a row is, null for a record."""


def doubled(time_ms: np.ndarray, is_advance: np.ndarray, lowest: int) -> np.ndarray:
    """Places of the rows of one queue, in its order, in doubled ms. ``time_ms``: timestamps of records, and recorded
    times plus one. ``lowest``: the least place, behind what was recorded in former increments.
    """
    positions: np.ndarray
    # 2 t of a record leaves 2 t + 1 free for the recorded time t, between it and 2 (t + 1) of the next millisecond.
    # Here ``time_ms`` of a recorded time T is T + 1, so its place is 2 (T + 1) - 1.
    if is_advance.any():
        # What follows a recorded time T in its partition is at 2 (T + 1) or behind, so that it is behind T on every
        # tape. The floor of a row is that of the rows before it, hence without the last one.
        floors = np.maximum.accumulate(np.concatenate([[lowest], np.where(is_advance, 2 * time_ms, lowest)]))
        positions = np.maximum(2 * time_ms - is_advance, floors[:-1])
    else:
        positions = np.maximum(2 * time_ms, lowest)
    return positions


def in_heap(positions: np.ndarray, own: np.ndarray, queue: int, tie: np.ndarray, count: int) -> np.ndarray:
    """Numbers by which the heap compares the heads of queues: by ``positions``, and some ties by queue number, so that
    they do not depend on what the heap held before. These ties are between recorded times, and between records that a
    recorded time holds back, whose ``own`` place is lower. ``tie``: decides between all other records of one time (0:
    the heap does). ``count``: above all of ``tie``, and no less than there are queues.
    """
    # The heap's kernel compares one int64 a head, as PartitionGroup compares one timestamp, so place, kind of row and
    # queue are packed into one number. Places are 2 * count apart, and each kind has ``count`` numbers of its own:
    #
    #     2 * count * place - 2 * count + queue    a record that a recorded time holds back
    #     2 * count * place + tie                  any other record
    #     2 * count * place - count + queue        a recorded time
    #
    # Records are at even places and recorded times at odd ones, so no kinds share a number. At a time t the order is:
    # what is held back to t, the other records of t, the recorded times t.
    behind = np.where(positions % 2 == 1, queue - count, np.where(own < positions, queue - 2 * count, tie))
    return 2 * count * positions + behind


def numbered(offset: np.ndarray, recorded: Sequence[Recorded]) -> tuple[np.ndarray, np.ndarray]:
    """Records at ``offset`` and ``recorded`` in one order: of each row its number among the records, or among
    ``recorded``; and which are recorded times.
    """
    at = np.searchsorted(offset, np.array([each.before_offset for each in recorded], np.int64))
    is_advance = np.insert(np.zeros(len(offset), np.bool_), at, True)
    number = np.insert(np.arange(len(offset)), at, np.arange(len(recorded)))
    return number, is_advance


def with_advances(table: pa.Table, at: np.ndarray, given: Mapping[str, Any]) -> pa.Table:
    """Rows that are recorded times inserted before the rows ``at`` of a queue's table, null but for the columns
    ``given``.
    """
    n, schema = len(at), table.schema
    columns = [pa.array(given[f.name], f.type) if f.name in given else pa.nulls(n, f.type) for f in schema]
    advances = pa.table(columns, schema=schema).append_column(ADVANCE, pa.array(np.arange(n)))
    whole = pa.concat_tables([table.append_column(ADVANCE, pa.nulls(len(table), pa.int64())), advances])
    order = np.insert(np.arange(len(table)), at, len(table) + np.arange(n))
    return whole.take(pa.array(order)).combine_chunks()


def advance_numbers(table: pa.Table) -> np.ndarray:
    """Number of the recorded time that each row is, -1 for records."""
    if ADVANCE not in table.column_names:
        return np.full(len(table), -1, np.int64)
    numbers: np.ndarray = table[ADVANCE].fill_null(-1).to_numpy()
    return numbers


def parts(is_advance: np.ndarray, records: int) -> list[tuple[int, int]]:
    """Rows ``[begin, end)`` of the chunks of a tape: every recorded time is one of its own, others have ``records``
    rows.
    """
    ranges, begin = [], 0
    for at in [*np.flatnonzero(is_advance).tolist(), len(is_advance)]:
        ranges += [(first, min(first + records, at)) for first in range(begin, at, records)]
        if at < len(is_advance):
            ranges.append((at, at + 1))
        begin = at + 1
    return ranges
