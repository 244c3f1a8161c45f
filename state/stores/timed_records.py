"""Records of every key by time on two sides, equal times kept apart in order of arrival (two of Kafka's window stores
that retain duplicates).

Owns memory and the search. Rule: the records of a key and a side lie together in one block of the pool, so that a range
of times is one bisection and one run of memory; block ``2 * key + side`` says where. A full block forgets its expired
records or moves to one of twice its room; a kernel asks ``has_room`` first, and between two kernel calls ``sweep``
moves what is alive to a new pool.
"""

import numpy as np
from numba import njit

from state.compiled import allocation_free

TIME, REFERENCE, SEQUENCE, PENDING = 0, 1, 2, 3
"""Columns of ``pool``: record time, of the value, number of the record, and a slot of whoever waits for it, or -1."""

BEGIN, COUNT, ROOM = 0, 1, 2
"""Columns of ``blocks``: first row in the pool, records, rows."""

TOP, OBSERVED_MS = 0, 1
"""Places in ``counts``: rows of the pool in blocks; from OBSERVED_MS on, each side's own stream time (-1: none yet)."""

_POOL_MIN = 1024


class TimedRecords:
    """Arrays, all int64: ``blocks`` one row a key code and side, ``pool`` one row a record, ``counts``.

    ``oldest_ms`` int64 by side, where it is asked for: what is earlier is forgotten.
    """

    def __init__(self) -> None:
        self.blocks = np.zeros((0, 3), np.int64)
        self.pool = np.zeros((_POOL_MIN, 4), np.int64)
        self.counts = np.array([0, -1, -1], np.int64)

    @property
    def observed_ms(self) -> np.ndarray:
        """Stream time of each side's store."""
        return self.counts[OBSERVED_MS:]

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What kernels take as ``store``; right until the next ``reserve_keys`` or ``sweep``."""
        return self.blocks, self.pool, self.counts

    def reserve_keys(self, keys: int) -> None:
        """Make room for key codes below ``keys``."""
        missing = 2 * keys - len(self.blocks)
        if missing > 0:
            more = max(missing, len(self.blocks))
            self.blocks = np.concatenate([self.blocks, np.zeros((more, 3), np.int64)])

    def load(self, block: np.ndarray, time_ms: np.ndarray, reference: np.ndarray, sequence: np.ndarray) -> None:
        """Enter all records of an empty store, whose key codes have room."""
        order = np.lexsort((sequence, time_ms, block))
        self.pool = np.zeros((max(_POOL_MIN, 2 * len(order)), 4), np.int64)
        for column, values in ((TIME, time_ms), (REFERENCE, reference), (SEQUENCE, sequence)):
            self.pool[: len(order), column] = values[order]
        self.pool[:, PENDING] = -1
        blocks, begin, count = np.unique(block[order], return_index=True, return_counts=True)
        self.blocks[blocks] = np.stack([begin, count, count], axis=1)
        self.counts[TOP] = len(order)

    def sweep(self, oldest_ms: np.ndarray, records: int) -> None:
        """Forget what is expired and make room: for as many records as are left, for any block to be widened, and for
        ``records`` of blocks that are empty.
        """
        alive, widest = measure(self.columns(), oldest_ms)
        pool = np.zeros((max(_POOL_MIN, 2 * alive + 2 * wider(widest) + wider(0) * records), 4), np.int64)
        move(self.columns(), oldest_ms, pool)
        self.pool = pool

    def alive(self, oldest_ms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(block, row in the pool) of every record that is not expired, by block, then time, then arrival."""
        alive, _ = measure(self.columns(), oldest_ms)
        block, row = np.empty(alive, np.int64), np.empty(alive, np.int64)
        enumerate_records(self.columns(), oldest_ms, block, row)
        return block, row


@allocation_free
def wider(room):  # type: ignore[no-untyped-def]
    """Room of the block after one of ``room``."""
    return max(2, 2 * room)


@allocation_free
def has_room(store, block):  # type: ignore[no-untyped-def]
    """Can one more record be inserted into ``block``?"""
    blocks, pool, counts = store
    return blocks[block, COUNT] < blocks[block, ROOM] or counts[TOP] + wider(blocks[block, ROOM]) <= pool.shape[0]


@allocation_free
def first_from(pool, begin, end, time):  # type: ignore[no-untyped-def]
    """First of the rows ``begin`` up to ``end`` of one block whose time is ``time`` or later, else ``end``."""
    while begin < end:
        middle = (begin + end) >> 1
        if pool[middle, TIME] < time:
            begin = middle + 1
        else:
            end = middle
    return begin


@allocation_free
def insert(store, block, record, oldest):  # type: ignore[no-untyped-def]
    """Enter ``record`` (time, reference, sequence, pending) behind those of its block that are not later.

    ``oldest``: what is earlier may be forgotten. There must be room.
    """
    blocks, pool, _ = store
    if blocks[block, COUNT] == blocks[block, ROOM]:
        _widen(store, block, oldest)
    begin = blocks[block, BEGIN]
    at = begin + blocks[block, COUNT]
    while at > begin and pool[at - 1, TIME] > record[0]:
        _copy(pool, at - 1, pool, at)
        at -= 1
    pool[at, TIME], pool[at, REFERENCE], pool[at, SEQUENCE], pool[at, PENDING] = record
    blocks[block, COUNT] += 1


@allocation_free
def _widen(store, block, oldest):  # type: ignore[no-untyped-def]
    """Make room in a full block: half of it at least."""
    blocks, pool, counts = store
    begin, count = blocks[block, BEGIN], blocks[block, COUNT]
    expired = first_from(pool, begin, begin + count, oldest) - begin
    to = begin
    if 2 * expired < count or count == 0:
        to = counts[TOP]
        blocks[block, ROOM] = wider(blocks[block, ROOM])
        counts[TOP] += blocks[block, ROOM]
    for i in range(count - expired):
        _copy(pool, begin + expired + i, pool, to + i)
    blocks[block, BEGIN], blocks[block, COUNT] = to, count - expired


@njit(cache=True, inline="always")
def _copy(source, row, target, to):  # type: ignore[no-untyped-def]
    for column in range(4):
        target[to, column] = source[row, column]


@allocation_free
def measure(store, oldest):  # type: ignore[no-untyped-def]
    """(records that are not expired, most of them in one block)."""
    blocks, pool, _ = store
    alive, widest = 0, 0
    for block in range(blocks.shape[0]):
        end = blocks[block, BEGIN] + blocks[block, COUNT]
        count = end - first_from(pool, blocks[block, BEGIN], end, oldest[block & 1])
        alive += count
        widest = max(widest, count)
    return alive, widest


@allocation_free
def move(store, oldest, target):  # type: ignore[no-untyped-def]
    """Move what is not expired to the pool ``target``, without room to spare."""
    blocks, pool, counts = store
    top = 0
    for block in range(blocks.shape[0]):
        end = blocks[block, BEGIN] + blocks[block, COUNT]
        first = first_from(pool, blocks[block, BEGIN], end, oldest[block & 1])
        blocks[block, BEGIN], blocks[block, COUNT], blocks[block, ROOM] = top, end - first, end - first
        for row in range(first, end):
            _copy(pool, row, target, top)
            top += 1
    counts[TOP] = top


@allocation_free
def enumerate_records(store, oldest, of, rows):  # type: ignore[no-untyped-def]
    """Fill ``of`` and ``rows`` with the block and the pool's row of every record that is not expired."""
    blocks, pool, _ = store
    n = 0
    for block in range(blocks.shape[0]):
        end = blocks[block, BEGIN] + blocks[block, COUNT]
        for row in range(first_from(pool, blocks[block, BEGIN], end, oldest[block & 1]), end):
            of[n], rows[n] = block, row
            n += 1
