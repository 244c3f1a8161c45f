"""Windows of a key as a list, by falling end: what session and sliding windows search.

Rule: ``head[key code]`` is the window that ends last, ``following[slot]`` the one that ends before it; NO_SLOT ends a
list; a long list has a skip list (state/stores/skip_lists.py). Windows of one length have the same order by start.
``lists``: (head, following, skip_lists).

Arrays: ``slots`` has the fields of SlotColumns. ``lists``: a tuple of head int32 (keys,), following int64 (slots,) and
the skip lists. ``order`` int64 (slots,); of ``relink``, the live slots.
"""

from ....state.compilation.kernel_compilation import inlined_kernel, inner_kernel, kernel
from ....state.stores.skip_lists import enter, last_above, leave
from ....state.stores.slots import CHANGED, FREE_TOP, LIVE, LIVE_COUNT
from ...kernels.slot_lifecycle import vacate

NO_SLOT = -1


@inlined_kernel
def first_from(lists, key, order, number):  # type: ignore[no-untyped-def]
    """The first window of a key's list whose ``order`` (start or end, by slot) is not above ``number``, or NO_SLOT."""
    head, following, skip_lists = lists
    before = last_above(head, following, skip_lists, key, order, number)
    return head[key] if before == NO_SLOT else following[before]


@inner_kernel
def link(slots, lists, slot):  # type: ignore[no-untyped-def]
    """Enter a window into its key's list; it is live and changed from then on."""
    s_key, _, s_end, _, s_flags, _, _, counts = slots
    head, following, skip_lists = lists
    s_flags[slot] = LIVE | CHANGED
    counts[LIVE_COUNT] += 1
    before = last_above(head, following, skip_lists, s_key[slot], s_end, s_end[slot])
    # No window of the key ends later. Of those of one end the newest is in front.
    if before == NO_SLOT:
        following[slot] = head[s_key[slot]]
        head[s_key[slot]] = slot
    else:
        following[slot] = following[before]
        following[before] = slot
    enter(skip_lists, s_key[slot], s_end, slot)


@kernel
def enter_window(slots, lists, key, start, end):  # type: ignore[no-untyped-def]
    """A free slot for a window that its key does not have; it is entered into the key's list."""
    s_key, s_start, s_end, _, s_flags, _, free, counts = slots
    counts[FREE_TOP] -= 1
    slot = free[counts[FREE_TOP]]
    s_key[slot], s_start[slot], s_end[slot], s_flags[slot] = key, start, end, 0
    link(slots, lists, slot)
    return slot


@kernel
def unlink(slots, lists, slot):  # type: ignore[no-untyped-def]
    """Take a window out of its key's list; a stored one stays behind as a grave."""
    s_key, _, s_end, _, s_flags, _, free, counts = slots
    head, following, skip_lists = lists
    before = last_above(head, following, skip_lists, s_key[slot], s_end, s_end[slot])
    # Several windows may have the same end, such as sessions that the store no longer shows: from the first of them on.
    at = head[s_key[slot]] if before == NO_SLOT else following[before]
    while at != slot:
        before, at = at, following[at]
    if before == NO_SLOT:
        head[s_key[slot]] = following[slot]
    else:
        following[before] = following[slot]
    leave(skip_lists, s_key[slot], s_end, slot)
    vacate(s_flags, free, counts, slot)


@kernel
def relink(order, slots, lists):  # type: ignore[no-untyped-def]
    """Build every list again from the live slots ``order``, by rising end, after a load or a release;
    the skip lists are then to be cleared.
    """
    s_key = slots[0]
    head, following, _ = lists
    head[:] = NO_SLOT
    # By rising end, each in front of the last, so that the list goes by falling end.
    for slot in order:
        following[slot] = head[s_key[slot]]
        head[s_key[slot]] = slot
