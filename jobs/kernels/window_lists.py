"""Windows of a key as a list, by falling end: what session and sliding windows search.

Rule: ``head[key code]`` is the window that ends last, ``following[slot]`` the one that ends before it; NO_SLOT ends a
list. Windows of one length have the same order by start.
"""

import numpy as np
from numba import njit

from jobs.kernels.time_windows import vacate
from state.stores.slots import CHANGED, LIVE, LIVE_COUNT

NO_SLOT = -1


@njit(cache=True)
def link(s_key, s_end, s_flags, counts, head, following, slot):  # type: ignore[no-untyped-def]
    """Enter a window into its key's list; it is live and changed from then on."""
    s_flags[slot] = LIVE | CHANGED
    counts[LIVE_COUNT] += 1
    before, at = NO_SLOT, head[s_key[slot]]
    while at != NO_SLOT and s_end[at] > s_end[slot]:
        before, at = at, following[at]
    following[slot] = at
    if before == NO_SLOT:
        head[s_key[slot]] = slot
    else:
        following[before] = slot


@njit(cache=True)
def unlink(s_key, s_flags, free, counts, head, following, slot):  # type: ignore[no-untyped-def]
    """Take a window out of its key's list; a stored one stays behind as a grave."""
    before, at = NO_SLOT, head[s_key[slot]]
    while at != slot:
        before, at = at, following[at]
    if before == NO_SLOT:
        head[s_key[slot]] = following[slot]
    else:
        following[before] = following[slot]
    vacate(s_flags, free, counts, slot)


@njit(cache=True)
def relink(slots, lists):  # type: ignore[no-untyped-def]
    """Build every key's list anew from the live slots, after a load or a release."""
    s_key, _, s_end, _, s_flags, _, _, _ = slots
    head, following = lists
    head[:] = NO_SLOT
    live = np.flatnonzero(s_flags & LIVE)
    for slot in live[np.argsort(s_end[live], kind="mergesort")]:
        following[slot] = head[s_key[slot]]
        head[s_key[slot]] = slot
