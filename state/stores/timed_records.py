"""Records of every key by time, equal times kept apart in order of arrival (Kafka's window store that retains
duplicates).

Owns memory and the search. Rule: the records of a key lie side by side in one block of the pool, so that a range of
times is one bisection and one run of memory. A full block forgets its expired records or moves to one of twice its
room; a kernel asks ``has_room`` first, and between two kernel calls ``sweep`` moves what is alive to a new pool.
"""

import numpy as np
from numba import njit

TIME, REFERENCE, SEQUENCE, PENDING = 0, 1, 2, 3
"""Columns of ``pool``: record time, of the value, number of the record, and a slot of whoever waits for it, or -1."""

BEGIN, COUNT, ROOM = 0, 1, 2
"""Columns of ``blocks``: first row in the pool, records, rows."""

TOP, OBSERVED_MS = 0, 1
"""Places in ``counts``: rows of the pool in blocks; the store's own stream time (-1: none yet)."""

_POOL_MIN = 1024


class TimedRecords:
    """Arrays, all int64: ``blocks`` one row a key code, ``pool`` one row a record, ``counts``."""

    def __init__(self) -> None:
        self.blocks = np.zeros((0, 3), np.int64)
        self.pool = np.zeros((_POOL_MIN, 4), np.int64)
        self.counts = np.array([0, -1], np.int64)

    @property
    def observed_stream_time_ms(self) -> int:
        return int(self.counts[OBSERVED_MS])

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What kernels take as ``store``; right until the next ``reserve_keys`` or ``sweep``."""
        return self.blocks, self.pool, self.counts

    def reserve_keys(self, keys: int) -> None:
        """Make room for key codes below ``keys``."""
        missing = keys - len(self.blocks)
        if missing > 0:
            more = max(missing, len(self.blocks))
            self.blocks = np.concatenate([self.blocks, np.zeros((more, 3), np.int64)])

    def load(self, key: np.ndarray, time_ms: np.ndarray, reference: np.ndarray, sequence: np.ndarray) -> None:
        """Enter all records of an empty store, whose key codes have room."""
        order = np.lexsort((sequence, time_ms, key))
        self.pool = np.zeros((max(_POOL_MIN, 2 * len(order)), 4), np.int64)
        for column, values in ((TIME, time_ms), (REFERENCE, reference), (SEQUENCE, sequence)):
            self.pool[: len(order), column] = values[order]
        self.pool[:, PENDING] = -1
        codes, begin, count = np.unique(key[order], return_index=True, return_counts=True)
        self.blocks[codes] = np.stack([begin, count, count], axis=1)
        self.counts[TOP] = len(order)

    def sweep(self, oldest_ms: int, records: int) -> None:
        """Forget records of before ``oldest_ms`` and make room: for as many as are left, for any block to be widened,
        and for ``records`` of keys that have none.
        """
        alive, widest = measure(self.columns(), oldest_ms)
        pool = np.zeros((max(_POOL_MIN, 2 * alive + 2 * wider(widest) + wider(0) * records), 4), np.int64)
        move(self.columns(), oldest_ms, pool)
        self.pool = pool

    def alive(self, oldest_ms: int) -> tuple[np.ndarray, np.ndarray]:
        """(key code, row in the pool) of every record of ``oldest_ms`` or later, by key, then time, then arrival."""
        alive, _ = measure(self.columns(), oldest_ms)
        key, row = np.empty(alive, np.int32), np.empty(alive, np.int64)
        enumerate_records(self.columns(), oldest_ms, key, row)
        return key, row


@njit(cache=True)
def wider(room):  # type: ignore[no-untyped-def]
    """Room of the block after one of ``room``."""
    return max(2, 2 * room)


@njit(cache=True)
def has_room(store, key):  # type: ignore[no-untyped-def]
    """Can one more record of ``key`` be inserted?"""
    blocks, pool, counts = store
    return blocks[key, COUNT] < blocks[key, ROOM] or counts[TOP] + wider(blocks[key, ROOM]) <= pool.shape[0]


@njit(cache=True)
def first_from(pool, begin, end, time):  # type: ignore[no-untyped-def]
    """First of the rows ``begin`` up to ``end`` of one block whose time is ``time`` or later, else ``end``."""
    while begin < end:
        middle = (begin + end) >> 1
        if pool[middle, TIME] < time:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(cache=True)
def insert(store, key, record, oldest):  # type: ignore[no-untyped-def]
    """Enter ``record`` (time, reference, sequence, pending) behind those of its key that are not later.

    ``oldest``: what is earlier may be forgotten. There must be room.
    """
    blocks, pool, _ = store
    if blocks[key, COUNT] == blocks[key, ROOM]:
        _widen(store, key, oldest)
    begin = blocks[key, BEGIN]
    at = begin + blocks[key, COUNT]
    while at > begin and pool[at - 1, TIME] > record[0]:
        _copy(pool, at - 1, pool, at)
        at -= 1
    pool[at, TIME], pool[at, REFERENCE], pool[at, SEQUENCE], pool[at, PENDING] = record
    blocks[key, COUNT] += 1


@njit(cache=True)
def _widen(store, key, oldest):  # type: ignore[no-untyped-def]
    """Make room in a full block: half of it at least."""
    blocks, pool, counts = store
    begin, count = blocks[key, BEGIN], blocks[key, COUNT]
    expired = first_from(pool, begin, begin + count, oldest) - begin
    to = begin
    if 2 * expired < count or count == 0:
        to = counts[TOP]
        blocks[key, ROOM] = wider(blocks[key, ROOM])
        counts[TOP] += blocks[key, ROOM]
    for i in range(count - expired):
        _copy(pool, begin + expired + i, pool, to + i)
    blocks[key, BEGIN], blocks[key, COUNT] = to, count - expired


@njit(cache=True, inline="always")
def _copy(source, row, target, to):  # type: ignore[no-untyped-def]
    for column in range(4):
        target[to, column] = source[row, column]


@njit(cache=True)
def measure(store, oldest):  # type: ignore[no-untyped-def]
    """(records of ``oldest`` or later, most of them in one block)."""
    blocks, pool, _ = store
    alive, widest = 0, 0
    for key in range(blocks.shape[0]):
        end = blocks[key, BEGIN] + blocks[key, COUNT]
        count = end - first_from(pool, blocks[key, BEGIN], end, oldest)
        alive += count
        widest = max(widest, count)
    return alive, widest


@njit(cache=True)
def move(store, oldest, target):  # type: ignore[no-untyped-def]
    """Move every block's records of ``oldest`` or later to the pool ``target``, without room to spare."""
    blocks, pool, counts = store
    top = 0
    for key in range(blocks.shape[0]):
        end = blocks[key, BEGIN] + blocks[key, COUNT]
        first = first_from(pool, blocks[key, BEGIN], end, oldest)
        blocks[key, BEGIN], blocks[key, COUNT], blocks[key, ROOM] = top, end - first, end - first
        for row in range(first, end):
            _copy(pool, row, target, top)
            top += 1
    counts[TOP] = top


@njit(cache=True)
def enumerate_records(store, oldest, keys, rows):  # type: ignore[no-untyped-def]
    """Fill ``keys`` and ``rows`` with the key code and the pool's row of every record of ``oldest`` or later."""
    blocks, pool, _ = store
    n = 0
    for key in range(blocks.shape[0]):
        end = blocks[key, BEGIN] + blocks[key, COUNT]
        for row in range(first_from(pool, blocks[key, BEGIN], end, oldest), end):
            keys[n], rows[n] = key, row
            n += 1
