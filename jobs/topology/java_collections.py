"""Orders in which Java's collections iterate, where Kafka's description shows them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def in_hash_order(names: list[str]) -> list[str]:
    """Order in which a java.util.HashMap with these keys iterates: by bucket, in a bucket by insertion."""
    # HashMap's initial capacity and load factor 0.75. A bucket that is split keeps the order in it (HashMap.resize), so
    # only the final number of buckets counts.
    buckets = 16
    while len(names) > buckets * 3 // 4:
        buckets *= 2
    return sorted(names, key=lambda name: _spread(name) & (buckets - 1))


def _spread(name: str) -> int:
    """Java's String.hashCode, mixed as HashMap does."""
    hashed = 0
    units = name.encode("utf-16-be")
    for at in range(0, len(units), 2):
        hashed = (31 * hashed + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return hashed ^ (hashed >> 16)


@dataclass(eq=False)
class _Entry(Generic[T]):
    item: T
    parent: "_Entry[T] | None" = None
    left: "_Entry[T] | None" = None
    right: "_Entry[T] | None" = None
    is_black: bool = False


class TreeSet(Generic[T]):
    """java.util.TreeSet to the last rotation: ranks of items that are in it may change, as Kafka lets them, and then
    the order is that of the tree and not of the ranks.
    """

    def __init__(self, rank: Callable[[T], Any]) -> None:
        self._rank = rank
        self._root: _Entry[T] | None = None

    def __iter__(self) -> Any:
        return iter(self._items(self._root))

    def _items(self, entry: _Entry[T] | None) -> list[T]:
        if entry is None:
            return []
        return [*self._items(entry.left), entry.item, *self._items(entry.right)]

    def add(self, item: T) -> None:
        """``item`` is not in the set."""
        entry, rank = _Entry(item), self._rank(item)
        above, at = None, self._root
        is_left = False
        while at is not None:
            above, is_left = at, rank < self._rank(at.item)
            at = at.left if is_left else at.right
        entry.parent = above
        if above is None:
            self._root = entry
        elif is_left:
            above.left = entry
        else:
            above.right = entry
        self._fix(entry)

    def _fix(self, entry: _Entry[T]) -> None:
        """TreeMap.fixAfterInsertion."""
        while entry.parent is not None and not entry.parent.is_black:
            parent, grand = entry.parent, entry.parent.parent
            assert grand is not None  # a red node is not the root
            is_left = parent is grand.left
            uncle = grand.right if is_left else grand.left
            if uncle is not None and not uncle.is_black:
                parent.is_black = uncle.is_black = True
                grand.is_black = False
                entry = grand
                continue
            if entry is (parent.right if is_left else parent.left):
                entry = parent
                self._rotate(entry, to_left=is_left)
                assert entry.parent is not None
                parent = entry.parent
            parent.is_black, grand.is_black = True, False
            self._rotate(grand, to_left=not is_left)
        assert self._root is not None
        self._root.is_black = True

    def _rotate(self, entry: _Entry[T], *, to_left: bool) -> None:
        pivot = entry.right if to_left else entry.left
        assert pivot is not None
        if to_left:
            entry.right, moved = pivot.left, pivot.left
            pivot.left = entry
        else:
            entry.left, moved = pivot.right, pivot.right
            pivot.right = entry
        if moved is not None:
            moved.parent = entry
        pivot.parent, above = entry.parent, entry.parent
        entry.parent = pivot
        if above is None:
            self._root = pivot
        elif above.left is entry:
            above.left = pivot
        else:
            above.right = pivot
