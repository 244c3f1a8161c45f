"""How rows that are ordered by a key are read from slices that are not: which slices a task reads, and which keys of
them it takes.

Owns the cut. Rule: of each partition, all keys of a task are before those of the next. Slices whose keys do not overlap
with those of others are read once. Those that overlap are read by one task as long as their records have room in
memory. Where they have not, their keys are cut into ranges, and each range reads every slice that may have some of it.
"""

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from .key_spans import Key, KeySpan, KeySpans

Range = tuple[int, Key | None, Key | None]
"""Partition and keys [from, to); None: from the first, to the last."""


@dataclass(frozen=True)
class OrderedTask:
    """``slices``: their numbers, in natural order. ``ranges``: None: all rows of theirs. ``streams``: rows are in their
    order where they are, so that they need not be in memory together.
    """

    slices: tuple[int, ...]
    ranges: tuple[Range, ...] | None = None
    streams: bool = False


def ordered_tasks(spans: Sequence[KeySpans], weights: Sequence[int], room: int, most_weight: int) -> list[OrderedTask]:
    """Tasks for slices with these spans. ``weights``: of each slice, of which a task reads ``most_weight`` and no more
    than one group of overlapping slices where it is more; ``room``: bytes of records that have room in memory.
    """
    tasks: list[OrderedTask] = []
    group: list[int] = []
    size = weight = 0
    for together in _groups(spans):
        own = sum(span.bytes for number in together for span in spans[number].values())
        own_weight = sum(weights[number] for number in together)
        if group and (size + own > room or weight + own_weight > most_weight):
            tasks.append(OrderedTask(tuple(sorted(group))))
            group, size, weight = [], 0, 0
        if own > room:
            assert not group, "a group that has no room begins a task"
            tasks += _large(together, spans, room)
        else:
            group, size, weight = [*group, *together], size + own, weight + own_weight
    if group:
        tasks.append(OrderedTask(tuple(sorted(group))))
    return tasks


def _groups(spans: Sequence[KeySpans]) -> Iterator[list[int]]:
    """Numbers of slices that overlap, group by group: of each partition, all keys of a group are before the next's."""
    order = _in_order(spans)
    by_partition: dict[int, list[int]] = {}
    for index, number in enumerate(order):
        for partition in spans[number]:
            by_partition.setdefault(partition, []).append(index)
    # How many more partitions forbid a cut behind a slice than behind the one before it. A
    # partition does as long as some later key of it is not larger than all earlier ones.
    changes = [0] * (len(order) + 1)
    for partition, indices in by_partition.items():
        of = [spans[order[index]][partition] for index in indices]
        least_after = [span.least for span in of]
        for at in range(len(of) - 2, -1, -1):
            least_after[at] = min(least_after[at], least_after[at + 1])
        largest = of[0].largest
        for at in range(1, len(of)):
            if not largest < least_after[at]:
                changes[indices[at - 1]] += 1
                changes[indices[at]] -= 1
            largest = max(largest, of[at].largest)
    group: list[int] = []
    forbidding = 0
    for index, number in enumerate(order):
        group.append(number)
        forbidding += changes[index]
        if not forbidding:
            yield group
            group = []


def _in_order(spans: Sequence[KeySpans]) -> list[int]:
    """Numbers of slices so that keys rise in each partition, where there is such an order; else nearly so."""
    # Kahn's order over one chain a partition; of slices that are ready, the first by name.
    after: list[list[int]] = [[] for _ in spans]
    before = [0] * len(spans)
    for partition in sorted({partition for of in spans for partition in of}):
        numbers = [number for number, of in enumerate(spans) if partition in of]
        numbers.sort(key=lambda number: (spans[number][partition].least, spans[number][partition].largest, number))
        for one, next_one in itertools.pairwise(numbers):
            after[one].append(next_one)
            before[next_one] += 1
    ready = [number for number, count in enumerate(before) if count == 0]
    heapq.heapify(ready)
    order: list[int] = []
    is_taken = [False] * len(spans)
    following = 0
    while len(order) < len(spans):
        while ready:
            number = heapq.heappop(ready)
            if is_taken[number]:
                continue
            is_taken[number] = True
            order.append(number)
            for later in after[number]:
                before[later] -= 1
                if before[later] == 0 and not is_taken[later]:
                    heapq.heappush(ready, later)
        while following < len(spans) and is_taken[following]:
            following += 1
        if following < len(spans):
            heapq.heappush(ready, following)  # partitions contradict each other
    return order


def _large(together: Sequence[int], spans: Sequence[KeySpans], room: int) -> Iterator[OrderedTask]:
    """Tasks for a group that has no room in memory."""
    if len(together) == 1 and all(span.rises for span in spans[together[0]].values()):
        yield OrderedTask(tuple(together), streams=True)
        return
    taken = _Taken()
    for partition in sorted({partition for number in together for partition in spans[number]}):
        numbers = [number for number in together if partition in spans[number]]
        for size, (_, begin, end) in _ranges(partition, numbers, spans, room):
            if taken.ranges and taken.bytes + size > room:
                yield taken.task()
                taken = _Taken()
            taken.bytes += size
            taken.ranges.append((partition, begin, end))
            taken.slices |= {number for number in numbers if _may_have(spans[number][partition], begin, end)}
    yield taken.task()


@dataclass
class _Taken:
    ranges: list[Range] = field(default_factory=list)
    slices: set[int] = field(default_factory=set)
    bytes: int = 0

    def task(self) -> OrderedTask:
        return OrderedTask(tuple(sorted(self.slices)), tuple(self.ranges))


def _ranges(
    partition: int, numbers: Iterable[int], spans: Sequence[KeySpans], room: int
) -> Iterator[tuple[int, Range]]:
    """Bytes and ranges of about ``room`` of them, that together have all keys."""
    points = sorted(point for number in numbers for point in spans[number][partition].points)
    begin: Key | None = None
    size = 0
    for key, weight in points:
        # Rows of equal keys cannot be cut apart: a range that begins and ends with one key has none.
        if size and size + weight > room and key != begin:
            yield size, (partition, begin, key)
            begin, size = key, 0
        size += weight
    yield size, (partition, begin, None)


def _may_have(span: KeySpan, begin: Key | None, end: Key | None) -> bool:
    least, largest = span.least, span.largest
    return (begin is None or largest >= begin) and (end is None or least < end)
