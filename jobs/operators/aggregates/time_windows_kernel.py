"""Which windows a record falls into, which are still open, what is forwarded (KStreamWindowAggregate, TimeWindows,
UnlimitedWindows).

Rule: the windows of time t start at max(0, t - size + advance) rounded down to the advance, then every advance while
start <= t. A window takes the record while ``start + size > stream time - grace`` (strict), stream time including the
record itself; else that window refuses it. A null key is refused before the clock moves. Null values are taken.
A window that starts before ``newest start - hidden`` is not shown by the store: it begins anew, is forwarded and is not
stored. That happens only where another stream with a stream time of its own shares the store.
"""

import numpy as np

from ....state.compilation.kernel_compilation import kernel
from ....state.stores.slot_index import find, insert
from ....state.stores.slots import CHANGED, FREE_TOP, LIVE, LIVE_COUNT, OBSERVED_MS
from ...kernels.aggregate_buffers import CLOSED, NULL, PROGRAM, REFUSALS, STREAM_TIME, UNSTORED, UPDATES, refuse
from ...kernels.fold_program import ADD, EMIT, OLD, START
from ...kernels.slot_lifecycle import is_expired


@kernel
def aggregate_time_windows(rows, windows, kept, asked, slots, updates, program, refusals, totals):  # type: ignore[no-untyped-def]
    """Decide rows ``begin`` up to ``end_row`` of ``(key, time)`` in order.

    ``windows``: (origin, size, advance, grace); times before the origin are in none. ``kept``: (hidden, retention,
    length of a persistent store's segment, or 0). ``asked``: (updates are asked for, with old values). ``slots``: (key,
    start, end, time, flags, table, free, counts). ``updates``: (row, key, start, time, stream time). ``program``:
    (flags, slot, argument). ``refusals``: (row, kind, start, stream time, limit, is record).
    """
    key, time, begin, end_row = rows
    origin, size, advance, grace = windows
    is_asked, with_old = asked
    s_key, s_start, s_end, s_time, s_flags, table, free, counts = slots
    u_row, u_key, u_start, u_time, u_stream_time = updates
    p_flags, p_slot, p_argument = program
    n_updates, n_program, n_refusals, observed = 0, 0, 0, totals[STREAM_TIME]
    plain = ADD | (EMIT if is_asked else 0) | (OLD if with_old else 0)
    for row in range(begin, end_row):
        k, t = key[row], time[row]
        if k < 0:
            refuse(refusals, n_refusals, row, NULL, -1, observed, -1, True)
            n_refusals += 1
            continue
        observed = max(observed, t)
        close = observed - grace
        first_refusal, taken = n_refusals, False
        start = origin + max(0, t - origin - size + advance) // advance * advance
        while start <= t:
            if start + size <= close:
                refuse(refusals, n_refusals, row, CLOSED, start, observed, close, False)
                n_refusals += 1
                start += advance
                continue
            taken = True
            is_hidden = start < counts[OBSERVED_MS] - kept[0]
            slot = -1 if is_hidden else find(table, s_key, s_start, s_end, k, start, start + size)
            flags = plain
            if slot < 0:
                slot = free[counts[FREE_TOP] - 1]  # of a hidden window it stays free: nothing finds it
                s_key[slot], s_start[slot], s_end[slot], s_time[slot] = k, start, start + size, t
                flags |= START
                if not is_hidden:
                    counts[FREE_TOP] -= 1
                    counts[LIVE_COUNT] += 1
                    s_flags[slot] = LIVE
                    insert(table, s_key, s_start, s_end, slot)
            counts[OBSERVED_MS] = max(counts[OBSERVED_MS], start)
            s_time[slot] = max(s_time[slot], t)
            if not is_hidden:
                s_flags[slot] |= CHANGED
            elif is_expired(start, counts[OBSERVED_MS] - kept[1], kept[2]):
                store_time = counts[OBSERVED_MS]
                refuse(refusals, n_refusals, row, UNSTORED, start, store_time, store_time - kept[1], False)
                n_refusals += 1
            if is_asked:
                u_row[n_updates], u_key[n_updates], u_start[n_updates] = row, k, start
                u_time[n_updates], u_stream_time[n_updates] = s_time[slot], observed
                n_updates += 1
            p_flags[n_program], p_slot[n_program], p_argument[n_program] = flags, slot, row
            n_program += 1
            start += advance
        if not taken:
            refusals[5][first_refusal:n_refusals] = True
    totals[UPDATES], totals[PROGRAM], totals[REFUSALS], totals[STREAM_TIME] = n_updates, n_program, n_refusals, observed


def updates_per_record(size: int, advance: int) -> int:
    """The most windows that one time can fall into."""
    return -(-size // advance)


def allocate(records: int, per_record: int) -> tuple[tuple[np.ndarray, ...], ...]:
    """Empty (updates, program, refusals) arrays for a call over ``records`` rows."""
    most = records * per_record
    updates = (
        np.empty(most, np.int32),
        np.empty(most, np.int32),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
    )
    program = np.empty(most, np.uint8), np.empty(most, np.int32), np.empty(most, np.int32)
    refusals = (
        np.empty(most, np.int32),
        np.empty(most, np.int8),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.bool_),
    )
    return updates, program, refusals
