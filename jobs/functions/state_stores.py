"""Stores that a processor may have beside plain key-value ones, and how they are asked for (Kafka Streams' ``Stores``).

Rule: a builder says what a store is, as plain data; whoever names the store in ``process(stores=...)`` uses it.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ...state.errors import ConfigError
from ...state.serdes import Serde
from ...state.times import Duration, duration_ms
from .call_names import Hinting, HintingObject, NoDict
from .expressions import Windowed
from .processor_api import KeyValues
from .store_iterators import StoreIterator, give

TIMESTAMPED, WINDOW, TIMESTAMPED_WINDOW = "timestamped key-value", "window", "timestamped window"
SESSION, VERSIONED = "session", "versioned key-value"
TIMESTAMPED_WITH_HEADERS, TIMESTAMPED_WINDOW_WITH_HEADERS, SESSION_WITH_HEADERS = (
    f"{kind} with headers" for kind in (TIMESTAMPED, TIMESTAMPED_WINDOW, SESSION)
)
WINDOWS = (WINDOW, TIMESTAMPED_WINDOW, TIMESTAMPED_WINDOW_WITH_HEADERS)
SESSIONS = (SESSION, SESSION_WITH_HEADERS)
KEY_VALUE = "key-value"
KEY_VALUES = (KEY_VALUE, TIMESTAMPED, TIMESTAMPED_WITH_HEADERS)
WITH_HEADERS = (TIMESTAMPED_WITH_HEADERS, TIMESTAMPED_WINDOW_WITH_HEADERS, SESSION_WITH_HEADERS)
_SEGMENT_MS = 60_000
"""A persistent store drops whole segments, of half the retention, but not below this."""


def key_of_window(place: str, key: Any, start_ms: int, end_ms: int) -> Windowed:
    """A key as an iterator over windows gives it. Raises ConfigError for a window that ends where it begins, as Kafka's
    TimeWindow does: a store of ``place`` may have windows of 0 ms, and its iterators then give none.
    """
    if end_ms <= start_ms:
        next_step = "give the store a window_size of 1 ms or more, or read one key: fetch_range(key, from_ms, to_ms)"
        raise ConfigError(place, "a window that ends after its start", f"{start_ms} ms for both", next_step)
    return Windowed(key, start_ms, end_ms)


@dataclass(frozen=True)
class StoreSupplier:
    """What ``Stores.in_memory_window_store`` and its like give. Times in ms."""

    name: str
    kind: str
    is_persistent: bool
    retention_ms: int = 0
    window_size_ms: int = 0
    retain_duplicates: bool = False
    keeps_times: bool = True
    """False: of a timestamped store of it, times would come back as -1 in Kafka."""
    keeps_headers: bool = True
    """False: of a store with headers of it, headers would not come back in Kafka."""


@dataclass(frozen=True)
class StoreBuilder(KeyValues):
    """A store of another ``kind``; the rest as its supplier says."""

    kind: str = TIMESTAMPED
    is_persistent: bool = True
    retention_ms: int = 0
    window_size_ms: int = 0
    retain_duplicates: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        windows = {"window_size_ms": self.window_size_ms, "retain_duplicates": self.retain_duplicates}
        of_windows = self.kind in WINDOWS
        kept = {"retention_ms": self.retention_ms, "is_persistent": self.is_persistent}
        if self.kind in (*SESSIONS, VERSIONED):
            return {"kind": self.kind} | kept
        return {"kind": self.kind} | (windows | kept if of_windows else {})

    @property
    def segment_ms(self) -> int:
        """Length of the segments that a persistent store drops."""
        return max(self.retention_ms // 2, _SEGMENT_MS)


def store_instead_of(given: Any) -> str:
    """The next step where a store is given that is none of these: a supplier without serdes, or a class of the user's,
    whose content no increment would hand to the next.
    """
    if isinstance(given, StoreSupplier):
        kind = given.kind.replace("-", "_").replace(" ", "_")
        return f"give it serdes: Stores.{kind}_store_builder(supplier, key serde, value serde)"
    if isinstance(given, str | int | float | None):
        return "use KeyValues(name, key serde, value serde)"
    return (
        "use KeyValues(name, key serde, value serde) or a builder of Stores, which increments hand on; "
        "what a store of your own does beside, do in the processor, around context.store(name)"
    )


class WindowStore(HintingObject, NoDict, ABC):
    """Values by key and the start of their window. Times in ms, bounds included on both sides. A put at or below
    (largest start put - retention) is refused, a persistent store's when its whole segment is; older values are gone.

    In a timestamped store values are ``ValueAndTimestamp``, in one with headers ``ValueTimestampHeaders``. Iterators
    show the store as of the call. ``window_start_ms``, ``time_ms``: start of one window; ``from_ms``, ``to_ms``: of
    the earliest and of the latest one.
    """

    called = "WindowStore"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Not ``fetch``: of one window it gives the value itself, which may be a list and is no iterator over rows.
        names = ("fetch_range", "fetch_keys", "fetch_all", "all")
        give(cls, StoreIterator, (*names, *(f"backward_{name}" for name in names)))
        if "fetch" in vars(cls):
            cls.fetch = _of_several_bounds(vars(cls)["fetch"])  # type: ignore[method-assign]

    @abstractmethod
    def put(self, key: Any, value: Any, window_start_ms: int) -> None:
        """Replace the value, or add one if the store retains duplicates; None deletes it (retaining: does nothing)."""

    @abstractmethod
    def fetch(self, key: Any, time_ms: Any, *bounds: Any) -> Any:
        """The value of the window that starts then, or None. Of a store that retains duplicates, as Kafka's answer:
        None, or the value of the last put into a persistent one if that was of this key and time.

        ``fetch(key, from_ms, to_ms)`` is ``fetch_range``, ``fetch(first, last, from_ms, to_ms)`` is ``fetch_keys``:
        ``bounds`` are those behind the second argument. ConfigError for more of them.
        """

    def backward_fetch(self, key: Any, *bounds: Any) -> Iterator[Any]:
        """``backward_fetch_range`` of a ``key`` and the ``bounds`` (from, to), ``backward_fetch_keys`` of two keys."""
        check_fetch("backward_fetch", (key, *bounds))
        call = self.backward_fetch_range if len(bounds) == 2 else self.backward_fetch_keys
        rows: Iterator[Any] = call(key, *bounds)
        return rows

    @abstractmethod
    def fetch_range(self, key: Any, from_ms: int, to_ms: int) -> Iterator[tuple[int, Any]]:
        """(start, value) of the key's windows that start in the range, from the earliest on (Kafka's ``fetch`` of a key
        and two times).
        """

    @abstractmethod
    def backward_fetch_range(self, key: Any, from_ms: int, to_ms: int) -> Iterator[tuple[int, Any]]:
        """As ``fetch_range``, from the latest on."""

    @abstractmethod
    def fetch_keys(self, first: Any, last: Any, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        """(windowed key, value) of keys from ``first`` to ``last`` (None: no bound), in the store's order. An
        in-memory store orders by start, then key; a persistent one by segment, key, start (Kafka's ``fetch`` of two
        keys and two times).
        """

    @abstractmethod
    def backward_fetch_keys(self, first: Any, last: Any, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        """As ``fetch_keys``, ``first`` and ``last`` included, from the last on."""

    @abstractmethod
    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        """Of all keys, in the store's order."""

    @abstractmethod
    def backward_fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        """As ``fetch_all``, from the last on."""

    @abstractmethod
    def all(self) -> Iterator[tuple[Windowed, Any]]:
        """Everything, in the store's order."""

    @abstractmethod
    def backward_all(self) -> Iterator[tuple[Windowed, Any]]:
        """As ``all``, from the last on."""


def _of_several_bounds(fetch: Callable[..., Any]) -> Callable[..., Any]:
    """``fetch`` of a key and a time, also as Kafka's of a key and two times, and of two keys and two times."""

    @functools.wraps(fetch)
    def fetching(self: WindowStore, *bounds: Any) -> Any:
        check_fetch("fetch", bounds)
        if len(bounds) == 2:
            return fetch(self, *bounds)
        return (self.fetch_range if len(bounds) == 3 else self.fetch_keys)(*bounds)

    return fetching


def check_fetch(call: str, bounds: tuple[Any, ...]) -> None:
    """Raises ConfigError for a ``call``, fetch or backward_fetch of a window store, with too few or many ``bounds``."""
    takes_time = call == "fetch"
    if 3 - takes_time <= len(bounds) <= 4:
        return
    of_one = f"{call}(key, time), " if takes_time else ""
    expected = f"{of_one}{call}(key, from, to) or {call}(first, last, from, to)"
    got = f"{len(bounds)} argument{'s' * (len(bounds) != 1)}"
    raise ConfigError(f"WindowStore.{call}", expected, got, "correct them")


class Stores(Hinting):
    """Builders of stores, in Kafka's names: ``Stores.window_store_builder(Stores.in_memory_window_store("hours", "1d",
    "1h"), Serde.string(), Serde.long())``. A processor's stores are all kept in its table; "persistent" and "in memory"
    decide only by which of Kafka's rules they work (order and expiry of windows).

    Parameters of the suppliers: ``name`` of the store; ``retention``, how long windows or sessions are kept by stream
    time; ``window_size``, at most the retention; ``retain_duplicates``: several values of a key and window are kept.
    Durations are milliseconds or text such as "1h". Parameters of the builders: ``supplier``, what one of the calls
    above gives, and the serdes of ``key`` and ``value``. ConfigError for a supplier of another kind.
    """

    @staticmethod
    def in_memory_key_value_store(name: str) -> StoreSupplier:
        """Keys in the order of their bytes."""
        return StoreSupplier(name, KEY_VALUE, is_persistent=False)

    @staticmethod
    def persistent_key_value_store(name: str) -> StoreSupplier:
        """Keys in the order of their bytes, as of the in-memory one."""
        return StoreSupplier(name, KEY_VALUE, is_persistent=True, keeps_times=False, keeps_headers=False)

    @staticmethod
    def persistent_timestamped_key_value_store(name: str) -> StoreSupplier:
        """For values with their times."""
        return StoreSupplier(name, KEY_VALUE, is_persistent=True, keeps_headers=False)

    @staticmethod
    def persistent_timestamped_key_value_store_with_headers(name: str) -> StoreSupplier:
        """For values with their times and headers; values with times alone need another supplier (KIP-1271)."""
        return StoreSupplier(name, KEY_VALUE, is_persistent=True, keeps_times=False)

    @staticmethod
    def in_memory_window_store(
        name: str, retention: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> StoreSupplier:
        """Values expire to the millisecond. ConfigError for a negative size or retention, and a size above it."""
        return _windows(name, retention, window_size, retain_duplicates, is_persistent=False)

    @staticmethod
    def persistent_window_store(
        name: str, retention: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> StoreSupplier:
        """Puts are refused by segments of half the retention, at least a minute. ConfigError as the other."""
        supplier = _windows(name, retention, window_size, retain_duplicates, is_persistent=True)
        return replace(supplier, keeps_times=False, keeps_headers=False)

    @staticmethod
    def persistent_timestamped_window_store(
        name: str, retention: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> StoreSupplier:
        """The same for values with their times."""
        supplier = _windows(name, retention, window_size, retain_duplicates, is_persistent=True)
        return replace(supplier, keeps_headers=False)

    @staticmethod
    def persistent_timestamped_window_store_with_headers(
        name: str, retention: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> StoreSupplier:
        """The same for values with their times and headers (KIP-1271)."""
        return _windows(name, retention, window_size, retain_duplicates, is_persistent=True)

    @staticmethod
    def in_memory_session_store(name: str, retention: Duration) -> StoreSupplier:
        """Sessions expire to the millisecond, by their ends. ConfigError for a negative retention."""
        return _sessions(name, retention, is_persistent=False)

    @staticmethod
    def persistent_session_store(name: str, retention: Duration) -> StoreSupplier:
        """Puts are refused by segments of half the retention, at least a minute. ConfigError as the other."""
        return replace(_sessions(name, retention, is_persistent=True), keeps_headers=False)

    @staticmethod
    def persistent_session_store_with_headers(name: str, retention: Duration) -> StoreSupplier:
        """The same for aggregates with headers (KIP-1271)."""
        return _sessions(name, retention, is_persistent=True)

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> StoreSupplier:
        """Versions by key and time, as far back as ``history_retention``. ``segment_interval``: how Kafka's files are
        cut, which changes no answer. ConfigError for a negative retention and an interval below 1 ms.
        """
        if segment_interval is not None and (interval_ms := duration_ms(segment_interval, "segment_interval")) < 1:
            raise ConfigError(
                f"store {name!r}", "a segment interval of 1 ms or more", f"{interval_ms} ms", "correct it"
            )
        retention_ms = _retention_ms(name, VERSIONED, history_retention)
        return StoreSupplier(name, VERSIONED, is_persistent=True, retention_ms=retention_ms)

    @staticmethod
    def session_store_builder(supplier: StoreSupplier, key: Serde, value: Serde) -> StoreBuilder:
        """A ``SessionStore``."""
        _check(supplier, "session_store_builder", SESSION)
        return StoreBuilder(supplier.name, key, value, SESSION, supplier.is_persistent, supplier.retention_ms)

    @staticmethod
    def session_store_with_headers_builder(supplier: StoreSupplier, key: Serde, value: Serde) -> StoreBuilder:
        """A ``SessionStore`` of ``AggregationWithHeaders``."""
        call = "session_store_with_headers_builder"
        _check(supplier, call, SESSION)
        _check_headers(supplier, call, "persistent_session_store_with_headers")
        kind = SESSION_WITH_HEADERS
        return StoreBuilder(supplier.name, key, value, kind, supplier.is_persistent, supplier.retention_ms)

    @staticmethod
    def versioned_key_value_store_builder(supplier: StoreSupplier, key: Serde, value: Serde) -> StoreBuilder:
        """A ``VersionedKeyValueStore``."""
        _check(supplier, "versioned_key_value_store_builder", VERSIONED)
        return StoreBuilder(supplier.name, key, value, VERSIONED, supplier.is_persistent, supplier.retention_ms)

    @staticmethod
    def lru_map(name: str, max_cache_size: int) -> StoreSupplier:
        """Raises ConfigError. Kafka's map keeps the ``max_cache_size`` keys that were used last, and loses the order of
        their use when a task starts again, so results would depend on where increments are cut.
        """
        expected = "a store whose content does not depend on where a task began"
        next_step = "use in_memory_key_value_store, and delete what is old by a schedule"
        raise ConfigError(f"store {name!r}", expected, "Stores.lru_map", next_step)

    @staticmethod
    def key_value_store_builder(supplier: StoreSupplier, key: Serde, value: Serde) -> KeyValues:
        """``KeyValues(name, key, value)``."""
        _check(supplier, "key_value_store_builder", KEY_VALUE)
        return KeyValues(supplier.name, key, value)

    @staticmethod
    def timestamped_key_value_store_builder(supplier: StoreSupplier, key: Serde, value: Serde) -> StoreBuilder:
        """A key-value store of ``ValueAndTimestamp``, as those of tables."""
        call = "timestamped_key_value_store_builder"
        _check(supplier, call, KEY_VALUE)
        _check_times(supplier, call, "persistent_timestamped_key_value_store")
        return StoreBuilder(supplier.name, key, value, TIMESTAMPED, supplier.is_persistent)

    @staticmethod
    def timestamped_key_value_store_with_headers_builder(
        supplier: StoreSupplier, key: Serde, value: Serde
    ) -> StoreBuilder:
        """A key-value store of ``ValueTimestampHeaders``."""
        call = "timestamped_key_value_store_with_headers_builder"
        _check(supplier, call, KEY_VALUE)
        _check_headers(supplier, call, "persistent_timestamped_key_value_store_with_headers")
        return StoreBuilder(supplier.name, key, value, TIMESTAMPED_WITH_HEADERS, supplier.is_persistent)

    @staticmethod
    def window_store_builder(supplier: StoreSupplier, key: Serde, value: Serde) -> StoreBuilder:
        """A ``WindowStore``."""
        _check(supplier, "window_store_builder", WINDOW)
        return _window_builder(supplier, key, value, WINDOW)

    @staticmethod
    def timestamped_window_store_builder(supplier: StoreSupplier, key: Serde, value: Serde) -> StoreBuilder:
        """A ``WindowStore`` of ``ValueAndTimestamp``."""
        call = "timestamped_window_store_builder"
        _check(supplier, call, WINDOW)
        _check_times(supplier, call, "persistent_timestamped_window_store")
        return _window_builder(supplier, key, value, TIMESTAMPED_WINDOW)

    @staticmethod
    def timestamped_window_store_with_headers_builder(
        supplier: StoreSupplier, key: Serde, value: Serde
    ) -> StoreBuilder:
        """A ``WindowStore`` of ``ValueTimestampHeaders``."""
        call = "timestamped_window_store_with_headers_builder"
        _check(supplier, call, WINDOW)
        _check_headers(supplier, call, "persistent_timestamped_window_store_with_headers")
        return _window_builder(supplier, key, value, TIMESTAMPED_WINDOW_WITH_HEADERS)


def _windows(
    name: str, retention: Duration, window_size: Duration, retain_duplicates: bool, *, is_persistent: bool
) -> StoreSupplier:
    retention_ms, size_ms = duration_ms(retention, "retention"), duration_ms(window_size, "window_size")
    place = f"window store {name!r}"
    if retention_ms < 0 or size_ms < 0:
        got = f"{retention_ms} ms and {size_ms} ms"
        raise ConfigError(place, "a retention and a window size of 0 ms or more", got, "correct them")
    if size_ms > retention_ms:
        got = f"{retention_ms} ms, and windows of {size_ms} ms"
        raise ConfigError(place, "a retention that is no smaller than its window size", got, "keep windows longer")
    return StoreSupplier(name, WINDOW, is_persistent, retention_ms, size_ms, retain_duplicates)


def _sessions(name: str, retention: Duration, *, is_persistent: bool) -> StoreSupplier:
    return StoreSupplier(name, SESSION, is_persistent, _retention_ms(name, SESSION, retention))


def _retention_ms(name: str, kind: str, retention: Duration) -> int:
    retention_ms = duration_ms(retention, "retention")
    if retention_ms < 0:
        raise ConfigError(f"{kind} store {name!r}", "a retention of 0 ms or more", f"{retention_ms} ms", "correct it")
    return retention_ms


_EXAMPLES = {
    KEY_VALUE: "in_memory_key_value_store(...)",
    WINDOW: "in_memory_window_store(...)",
    SESSION: 'in_memory_session_store("visits", "1d")',
    VERSIONED: 'persistent_versioned_key_value_store("prices", "1d")',
}


def _check(supplier: Any, call: str, kind: str) -> None:
    if not isinstance(supplier, StoreSupplier) or supplier.kind != kind:
        next_step = f"use for example Stores.{_EXAMPLES[kind]}"
        raise ConfigError(f"Stores.{call}", f"the supplier of a {kind} store", repr(supplier), next_step)


def _check_times(supplier: StoreSupplier, call: str, keeping: str) -> None:
    if not supplier.keeps_times:
        got = "a persistent one that does not: Kafka gives every value the time -1"
        raise ConfigError(f"Stores.{call}", "a supplier of a store that keeps times", got, f"use Stores.{keeping}(...)")


def _check_headers(supplier: StoreSupplier, call: str, keeping: str) -> None:
    if not supplier.keeps_headers:
        got = "a persistent one that does not: Kafka gives values back without their headers"
        expected = "a supplier of a store that keeps headers"
        raise ConfigError(f"Stores.{call}", expected, got, f"use Stores.{keeping}(...)")


def _window_builder(supplier: StoreSupplier, key: Serde, value: Serde, kind: str) -> StoreBuilder:
    sizes = supplier.retention_ms, supplier.window_size_ms, supplier.retain_duplicates
    return StoreBuilder(supplier.name, key, value, kind, supplier.is_persistent, *sizes)
