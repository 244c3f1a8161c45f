"""Which windows a record falls into, which are still open, what is forwarded (KStreamWindowAggregate, TimeWindows,
UnlimitedWindows).

Rule: the windows of time t start at max(0, t - size + advance) rounded down to the advance, then every advance while
start <= t. Others (days of a time zone, a user's own) are listed for each record. A window takes the record while
``end > stream time - grace`` (strict), stream time including the record itself; else that window refuses it. A null key
is refused before the clock moves. Null values are taken. A window that starts before ``newest start - hidden`` is not
shown by the store: it begins again, is forwarded and is not stored. That happens only where another stream with a
stream time of its own shares the store, or where listed windows are longer than the store keeps them.

Arrays: ``rows`` has the fields of RecordsToDecide, ``slots`` of SlotColumns, ``updates`` of WindowUpdates, ``program``
of FoldProgram, ``refusals`` of Refusals. ``totals`` int64 (4,). ``windows``, ``kept`` and ``asked``: tuples of numbers.
"""

from ....state.compilation.kernel_compilation import kernel
from ....state.stores.slot_index import find, insert
from ....state.stores.slots import CHANGED, FREE_TOP, LIVE, LIVE_COUNT, OBSERVED_MS, SlotColumns
from ...functions.folds.fold_program import ADD, EMIT, OLD, START, FoldProgram
from ...kernels.aggregate_buffers import (
    CLOSED,
    NULL,
    PROGRAM,
    REFUSALS,
    STREAM_TIME,
    UNSTORED,
    UPDATES,
    Refusals,
    refuse,
)
from ...kernels.slot_lifecycle import is_expired
from ..aggregate_parts import window_columns
from ..aggregate_parts.window_columns import RecordsToDecide, WindowUpdates


@kernel
def aggregate_time_windows(rows, windows, listed, kept, asked, slots, updates, program, refusals, totals):  # type: ignore[no-untyped-def]
    """Decide ``rows`` in order. Fields of RecordsToDecide, SlotColumns, WindowUpdates, FoldProgram and Refusals.

    ``windows``: (origin, size, advance, grace); times before the origin are in none. ``listed``: fields of
    ListedWindows (``first`` int64, ``starts`` int64, ``ends`` int64), empty where windows are computed. ``kept``:
    (hidden, retention, length of a persistent store's segment, or 0). ``asked``: (updates are asked for, with old
    values). ``totals``: as in aggregate_buffers.
    """
    key, time, begin, end_row = RecordsToDecide(*rows)
    origin, size, advance, grace = windows
    first, starts, ends = listed
    is_listed = first.shape[0] > 0
    is_asked, with_old = asked
    updates, program, refusals = WindowUpdates(*updates), FoldProgram(*program), Refusals(*refusals)
    s_key, s_start, s_end, s_time, s_flags, table, free, counts = SlotColumns(*slots)
    n_updates, n_program, n_refusals, observed = 0, 0, 0, totals[STREAM_TIME]
    plain = ADD | (EMIT if is_asked else 0) | (OLD if with_old else 0)
    for row in range(begin, end_row):
        k, t = key[row], time[row]
        # Before the clock moves: a record with a null key is no reason to close a window.
        if k < 0:
            refuse(refusals, n_refusals, row, NULL, -1, -1, observed, -1, True)
            n_refusals += 1
            continue
        observed = max(observed, t)
        close = observed - grace
        first_refusal, taken = n_refusals, False
        at, after = (first[row], first[row + 1]) if is_listed else (0, 0)
        # TimeWindows.windowsFor: the first window with ``start + size > t``, on the grid of the advance, not before the
        # origin.
        start = 0 if is_listed else origin + max(0, t - origin - size + advance) // advance * advance
        while at < after if is_listed else start <= t:
            if is_listed:
                start, end = starts[at], ends[at]
                at += 1
            else:
                end = start + size
            # windowEnd > windowCloseTime is in time, so equal is late. Each window decides for itself: a record may be
            # late for the first of its windows and in time for the next.
            if end <= close:
                refuse(refusals, n_refusals, row, CLOSED, start, end, observed, close, False)
                n_refusals += 1
                start += advance
                continue
            taken = True
            # The store no longer shows it, so the aggregate begins from the initializer again, as if there had been
            # none.
            is_hidden = start < counts[OBSERVED_MS] - kept[0]
            slot = -1 if is_hidden else find(table, s_key, s_start, s_end, k, start, end)
            flags = plain
            if slot < 0:
                slot = free[counts[FREE_TOP] - 1]  # of a hidden window it stays free: nothing finds it
                s_key[slot], s_start[slot], s_end[slot], s_time[slot] = k, start, end, t
                flags |= START
                if not is_hidden:
                    counts[FREE_TOP] -= 1
                    counts[LIVE_COUNT] += 1
                    s_flags[slot] = LIVE
                    insert(table, s_key, s_start, s_end, slot)
            # A window store's stream time is that of window starts, for every put, whether it keeps it or not.
            counts[OBSERVED_MS] = max(counts[OBSERVED_MS], start)
            s_time[slot] = max(s_time[slot], t)
            # A hidden window was forwarded and is not kept. Kafka's store counts such a put as expired, by whole
            # segments where it is persistent.
            if not is_hidden:
                s_flags[slot] |= CHANGED
            elif is_expired(start, counts[OBSERVED_MS] - kept[1], kept[2]):
                newest = counts[OBSERVED_MS]
                refuse(refusals, n_refusals, row, UNSTORED, start, end, newest, newest - kept[1], False)
                n_refusals += 1
            if is_asked:
                updates.row[n_updates], updates.key[n_updates], updates.start[n_updates] = row, k, start
                updates.time[n_updates], updates.stream_time[n_updates] = s_time[slot], observed
                n_updates += 1
            program.flags[n_program], program.slots[n_program], program.arguments[n_program] = flags, slot, row
            n_program += 1
            start += advance
        # Only if no window took it the record counts as dropped; else single windows were refused.
        if not taken:
            refusals.is_record[first_refusal:n_refusals] = True
    totals[UPDATES], totals[PROGRAM], totals[REFUSALS], totals[STREAM_TIME] = n_updates, n_program, n_refusals, observed


def updates_per_record(size: int, advance: int) -> int:
    """The most windows that one time can fall into."""
    # ``//`` rounds down, so the negative of a negative is rounded up.
    return -(-size // advance)


def allocate(most: int) -> tuple[WindowUpdates, FoldProgram, Refusals]:
    """Room for a call that updates or refuses ``most`` windows."""
    return window_columns.allocate(most, most, most)
