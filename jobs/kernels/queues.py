"""Queues of records in a heap by the time of their heads, as Kafka keeps them (PartitionGroup, RecordQueue).

Rule: the queue whose head has the smallest timestamp is taken from; equal ones by the shape of a java.util.PriorityQueue
(sift up while the parent is larger, sift down while a child is smaller, strictly).
"""

import numpy as np
from numba import njit


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True)
def take_in_order(times, begins, ends, beyond, heap, size, which, row):  # type: ignore[no-untyped-def]
    """Take rows ``begins[q]`` up to ``ends[q]`` of every queue q, whose times are ``times[begins[q]:ends[q]]``.

    ``beyond[q]``: time of the queue's next record after these, or the largest int64 when there is none. ``heap``: queues
    in the order of the heap's array, all of ``size``; written as it stands when the last row was taken. Writes the
    queue and row of every record taken into ``which`` and ``row``; returns how many.
    """
    queues = begins.shape[0]
    head, head_time = begins.copy(), np.empty(queues, np.int64)
    left = 0
    for q in range(queues):
        head_time[q] = times[head[q]] if head[q] < ends[q] else beyond[q]
        left += ends[q] - begins[q]
    taken = 0
    while taken < left:
        q = poll(heap, size, head_time)
        if head[q] >= ends[q]:  # its next record is for a later increment: behind all of this one
            head_time[q] = np.iinfo(np.int64).max
            offer(heap, size - 1, q, head_time)
            continue
        which[taken], row[taken] = q, head[q] - begins[q]
        taken += 1
        head[q] += 1
        head_time[q] = times[head[q]] if head[q] < ends[q] else beyond[q]
        offer(heap, size - 1, q, head_time)
    return taken


def merge_queues(
    times: list[np.ndarray], beyond: np.ndarray, heap: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(queue int16, row int64) of all records in the order in which PartitionGroup takes them, and the heap after.

    ``times``: of each queue's records, in ms; ``beyond``: time of each queue's next record after these (int64 maximum for
    none); ``heap``: queue numbers in the order of the heap's array, at first as the queues were added.
    """
    lengths = np.array([len(column) for column in times], np.int64)
    ends = np.cumsum(lengths)
    which, row = np.empty(int(lengths.sum()), np.int16), np.empty(int(lengths.sum()), np.int64)
    head_time = np.array([column[0] if len(column) else after for column, after in zip(times, beyond, strict=True)])
    order = heap.astype(np.int64)
    if (np.diff(head_time[order]) < 0).any() and not _is_heap(order, head_time):
        order = _heap_of(order, head_time)
    flat = np.concatenate([*times, np.zeros(1, np.int64)]).astype(np.int64)
    take_in_order(flat, ends - lengths, ends, beyond.astype(np.int64), order, len(order), which, row)
    return which, row, order


def _is_heap(order: np.ndarray, head_time: np.ndarray) -> bool:
    return all(head_time[order[at]] >= head_time[order[(at - 1) >> 1]] for at in range(1, len(order)))


def _heap_of(order: np.ndarray, head_time: np.ndarray) -> np.ndarray:
    """Queues offered one after the other, as at the start."""
    heap = np.zeros(len(order), np.int64)
    for size, queue in enumerate(order.tolist()):
        offer(heap, size, queue, head_time)
    return heap
