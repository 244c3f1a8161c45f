"""The end of a slot: when a store counts a put as expired, how a slot is freed, and what stays behind.

Arrays: ``slots`` has the fields of SlotColumns, of which ``s_flags`` uint8 and ``free`` int32 are (slots,) and
``counts`` int64 is (3,).
"""

from ...state.compilation.kernel_compilation import inner_kernel, kernel
from ...state.stores.slot_index import delete, find, insert
from ...state.stores.slots import CHANGED, FREE_TOP, LIVE, LIVE_COUNT, STORED


@inner_kernel
def is_expired(time, limit, segment):  # type: ignore[no-untyped-def]
    """Does the store count a put at ``time`` (start, or end of a session) as expired? In memory to the millisecond,
    persistent by whole segments.
    """
    if segment == 0:
        return time <= limit
    # Java divides toward zero; a negative limit is in segment 0 or below, where nothing is expired.
    return limit > 0 and time // segment < limit // segment


@inner_kernel
def first_kept(limit, segment):  # type: ignore[no-untyped-def]
    """The earliest time that a store still has when it shows what is behind ``limit``."""
    # A persistent store loses whole segments, so it still has all of the one that ``limit`` is in.
    return limit + 1 if segment == 0 else max(limit, 0) // segment * segment


@kernel
def find_slot(slots, key, start, end):  # type: ignore[no-untyped-def]
    """The slot of ``key`` and its window, or -1. ``slots``: indexed ones."""
    s_key, s_start, s_end, _, _, table, _, _ = slots
    return find(table, s_key, s_start, s_end, key, start, end)


@kernel
def enter_slot(slots, key, start, end):  # type: ignore[no-untyped-def]
    """The slot of ``key`` and its window, marked as changed; a free one if there was none. ``slots``: indexed ones."""
    s_key, s_start, s_end, _, s_flags, table, free, counts = slots
    slot = find(table, s_key, s_start, s_end, key, start, end)
    if slot < 0:
        counts[FREE_TOP] -= 1
        counts[LIVE_COUNT] += 1
        slot = free[counts[FREE_TOP]]
        s_key[slot], s_start[slot], s_end[slot], s_flags[slot] = key, start, end, LIVE
        insert(table, s_key, s_start, s_end, slot)
    s_flags[slot] |= CHANGED
    return slot


@kernel
def remove(slots, slot):  # type: ignore[no-untyped-def]
    """Take a window whose aggregate became null out of the store."""
    s_key, s_start, s_end, _, s_flags, table, free, counts = slots
    delete(table, s_key, s_start, s_end, slot)
    vacate(s_flags, free, counts, slot)


@inner_kernel
def vacate(s_flags, free, counts, slot):  # type: ignore[no-untyped-def]
    """Free a live slot that nothing finds any more; a stored one stays behind as a grave."""
    counts[LIVE_COUNT] -= 1
    # A grave is not given out again: the deletion of its durable row is still to be written.
    if s_flags[slot] & STORED:
        s_flags[slot] = STORED
    else:
        s_flags[slot] = 0
        free[counts[FREE_TOP]] = slot
        counts[FREE_TOP] += 1
