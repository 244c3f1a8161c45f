"""Records of a left or outer join that wait for a match, and which of them leave (KStreamKStreamJoin,
emitNonJoinedOuterRecords; TimestampedKeyAndJoinSideSerializer, ListValueStore).

Rule: they are in order of (time, right before left, key bytes, arrival). A record looks for closed ones only if ``the
tracked time + its look-ahead + grace < stream time``. Closed are left ones with ``time + after + grace < stream time``,
right ones with before instead. All of these leave, in order. Kafka reads its store until it has found an open one of
either side and one more. From then on it tracks the time of the last one that it read. That may be later than the first
that is still there, so later ones wait longer than they must.

The records that may wait in a call are known beforehand, and so is their position in the order (their *rank*). Each
side has a tree of bits, one bit a rank, which is set while the record waits. Nothing is sorted or moved while records
come.

Arrays: ``order`` int32 and ``spare`` int32 (ranks,). ``rows``, of the sort: a tuple of time, side and key, each int64
(rows,); of ``mark_all`` int64 (slots, columns). ``keys``: a tuple of data uint8 (bytes,) and offsets int64 (keys + 1,).
``trees`` bool (2, 2 * leaves). ``slots`` int32 (slots that wait,). ``unmatched`` has the fields of Unmatched.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....state.compilation.kernel_compilation import inner_kernel, kernel
from ....state.records.key_interning import compare_serialized
from ....state.stores.waiting_records import KEY, RANK, REFERENCE, SEQUENCE, SIDE, TIME
from ....state.times import UNBOUNDED

NONE = -1
LEFT, RIGHT = 0, 1


class Unmatched(NamedTuple):
    """Records that wait, or may wait, in a call, by rank: their place in the order of leaving."""

    trees: NDArray[np.bool_]
    """Marks on the ranks of those that wait, shape (2 sides, 2 leaves)."""
    time: NDArray[np.int64]
    """By rank, in ms."""
    slot: NDArray[np.int32]
    """By rank, or NONE."""
    rows: NDArray[np.int64]
    """By slot: columns of state/stores/waiting_records.py, shape (slots, 6)."""
    free: NDArray[np.int32]
    """Free slots, a stack."""
    free_top: NDArray[np.int64]
    """How many these are, shape (1,)."""


@inner_kernel
def is_open(time, wait, observed):  # type: ignore[no-untyped-def]
    """``time + wait >= observed`` of Java's long, which wraps: Kafka counts on it when nothing is tracked."""
    # Java's sum would be negative, and so below every stream time.
    if wait > 0 and time > UNBOUNDED - wait:
        return False
    return time + wait >= observed


# --- ranks ---------------------------------------------------------------------------------------------------


def ranked(time: np.ndarray, side: np.ndarray, key: np.ndarray, keys: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Rows in order of (time, right before left, key bytes, row), as int32. ``keys``: (data, offsets)."""
    order = np.argsort(time, kind="stable").astype(np.int32)
    sort_ties(order, np.empty_like(order), (time, side, key), keys)
    return order


@kernel
def sort_ties(order, spare, rows, keys):  # type: ignore[no-untyped-def]
    """Merge sort, bottom up, of every run of ``order`` whose times are equal."""
    time = rows[0]
    begin = 0
    while begin < order.shape[0]:
        end = begin + 1
        while end < order.shape[0] and time[order[end]] == time[order[begin]]:
            end += 1
        # The times are in order already; what is left are runs of equal times, mostly short ones.
        width = 1
        while width < end - begin:
            for left in range(begin, end, 2 * width):
                _merge(order, spare, left, min(left + width, end), min(left + 2 * width, end), rows, keys)
            width *= 2
        begin = end


@inner_kernel
def _merge(order, spare, left, middle, right, rows, keys):  # type: ignore[no-untyped-def]
    a, b = left, middle
    for index in range(left, right):
        # Of equal ones the left run's go first, which have arrived earlier.
        if b >= right or (a < middle and not _is_before(order[b], order[a], rows, keys)):
            spare[index] = order[a]
            a += 1
        else:
            spare[index] = order[b]
            b += 1
    for index in range(left, right):
        order[index] = spare[index]


@inner_kernel
def _is_before(a, b, rows, keys):  # type: ignore[no-untyped-def]
    _, side, key = rows
    # TimestampedKeyAndJoinSideSerializer writes 1 for left and 0 for right, before the key.
    if side[a] != side[b]:
        return side[a] == RIGHT
    return compare_serialized(keys[0], keys[1], key[a], 0, key[b], 0) < 0


# --- marks ---------------------------------------------------------------------------------------------------


def leaves(ranks: int) -> int:
    """Leaves of a tree of marks: a power of two. Node i is marked when 2 i or 2 i + 1 is; rank r is node leaves + r."""
    return 1 << max(ranks - 1, 0).bit_length()


@inner_kernel
def mark(trees, side, rank):  # type: ignore[no-untyped-def]
    """``trees``: bool, one row a side."""
    # The leaves are the second half of the row, so rank r is node leaves + r, and the parent of node i is i / 2. A
    # parent that is marked has marked parents, so the walk up ends there.
    node = trees.shape[1] // 2 + rank
    while node > 0 and not trees[side, node]:
        trees[side, node] = True
        node >>= 1


@kernel
def mark_all(trees, rows, slots):  # type: ignore[no-untyped-def]
    """Mark the ranks of ``slots``."""
    for i in range(slots.shape[0]):
        mark(trees, rows[slots[i], SIDE], rows[slots[i], RANK])


@inner_kernel
def unmark(trees, side, rank):  # type: ignore[no-untyped-def]
    """Take a mark that is there away."""
    node = trees.shape[1] // 2 + rank
    trees[side, node] = False
    # A parent loses its mark with the last of its two children.
    node >>= 1
    while node > 0 and not (trees[side, 2 * node] or trees[side, 2 * node + 1]):
        trees[side, node] = False
        node >>= 1


@inner_kernel
def next_marked(trees, side, rank):  # type: ignore[no-untyped-def]
    """The first marked rank from ``rank`` on, or NONE."""
    size = trees.shape[1] // 2
    if rank >= size:
        return NONE
    node = size + rank
    # Up until something to the right is marked, then down to its first leaf.
    while not trees[side, node]:
        while node & 1:  # a right child: go on above, until there is something to the right
            node >>= 1
            if node == 0:
                return NONE
        node += 1
    while node < size:
        node *= 2
        if not trees[side, node]:
            node += 1
    return node - size


@inner_kernel
def last_marked(trees, side):  # type: ignore[no-untyped-def]
    """The last marked rank, or NONE."""
    size, node = trees.shape[1] // 2, 1
    if not trees[side, 1]:
        return NONE
    while node < size:
        node = 2 * node + 1
        if not trees[side, node]:
            node -= 1
    return node - size


def leaving_order(unmatched: tuple[np.ndarray, ...]) -> np.ndarray:
    """Slots of those who wait after a call, in order. ``unmatched``: fields of Unmatched."""
    trees, _, slot_of, *_ = unmatched
    return slot_of[np.flatnonzero(trees[:, trees.shape[1] // 2 :].any(axis=0))]


# --- who waits -----------------------------------------------------------------------------------------------


@inner_kernel
def begin_waiting(unmatched, key, sequence, side, time, reference, rank):  # type: ignore[no-untyped-def]
    """The slot of a record that waits from now on."""
    trees, _, slot_of, rows, free, free_top = unmatched
    free_top[0] -= 1
    slot = free[free_top[0]]
    rows[slot, KEY], rows[slot, SEQUENCE], rows[slot, SIDE] = key, sequence, side
    rows[slot, TIME], rows[slot, REFERENCE], rows[slot, RANK] = time, reference, rank
    slot_of[rank] = slot
    mark(trees, side, rank)
    return slot


@inner_kernel
def end_waiting(unmatched, slot):  # type: ignore[no-untyped-def]
    """The record of ``slot`` has found a match, or leaves without one."""
    trees, _, _, rows, free, free_top = unmatched
    unmark(trees, rows[slot, SIDE], rows[slot, RANK])
    # A record of the pool may still name this slot: no record has the sequence number NONE.
    rows[slot, SEQUENCE] = NONE
    free[free_top[0]] = slot
    free_top[0] += 1


@inner_kernel
def first_closed(unmatched, left_wait, right_wait, observed):  # type: ignore[no-untyped-def]
    """Rank of the first waiting record whose window is closed at stream time ``observed``, or NONE. The waits are from
    a record's time to the close of its window.
    """
    trees, times = unmatched.trees, unmatched.time
    left, right = next_marked(trees, LEFT, 0), next_marked(trees, RIGHT, 0)
    # Times rise with the rank, so where the first of a side is open, all of that side are.
    if left != NONE and is_open(times[left], left_wait, observed):
        left = NONE
    if right != NONE and is_open(times[right], right_wait, observed):
        right = NONE
    # The lower rank leaves first, which is the order of the outer join store: (time, right before left, key bytes).
    return left if right == NONE or (left != NONE and left < right) else right


@inner_kernel
def tracked_time(unmatched, left):  # type: ignore[no-untyped-def]
    """Time of the last record that Kafka reads when all closed ones leave; ``left``: rank of the last that did, or
    NONE. UNBOUNDED when nothing was there.
    """
    trees, times = unmatched.trees, unmatched.time
    # All closed records have left, so the first that is marked on each side is the first open one that Kafka finds
    # there.
    first_left, first_right = next_marked(trees, LEFT, 0), next_marked(trees, RIGHT, 0)
    if first_left == NONE or first_right == NONE:  # it reads to the end
        rank = max(left, last_marked(trees, LEFT), last_marked(trees, RIGHT))
        return UNBOUNDED if rank == NONE else times[rank]
    # Here it has found an open one of each side. It sets minTime to the next record before it sees that it may stop; if
    # there is no next one, minTime stays that of the last open one.
    rank = max(first_left, first_right)
    next_left, next_right = next_marked(trees, LEFT, rank + 1), next_marked(trees, RIGHT, rank + 1)
    if next_left == NONE or (next_right != NONE and next_right < next_left):
        next_left = next_right
    return times[rank if next_left == NONE else next_left]
