"""Plain data that a user's functions hold outside of stores, put back to what it was before a check called them.

Rule: a list, dict, set, deque or bytearray gets its entries back and stays the object that it is, whoever else holds
it. A number, text and the like, and a container that was replaced, is put back to where it was. What else there is
(open connections, iterators, objects of classes of one's own) stays as the functions left it: nobody but its class
knows what belongs together in it.
"""

import contextlib
import datetime
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

LARGE = 100_000
"""Of more entries than this nothing is copied."""
MISSING = object()
"""Nothing was held there."""

_CONTAINERS = (list, dict, set, deque, bytearray, defaultdict, Counter, OrderedDict)
_SCALARS = (int, float, complex, str, bytes, type(None), Decimal, uuid.UUID, Enum, tuple, frozenset)
_TIMES = (datetime.date, datetime.time, datetime.timedelta)


class HeldValue(NamedTuple):
    """``value`` of a location, which is called ``label`` in words. ``location``: the object that holds it and its name
    there; ``put``: lets the location hold another value, or nothing.
    """

    label: str
    value: Any
    location: tuple[int, str]
    put: Callable[[Any], None]


class PutBack:
    """What locations hold now."""

    def __init__(self, held: Iterable[HeldValue]) -> None:
        self._values: dict[tuple[int, str], Any] = {}
        self._entries: dict[int, tuple[Any, Any]] = {}
        """Containers with their entries, by identity."""
        self._tuples: set[int] = set()
        """Those that were looked into, by identity."""
        for one in held:
            self._values[one.location] = one.value
            self._note(one.value)

    def put_back(self, held: Iterable[HeldValue]) -> None:
        """Let all be as it was. ``held``: the locations, with what they hold by now."""
        for container, entries in self._entries.values():
            if not _has(container, entries):
                container.clear()
                fill = container.extend if isinstance(container, list | deque | bytearray) else container.update
                fill(entries)
        for one in held:
            before = self._values.get(one.location, MISSING)
            if one.value is not before and _is_plain(one.value) and (before is MISSING or _is_plain(before)):
                with contextlib.suppress(AttributeError, TypeError):  # of an object that takes nothing any more
                    one.put(before)

    def _note(self, value: Any) -> None:
        if isinstance(value, tuple) and id(value) not in self._tuples:
            self._tuples.add(id(value))
            for one in value:
                self._note(one)
        if type(value) not in _CONTAINERS or id(value) in self._entries or len(value) > LARGE:
            return
        self._entries[id(value)] = value, value.copy()
        if not isinstance(value, bytearray):
            for one in value.values() if isinstance(value, Mapping) else value:
                self._note(one)


def _is_plain(value: Any) -> bool:
    return type(value) in _CONTAINERS or isinstance(value, _SCALARS + _TIMES)


def _has(container: Any, entries: Any) -> bool:
    """Whether the very same entries are in it, in their order."""
    if len(container) != len(entries):
        return False
    if isinstance(container, Mapping):
        pairs = zip(container.items(), entries.items(), strict=True)
        return all(one is other and mine is others for (one, mine), (other, others) in pairs)
    if isinstance(container, set):
        return bool(container == entries)
    return all(one is other for one, other in zip(container, entries, strict=True))
