"""Records of every key by time on two sides, equal times kept apart in order of arrival (two of Kafka's window stores
that retain duplicates).

Owns memory and the search. Rule: the records of a key and a side lie together in one block of the pool, so that a range
of times is one bisection and one run of memory; block ``2 * key + side`` says where. A full block forgets its expired
records or moves to one of twice its room; a kernel asks ``has_room`` first, and between two kernel calls ``sweep``
moves what is alive to a new pool. A record that comes far from the end of its block is not put between the others, all
of which would have to move. It is put into a list beside the block, by rising time, until the next sweep. A reader of a
range reads both (``is_late_next``).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compilation.kernel_compilation import inlined_kernel, inner_kernel, kernel
from .skip_lists import NONE, SkipLists, enter, last_above

TIME, REFERENCE, SEQUENCE, PENDING = 0, 1, 2, 3
"""Columns of ``pool``: record time, of the value, number of the record, and a slot of whoever waits for it, or -1."""

BEGIN, COUNT, ROOM, LATE = 0, 1, 2, 3
"""Columns of ``blocks``: first row in the pool, records, rows; row of the first of the list beside it, or -1."""

TOP, OBSERVED_MS = 0, 1
"""Places in ``counts``: rows of the pool in blocks; from OBSERVED_MS on, each side's own stream time (-1: none yet)."""

_POOL_MIN = 1024
_FAR = 128
"""Records behind a late one that are moved for it."""


class Lists(NamedTuple):
    """Lists of late records beside the blocks, by rising time."""

    heads: NDArray[np.int64]
    """First row of the pool by block, or NONE: column LATE of ``blocks``."""
    following: NDArray[np.int64]
    """By row of the pool, or NONE."""
    falling: NDArray[np.int64]
    """By row of the pool: its time with another sign."""
    skip_lists: tuple[np.ndarray, ...]
    """As in state/stores/skip_lists.py."""


class RecordColumns(NamedTuple):
    """What kernels see of TimedRecords; times in ms."""

    blocks: NDArray[np.int64]
    """(BEGIN, COUNT, ROOM, LATE), shape (2 keys, 4)."""
    pool: NDArray[np.int64]
    """(TIME, REFERENCE, SEQUENCE, PENDING), shape (rows, 4)."""
    counts: NDArray[np.int64]
    """TOP, and from OBSERVED_MS on each side's stream time; shape (3,)."""
    beside: Lists


class TimedRecords:
    """Arrays, all int64: ``blocks`` one row a key code and side, ``pool`` one row a record, ``counts``. By row of the
    pool, of a list: ``following``, and ``falling``, the time with another sign. ``skip_lists``: of the lists.

    ``oldest_ms`` int64 by side, where it is asked for: what is earlier is forgotten.
    """

    def __init__(self) -> None:
        self.blocks = np.zeros((2, 4), np.int64)
        self.counts = np.array([0, -1, -1], np.int64)
        self.skip_lists = SkipLists()
        self._fill(_POOL_MIN, np.zeros((0, 4), np.int64), np.zeros(0, np.int64))

    @property
    def observed_ms(self) -> np.ndarray:
        """Stream time of each side's store."""
        return self.counts[OBSERVED_MS:]

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple]:
        """What kernels take as ``store``: fields of RecordColumns, ``beside`` those of Lists; right until the next
        ``reserve_keys`` or ``sweep``.
        """
        beside = self.blocks[:, LATE], self.following, self.falling, self.skip_lists.columns()
        return self.blocks, self.pool, self.counts, beside

    def reserve_keys(self, keys: int) -> None:
        """Make room for key codes below ``keys``."""
        missing = 2 * keys - len(self.blocks)
        if missing > 0:
            more = np.zeros((max(missing, len(self.blocks)), 4), np.int64)
            more[:, LATE] = NONE
            self.blocks = np.concatenate([self.blocks, more])
            self.skip_lists.reserve(len(self.blocks), len(self.pool))

    def load(self, block: np.ndarray, time_ms: np.ndarray, reference: np.ndarray, sequence: np.ndarray) -> None:
        """Enter all records of an empty store, whose key codes have room."""
        order = np.lexsort((sequence, time_ms, block))
        records = np.full((len(order), 4), -1, np.int64)
        for column, values in ((TIME, time_ms), (REFERENCE, reference), (SEQUENCE, sequence)):
            records[:, column] = values[order]
        self._fill(max(_POOL_MIN, 2 * len(order)), records, block[order])

    def sweep(self, oldest_ms: np.ndarray, records: int) -> None:
        """Forget what is expired and make room: for as many records as are left, for any block to be widened, and for
        ``records`` of blocks that are empty.
        """
        block, rows = self.alive(oldest_ms)
        widest = int(np.bincount(block).max(initial=0))
        room = max(_POOL_MIN, 2 * len(rows) + 2 * wider(widest) + wider(0) * records)
        self._fill(room, self.pool[rows], block)

    def alive(self, oldest_ms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(block, row in the pool) of every record that is not expired, by block, then time, then arrival."""
        block, row = np.empty((2, int(self.counts[TOP])), np.int64)
        count = enumerate_records(self.columns(), oldest_ms, block, row)
        return block[:count], row[:count]

    def _fill(self, room: int, records: np.ndarray, block: np.ndarray) -> None:
        """A pool of so many rows with ``records``, which are by block, then time; nothing is in lists then."""
        self.pool = np.zeros((room, 4), np.int64)
        self.pool[: len(records)] = records
        self.following, self.falling = np.empty((room, 2), np.int64).T
        counts = np.bincount(block, minlength=len(self.blocks))
        self.blocks[:, BEGIN], self.blocks[:, COUNT] = np.cumsum(counts) - counts, counts
        self.blocks[:, ROOM], self.blocks[:, LATE] = counts, NONE
        self.counts[TOP] = len(records)
        self.skip_lists.clear()
        self.skip_lists.reserve(len(self.blocks), room)


@inlined_kernel
def named(store):  # type: ignore[no-untyped-def]
    """``store`` as Python hands it over, by name."""
    return RecordColumns(store[0], store[1], store[2], Lists(*store[3]))


@kernel
def wider(room):  # type: ignore[no-untyped-def]
    """Room of the block after one of ``room``."""
    return max(2, 2 * room)


@inner_kernel
def has_room(store, block):  # type: ignore[no-untyped-def]
    """Can one more record be inserted into ``block``?"""
    blocks, pool, counts, _ = store
    if blocks[block, COUNT] < blocks[block, ROOM]:
        return counts[TOP] < pool.shape[0]
    # A full block is copied to the end of the pool with twice the room.
    return counts[TOP] + wider(blocks[block, ROOM]) <= pool.shape[0]


@inner_kernel
def first_from(pool, begin, end, time):  # type: ignore[no-untyped-def]
    """First of the rows ``begin`` up to ``end`` of one block whose time is ``time`` or later, else ``end``."""
    while begin < end:
        middle = (begin + end) >> 1
        if pool[middle, TIME] < time:
            begin = middle + 1
        else:
            end = middle
    return begin


@inner_kernel
def first_late(store, block, time):  # type: ignore[no-untyped-def]
    """Row of the first in the list beside a block whose time is ``time`` or later, or NONE."""
    heads, following, falling, skip_lists = store.beside
    before = last_above(heads, following, skip_lists, block, falling, -time)
    return heads[block] if before == NONE else following[before]


@inner_kernel
def is_late_next(pool, at, end, late):  # type: ignore[no-untyped-def]
    """Does row ``late`` of the list (NONE: it has ended) come before row ``at`` of the block that ends at ``end``?"""
    if late == NONE or at == end:
        return late != NONE
    if pool[late, TIME] != pool[at, TIME]:
        return pool[late, TIME] < pool[at, TIME]
    return pool[late, SEQUENCE] < pool[at, SEQUENCE]


@inner_kernel
def insert(store, block, record, oldest):  # type: ignore[no-untyped-def]
    """Enter ``record`` (time, reference, sequence, pending) behind those of its block that are not later.

    ``oldest``: what is earlier may be forgotten. There must be room.
    """
    blocks, pool, counts, _ = store
    last = blocks[block, BEGIN] + blocks[block, COUNT] - 1
    # A record that is so late that many would have to be moved for it goes into the list beside the block instead.
    if blocks[block, COUNT] > _FAR and pool[last - _FAR, TIME] > record[0]:
        at = counts[TOP]
        counts[TOP] += 1
        pool[at, TIME], pool[at, REFERENCE], pool[at, SEQUENCE], pool[at, PENDING] = record
        _list(store, block, at)
        return
    if blocks[block, COUNT] == blocks[block, ROOM]:
        _widen(store, block, oldest)
    begin = blocks[block, BEGIN]
    at = begin + blocks[block, COUNT]
    # Behind those of its own time: fetch gives records of equal time in the order in which they were put.
    while at > begin and pool[at - 1, TIME] > record[0]:
        _copy(pool, at - 1, pool, at)
        at -= 1
    pool[at, TIME], pool[at, REFERENCE], pool[at, SEQUENCE], pool[at, PENDING] = record
    blocks[block, COUNT] += 1


@inner_kernel
def _list(store, block, at):  # type: ignore[no-untyped-def]
    """Enter row ``at`` of the pool into the list beside its block."""
    heads, following, falling, skip_lists = store.beside
    falling[at] = -store.pool[at, TIME]
    before = last_above(heads, following, skip_lists, block, falling, falling[at] - 1)  # behind those of the same time
    if before == NONE:
        following[at] = heads[block]
        heads[block] = at
    else:
        following[at] = following[before]
        following[before] = at
    enter(skip_lists, block, falling, at)


@inner_kernel
def _widen(store, block, oldest):  # type: ignore[no-untyped-def]
    """Make room in a full block: half of it at least."""
    blocks, pool, counts, _ = store
    begin, count = blocks[block, BEGIN], blocks[block, COUNT]
    expired = first_from(pool, begin, begin + count, oldest) - begin
    # Where half of the block is expired, what is left moves to its front. Otherwise the block moves, to twice
    # the room, so that copying costs each record a constant on average.
    to = begin
    if 2 * expired < count or count == 0:
        to = counts[TOP]
        blocks[block, ROOM] = wider(blocks[block, ROOM])
        counts[TOP] += blocks[block, ROOM]
    for i in range(count - expired):
        _copy(pool, begin + expired + i, pool, to + i)
    blocks[block, BEGIN], blocks[block, COUNT] = to, count - expired


@inlined_kernel
def _copy(source, row, target, to):  # type: ignore[no-untyped-def]
    for column in range(4):
        target[to, column] = source[row, column]


@kernel
def enumerate_records(store, oldest, of, rows):  # type: ignore[no-untyped-def]
    """Fill ``of`` and ``rows`` with the block and the pool's row of every record that is not expired; how many.

    ``store``: fields of RecordColumns.
    """
    store = named(store)
    blocks, pool, _, beside = store
    following, n = beside.following, 0
    for block in range(blocks.shape[0]):
        end = blocks[block, BEGIN] + blocks[block, COUNT]
        # Block 2 * key + side: the lowest bit is the side.
        at, late = first_from(pool, blocks[block, BEGIN], end, oldest[block & 1]), blocks[block, LATE]
        if late != NONE:
            late = first_late(store, block, oldest[block & 1])
        while at < end or late != NONE:
            of[n] = block
            if is_late_next(pool, at, end, late):
                rows[n], late = late, following[late]
            else:
                rows[n], at = at, at + 1
            n += 1
    return n
