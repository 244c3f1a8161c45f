"""The order in which a task takes from its queues, against java.util.PriorityQueue written down in plain Python."""

import random

import numpy as np
import pytest

from kstreams_replay.jobs.kernels.partition_group import NO_MORE, merge_queues


class DocumentedPriorityQueue:
    """PriorityQueue.offer and poll, as the JDK documents them: sift up and down by strict comparison."""

    def __init__(self, times: dict[int, int]) -> None:
        self.heap: list[int] = []
        self.times = times

    def offer(self, queue: int) -> None:
        self.heap.append(queue)
        at = len(self.heap) - 1
        while at > 0 and self.times[queue] < self.times[self.heap[(at - 1) // 2]]:
            self.heap[at] = self.heap[(at - 1) // 2]
            at = (at - 1) // 2
        self.heap[at] = queue

    def poll(self) -> int:
        first, moved = self.heap[0], self.heap.pop()
        if self.heap:
            at = 0
            while 2 * at + 1 < len(self.heap):
                child = 2 * at + 1
                if child + 1 < len(self.heap) and self._time(child) > self._time(child + 1):
                    child += 1
                if self.times[moved] <= self._time(child):
                    break
                self.heap[at] = self.heap[child]
                at = child
            self.heap[at] = moved
        return first

    def _time(self, at: int) -> int:
        return self.times[self.heap[at]]


def taken(queues: list[list[int]]) -> list[tuple[int, int]]:
    """PartitionGroup.nextRecord until all queues are empty."""
    heads, rows = dict.fromkeys(range(len(queues)), 0), []
    waiting = DocumentedPriorityQueue({number: queue[0] for number, queue in enumerate(queues) if queue})
    for number, queue in enumerate(queues):
        if queue:
            waiting.offer(number)
    while waiting.heap:
        number = waiting.poll()
        rows.append((number, heads[number]))
        heads[number] += 1
        if heads[number] < len(queues[number]):
            waiting.times[number] = queues[number][heads[number]]
            waiting.offer(number)
    return rows


def merged(queues: list[list[int]]) -> list[tuple[int, int]]:
    times = [np.array(queue, np.int64) for queue in queues]
    which, row, _ = merge_queues(times, np.full(len(queues), NO_MORE), [])
    return list(zip(which.tolist(), row.tolist(), strict=True))


def test_a_tied_queue_of_three_starves():
    """
    Heads A 5, B 5, C 5, each thrice: after A is served, C comes before B (rule of the heap, seen in a real run).
    """
    got = [which for which, _ in merged([[5, 5, 5], [5, 5, 5], [5, 5, 5]])]

    assert got == [0, 2, 0, 2, 0, 2, 1, 1, 1]


def test_two_tied_queues_alternate():
    assert [which for which, _ in merged([[5, 5], [5, 5]])] == [0, 1, 0, 1]


def test_a_late_record_behind_a_head_waits_for_it():
    assert merged([[5, 1], [3, 6]]) == [(1, 0), (0, 0), (0, 1), (1, 1)]


@pytest.mark.parametrize("seed", range(60))
def test_the_order_is_that_of_javas_priority_queue(seed):
    generator = random.Random(seed)
    number = generator.randrange(1, 8)
    queues = [[generator.randrange(4) for _ in range(generator.randrange(1, 9))] for _ in range(number)]

    assert merged(queues) == taken(queues)


@pytest.mark.parametrize("seed", range(30))
def test_queues_cut_between_two_times_go_on_as_if_they_had_not_been_cut(seed):
    generator = random.Random(seed)
    queues = [sorted(generator.randrange(12) for _ in range(9)) for _ in range(generator.randrange(2, 6))]
    cut = [sum(time < 6 for time in queue) for queue in queues]
    times = [np.array(queue, np.int64) for queue in queues]
    beyond = np.array([queue[at] if at < 9 else NO_MORE for queue, at in zip(queues, cut, strict=True)])

    which, row, heap = merge_queues([t[:at] for t, at in zip(times, cut, strict=True)], beyond, [])
    which2, row2, _ = merge_queues(
        [t[at:] for t, at in zip(times, cut, strict=True)], np.full(len(queues), NO_MORE), heap
    )

    first = list(zip(which.tolist(), row.tolist(), strict=True))
    second = [(q, r + cut[q]) for q, r in zip(which2.tolist(), row2.tolist(), strict=True)]
    assert first + second == taken(queues)
