"""In which order one thread takes the records that one landed record causes (TopologyTestDriver, PartitionGroup).

Rule: what a record sends to repartition topics is queued there in the order sent. Then, until all queues are empty,
the next row is the head with the smallest timestamp; ties follow the shape of a java.util.PriorityQueue. What
goes through no queue is taken at once, depth first.

Arrays, all int64. By landed record: ``first_begin`` and ``first_end`` int64 (landed,). By row: ``begin``, ``end``,
``queue``, ``time``, ``following`` and ``sequence`` int64 (rows,); ``rows`` is a tuple of them. By queue: ``heads``,
``tails``, ``head_time`` and ``heap`` int64 (queues,); ``queues`` is a tuple of these and of the number in the heap,
int64 (1,), or their number. ``stack`` int64 (queues + 1, 2).
"""

import numpy as np

from ...state.compilation.kernel_compilation import array_kernel, inner_kernel
from .partition_group import offer, poll

NONE = -1
INLINED = -1
"""``queue`` of a row that goes through none."""


@inner_kernel
def _enqueue(record, queue, time, heads, tails, following, head_time, heap, size):  # type: ignore[no-untyped-def]
    q = queue[record]
    following[record] = NONE
    # RecordQueue: an empty queue is offered to the heap with its first record; a full one keeps its place, since the
    # time that counts is its head's.
    if heads[q] == NONE:
        heads[q] = tails[q] = record
        head_time[q] = time[record]
        offer(heap, size, q, head_time)
        return size + 1
    following[tails[q]] = record
    tails[q] = record
    return size


@inner_kernel
def _send(first, after, taken, rows, queues, stack):  # type: ignore[no-untyped-def]
    """Enqueue rows [first, after) in order; an inlined one takes the next number, ``taken``, and sends its own in its
    place. Returns the number after.
    """
    begin, end, queue, time, following, sequence = rows
    heads, tails, head_time, heap, sizes = queues
    depth = 0
    stack[0, 0], stack[0, 1] = first, after
    while depth >= 0:
        row = stack[depth, 0]
        if row == stack[depth, 1]:
            depth -= 1
            continue
        stack[depth, 0] += 1
        # There is no topic between, so the row is processed at once, in the middle of the record that sent it. The
        # stack stands for the depth first calls of ``forward``.
        if queue[row] == INLINED:
            sequence[row] = taken
            taken += 1
            depth += 1
            stack[depth, 0], stack[depth, 1] = begin[row], end[row]
        else:
            sizes[0] = _enqueue(row, queue, time, heads, tails, following, head_time, heap, sizes[0])
    return taken


@array_kernel
def number_caused(first_begin, first_end, begin, end, queue, time, queues, sequence):  # type: ignore[no-untyped-def]
    """Write the number of every row among those that one landed record causes, from 1, into ``sequence``.

    ``first_begin``/``first_end``: by landed record, the rows it sends itself; ``begin``/``end``: by row, those that it
    sends; ranges of row numbers in the order sent. ``queue`` (INLINED or below ``queues``), ``time``: of every row.
    """
    heads, tails = np.full(queues, NONE, np.int64), np.full(queues, NONE, np.int64)
    head_time, heap, sizes = np.zeros(queues, np.int64), np.zeros(queues, np.int64), np.zeros(1, np.int64)
    following = np.full(queue.shape[0], NONE, np.int64)
    rows, all_queues = (begin, end, queue, time, following, sequence), (heads, tails, head_time, heap, sizes)
    stack = np.zeros((queues + 1, 2), np.int64)  # an inlined row's own are of another topic
    for landed in range(first_begin.shape[0]):
        taken = _send(first_begin[landed], first_end[landed], 1, rows, all_queues, stack)
        # TopologyTestDriver.completeAllProcessableWork: all that one piped record causes, before the next one.
        while sizes[0] > 0:
            q = poll(heap, sizes[0], head_time)
            sizes[0] -= 1
            record = heads[q]
            heads[q] = following[record]
            # PartitionGroup.nextRecord polls the queue and offers it again with its next record's time, so of equal
            # times another queue may come first.
            if heads[q] != NONE:
                head_time[q] = time[heads[q]]
                offer(heap, sizes[0], q, head_time)
                sizes[0] += 1
            sequence[record] = taken
            taken = _send(begin[record], end[record], taken + 1, rows, all_queues, stack)
