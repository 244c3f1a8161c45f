"""Queues of records in a heap by the time of their heads, as Kafka keeps them (PartitionGroup, RecordQueue).

Rule: the queue whose head has the smallest timestamp is taken from; equal ones by the shape of a
java.util.PriorityQueue (sift up while the parent is larger, sift down while a child is smaller, strictly).

Arrays: ``heap`` int64, ``head_time`` int64, ``ends`` int64 and ``beyond`` int64 (queues,); ``heads`` is a tuple of two
int64 (queues,). ``times`` int64 (rows,) of all queues, one queue after the other. ``which`` int16 (rows to take,).
``progress`` int64 (2,).
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ...state.compilation.kernel_compilation import inner_kernel, kernel
from ...state.times import UNBOUNDED


@kernel
def offer(heap, size, queue, head_time):  # type: ignore[no-untyped-def]
    """PriorityQueue.offer of ``queue``, by the time of its head; ``size`` queues are in the heap."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        # siftUp stops at an equal parent. A queue that comes later therefore stays below those of the same time.
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
        # siftDown prefers the left child of equal ones, and does not exchange equals: ties depend on the shape, as in
        # Java.
        if child + 1 < last and head_time[heap[child]] > head_time[heap[child + 1]]:
            child += 1
        if head_time[moved] <= head_time[heap[child]]:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = moved
    return first


NO_MORE = UNBOUNDED
"""Time of the next record of a queue that has none."""
UNREAD = np.iinfo(np.int64).min
"""Time of the next record of a queue of which more is to be read before anything else is taken."""
NO_QUEUE = -1


@kernel
def take_in_order(times, ends, beyond, heads, heap, progress, which):  # type: ignore[no-untyped-def]
    """Take the next rows of every queue q, whose times are ``times[head[q]:ends[q]]``: as many as ``which`` has room
    for, or until a queue has no more of which more is to be read. Writes their queues, and returns how many.

    ``beyond[q]``: time of the queue's next record after these, NO_MORE or UNREAD. ``heads``: (head, head_time) of every
    queue, kept up. ``heap``: the queues that have a record, in the order of the heap's array. ``progress``: how many
    they are, and the queue that was to be read on when the call before ended, or NO_QUEUE; kept up.
    """
    head, head_time = heads
    size, waiting = progress[0], progress[1]
    # The queue that ended the call before has been read on: it takes its place in the heap as a queue whose record has
    # just been taken.
    if waiting != NO_QUEUE:
        head_time[waiting] = times[head[waiting]] if head[waiting] < ends[waiting] else beyond[waiting]
        if head_time[waiting] != NO_MORE:
            offer(heap, size, waiting, head_time)
            size += 1
        waiting = NO_QUEUE
    left = 0
    for q in range(ends.shape[0]):
        left += ends[q] - head[q]
    taken, room = 0, min(left, which.shape[0])
    while taken < room:
        q = heap[0]
        last = head[q]
        # Two queues, the most frequent case: the first of the heap is taken as long as it is before the other, without
        # moving the heap for each record.
        if size == 2 and last < ends[q]:
            last = run_of(times, head[q], min(ends[q], head[q] + room - taken), head_time[heap[1]])
            for _ in range(head[q], last):
                which[taken] = q
                taken += 1
            head[q] = last
            if last < ends[q] or beyond[q] != UNREAD:
                head_time[q] = times[last] if last < ends[q] else beyond[q]
                # poll and offer of a heap of two: the queue goes behind the other unless it is earlier, strictly.
                if head_time[q] >= head_time[heap[1]]:  # of equal ones the other, which has waited
                    heap[0], heap[1] = heap[1], q
                # NO_MORE is behind every time, so such a queue is the second now, and leaves the heap.
                size -= head_time[q] == NO_MORE
                continue
            # Neither more rows here nor all of it read: only its next piece shows its time, so the call ends.
            heap[0], size, waiting = heap[1], 1, q
            break
        poll(heap, size, head_time)
        size -= 1
        if last >= ends[q]:  # its next record is for a later increment: behind all of this one
            head_time[q] = NO_MORE
            offer(heap, size, q, head_time)
            size += 1
            continue
        which[taken] = q
        taken += 1
        head[q] += 1
        # As above: the time of its next record is not known before more is read.
        if head[q] == ends[q] and beyond[q] == UNREAD:
            waiting = q
            break
        head_time[q] = times[head[q]] if head[q] < ends[q] else beyond[q]
        if head_time[q] != NO_MORE:
            offer(heap, size, q, head_time)
            size += 1
    progress[0], progress[1] = size, waiting
    return taken


@inner_kernel
def run_of(times, begin, end, limit):  # type: ignore[no-untyped-def]
    """Where the rows end that come one after the other from ``begin`` on, since they are before ``limit``; the first is
    taken in any case.
    """
    row = begin + 1
    while row < end and times[row] < limit:
        row += 1
    return row


class QueueOrder:
    """The order in which PartitionGroup takes records of several queues, whose times are read piece by piece.

    ``pieces``: of each queue the times of its records in ms, piece by piece. ``beyond``: time of each queue's next
    record after these, NO_MORE for none. ``heap``: the queues that had a record when the increment before ended, in
    the order of the heap's array; others are added behind them in order of their numbers.
    """

    def __init__(self, pieces: Sequence[Iterator[np.ndarray]], beyond: np.ndarray, heap: Sequence[int]) -> None:
        queues = len(pieces)
        self._pieces, self._after = pieces, beyond
        self._beyond = np.full(queues, UNREAD, np.int64)
        self._times, self._ends = np.zeros(0, np.int64), np.zeros(queues, np.int64)
        self._heads = np.zeros(queues, np.int64), np.zeros(queues, np.int64)
        for queue in range(queues):
            self._read_on(queue)
        head, head_time = self._heads
        head_time[:] = np.where(head < self._ends, np.append(self._times, NO_MORE)[head], self._beyond)
        known = [queue for queue in heap if head_time[queue] != NO_MORE]
        new = [queue for queue in range(queues) if queue not in known and head_time[queue] != NO_MORE]
        self._heap, self._progress = np.zeros(queues, np.int64), np.array([0, NO_QUEUE])
        for size, queue in enumerate((*known, *new)):
            offer(self._heap, size, queue, head_time)
            self._progress[0] += 1

    @property
    def heap(self) -> list[int]:
        """The queues that have a record, in the order of the heap's array."""
        queues: list[int] = self._heap[: self._progress[0]].tolist()
        return queues

    def take(self, records: int, least: int | None = None) -> np.ndarray:
        """Queues (int16) of the next ``records``, of at least ``least`` (default: half as many) where the piece of a
        queue ends, or of all that are left.
        """
        which, taken = np.empty(records, np.int16), 0
        least = records // 2 if least is None else least
        while True:
            if self._progress[1] != NO_QUEUE:
                self._read_on(int(self._progress[1]))
            taken += take_in_order(
                self._times, self._ends, self._beyond, self._heads, self._heap, self._progress, which[taken:]
            )
            if self._progress[1] == NO_QUEUE or taken > least:
                return which[:taken]

    def _read_on(self, queue: int) -> None:
        """Times of the next piece of a queue that has none left."""
        piece = next((piece for piece in self._pieces[queue] if len(piece)), None)
        if piece is None:
            self._beyond[queue] = self._after[queue]
            return
        head, _ = self._heads
        left = [self._times[begin:end] for begin, end in zip(head, self._ends, strict=True)]
        left[queue] = piece
        self._times = np.concatenate(left).astype(np.int64, copy=False)
        self._ends = np.cumsum([len(times) for times in left])
        head[:] = self._ends - [len(times) for times in left]


def merge_queues(
    times: list[np.ndarray], beyond: np.ndarray, heap: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """(queue int16, row int64) of all records in the order in which PartitionGroup takes them, and the heap after. As
    of QueueOrder, with all ``times`` of a queue at once.
    """
    order = QueueOrder([iter([column]) for column in times], beyond, heap)
    total = sum(map(len, times))
    which = order.take(total, total)
    row = np.empty(len(which), np.int64)
    for queue, column in enumerate(times):
        row[which == queue] = np.arange(len(column))
    return which, row, order.heap
