"""The store of a windowed aggregate, as a processor sees and writes it (TimestampedWindowStore, SessionStore).

Rule: it is the aggregate's own store. A processor finds there all that was put before, by whatever record, and the
aggregate finds what a processor put or removed. No change goes down because of it. A put expires as one of the
aggregate does. Values of windows are ``ValueAndTimestamp``, those of sessions plain.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ....state.errors import ConfigError
from ....state.records.batches import Batch, Values
from ...functions.expressions import Shape, Windowed
from ...functions.processor_api import NOT_GIVEN, ValueAndTimestamp
from ...functions.session_and_versioned_stores import SessionStore
from ...functions.state_stores import WindowStore
from ..base.operator import WindowedStore
from ..base.single_records import OfBatch
from .table_stores import Writer
from .value_coders import KeyCoder

_ANY = 2**63 - 1


class Place(NamedTuple):
    """Whose store it is: its name, the node that keeps it, the shape of that, and the processor that asks."""

    store: str
    owner: str
    shape: Shape
    processor: str

    def __str__(self) -> str:
        return f"{self.processor}, store {self.store!r}"


class WindowRow(NamedTuple):
    """A window of the store, its key serialized; times in ms."""

    key: bytes
    start_ms: int
    end_ms: int
    time_ms: int
    value: Any


def windows_of(place: Place, keeper: WindowedStore, writer: Writer) -> "TableWindows | TableSessions":
    """The store at ``place``, whose rows ``keeper`` has."""
    return (TableSessions if place.shape.window == "session" else TableWindows)(_WindowRows(place, keeper, writer))


class _WindowRows:
    """What both kinds have in common."""

    def __init__(self, place: Place, keeper: WindowedStore, writer: Writer) -> None:
        self.place, self.keeper, self.writer = place, keeper, writer
        self.key = KeyCoder(place.shape.key, str(place))
        self.note: Callable[[Windowed, Any, int | None], None] | None = None
        """Called for every put: the windowed key, the value, and its time in ms where the store keeps times."""

    def put(self, key: Any, bounds: tuple[int, int], value: Any, time_ms: int, *, removes: bool = False) -> None:
        """``value`` None deletes."""
        chunk, links = self.writer.chunk, self.writer.links
        if chunk is None or links is None:
            next_step = "put when a record comes, or into a store of the processor's own"
            raise ConfigError(
                str(self.place), "puts into a table because of records", "one by a recorded time", next_step
            )
        start_ms, end_ms = bounds
        if not 0 <= start_ms <= end_ms:
            expected, got = "a window from 0 ms or later to its end", f"one from {start_ms} to {end_ms} ms"
            raise ConfigError(str(self.place), expected, got, "correct it")
        keys, shape = self.keeper.store_keys, self.place.shape
        data, values = self.key.encode(key), shape.value.from_python([value])
        one = OfBatch(
            Batch(
                cause=np.full(1, self.writer.cause, np.int32),
                key=keys.intern(pa.array([data], pa.binary())),
                keys=keys,
                time_ms=np.full(1, time_ms, np.int64),
                valid=np.array([value is not None]),
                value=Values(values),
                window_start_ms=np.full(1, start_ms, np.int64),
                window_end_ms=np.full(1, end_ms, np.int64),
            )
        )
        try:
            (self.keeper.remove_by_processor if removes else self.keeper.put_by_processor)(one, chunk)
        except ConfigError as error:
            raise ConfigError(str(self.place), error.expected, error.got, error.next_step) from error
        links.show(self.place.owner, one)
        if self.note is not None:
            has_time = value is not None and shape.window == "time"
            (taken,) = shape.value.to_python(values)
            self.note(Windowed(self.key.decode(data), start_ms, end_ms), taken, time_ms if has_time else None)

    def one(self, key: Any, start_ms: int, end_ms: int) -> WindowRow | None:
        code = self.keeper.store_keys.lookup(self.key.encode(key))
        slot = self.keeper.window_at(code, start_ms, end_ms) if code >= 0 else -1
        return next(iter(self._in(np.array([slot]))), None) if slot >= 0 else None

    def between(self, first: Any, last: Any, starts: tuple[int, int], ends: tuple[int, int]) -> list[WindowRow]:
        """Of keys from ``first`` to ``last`` (None: no bound) those windows whose start and end are in these ranges, in
        the order of the store.
        """
        low, high = (None if key is None else self.key.encode(key) for key in (first, last))
        code = None
        if low is not None and low == high and (code := self.keeper.store_keys.lookup(low)) < 0:
            return []
        rows = self._in(self.keeper.shown_windows(code))
        return sorted(
            (
                row
                for row in rows
                if (low is None or row.key >= low) and (high is None or row.key <= high)
                if starts[0] <= row.start_ms <= starts[1] and ends[0] <= row.end_ms <= ends[1]
            ),
            key=self._order,
        )

    def _order(self, row: WindowRow) -> tuple[Any, ...]:
        """Persistent stores: by segment, key and time; those in memory by time and key, the latest session first."""
        is_session, segment_ms = self.place.shape.window == "session", self.keeper.store_segment_ms
        if segment_ms:
            times = (row.end_ms, row.start_ms) if is_session else (row.start_ms,)
            return (times[0] // segment_ms, row.key, *times)
        return (row.end_ms, row.key, -row.start_ms) if is_session else (row.start_ms, row.key)

    def _in(self, slots: np.ndarray) -> list[WindowRow]:
        shown = self.keeper.windows_in(slots)
        keys = self.keeper.store_keys.take(shown.key).cast(pa.binary()).to_pylist()
        values = self.place.shape.value.to_python(shown.value)
        times = (shown.start_ms.tolist(), shown.end_ms.tolist(), shown.time_ms.tolist())
        return [row for row in map(WindowRow, keys, *times, values) if row.value is not None]

    def windowed(self, row: WindowRow) -> Windowed:
        return Windowed(self.key.decode(row.key), row.start_ms, row.end_ms)


class TableWindows(WindowStore):
    """Of windows of one length. ``rows``: of the store."""

    def __init__(self, rows: _WindowRows) -> None:
        self._rows = rows

    def note_puts(self, note: Callable[[Windowed, Any, int | None], None]) -> None:
        """``note`` is called with the key, the value and its time (None: it has none) of each put."""
        self._rows.note = note

    def put(self, key: Any, value: Any, window_start_ms: int) -> None:
        """``value``: a ValueAndTimestamp, or None to delete."""
        if value is not None and not isinstance(value, ValueAndTimestamp):
            next_step, expected = "write ValueAndTimestamp(value, timestamp_ms)", "a ValueAndTimestamp"
            raise ConfigError(
                str(self._rows.place), f"{expected}, as it is the store of a table", repr(value), next_step
            )
        plain, time_ms = (None, -1) if value is None else value
        self._rows.put(key, (window_start_ms, window_start_ms + self._size_ms), plain, time_ms)

    @property
    def _size_ms(self) -> int:
        return self._rows.keeper.window_size_ms

    def fetch(self, key: Any, time_ms: int) -> Any:  # type: ignore[override]  # the base takes the other forms
        row = self._rows.one(key, time_ms, time_ms + self._size_ms)
        return None if row is None else ValueAndTimestamp(row.value, row.time_ms)

    def _found(self, first: Any, last: Any, from_ms: int, to_ms: int) -> list[WindowRow]:
        return self._rows.between(first, last, (from_ms, to_ms), (0, _ANY))

    def _of_key(self, rows: Iterable[WindowRow]) -> Iterator[tuple[int, Any]]:
        return iter([(row.start_ms, ValueAndTimestamp(row.value, row.time_ms)) for row in rows])

    def _of_keys(self, rows: Iterable[WindowRow]) -> Iterator[tuple[Windowed, Any]]:
        return iter([(self._rows.windowed(row), ValueAndTimestamp(row.value, row.time_ms)) for row in rows])

    def fetch_range(self, key: Any, from_ms: int, to_ms: int) -> Iterator[tuple[int, Any]]:
        return self._of_key(self._found(key, key, from_ms, to_ms))

    def backward_fetch_range(self, key: Any, from_ms: int, to_ms: int) -> Iterator[tuple[int, Any]]:
        return self._of_key(self._found(key, key, from_ms, to_ms)[::-1])

    def fetch_keys(self, first: Any, last: Any, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        return self._of_keys(self._found(first, last, from_ms, to_ms))

    def backward_fetch_keys(self, first: Any, last: Any, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        return self._of_keys(self._found(first, last, from_ms, to_ms)[::-1])

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        return self._of_keys(self._found(None, None, from_ms, to_ms))

    def backward_fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        return self._of_keys(self._found(None, None, from_ms, to_ms)[::-1])

    def all(self) -> Iterator[tuple[Windowed, Any]]:
        return self.fetch_all(0, _ANY)

    def backward_all(self) -> Iterator[tuple[Windowed, Any]]:
        return self.backward_fetch_all(0, _ANY)


class TableSessions(SessionStore):
    """Of sessions. ``rows``: of the store."""

    def __init__(self, rows: _WindowRows) -> None:
        self._rows = rows

    def note_puts(self, note: Callable[[Windowed, Any, int | None], None]) -> None:
        """``note`` is called with the key, the value and its time (None: it has none) of each put."""
        self._rows.note = note

    def put(self, session_key: Windowed, aggregate: Any) -> None:
        self._put(session_key, aggregate, removes=False)

    def remove(self, session_key: Windowed) -> None:
        self._put(session_key, None, removes=True)

    def _put(self, session_key: Any, aggregate: Any, *, removes: bool) -> None:
        if not isinstance(session_key, Windowed):
            next_step = "write Windowed(key, start, end), both bounds within the session"
            raise ConfigError(str(self._rows.place), "a Windowed key", repr(session_key), next_step)
        key, *bounds = session_key
        self._rows.put(key, (bounds[0], bounds[1]), aggregate, bounds[1], removes=removes)

    def fetch_session(self, key: Any, session_start_ms: int, session_end_ms: int) -> Any:
        row = self._rows.one(key, session_start_ms, session_end_ms)
        return None if row is None else row.value

    def fetch(self, key: Any, last: Any = NOT_GIVEN) -> Iterator[tuple[Windowed, Any]]:
        return self._shown(self._of(key, last))

    def backward_fetch(self, key: Any, last: Any = NOT_GIVEN) -> Iterator[tuple[Windowed, Any]]:
        return self._shown(self._of(key, last)[::-1])

    def find_sessions(self, *bounds: Any) -> Iterator[tuple[Windowed, Any]]:
        return self._shown(self._found(bounds))

    def backward_find_sessions(self, *bounds: Any) -> Iterator[tuple[Windowed, Any]]:
        return self._shown(self._found(bounds)[::-1])

    def _of(self, key: Any, last: Any) -> list[WindowRow]:
        return self._rows.between(key, key if last is NOT_GIVEN else last, (0, _ANY), (0, _ANY))

    def _found(self, bounds: tuple[Any, ...]) -> list[WindowRow]:
        if len(bounds) == 3:
            key, earliest_end_ms, latest_start_ms = bounds
            return self._rows.between(key, key, (0, latest_start_ms), (earliest_end_ms, _ANY))
        if len(bounds) == 4:
            first, last, earliest_end_ms, latest_start_ms = bounds
            return self._rows.between(first, last, (0, latest_start_ms), (earliest_end_ms, _ANY))
        if len(bounds) == 2 and not self._rows.keeper.store_segment_ms:
            return self._rows.between(None, None, (0, _ANY), bounds)
        expected = "find_sessions(key, earliest end, latest start), or of a first and a last key"
        got = f"{len(bounds)} arguments"
        raise ConfigError(
            str(self._rows.place), expected, got, "correct them; by two times looks a store in memory alone"
        )

    def _shown(self, rows: Iterable[WindowRow]) -> Iterator[tuple[Windowed, Any]]:
        return iter([(self._rows.windowed(row), row.value) for row in rows])
