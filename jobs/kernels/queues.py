"""Queues of records in a heap by the time of their heads, as Kafka keeps them (PartitionGroup, RecordQueue).

Rule: the queue whose head has the smallest timestamp is taken from; equal ones by the shape of a
java.util.PriorityQueue (sift up while the parent is larger, sift down while a child is smaller, strictly).
"""

import numpy as np

from state.compiled import inner_kernel, kernel


@kernel
def offer(heap, size, queue, head_time):  # type: ignore[no-untyped-def]
    """PriorityQueue.offer of ``queue``, by the time of its head; ``size`` queues are in the heap."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if head_time[queue] >= head_time[heap[parent]]:
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = queue


@inner_kernel
def poll(heap, size, head_time):  # type: ignore[no-untyped-def]
    """PriorityQueue.poll: the first queue; the heap then holds ``size - 1``."""
    first = heap[0]
    last = size - 1
    moved = heap[last]
    at, half = 0, last >> 1
    while at < half:
        child = 2 * at + 1
        if child + 1 < last and head_time[heap[child]] > head_time[heap[child + 1]]:
            child += 1
        if head_time[moved] <= head_time[heap[child]]:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = moved
    return first


NO_MORE = np.iinfo(np.int64).max
"""Time of the next record of a queue that has none."""


@kernel
def take_in_order(times, begins, ends, beyond, heads, heap, size, which, row):  # type: ignore[no-untyped-def]
    """Take rows ``begins[q]`` up to ``ends[q]`` of every queue q, whose times are ``times[begins[q]:ends[q]]``.

    ``beyond[q]``: time of the queue's next record after these, or NO_MORE. ``heads``: room for two numbers a queue.
    ``heap``: the queues that have a record, in the order of the heap's array, ``size`` of them; written as it stands
    when the last row was taken. Writes the queue and row of every record taken into ``which`` and ``row``; returns how
    many queues the heap then holds.
    """
    head, head_time = heads
    left = 0
    for q in range(begins.shape[0]):
        head[q] = begins[q]
        head_time[q] = times[head[q]] if head[q] < ends[q] else beyond[q]
        left += ends[q] - begins[q]
    taken, total = 0, left
    while taken < total:
        q = heap[0]
        if size == 2 and head[q] < ends[q]:
            last = run_of(times, head[q], ends[q], head_time[heap[1]])
            for place in range(head[q], last):
                which[taken], row[taken] = q, place - begins[q]
                taken += 1
            head[q] = last
            head_time[q] = times[last] if last < ends[q] else beyond[q]
            if head_time[q] >= head_time[heap[1]]:  # of equal ones the other, which has waited
                heap[0], heap[1] = heap[1], q
            size -= head_time[q] == NO_MORE
            continue
        q = poll(heap, size, head_time)
        size -= 1
        if head[q] >= ends[q]:  # its next record is for a later increment: behind all of this one
            head_time[q] = NO_MORE
            offer(heap, size, q, head_time)
            size += 1
            continue
        which[taken], row[taken] = q, head[q] - begins[q]
        taken += 1
        head[q] += 1
        head_time[q] = times[head[q]] if head[q] < ends[q] else beyond[q]
        if head_time[q] != NO_MORE:
            offer(heap, size, q, head_time)
            size += 1
    return size


@inner_kernel
def run_of(times, begin, end, limit):  # type: ignore[no-untyped-def]
    """Where the rows end that come one after the other from ``begin`` on, since they are before ``limit``; the first is
    taken in any case.
    """
    row = begin + 1
    while row < end and times[row] < limit:
        row += 1
    return row


def merge_queues(
    times: list[np.ndarray], beyond: np.ndarray, heap: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(queue int16, row int64) of all records in the order in which PartitionGroup takes them, and the heap after.

    ``times``: of each queue's records, in ms; ``beyond``: time of each queue's next record after these, NO_MORE for
    none; ``heap``: the queues that had a record when the increment before ended, in the order of the heap's array;
    others are added behind them in order of their numbers.
    """
    lengths = np.array([len(column) for column in times], np.int64)
    ends = np.cumsum(lengths)
    total = int(lengths.sum())
    which, row = np.empty(total, np.int16), np.empty(total, np.int64)
    flat = np.concatenate([*times, np.zeros(1, np.int64)]).astype(np.int64, copy=False)
    head_time = np.where(lengths > 0, flat[ends - lengths], beyond)
    order = np.zeros(len(times), np.int64)
    known = [queue for queue in heap.tolist() if head_time[queue] != NO_MORE]
    new = [queue for queue in range(len(times)) if queue not in known and head_time[queue] != NO_MORE]
    size = 0
    for queue in (*known, *new):
        offer(order, size, queue, head_time)
        size += 1
    heads = np.empty(len(times), np.int64), np.empty(len(times), np.int64)
    size = take_in_order(flat, ends - lengths, ends, beyond.astype(np.int64), heads, order, size, which, row)
    return which, row, order[:size]
