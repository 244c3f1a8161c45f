"""What a test sees of a state store, by Kafka's kinds: ReadOnlyKeyValueStore, ReadOnlyWindowStore,
ReadOnlySessionStore and ReadOnlyVersionedKeyValueStore.

Rule: a store shows what is in it when it is asked, after all that was piped. Keys are in the order of their serialized
bytes (unsigned). Windows are by start and then key; sessions by end, key and start, the latest start first, as Kafka's
in-memory stores have them. Bounds are inclusive; a key bound of None is none. What a test may write has
jobs/testing/written_stores.py.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, overload

import pyarrow as pa

from ...state.errors import ConfigError
from ...state.serdes import Serde
from ...state.times import Instant, time_ms
from ..functions.call_names import Hinting, NoDict
from ..functions.expressions import Windowed
from ..functions.processor_api import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders
from ..functions.session_and_versioned_stores import VersionedRecord
from ..functions.state_stores import check_fetch, key_of_window
from ..functions.store_iterators import IterableRows, give
from ..operators.base.operator import StoreContents
from .driver_inputs import encoded
from .store_view import VersionedStoreView


class _Row(NamedTuple):
    """``data``: the serialized key."""

    data: bytes
    key: Any
    start_ms: int
    end_ms: int
    value: Any

    @property
    def windowed(self) -> tuple[Windowed, Any]:
        return Windowed(self.key, self.start_ms, self.end_ms), self.value


Shown = type[ValueAndTimestamp] | type[ValueTimestampHeaders] | type[AggregationWithHeaders]
"""What values are shown in, beside plain ones."""
_BESIDE: dict[Shown, tuple[str, ...]] = {
    ValueAndTimestamp: ("record_time_ms",),
    ValueTimestampHeaders: ("record_time_ms", "headers"),
    AggregationWithHeaders: ("headers",),
}
"""Columns that are shown with a value."""


class Looks(NamedTuple):
    """Into a store, as it is now: ``all_rows``; and rows ``of_key``, a Python key, None where all are to be read."""

    all_rows: Callable[[], StoreContents]
    of_key: Callable[[Any], StoreContents | None]


class _Store(Hinting, NoDict):
    """``shown``: what its values are shown in, None for plain values."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # ``get`` gives one value, which may be a list itself.
        give(cls, IterableRows, [name for name in vars(cls) if not name.startswith("_") and name != "get"])

    def __init__(self, name: str, looks: Looks, shown: Shown | None = None) -> None:
        self.store_name, self._looks, self._show = name, looks, shown
        self._read: tuple[StoreContents, dict[bytes, list[int]]] | None = None
        """What was read last, and the numbers of its rows by serialized key."""

    def _rows(self) -> list[_Row]:
        """All rows, by serialized key."""
        return self._rows_of(self._looks.all_rows())

    def _rows_of(self, contents: StoreContents) -> list[_Row]:
        keys = contents.key.to_python(contents.rows["key"].combine_chunks())
        values = contents.value.to_python(contents.rows["value"].combine_chunks())
        if self._show is not None:
            beside = [_listed(contents.rows, column) for column in _BESIDE[self._show]]
            values = [self._show(*row) for row in zip(values, *beside, strict=True)]
        bounds = [[0] * len(keys)] * 2
        if contents.window is not None:
            bounds = [contents.rows[column].to_pylist() for column in ("window_start_ms", "window_end_ms")]
        rows = zip(encoded(contents.key, keys), keys, *bounds, values, strict=True)
        return sorted((_Row(data or b"", *rest) for data, *rest in rows), key=lambda row: row.data)

    def _between(self, first: Any, last: Any) -> list[_Row]:
        low, high = self._bound(first), self._bound(last)
        return [row for row in self._rows() if (low is None or low <= row.data) and (high is None or row.data <= high)]

    def _of(self, key: Any) -> list[_Row]:
        if key is None:
            raise ConfigError(f"store {self.store_name!r}", "a key", "None", "ask for a key, or for a range of keys")
        contents = self._looks.of_key(key)
        return self._rows_of(self._among_all(key) if contents is None else contents)

    def _among_all(self, key: Any) -> StoreContents:
        """Rows of one key, by what is known of all rows while these are the same."""
        contents = self._looks.all_rows()
        # The driver gives the same object until records are played again (StoreReader._shown): identity
        # is enough, where a comparison would read every row.
        if self._read is None or self._read[0] is not contents:
            rows: dict[bytes, list[int]] = {}
            for row, data in enumerate(contents.key.encode(contents.rows["key"].combine_chunks()).to_pylist()):
                rows.setdefault(data or b"", []).append(row)
            self._read = contents, rows
        (data,) = encoded(contents.key, [key])
        return replace(contents, rows=contents.rows.take(pa.array(self._read[1].get(data or b"", []), pa.int64())))

    def _bound(self, key: Any) -> bytes | None:
        return encoded(self._looks.all_rows().key, [key])[0]

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.store_name!r}]"


def _listed(rows: pa.Table, column: str) -> list[Any]:
    values: list[Any] = rows[column].to_pylist()
    if column != "headers":
        return values
    return [tuple((one["key"], one["value"]) for one in headers or ()) for headers in values]


class ReadOnlyKeyValueStore(_Store):
    """Values by key; ``ValueAndTimestamp`` ones of ``get_timestamped_key_value_store``, ``ValueTimestampHeaders`` ones
    of ``get_timestamped_key_value_store_with_headers``.
    """

    def get(self, key: Any) -> Any:
        """The value, or None. Raises ConfigError for a null key, and for one that is not of the store's type."""
        return next((row.value for row in self._of(key)), None)

    def range(self, first: Any = None, last: Any = None) -> list[tuple[Any, Any]]:
        """(key, value) from ``first`` to ``last``."""
        return [(row.key, row.value) for row in self._between(first, last)]

    def reverse_range(self, first: Any = None, last: Any = None) -> list[tuple[Any, Any]]:
        """As ``range``, from the last on."""
        return self.range(first, last)[::-1]

    def all(self) -> list[tuple[Any, Any]]:
        """Every (key, value)."""
        return self.range()

    def reverse_all(self) -> list[tuple[Any, Any]]:
        """Every (key, value), from the last on."""
        return self.reverse_range()

    def prefix_scan(self, prefix: Any, serde: Serde) -> list[tuple[Any, Any]]:
        """(key, value) of the keys whose bytes begin with those of ``prefix``, which ``serde`` writes."""
        (begin,) = encoded(serde, [prefix])
        return [(row.key, row.value) for row in self._rows() if row.data.startswith(begin or b"")]

    def approximate_num_entries(self) -> int:
        """How many keys have a value; exactly so many here."""
        return len(self._rows())

    def __len__(self) -> int:
        return self.approximate_num_entries()


class ReadOnlyWindowStore(_Store):
    """Values by key and window; a window is named by its start. What the retention has passed is not shown."""

    @overload
    def fetch(self, key: Any, time: Instant, /) -> Any: ...

    @overload
    def fetch(self, key: Any, time_from: Instant, time_to: Instant, /) -> list[tuple[int, Any]]: ...

    @overload
    def fetch(
        self, key_from: Any, key_to: Any, time_from: Instant, time_to: Instant, /
    ) -> list[tuple[Windowed, Any]]: ...

    def fetch(self, *bounds: Any) -> Any:
        """The value of a key's window that starts at a time, or None; (start, value) of a key's windows that start in
        ``[time_from, time_to]``; (windowed key, value) of those of all keys from one to another.
        """
        check_fetch("fetch", bounds)
        if len(bounds) == 4:
            return self._windowed(self._by_start(self._between(*bounds[:2]), *bounds[2:]))
        if len(bounds) == 2:
            return next((row.value for row in self._by_start(self._of(bounds[0]), bounds[1], bounds[1])), None)
        return [(row.start_ms, row.value) for row in self._by_start(self._of(bounds[0]), *bounds[1:])]

    @overload
    def backward_fetch(self, key: Any, time_from: Instant, time_to: Instant, /) -> list[tuple[int, Any]]: ...

    @overload
    def backward_fetch(
        self, key_from: Any, key_to: Any, time_from: Instant, time_to: Instant, /
    ) -> list[tuple[Windowed, Any]]: ...

    def backward_fetch(self, *bounds: Any) -> Any:
        """As ``fetch`` of several windows, from the latest on."""
        check_fetch("backward_fetch", bounds)
        return self.fetch(*bounds)[::-1]

    def fetch_range(self, key: Any, from_ms: Instant, to_ms: Instant) -> list[tuple[int, Any]]:
        """(start, value) of the key's windows that start in ``[from_ms, to_ms]``, as in a processor."""
        windows: list[tuple[int, Any]] = self.fetch(key, from_ms, to_ms)
        return windows

    def backward_fetch_range(self, key: Any, from_ms: Instant, to_ms: Instant) -> list[tuple[int, Any]]:
        """As ``fetch_range``, from the latest on."""
        return self.fetch_range(key, from_ms, to_ms)[::-1]

    def fetch_keys(self, first: Any, last: Any, from_ms: Instant, to_ms: Instant) -> list[tuple[Windowed, Any]]:
        """(windowed key, value) of windows of keys from ``first`` to ``last`` that start in ``[from_ms, to_ms]``."""
        windows: list[tuple[Windowed, Any]] = self.fetch(first, last, from_ms, to_ms)
        return windows

    def backward_fetch_keys(
        self, first: Any, last: Any, from_ms: Instant, to_ms: Instant
    ) -> list[tuple[Windowed, Any]]:
        """As ``fetch_keys``, from the latest on."""
        return self.fetch_keys(first, last, from_ms, to_ms)[::-1]

    def fetch_all(self, time_from: Instant, time_to: Instant) -> list[tuple[Windowed, Any]]:
        """(windowed key, value) of all windows that start in ``[time_from, time_to]``."""
        return self._windowed(self._by_start(self._rows(), time_from, time_to))

    def backward_fetch_all(self, time_from: Instant, time_to: Instant) -> list[tuple[Windowed, Any]]:
        """As ``fetch_all``, from the latest on."""
        return self.fetch_all(time_from, time_to)[::-1]

    def all(self) -> list[tuple[Windowed, Any]]:
        """Every (windowed key, value)."""
        return self._windowed(sorted(self._rows(), key=_start))

    def backward_all(self) -> list[tuple[Windowed, Any]]:
        """Every (windowed key, value), from the latest on."""
        return self.all()[::-1]

    def _windowed(self, rows: list[_Row]) -> list[tuple[Windowed, Any]]:
        place = f"store {self.store_name!r}"
        return [(key_of_window(place, row.key, row.start_ms, row.end_ms), row.value) for row in rows]

    def _by_start(self, rows: list[_Row], time_from: Instant, time_to: Instant) -> list[_Row]:
        first_ms, last_ms = time_ms(time_from, "time_from"), time_ms(time_to, "time_to")
        return sorted((row for row in rows if first_ms <= row.start_ms <= last_ms), key=_start)


def _start(row: _Row) -> tuple[int, bytes]:
    return row.start_ms, row.data


class ReadOnlySessionStore(_Store):
    """Aggregates by key and session, whose bounds are both inclusive."""

    @overload
    def fetch(self, key: Any, /) -> list[tuple[Windowed, Any]]: ...

    @overload
    def fetch(self, key_from: Any, key_to: Any, /) -> list[tuple[Windowed, Any]]: ...

    def fetch(self, *keys: Any) -> list[tuple[Windowed, Any]]:
        """(windowed key, aggregate) of all sessions of a key, or of all keys from one to another."""
        return _sessions(self._of(*keys) if len(keys) == 1 else self._between(*keys))

    @overload
    def backward_fetch(self, key: Any, /) -> list[tuple[Windowed, Any]]: ...

    @overload
    def backward_fetch(self, key_from: Any, key_to: Any, /) -> list[tuple[Windowed, Any]]: ...

    def backward_fetch(self, *keys: Any) -> list[tuple[Windowed, Any]]:
        """As ``fetch``, from the latest on."""
        return self.fetch(*keys)[::-1]

    @overload
    def find_sessions(
        self, earliest_session_end: Instant, latest_session_end: Instant, /
    ) -> list[tuple[Windowed, Any]]: ...

    @overload
    def find_sessions(
        self, key: Any, earliest_session_end: Instant, latest_session_start: Instant, /
    ) -> list[tuple[Windowed, Any]]: ...

    @overload
    def find_sessions(
        self, key_from: Any, key_to: Any, earliest_session_end: Instant, latest_session_start: Instant, /
    ) -> list[tuple[Windowed, Any]]: ...

    def find_sessions(self, *bounds: Any) -> list[tuple[Windowed, Any]]:
        """(windowed key, aggregate) of the sessions of a key, or of all keys from one to another, that end at
        ``earliest_session_end`` or later and start at ``latest_session_start`` or earlier. Two times alone: sessions of
        all keys that end in ``[earliest_session_end, latest_session_end]``.
        """
        *keys, earliest, latest = bounds
        first_ms, last_ms = time_ms(earliest, "earliest_session_end"), time_ms(latest, "latest session")
        if not keys:
            return _sessions([row for row in self._rows() if first_ms <= row.end_ms <= last_ms])
        rows = self._of(*keys) if len(keys) == 1 else self._between(*keys)
        return _sessions([row for row in rows if row.end_ms >= first_ms and row.start_ms <= last_ms])

    @overload
    def backward_find_sessions(
        self, key: Any, earliest_session_end: Instant, latest_session_start: Instant, /
    ) -> list[tuple[Windowed, Any]]: ...

    @overload
    def backward_find_sessions(
        self, key_from: Any, key_to: Any, earliest_session_end: Instant, latest_session_start: Instant, /
    ) -> list[tuple[Windowed, Any]]: ...

    def backward_find_sessions(self, *bounds: Any) -> list[tuple[Windowed, Any]]:
        """As ``find_sessions`` of keys, from the latest on."""
        return self.find_sessions(*bounds)[::-1]

    def fetch_session(self, key: Any, session_start: Instant, session_end: Instant) -> Any:
        """The aggregate of the session with exactly these bounds, or None."""
        bounds = time_ms(session_start, "session_start"), time_ms(session_end, "session_end")
        return next((row.value for row in self._of(key) if (row.start_ms, row.end_ms) == bounds), None)


def _sessions(rows: list[_Row]) -> list[tuple[Windowed, Any]]:
    return [row.windowed for row in sorted(rows, key=lambda row: (row.end_ms, row.data, -row.start_ms))]


class ReadOnlyVersionedKeyValueStore(Hinting, NoDict):
    """The history of values by key, as far as the history retention reaches (KIP-889)."""

    def __init__(self, name: str, view: Callable[[], VersionedStoreView]) -> None:
        self.store_name, self._view = name, view

    def get(self, key: Any, as_of: Instant | None = None) -> VersionedRecord | None:
        """The latest version of ``key``, or that as of a time, inclusive; None when the key had no value then, or when
        the history retention has passed the time and the latest version is newer.
        """
        return self._view().record(key, None if as_of is None else time_ms(as_of, "as_of"))

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.store_name!r}]"
