"""Members by their load, the least loaded first (Kafka's ConstrainedPrioritySet).

Rule: loads change while members are in the queue, and Kafka puts back only those whose load it has changed. So the
order depends on the layout of the heap in java.util.PriorityQueue, which this one reproduces exactly.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from .members import TaskId

Item = TypeVar("Item")


class JavaPriorityQueue(Generic[Item]):
    """java.util.PriorityQueue over ``rank``, which is asked again at every comparison."""

    def __init__(self, rank: Callable[[Item], Any]) -> None:
        self._rank, self._heap = rank, list[Item]()

    def __len__(self) -> int:
        return len(self._heap)

    def offer(self, item: Item) -> None:
        self._heap.append(item)
        self._sift_up(len(self._heap) - 1, item)

    def poll(self) -> Item:
        """Take the first out. IndexError: there is none."""
        first, last = self._heap[0], self._heap.pop()
        if self._heap:
            self._sift_down(0, last)
        return first

    def remove(self, item: Item) -> None:
        """Take ``item`` out, which is in the queue."""
        at, last = self._heap.index(item), self._heap.pop()
        if at < len(self._heap):
            self._sift_down(at, last)
            if self._heap[at] is last:
                self._sift_up(at, last)

    def _sift_up(self, at: int, item: Item) -> None:
        while at > 0:
            parent = (at - 1) >> 1
            if self._rank(item) >= self._rank(self._heap[parent]):
                break
            self._heap[at] = self._heap[parent]
            at = parent
        self._heap[at] = item

    def _sift_down(self, at: int, item: Item) -> None:
        heap, half = self._heap, len(self._heap) >> 1
        while at < half:
            child = 2 * at + 1
            if child + 1 < len(heap) and self._rank(heap[child]) > self._rank(heap[child + 1]):
                child += 1
            if self._rank(item) <= self._rank(heap[child]):
                break
            heap[at] = heap[child]
            at = child
        heap[at] = item


class LeastLoaded:
    """Members by (load, id). ``may_take``: whether a member may be taken for a task at all."""

    def __init__(self, load: Callable[[str], float], may_take: Callable[[str, TaskId], bool]) -> None:
        self._queue = JavaPriorityQueue[str](lambda member: (load(member), member))
        self._may_take, self._within = may_take, set[str]()

    def offer(self, *members: str) -> None:
        """Put members in, or back at the place of the load that they have now."""
        for member in members:
            if member in self._within:
                self._queue.remove(member)
            self._within.add(member)
            self._queue.offer(member)

    def poll(self, task: TaskId, is_eligible: Callable[[str], bool] = lambda member: True) -> str | None:
        """Take out the least loaded member that may have ``task``; None: there is none. The others stay."""
        passed: list[str] = []
        least = None
        while len(self._queue) and least is None:
            member = self._queue.poll()
            self._within.discard(member)
            if self._may_take(member, task) and is_eligible(member):
                least = member
            else:
                passed.append(member)
        self.offer(*sorted(passed))
        return least


def by_load(loads: Callable[[str], float], members: Iterable[str]) -> LeastLoaded:
    """All of ``members``, each for any task."""
    queue = LeastLoaded(loads, lambda member, task: True)
    queue.offer(*members)
    return queue
