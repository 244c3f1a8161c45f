"""Rows of a processor's store in the order in which it shows them: stored rows, and over them what has changed.

Owns the order. Rule: stored rows stay columns, and are searched where they are; only rows between the bounds that are
asked for become Python values. A row's sort key is bytes, by which rows are in order, unsigned; each row has another
one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

_BLOCK = 1_024

Changes = Mapping[bytes, bytes | None]
"""Values by name, None where there is none (any more); of rows that are not in it the stored ones count."""


class OrderedKeys:
    """Keys in order, in blocks of at most ``_BLOCK``, so that a key that comes or goes moves few others."""

    def __init__(self, keys: list[bytes]) -> None:
        """``keys``: in order, each once."""
        half = _BLOCK // 2
        self._blocks = [keys[first : first + half] for first in range(0, len(keys), half)] or [[]]
        self._lasts = [block[-1] if block else b"" for block in self._blocks]
        """Of each block; what is after the last of them goes to the last block."""

    def add(self, key: bytes) -> None:
        """A key that is not there."""
        number = self._number(key)
        block = self._blocks[number]
        block.insert(bisect_left(block, key), key)
        if len(block) > _BLOCK:
            self._blocks[number : number + 1] = [block[: _BLOCK // 2], block[_BLOCK // 2 :]]
            self._lasts.insert(number, b"")
            self._lasts[number] = self._blocks[number][-1]
            number += 1
        self._lasts[number] = self._blocks[number][-1]

    def remove(self, key: bytes) -> None:
        """A key that is there."""
        number = self._number(key)
        block = self._blocks[number]
        del block[bisect_left(block, key)]
        if block:
            self._lasts[number] = block[-1]
        elif len(self._blocks) > 1:
            del self._blocks[number], self._lasts[number]

    def between(self, first: bytes | None, last: bytes | None) -> list[bytes]:
        """Keys from ``first`` to ``last``, both included; None is no bound."""
        begin = 0 if first is None else self._number(first)
        end = len(self._blocks) - 1 if last is None else self._number(last)
        keys = []
        for number in range(begin, end + 1):
            block = self._blocks[number]
            low = bisect_left(block, first) if first is not None and number == begin else 0
            high = bisect_right(block, last) if last is not None and number == end else len(block)
            keys += block[low:high]
        return keys

    def _number(self, key: bytes) -> int:
        """Of the block where a key is or would be."""
        return min(bisect_left(self._lasts, key), len(self._blocks) - 1)


class SortedRows:
    """``names`` and ``values`` of stored rows and their ``sort_keys``; ``sort_key``: of one name, the same."""

    def __init__(
        self,
        names: pa.BinaryArray,
        values: pa.BinaryArray,
        sort_keys: pa.BinaryArray,
        sort_key: Callable[[bytes], bytes],
    ) -> None:
        order = pc.sort_indices(sort_keys)
        self._names, self._values, self._sort_keys = names.take(order), values.take(order), sort_keys.take(order)
        self._sort_key = sort_key
        self._fresh: dict[bytes, bytes] = {}
        """Names by sort key, of rows that are there and were not stored."""
        self._order = OrderedKeys([])
        """Sort keys of those."""
        self._gone: set[bytes] = set()
        """Names of stored rows that are deleted."""

    def __len__(self) -> int:
        return len(self._names) - len(self._gone) + len(self._fresh)

    def begin(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Rows that have changed already, by name. Called once, before ``note``."""
        for name, value in changes:
            sort_key = self._sort_key(name)
            if self._is_stored(sort_key):
                if value is None:
                    self._gone.add(name)
            elif value is not None:
                self._fresh[sort_key] = name
        self._order = OrderedKeys(sorted(self._fresh))

    def note(self, name: bytes, *, is_there: bool) -> None:
        """A row was put or deleted."""
        sort_key = self._sort_key(name)
        if sort_key in self._fresh:
            if not is_there:
                del self._fresh[sort_key]
                self._order.remove(sort_key)
        elif self._is_stored(sort_key):
            (self._gone.discard if is_there else self._gone.add)(name)
        elif is_there:
            self._fresh[sort_key] = name
            self._order.add(sort_key)

    def between(self, first: bytes | None, last: bytes | None, changes: Changes) -> list[tuple[bytes, bytes]]:
        """(name, value) of the rows with sort keys from ``first`` to ``last``, both included; None is no bound."""
        low = 0 if first is None else bisect_left(range(len(self._sort_keys)), first, key=self._sort_key_at)
        high = len(self._sort_keys)
        if last is not None:
            high = bisect_right(range(high), last, lo=min(low, high), key=self._sort_key_at)
        stored = zip(self._names[low:high].to_pylist(), self._values[low:high].to_pylist(), strict=True)
        rows = [(name, value) for name, was in stored if (value := changes.get(name, was)) is not None]
        fresh = self._order.between(first, last)
        if not fresh:
            return rows
        more = [
            (sort_key, (name, value))
            for sort_key in fresh
            if (value := changes[name := self._fresh[sort_key]]) is not None
        ]
        if not rows:
            return [row for _, row in more]
        stored_rows = [(self._sort_key(row[0]), row) for row in rows]
        return [row for _, row in sorted(stored_rows + more, key=itemgetter(0))]

    def _is_stored(self, sort_key: bytes) -> bool:
        at = bisect_left(range(len(self._sort_keys)), sort_key, key=self._sort_key_at)
        return at < len(self._sort_keys) and self._sort_key_at(at) == sort_key

    def _sort_key_at(self, number: int) -> bytes:
        sort_key: bytes = self._sort_keys[number].as_py()
        return sort_key
