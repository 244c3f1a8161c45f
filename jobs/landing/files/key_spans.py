"""Which keys a slice's rows have, in a few numbers: enough to plan in which order slices are read.

Keys are offsets, or those of order_keys.py. Rule: a span says no more than is true of every row; its ``points`` are a
sample, which decides how work is cut and nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Key = Any
"""An offset (int), or the bytes of order_keys.py in hexadecimal (str), which have the same order."""

_CHUNK_ROWS = 1 << 20
"""Keys of so many rows are held in memory before they become points."""
_POINTS = 64
"""Of a chunk."""


@dataclass(frozen=True, slots=True)
class KeySpan:
    """Keys of a slice's records of one partition. ``bytes``: what the records are in memory. ``rises``: each key is
    larger than the one before, or equal where keys may be. ``points``: (key, bytes up to it since the point before),
    of each chunk in order.
    """

    least: Key
    largest: Key
    records: int
    bytes: int
    rises: bool
    points: tuple[tuple[Key, int], ...]

    def to_list(self) -> list[Any]:
        """As JSON values."""
        return [self.least, self.largest, self.records, self.bytes, self.rises, [list(point) for point in self.points]]

    @classmethod
    def from_list(cls, values: list[Any]) -> "KeySpan":
        """The reverse of ``to_list``."""
        least, largest, records, size, rises, points = values
        return cls(least, largest, records, size, rises, tuple((key, weight) for key, weight in points))


KeySpans = Mapping[int, KeySpan]
"""By partition."""


def as_key(scalar: pa.Scalar) -> Key:
    """As it is kept in a plan."""
    value = scalar.as_py()
    return value.hex() if isinstance(value, bytes) else int(value)


def as_scalar(key: Key) -> pa.Scalar:
    """The reverse of ``as_key``."""
    return pa.scalar(bytes.fromhex(key), pa.binary()) if isinstance(key, str) else pa.scalar(key, pa.int64())


class SpanBuilder:
    """Spans of records that are added in their order. ``may_equal``: equal keys are no contradiction."""

    def __init__(self, *, may_equal: bool) -> None:
        self.may_equal = may_equal
        self._open: dict[int, _Open] = {}

    def add(self, order: pa.Array, partition: np.ndarray, size: int) -> None:
        """``size``: bytes of these records in memory."""
        numbers = np.unique(partition).tolist()
        for number in numbers:
            keys = order if len(numbers) == 1 else order.filter(pa.array(partition == number))
            self._open.setdefault(number, _Open(self.may_equal)).add(keys, size * len(keys) // len(order))

    def spans(self) -> dict[int, KeySpan]:
        """Of all that was added, by partition."""
        return {number: each.close() for number, each in self._open.items()}


class _Open:
    def __init__(self, may_equal: bool) -> None:
        self.may_equal = may_equal
        self.held: list[pa.Array] = []
        self.held_bytes = self.records = self.bytes = 0
        self.least: Any = None
        self.largest: Any = None
        self.last: pa.Array | None = None
        self.rises = True
        self.points: list[tuple[Key, int]] = []

    def add(self, keys: pa.Array, size: int) -> None:
        if self.rises:
            rises = pc.less_equal if self.may_equal else pc.less
            known = keys if self.last is None else pa.concat_arrays([self.last, keys])
            self.rises = bool(pc.all(rises(known.slice(0, len(known) - 1), known.slice(1))).as_py() is not False)
        self.last = keys.slice(len(keys) - 1)
        self.records, self.bytes, self.held_bytes = self.records + len(keys), self.bytes + size, self.held_bytes + size
        self.held.append(keys)
        if sum(map(len, self.held)) >= _CHUNK_ROWS:
            self._sample()

    def _sample(self) -> None:
        if not self.held:
            return
        keys = pa.concat_arrays(self.held)
        if not self.rises:  # what rises is sorted
            keys = keys.take(pc.sort_indices(keys))
        low, high = keys[0].as_py(), keys[len(keys) - 1].as_py()
        self.least = low if self.least is None else min(self.least, low)
        self.largest = high if self.largest is None else max(self.largest, high)
        count = min(_POINTS, len(keys))
        indices = [(number + 1) * len(keys) // count - 1 for number in range(count)]
        self.points += [(as_key(keys[index]), self.held_bytes // count) for index in indices]
        self.held, self.held_bytes = [], 0

    def close(self) -> KeySpan:
        self._sample()
        least, largest = (as_key(pa.scalar(key)) for key in (self.least, self.largest))
        return KeySpan(least, largest, self.records, self.bytes, self.rises, tuple(self.points))
