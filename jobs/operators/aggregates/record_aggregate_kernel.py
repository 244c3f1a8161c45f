"""Aggregates without windows (KStreamAggregate, KStreamReduce).

Rule: a null key or a null value is refused; every other record updates its key's aggregate and forwards it, with the
larger of its own time and the aggregate's. With a history retention (a versioned store), an update older than ``store
time - retention`` is refused.

Arrays: ``rows`` is a tuple of key int32, time int64 and valid bool (rows,), and of the two bounds. ``totals`` int64
(4,). ``slots`` has the fields of SlotColumns, ``updates`` of RecordUpdates, ``program`` of FoldProgram, ``refused`` of
RefusedRecords.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....state.compilation.kernel_compilation import kernel
from ....state.stores.slot_index import find, insert
from ....state.stores.slots import CHANGED, FREE_TOP, LIVE, LIVE_COUNT, OBSERVED_MS, SlotColumns
from ...functions.folds.fold_program import ADD, EMIT, OLD, START, FoldProgram
from ...kernels.aggregate_buffers import PROGRAM, REFUSALS, UPDATES, empty

UNVERSIONED = -1
"""History retention of a store that is not versioned."""


class RecordUpdates(NamedTuple):
    """Updates in the order in which they are forwarded, shape (updates,)."""

    row: NDArray[np.int32]
    key: NDArray[np.int32]
    time: NDArray[np.int64]


class RefusedRecords(NamedTuple):
    """Records that were refused, shape (refusals,)."""

    row: NDArray[np.int32]
    limit: NDArray[np.int64]
    """-1 for a null key or value."""
    store_time: NDArray[np.int64]


@kernel
def aggregate_records(rows, history, with_old, slots, updates, program, refused, totals):  # type: ignore[no-untyped-def]
    """Decide rows ``begin`` up to ``end_row`` of ``(key int32, time int64, valid bool)``.

    ``history``: its retention, or UNVERSIONED. Fields of SlotColumns, RecordUpdates, FoldProgram and RefusedRecords.
    """
    key, time, valid, begin, end_row = rows
    updates, program, refused = RecordUpdates(*updates), FoldProgram(*program), RefusedRecords(*refused)
    s_key, s_start, s_end, s_time, s_flags, table, free, counts = SlotColumns(*slots)
    n, n_refused = 0, 0
    for row in range(begin, end_row):
        k = key[row]
        # KStreamAggregate and KStreamReduce drop a record with a null key or a null value.
        if k < 0 or not valid[row]:
            refused.row[n_refused], refused.limit[n_refused], refused.store_time[n_refused] = row, -1, -1
            n_refused += 1
            continue
        # An aggregate without windows is in the index as (key, 0, 0).
        slot = find(table, s_key, s_start, s_end, k, 0, 0)
        # The put of a versioned store has the result's time, which is never before the time of the aggregate that is
        # there.
        if history != UNVERSIONED:
            time_now = time[row] if slot < 0 else max(s_time[slot], time[row])
            limit = counts[OBSERVED_MS] - history
            # What is not put into the store is not forwarded either (PUT_RETURN_CODE_NOT_PUT).
            if time_now < limit:
                refused.row[n_refused], refused.limit[n_refused] = row, limit
                refused.store_time[n_refused] = counts[OBSERVED_MS]
                n_refused += 1
                continue
            counts[OBSERVED_MS] = max(counts[OBSERVED_MS], time_now)
        flags = ADD | EMIT
        # The first record of its key: the aggregate begins from the initializer.
        if slot < 0:
            counts[FREE_TOP] -= 1
            counts[LIVE_COUNT] += 1
            slot = free[counts[FREE_TOP]]
            s_key[slot], s_start[slot], s_end[slot], s_time[slot], s_flags[slot] = k, 0, 0, time[row], LIVE
            insert(table, s_key, s_start, s_end, slot)
            flags |= START
        s_time[slot] = max(s_time[slot], time[row])
        s_flags[slot] |= CHANGED
        if with_old:
            flags |= OLD
        updates.row[n], updates.key[n], updates.time[n] = row, k, s_time[slot]
        program.flags[n], program.slots[n], program.arguments[n] = flags, slot, row
        n += 1
    totals[UPDATES], totals[PROGRAM], totals[REFUSALS] = n, n, n_refused


def allocate(records: int) -> tuple[RecordUpdates, FoldProgram, RefusedRecords]:
    """Room for a call over ``records`` rows."""
    return empty(RecordUpdates, records), empty(FoldProgram, records), empty(RefusedRecords, records)
