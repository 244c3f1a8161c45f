"""Skip lists against a sorted list: long ones, changed anywhere, with and without room for skip lists."""

import numpy as np
import pytest

from kstreams_replay.state.compilation.kernel_compilation import kernel
from kstreams_replay.state.stores.skip_lists import NONE, SkipLists, enter, last_above, leave


@kernel
def come(skip_lists, which, order, item):  # type: ignore[no-untyped-def]
    enter(skip_lists, which, order, item)


@kernel
def go(skip_lists, which, order, item):  # type: ignore[no-untyped-def]
    leave(skip_lists, which, order, item)


class Linked:
    """Two lists over the same items; each item once."""

    def __init__(self, items: int, *, has_room: bool) -> None:
        self.head, self.following = np.full(2, NONE, np.int64), np.full(items, NONE, np.int64)
        self.order, self.skip_lists = np.zeros(items, np.int64), SkipLists()
        self.skip_lists.reserve(2, items if has_room else 0)
        self.members: list[list[int]] = [[], []]

    def last_above(self, which: int, number: int) -> int:
        return last_above(self.head, self.following, self.skip_lists.columns(), which, self.order, number)

    def above(self, which: int, number: int) -> int:
        """The same by looking at all."""
        over = [item for item in self.members[which] if self.order[item] > number]
        return over[-1] if over else NONE

    def put(self, which: int, item: int, order: int) -> None:
        self.order[item] = order
        before = self.last_above(which, order)
        members = self.members[which]
        place = members.index(before) + 1 if before != NONE else 0
        self.following[item] = members[place] if place < len(members) else NONE
        if before == NONE:
            self.head[which] = item
        else:
            self.following[before] = item
        members.insert(place, item)
        come(self.skip_lists.columns(), which, self.order, item)

    def take(self, which: int, item: int) -> None:
        members = self.members[which]
        place = members.index(item)
        after = members[place + 1] if place + 1 < len(members) else NONE
        if place:
            self.following[members[place - 1]] = after
        else:
            self.head[which] = after
        members.remove(item)
        go(self.skip_lists.columns(), which, self.order, item)


@pytest.mark.slow
@pytest.mark.parametrize("has_room", [True, False])
@pytest.mark.parametrize("orders", [3, 10_000])
def test_a_place_is_found_wherever_it_is_while_items_come_and_go(orders: int, has_room: bool) -> None:
    generator = np.random.default_rng(5)
    lists, free, used = Linked(2_000, has_room=has_room), list(range(2_000)), []
    for step in range(6_000):
        which, order = int(generator.integers(2)), int(generator.integers(orders))
        assert lists.last_above(which, order) == lists.above(which, order)
        if free and (not used or generator.random() < (0.9 if step < 3_000 else 0.3)):
            item = free.pop(int(generator.integers(len(free))))
            lists.put(which, item, order)
            used.append((which, item))
        else:
            which, item = used.pop(int(generator.integers(len(used))))
            lists.take(which, item)
            free.append(item)
        if step == 2_000:
            lists.skip_lists.clear()


def test_lanes_have_room_again_when_their_items_went() -> None:
    lists = Linked(400, has_room=True)
    for item in range(400):
        lists.put(0, item, item)
    lists.last_above(0, 0)
    room = int(lists.skip_lists.counts[2])
    for _ in range(50):
        for item in range(400):
            lists.take(0, item)
        for item in range(400):
            lists.put(0, item, item)
    assert int(lists.skip_lists.counts[2]) == room
