"""A digest of any Python value, the same in every process, which differs when the value does.

Rule: a value counts by its type and by what pickling would keep of it. Sets and dictionaries have no order. What is
there twice, or within itself, is read once. Of what cannot be pickled (a lock, an open file) only the type counts, and
``unread`` names it; so it is of an iterator, which each look at its values moves. An object counts as it was at the
first look of this process: what it keeps as it runs (a cache, the state of a random generator) is no change.
"""

import copyreg
import hashlib
import io
import logging
import re
import uuid
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from copy import copy
from datetime import date, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cached_property
from pathlib import PurePath
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pyarrow as pa

_ATOMS = frozenset({int, float, complex, str, bool, type(None), type(...), type(NotImplemented)})
"""Whose ``repr`` says what they are."""

_IN_COLUMNS = pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table | pa.Scalar

CONSTANTS = (
    int, float, complex, str, bytes, type(None), type(...), Decimal, Fraction, Enum, uuid.UUID, re.Pattern, date, time,
    timedelta, timezone, ZoneInfo, PurePath, range, slice, np.generic, np.dtype, pa.Array, pa.ChunkedArray,
    pa.RecordBatch, pa.Table, pa.Scalar, pa.DataType, pa.Schema, pl.DataFrame, pl.Series, pl.Expr,
)  # fmt: skip
"""Types of values that stay what they are."""

_WEAK = weakref.ref | weakref.WeakKeyDictionary | weakref.WeakValueDictionary | weakref.WeakSet
"""What these refer to is not theirs: caches."""


_LOOKS: dict[tuple[int, str], tuple[Callable[[], Any], bytes, frozenset[str]]] = {}
"""By id of an object and the package that is the user's: itself, its digest at the first look, and what was not read
in it.
"""


def digest_of(what: str, *parts: str | bytes) -> bytes:
    """Of parts in their order."""
    digest = hashlib.sha256()
    for part in (what, *parts):
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.digest()


class ValueDigest:
    """``of`` gives digests of values, of which one may refer to what an earlier one did."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, tuple[int, Any]] = {}
        """What was read, by its id: a number and itself, so that nothing else gets the id."""
        self._unread: set[str] = set()
        self._is_within = False
        """Whether it reads a part of an object."""

    _package = ""
    """Whose classes are the user's, beside those that no library has."""

    def of(self, thing: Any) -> bytes:
        """The digest of ``thing``."""
        kind = type(thing)
        if kind in _ATOMS:
            return digest_of(kind.__name__, repr(thing))
        if kind is bytes:
            return digest_of("bytes", thing)
        if kind is tuple:
            return digest_of("tuple", *map(self.of, thing))
        if isinstance(thing, set | frozenset):
            return digest_of("set", self.of(kind), *sorted(map(self._apart, thing)))
        return self.once(thing, self._of_once)

    def unread(self) -> str:
        """In words, of which types only the name was read; "" where there are none."""
        return f" (nothing within {', '.join(sorted(self._unread))} is compared)" if self._unread else ""

    def begins(self, mark: Hashable) -> bool:
        """Whether ``mark`` comes for the first time."""
        is_new = mark not in self._seen
        self._seen.setdefault(mark, (len(self._seen), None))
        return is_new

    def once(self, thing: Any, read: Callable[[Any], bytes]) -> bytes:
        """What ``read`` gives of ``thing``, or where it was read before."""
        if id(thing) in self._seen:
            return digest_of("again", str(self._seen[id(thing)][0]))
        self._seen[id(thing)] = len(self._seen), thing
        return read(thing)

    def of_other(self, thing: Any) -> bytes | None:
        """The digest of what is read in another way; None: it is a value like others."""

    def content(self, thing: Any) -> bytes:
        """What pickling would keep of an object, beside its class, at the first look at it."""
        if self._is_within:
            return self._content(thing)
        mark = id(thing), self._package
        look = _LOOKS.get(mark)
        if look is None or look[0]() is not thing:
            # Alone, so that the digest does not depend on what was read before.
            alone = copy(self)
            alone._seen, alone._unread, alone._is_within = {id(thing): (0, thing)}, set(), True
            digest = alone._content(thing)
            look = (lambda: thing), digest, frozenset(alone._unread)
            with suppress(TypeError):  # of a type that has no weak references
                _LOOKS[mark] = weakref.ref(thing, lambda _: _LOOKS.pop(mark, None)), *look[1:]
        self._unread |= look[2]
        return look[1]

    def _content(self, thing: Any) -> bytes:
        try:
            kept = _kept(thing)
        except Exception:  # what an object's own methods raise
            self._unread.add(_name(thing))
            return digest_of("unread", self.of(_without_cached(thing, getattr(thing, "__dict__", {}))))
        if isinstance(kept, str):
            return digest_of("named", str(getattr(thing, "__module__", None)), kept)
        maker, arguments, state, items, entries = (*kept, None, None, None)[:5]
        return digest_of(
            "kept",
            b"" if maker is type(thing) else self.of(maker),
            self.of(tuple(one for one in arguments if one is not type(thing))),
            self.of(_without_cached(thing, state)),
            self.of(None if items is None else list(items)),
            self.of(None if entries is None else dict(entries)),
        )

    def _of_once(self, thing: Any) -> bytes:
        if type(thing) is list:
            return digest_of("list", *map(self.of, thing))
        if type(thing) is dict or isinstance(thing, MappingProxyType):
            return self._of_entries(thing)
        if isinstance(thing, _WEAK):
            return digest_of("weak", type(thing).__qualname__)
        if isinstance(thing, Iterator) and not isinstance(thing, io.IOBase):
            self._unread.add(_name(thing))
            return digest_of("iterator", self.of(type(thing)))
        if isinstance(thing, logging.Logger):  # of a class that other libraries choose
            return digest_of("logger", thing.name)
        if isinstance(thing, memoryview):
            return digest_of("memoryview", thing.tobytes())
        if isinstance(thing, _IN_COLUMNS):
            return digest_of(type(thing).__qualname__, _in_columns(thing))
        other = self.of_other(thing)
        return digest_of("object", self.of(type(thing)), self.content(thing)) if other is None else other

    def _of_entries(self, entries: Any) -> bytes:
        keys = sorted(((self._apart(key), key) for key in entries), key=lambda pair: pair[0])
        return digest_of("dict", *(part for digest, key in keys for part in (digest, self.of(entries[key]))))

    def _apart(self, thing: Any) -> bytes:
        """As ``of``, of one among several without an order: where others were read does not count."""
        if type(thing) in _ATOMS:
            return self.of(thing)
        seen = self._seen
        self._seen = dict(seen)
        try:
            return self.of(thing)
        finally:
            self._seen = seen


def _name(thing: Any) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _kept(thing: Any) -> Any:
    """As the module ``pickle`` asks for it: a name, or a function with its arguments, and a state."""
    reducer = copyreg.dispatch_table.get(type(thing))
    return thing.__reduce_ex__(4) if reducer is None else reducer(thing)


def _without_cached(thing: Any, state: Any) -> Any:
    """``state`` without values of cached properties, which are there after somebody asked."""
    if type(state) is not dict:
        return state
    kind = type(thing)
    return {name: one for name, one in state.items() if not isinstance(getattr(kind, str(name), None), cached_property)}


def _in_columns(thing: Any) -> bytes:
    """Arrow's values in its format for files, which is the same however they lie in memory."""
    if isinstance(thing, pa.Scalar):
        thing = pa.array([thing.as_py()], thing.type)
    if isinstance(thing, pa.ChunkedArray):
        thing = thing.combine_chunks()
    if isinstance(thing, pa.Array):
        thing = pa.table({"": thing})
    table = pa.Table.from_batches([thing]) if isinstance(thing, pa.RecordBatch) else thing
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())
