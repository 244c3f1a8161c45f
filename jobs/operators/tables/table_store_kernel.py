"""Puts into a plain table, and what a reader sees of them as of its own row (KTableValueGetter).

Rule: a put replaces, whatever its time; a reader sees the puts before it and none after. Windows that a window store
would have forgotten by then are not seen: those whose start (a session's end) is ``<= newest one put - retention``.

Arrays: ``at`` int64, ``time`` int64, ``valid`` bool and ``before`` int64 (puts,); ``puts`` is a tuple of the first
three. ``merged`` is a tuple of which int8 and row int64 (all rows,). ``asked`` int64, ``shown`` int64 and
``shown_time`` int64 (rows that ask,). ``s_time`` int64, ``s_flags`` uint8, ``reference`` int64, ``bound`` int64 and
``newest`` int64 (slots,). ``clock``: a tuple of two numbers.
"""

from ....state.compilation.kernel_compilation import kernel
from ....state.stores.key_values import FIRST_ROW
from ....state.stores.slots import CHANGED
from ....state.stores.value_heap import NO_REFERENCE

NO_TIME = -1


@kernel
def put_rows(at, time, valid, s_time, s_flags, reference, before):  # type: ignore[no-untyped-def]
    """Put row after row; ``before``: reference of what each of them replaced, NO_REFERENCE for nothing."""
    for row in range(at.shape[0]):
        slot = at[row]
        before[row] = reference[slot]
        # ``FIRST_ROW - row``, -2 and below, is a row of this call; a reference from 0 on is a value in the heap, and
        # NO_REFERENCE, -1, is none. The rows get heap numbers when the call is over.
        reference[slot] = FIRST_ROW - row if valid[row] else NO_REFERENCE
        s_time[slot] = time[row]
        s_flags[slot] |= CHANGED


@kernel
def look(merged, puts, asked, bound, clock, s_time, reference, newest, shown, shown_time):  # type: ignore[no-untyped-def]
    """Answer rows ``asked`` (slots, -1: nothing), which are merged with ``puts`` (slots, time, valid) in the order
    ``merged``.

    ``newest``: zeros, one a slot, and zeros again on return. ``bound``: of every slot, what retention counts by;
    ``clock``: (largest bound put so far, retention). ``shown``: references.
    """
    which, row_of = merged
    p_at, p_time, p_valid = puts
    observed, retention = clock
    for i in range(which.shape[0]):
        row = row_of[i]
        if which[i] == 0:
            # One more than the row, so that 0, which the array is filled with, says that there was no put here.
            newest[p_at[row]] = row + 1
            observed = max(observed, bound[p_at[row]])
            continue
        slot = asked[row]
        shown[row], shown_time[row] = NO_REFERENCE, NO_TIME
        # The window store has expired this window: its own stream time is the newest bound that was put.
        if slot < 0 or bound[slot] <= observed - retention:
            continue
        put = newest[slot] - 1
        # No put before this row in the chunk: what the table had before the chunk counts.
        if put < 0:
            if reference[slot] != NO_REFERENCE:
                shown[row], shown_time[row] = reference[slot], s_time[slot]
        # A deletion is a put, too: the row then sees nothing, whatever was there before it.
        elif p_valid[put]:
            shown[row], shown_time[row] = FIRST_ROW - put, p_time[put]
    # Only what was put is cleared: the array has an element for every slot of the table.
    for row in range(p_at.shape[0]):
        newest[p_at[row]] = 0
