"""What a Kafka Streams application has left of a store: the records of its changelog topics, as columns.

Owns the bytes of their keys. Rule: the last record of a key counts, and one without a value deletes it. A key of a
window is the key, the window's start and a sequence number int32 (WindowKeySchema). That of a session is the key, its
end and its start (SessionKeySchema). A version has the key alone, and its record's time (KIP-889).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import big_endian, big_endian_at, is_valid, only_chunk
from ....state.errors import ConfigError
from ....state.serdes import Serde
from ....state.times import NO_TIMESTAMP_MS
from ...functions.expressions import Shape
from ...graph.windows import SlidingWindows, TimeWindows, Windows

_START, _SEQUENCE = 8, 4
"""Bytes of a window's bound, and of a sequence number."""
_BYTES_MAX = 2**31 - 1


@dataclass(frozen=True)
class Changelog:
    """Records of one partition, in the order of their offsets. ``value`` null: deletes the key. ``time_ms`` int64,
    NO_TIMESTAMP_MS where a record has none. ``headers``: of HEADERS, None where no record has any.
    """

    topic: str
    key: pa.BinaryArray
    value: pa.BinaryArray
    time_ms: np.ndarray
    headers: pa.Array | None = None

    @classmethod
    def empty(cls, topic: str) -> "Changelog":
        """Of a partition without records."""
        nothing = pa.array([], pa.binary())
        return cls(topic, nothing, nothing, np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.key)

    def take(self, rows: np.ndarray) -> "Changelog":
        """Those ``rows``, in their order."""
        at = pa.array(rows)
        headers = None if self.headers is None else self.headers.take(at)
        return replace(
            self, key=self.key.take(at), value=self.value.take(at), time_ms=self.time_ms[rows], headers=headers
        )

    def last(self) -> "Changelog":
        """The last record of every key, without those that delete."""
        keys = pc.dictionary_encode(self.key)
        last = np.zeros(len(keys.dictionary), np.int64)
        np.maximum.at(last, keys.indices.to_numpy(), np.arange(len(self)))
        rows = np.sort(last)
        return self.take(rows[is_valid(self.value.take(pa.array(rows)))])

    def decoded(self, serde: Serde, column: pa.Array) -> pa.Array:
        """``column`` of the records, or a part of it, by ``serde``. Raises ConfigError for what it cannot read."""
        decoded = serde.decode(column)
        if decoded.reasons:
            row, reason = next(iter(decoded.reasons.items()))
            expected, got = f"bytes of {serde}", f"others, in its record {row} that counts ({reason})"
            raise ConfigError(f"changelog {self.topic}", expected, got, "give the store the application's serdes")
        return decoded.values

    @cached_property
    def window_keys(self) -> "WindowKeys":
        """Parts of the keys of a window store."""
        return WindowKeys(
            pc.binary_slice(self.key, 0, -_START - _SEQUENCE),
            big_endian_at(self.key, -_START - _SEQUENCE),
            pc.binary_slice(self.key, -_SEQUENCE, _BYTES_MAX),
        )

    @cached_property
    def session_keys(self) -> "Bounded":
        """Parts of the keys of a session store, and of windowed keys of sessions."""
        ends, starts = big_endian_at(self.key, -2 * _START), big_endian_at(self.key, -_START)
        return Bounded(pc.binary_slice(self.key, 0, -2 * _START), starts, ends)


class WindowKeys(NamedTuple):
    """``sequence``: four bytes, which count where a store retains duplicates."""

    key: pa.BinaryArray
    start_ms: np.ndarray
    sequence: pa.BinaryArray


class Bounded(NamedTuple):
    """Keys with a window's bounds."""

    key: pa.BinaryArray
    start_ms: np.ndarray
    end_ms: np.ndarray


@dataclass(frozen=True)
class KeptStore:
    """A store of an application: that of one node. ``topics``: of its changelogs, in the order of ``Node.changelogs``.
    ``shape``: of what the node forwards; ``windows``: of its store's rows. ``partition``: of the task.
    """

    store: str
    topics: tuple[str, ...]
    shape: Shape
    windows: Windows | None
    partition: int = field(default=0, kw_only=True)

    @property
    def topic(self) -> str:
        """Of a store that has one changelog."""
        (topic,) = self.topics
        return topic

    def ends(self, start_ms: np.ndarray) -> np.ndarray:
        """Ends of the windows that start then. Raises ConfigError for windows whose length no start says."""
        if isinstance(self.windows, TimeWindows):
            return start_ms + self.windows.size_ms
        if isinstance(self.windows, SlidingWindows):
            return start_ms + self.windows.difference_ms
        got = f"{type(self.windows).__name__}, whose ends a changelog does not have"
        raise unknown_changelog(self.store, got)

    def table_keys(self, log: Changelog) -> dict[str, pa.Array]:
        """Of records whose keys a table's serde has written: ``key``, and the window's bounds where keys have such
        (TimeWindowedSerializer, SessionWindowedSerializer).
        """
        if self.shape.window is None:
            return {"key": log.decoded(self.shape.key, log.key)}
        if self.shape.window == "session":
            keys = log.session_keys
        else:
            starts = big_endian_at(log.key, -_START)
            keys = Bounded(pc.binary_slice(log.key, 0, -_START), starts, self.ends(starts))
        bounds = {"window_start_ms": pa.array(keys.start_ms), "window_end_ms": pa.array(keys.end_ms)}
        return {"key": log.decoded(self.shape.key, keys.key), **bounds}

    def serialized_table_keys(self, rows: pa.Table) -> pa.BinaryArray:
        """The reverse of ``table_keys``."""
        key = self.shape.key.encode(only_chunk(rows, "key"))
        if self.shape.window is None:
            return key
        start = rows["window_start_ms"].to_numpy()
        if self.shape.window == "session":
            return session_key(key, start, rows["window_end_ms"].to_numpy())
        return _joined(key, big_endian(start))


@dataclass(frozen=True)
class LeftState(KeptStore):
    """What a task of an application has left of a store: ``logs``, one of each of ``topics``. ``stream_time_ms``: of
    operators, -1 as after a restart; ``task_time_ms``: that of the task, which it commits. ``metadata``: numbers that
    processors have committed beside the task's offsets, by name.
    """

    logs: tuple[Changelog, ...]
    stream_time_ms: int = NO_TIMESTAMP_MS
    task_time_ms: int = NO_TIMESTAMP_MS
    metadata: Mapping[str, int] = field(default_factory=dict)

    @property
    def log(self) -> Changelog:
        """Of a store that has one changelog."""
        (log,) = self.logs
        return log

    @property
    def has_restarted(self) -> bool:
        """Whether operators begin with their stream times at -1."""
        return self.stream_time_ms == NO_TIMESTAMP_MS


def window_key(key: pa.BinaryArray, start_ms: np.ndarray, sequence: np.ndarray | None = None) -> pa.BinaryArray:
    """Keys of a window store's changelog; ``sequence``: int64 below 2^31, None for 0."""
    numbers = np.zeros(len(key), np.int64) if sequence is None else sequence
    return _joined(key, big_endian(start_ms), pc.binary_slice(big_endian(numbers), _SEQUENCE, _BYTES_MAX))


def session_key(key: pa.BinaryArray, start_ms: np.ndarray, end_ms: np.ndarray) -> pa.BinaryArray:
    """Keys of a session store's changelog."""
    return _joined(key, big_endian(end_ms), big_endian(start_ms))


def _joined(*parts: pa.BinaryArray) -> pa.BinaryArray:
    cast = [part if part.type == pa.binary() else part.cast(pa.binary()) for part in parts]
    return pc.binary_join_element_wise(*cast, pa.scalar(b"", pa.binary()))


def refuse_hidden_state(store: str, *, shows_all: bool) -> None:
    """Raises ConfigError for an aggregate of folds of which not every one ``shows_all``: Kafka logs what they show."""
    if not shows_all:
        raise unknown_changelog(store, "an aggregate of folds that keep more than they show")


def unknown_changelog(store: str, got: str) -> ConfigError:
    """The error of a store whose changelog is not read here."""
    expected = "a store whose changelog is read here (docs/bootstrap.md lists them)"
    return ConfigError(f"store {store!r}", expected, got, "begin with the first records of its topics instead")
