"""Aggregates without windows (KStreamAggregate, KStreamReduce).

Rule: a null key or a null value is refused; every other record updates its key's aggregate and forwards it, with the
larger of its own time and the aggregate's. With a history retention (a versioned store), an update older than ``store
time - retention`` is refused.
"""

import numpy as np

from ....state.compilation.kernel_compilation import kernel
from ....state.stores.slot_index import find, insert
from ....state.stores.slots import CHANGED, FREE_TOP, LIVE, LIVE_COUNT, OBSERVED_MS
from ...kernels.aggregate_buffers import PROGRAM, REFUSALS, UPDATES
from ...kernels.fold_program import ADD, EMIT, OLD, START

UNVERSIONED = -1
"""History retention of a store that is not versioned."""


@kernel
def aggregate_records(rows, history, with_old, slots, updates, program, refused, totals):  # type: ignore[no-untyped-def]
    """Decide rows ``begin`` up to ``end_row`` of ``(key, time, valid)``.

    ``history``: its retention, or UNVERSIONED. ``updates``: (row, key, time). ``refused``: (row, limit or -1 for a
    null, store time).
    """
    key, time, valid, begin, end_row = rows
    s_key, s_start, s_end, s_time, s_flags, table, free, counts = slots
    u_row, u_key, u_time = updates
    p_flags, p_slot, p_argument = program
    n, n_refused = 0, 0
    for row in range(begin, end_row):
        k = key[row]
        if k < 0 or not valid[row]:
            refused[0][n_refused], refused[1][n_refused], refused[2][n_refused] = row, -1, -1
            n_refused += 1
            continue
        slot = find(table, s_key, s_start, s_end, k, 0, 0)
        if history != UNVERSIONED:
            time_now = time[row] if slot < 0 else max(s_time[slot], time[row])
            limit = counts[OBSERVED_MS] - history
            if time_now < limit:
                refused[0][n_refused], refused[1][n_refused], refused[2][n_refused] = row, limit, counts[OBSERVED_MS]
                n_refused += 1
                continue
            counts[OBSERVED_MS] = max(counts[OBSERVED_MS], time_now)
        flags = ADD | EMIT
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
        u_row[n], u_key[n], u_time[n] = row, k, s_time[slot]
        p_flags[n], p_slot[n], p_argument[n] = flags, slot, row
        n += 1
    totals[UPDATES], totals[PROGRAM], totals[REFUSALS] = n, n, n_refused


def allocate(records: int) -> tuple[tuple[np.ndarray, ...], ...]:
    """Empty (updates, program, refused) arrays for a call over ``records`` rows."""
    updates = np.empty(records, np.int32), np.empty(records, np.int32), np.empty(records, np.int64)
    program = np.empty(records, np.uint8), np.empty(records, np.int32), np.empty(records, np.int32)
    return updates, program, (np.empty(records, np.int32), np.empty(records, np.int64), np.empty(records, np.int64))
