"""Skip lists over linked lists, so that a place far down a long list is found in few steps.

Owns the skip lists and the search; who owns the list links its items. Rule: a list goes by falling order. One in 16 of
its items also is in a skip list above it, one in 16 of those in the next skip list; an item's height is a function of
its number. A list gets skip lists when somebody first walks far down it, and keeps them until ``clear``: lists that are
read at their beginning only, as most are, cost nothing. Without room for skip lists a search takes longer and finds the
same.
"""

import numpy as np

from ..compilation.kernel_compilation import inlined_kernel, inner_kernel

NONE = -1
_FAR = 32
"""Steps down a list after which skip lists are taken."""
_LANES = 5

_ITEM, _NEXT, _DOWN = 0, 1, 2
"""Columns of ``nodes``; the first node of a skip list has no item."""
_USED, _FREED, _LEFT = 0, 1, 2
"""Places in ``counts``: nodes ever used; the first of those given back, linked by _NEXT; room, both together. Behind
them is room for ``_build``.
"""


class SkipLists:
    """Arrays: ``top`` int32 by list, the first node of its highest skip list; ``nodes`` int32; ``counts`` int64."""

    def __init__(self) -> None:
        self.top = np.empty(0, np.int32)
        self.nodes = np.empty((0, 3), np.int32)
        self.counts = np.array([0, NONE, 0, *([0] * (_LANES + 1))], np.int64)

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What kernels take as ``skip_lists``; right until the next ``reserve``."""
        return self.top, self.nodes, self.counts

    def reserve(self, lists: int, items: int) -> None:
        """Make room for so many lists, and for the skip lists of so many items."""
        more = lists - len(self.top)
        if more > 0:
            self.top = np.concatenate([self.top, np.full(max(more, len(self.top)), NONE, np.int32)])
        more = items // 4 + _LANES - len(self.nodes)
        if more > 0:
            more = max(more, len(self.nodes))
            self.nodes = np.concatenate([self.nodes, np.empty((more, 3), np.int32)])
            self.counts[_LEFT] += more

    def clear(self) -> None:
        """Forget all skip lists, after lists were changed without them."""
        if self.counts[_USED]:
            self.top[:] = NONE
            self.counts[: _LEFT + 1] = 0, NONE, len(self.nodes)


@inlined_kernel
def last_above(head, following, skip_lists, list_, order, number):  # type: ignore[no-untyped-def]
    """The last item of a list whose order is above ``number``, or NONE. ``order``: by item, falling along the list."""
    before, at, steps = np.int64(NONE), np.int64(head[list_]), 0
    while at != NONE and order[at] > number and steps < _FAR:
        before, at, steps = at, np.int64(following[at]), steps + 1
    # Nearly all lists are read at their beginning only: a few steps there, before any skip list is built.
    return before if steps < _FAR else last_above_far(before, head, following, skip_lists, list_, order, number)


@inner_kernel
def last_above_far(before, head, following, skip_lists, list_, order, number):  # type: ignore[no-untyped-def]
    """As ``last_above``; it is the item ``before`` or one behind it."""
    if skip_lists[0][list_] == NONE:
        _build(skip_lists, list_, before, head, following)
    near = _near(skip_lists, list_, order, number)
    if near != NONE and order[near] < order[before]:
        before = near
    # One item in 16 is in a skip list, so the last steps are taken in the list itself.
    at = np.int64(following[before])
    while at != NONE and order[at] > number:
        before, at = at, np.int64(following[at])
    return before


@inner_kernel
def enter(skip_lists, list_, order, item):  # type: ignore[no-untyped-def]
    """An item has come into a list."""
    top, nodes, counts = skip_lists
    node = top[list_]
    if node == NONE:
        return
    height = _height(item)
    if height == 0 or counts[_LEFT] < height:
        return
    above, lane = NONE, _LANES
    while node != NONE:
        node = _skip(nodes, node, order, order[item])
        # From the highest skip list down, each node linked to the one below it.
        if lane <= height:
            fresh = _node(skip_lists, item, nodes[node, _NEXT], NONE)
            nodes[node, _NEXT] = fresh
            if above != NONE:
                nodes[above, _DOWN] = fresh
            above = fresh
        node, lane = nodes[node, _DOWN], lane - 1


@inner_kernel
def leave(skip_lists, list_, order, item):  # type: ignore[no-untyped-def]
    """An item goes out of a list; its order is still what it was."""
    top, nodes, counts = skip_lists
    node = top[list_]
    if node == NONE or _height(item) == 0:
        return
    while node != NONE:
        node = _skip(nodes, node, order, order[item])
        before, at = node, nodes[node, _NEXT]
        # Items of equal order are side by side, in any order.
        while at != NONE and nodes[at, _ITEM] != item and order[nodes[at, _ITEM]] == order[item]:
            before, at = at, nodes[at, _NEXT]
        if at != NONE and nodes[at, _ITEM] == item:
            nodes[before, _NEXT] = nodes[at, _NEXT]
            nodes[at, _NEXT] = counts[_FREED]
            counts[_FREED] = at
            counts[_LEFT] += 1
        node = nodes[node, _DOWN]


@inner_kernel
def _near(skip_lists, list_, order, number):  # type: ignore[no-untyped-def]
    """An item whose order is above ``number`` and that has few of these behind it, or NONE."""
    top, nodes, _ = skip_lists
    node, last = top[list_], NONE
    while node != NONE:
        last = _skip(nodes, node, order, number)
        node = nodes[last, _DOWN]
    return NONE if last == NONE else nodes[last, _ITEM]


@inner_kernel
def _skip(nodes, node, order, number):  # type: ignore[no-untyped-def]
    """The last node of a skip list, from ``node`` on, whose order is above ``number``, else ``node``."""
    following = nodes[node, _NEXT]
    while following != NONE and order[nodes[following, _ITEM]] > number:
        node, following = following, nodes[following, _NEXT]
    return node


@inner_kernel
def _build(skip_lists, list_, at, head, following):  # type: ignore[no-untyped-def]
    """Give a list skip lists, if there is room."""
    top, nodes, counts = skip_lists
    if counts[_LEFT] < _LANES:
        return
    last = counts[_LEFT + 1 :]
    for lane in range(1, _LANES + 1):
        last[lane] = _node(skip_lists, NONE, NONE, last[lane - 1] if lane > 1 else NONE)
    top[list_] = last[_LANES]
    item = np.int64(head[list_])
    while item != NONE:
        height, below = _height(item), NONE
        if counts[_LEFT] < height:
            return
        for lane in range(1, height + 1):
            below = _node(skip_lists, item, NONE, below)
            nodes[last[lane], _NEXT] = below
            last[lane] = below
        item = np.int64(following[item])


@inner_kernel
def _node(skip_lists, item, following, below):  # type: ignore[no-untyped-def]
    """A node; there must be room among those never used, or one given back."""
    _, nodes, counts = skip_lists
    node = counts[_FREED]
    counts[_LEFT] -= 1
    if node == NONE:
        node = counts[_USED]
        counts[_USED] += 1
    else:
        counts[_FREED] = nodes[node, _NEXT]
    nodes[node, _ITEM], nodes[node, _NEXT], nodes[node, _DOWN] = item, following, below
    return node


@inner_kernel
def _height(item):  # type: ignore[no-untyped-def]
    """In how many skip lists an item is: its number, mixed, begins with so many times four zero bits."""
    mixed = (np.int64(item) * 2654435761) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 739982445) & 0xFFFFFFFF
    mixed ^= mixed >> 12
    # Four zero bits come once in 16: the height needs no random numbers, and is the same after a restart.
    height, shift = 0, 28
    while height < _LANES and (mixed >> shift) & 15 == 0:
        height, shift = height + 1, shift - 4
    return height
