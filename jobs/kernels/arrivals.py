"""In which order one thread takes the records that one landed record causes (TopologyTestDriver, PartitionGroup).

Rule: what a record sends to repartition topics is queued there in the order sent; then, until all queues are empty, the
queue whose head has the smallest timestamp is taken from, equal ones by the shape of a java.util.PriorityQueue.
"""

import numpy as np

from jobs.kernels.queues import offer, poll
from state.compiled import array_kernel, inner_kernel

NONE = -1


@inner_kernel
def _enqueue(record, queue, time, heads, tails, following, head_time, heap, size):  # type: ignore[no-untyped-def]
    q = queue[record]
    following[record] = NONE
    if heads[q] == NONE:
        heads[q] = tails[q] = record
        head_time[q] = time[record]
        offer(heap, size, q, head_time)
        return size + 1
    following[tails[q]] = record
    tails[q] = record
    return size


@array_kernel
def number_caused(first_begin, first_end, begin, end, queue, time, queues, sequence):  # type: ignore[no-untyped-def]
    """Write the number of every record among those that one landed record causes, from 1, into ``sequence``.

    ``first_begin``/``first_end``: by landed record, the records it sends itself; ``begin``/``end``: by record, those
    that it sends; ranges of record numbers in the order sent. ``queue``, ``time``: of every record.
    """
    heads, tails = np.full(queues, NONE, np.int64), np.full(queues, NONE, np.int64)
    head_time, heap = np.zeros(queues, np.int64), np.zeros(queues, np.int64)
    following = np.full(queue.shape[0], NONE, np.int64)
    for landed in range(first_begin.shape[0]):
        size, taken = 0, 1
        for record in range(first_begin[landed], first_end[landed]):
            size = _enqueue(record, queue, time, heads, tails, following, head_time, heap, size)
        while size > 0:
            q = poll(heap, size, head_time)
            size -= 1
            record = heads[q]
            heads[q] = following[record]
            if heads[q] != NONE:
                head_time[q] = time[heads[q]]
                offer(heap, size, q, head_time)
                size += 1
            sequence[record] = taken
            taken += 1
            for caused in range(begin[record], end[record]):
                size = _enqueue(caused, queue, time, heads, tails, following, head_time, heap, size)
