"""Name, kind and retention of an operator's store (Materialized; KIP-889 for versioned ones)."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from ...state.errors import ConfigError, TopologyError
from ...state.times import Duration, duration_ms
from ..functions.call_arguments import CallOptions, checked_class
from ..functions.call_names import Hinting
from ..functions.expressions import Shape
from ..functions.state_stores import KEY_VALUE, SESSION, VERSIONED, WINDOW, StoreSupplier
from ..graph.graph import Graph, StoreSpec
from ..graph.name_rules import check_name
from ..graph.windows import SessionWindows, Windows


@checked_class
@dataclass(frozen=True, slots=True)
class Materialized(CallOptions, Hinting):
    """Name, kind and retention of an operator's store: ``materialized=`` of a call, or beside its steps.

    ``name``: of the store; a generated one if not given. ``store``: "persistent" (as Kafka's default RocksDB) or
    "in_memory"; the two count expired records differently (by segments of at least a minute, or to the millisecond).
    None: what the builder's ``config`` says, else "persistent".
    ``retention``: at least size + grace, or gap + grace. ``history_retention``: of a versioned table, how far back it
    answers as of a time; 0 or more, else ConfigError. ``segment_interval`` more than 0: how Kafka lays out the history
    on disk, which no result shows.
    """

    name: str | None = None
    store: str | None = None
    retention: Duration | None = None
    history_retention: Duration | None = None
    segment_interval: Duration | None = None
    kind: str | None = None
    """Of the supplier that it was made from ("key-value", "window", "session", "versioned key-value")."""

    def __post_init__(self) -> None:
        if self.store not in (None, "persistent", "in_memory"):
            raise ConfigError("Materialized store", '"persistent" or "in_memory"', repr(self.store), "choose one")
        if self.name is not None:
            check_name(self.name)
        history_ms = self.history_retention_ms
        if history_ms is not None and history_ms < 0:
            raise ConfigError("Materialized history_retention", "0 ms or more", f"{history_ms} ms", "correct it")
        if self.retention is not None:
            duration_ms(self.retention, "Materialized retention")
        if self.segment_interval is not None:
            interval_ms = duration_ms(self.segment_interval, "segment_interval")
            if interval_ms < 1:
                raise ConfigError("Materialized segment_interval", "1 ms or more", f"{interval_ms} ms", "correct it")

    @classmethod
    def as_(
        cls, name: str | StoreSupplier, *, store: str | None = None, retention: Duration | None = None
    ) -> "Materialized":
        """A store called ``name``, or one of a supplier (``Stores.in_memory_window_store(…)``), which says its name,
        its kind and its retention. ConfigError for options beside a supplier, and for one whose store would give
        values back without their times, or several of a key.

        Source: ``Materialized.as``.

            >>> show(orders.group_by_key().count(Materialized.as_("counts", store="in_memory")))
            ann: 1 at 1000
            bob: 1 at 2000
            ann: 2 at 61000
        """
        if not isinstance(name, StoreSupplier):
            return cls(name, store, retention)
        if store is not None or retention is not None:
            got = f"store={store!r}, retention={retention!r} beside it"
            raise ConfigError("Materialized.as_", "a supplier alone, which says both", got, "leave them out")
        return cls._of(name)

    @classmethod
    def _of(cls, supplier: StoreSupplier) -> "Materialized":
        kind, store = supplier.kind, "persistent" if supplier.is_persistent else "in_memory"
        if kind in (KEY_VALUE, WINDOW) and not supplier.keeps_times:
            got = "a persistent one that does not: Kafka gives every value the time -1"
            next_step = f"use Stores.persistent_timestamped_{kind.replace('-', '_')}_store(...)"
            raise ConfigError("Materialized.as_", "a supplier of a store that keeps times", got, next_step)
        if supplier.retain_duplicates:
            next_step = "leave retain_duplicates out"
            raise ConfigError("Materialized.as_", "one value of a key and window", "retained duplicates", next_step)
        if kind == VERSIONED:
            return cls(supplier.name, store, history_retention=supplier.retention_ms, kind=kind)
        retention = None if kind == KEY_VALUE else supplier.retention_ms
        return cls(supplier.name, store, retention, kind=kind)

    @classmethod
    def versioned(
        cls, name: str, history_retention: Duration, *, segment_interval: Duration | None = None
    ) -> "Materialized":
        """A store called ``name`` that keeps every key's history for ``history_retention``.

        Source: ``Stores.persistentVersionedKeyValueStore`` (KIP-889).

            >>> materialized = Materialized.versioned("history", "1d")
            >>> show(builder.table("prices", Consumed(STRING, Serde.double()), materialized=materialized))
            tea: 2.0 at 0
            mug: 8.0 at 500
            tea: 3.0 at 60000
        """
        return cls(name, history_retention=history_retention, segment_interval=segment_interval)

    def _keywords(self, parameters: Collection[str]) -> dict[str, Any]:
        return {"materialized": self}

    @property
    def history_retention_ms(self) -> int | None:
        """``history_retention`` in milliseconds."""
        return None if self.history_retention is None else duration_ms(self.history_retention, "history_retention")

    @property
    def is_versioned(self) -> bool:
        """Whether the store keeps every key's history."""
        return self.history_retention is not None

    def spec(self, name: str) -> StoreSpec:
        """The key-value store called ``name``."""
        return StoreSpec(name, self.store != "in_memory", self.history_retention_ms)

    def retention_ms(self, windows: Windows, place: str) -> int:
        """The retention in milliseconds: the one given, or that of ``windows``. ConfigError for one shorter than
        windows live, and for a versioned store; ``place`` names the call in the error.
        """
        if self.is_versioned:
            next_step = "leave history_retention to tables without windows"
            raise ConfigError(f"{place} store", "a window store", "a versioned store", next_step)
        if self.retention is None:
            return windows.retention_ms
        retention_ms = duration_ms(self.retention, "retention")
        if retention_ms < windows.retention_ms:
            expected = f"at least {windows.retention_ms} ms (the windows and their grace)"
            raise ConfigError(f"{place} retention", expected, f"{retention_ms} ms", "give a longer retention")
        return retention_ms


def check_materialized(materialized: object, place: str, windows: Windows | None = None) -> None:
    """Raises TopologyError for anything but a Materialized or None, and for the supplier of another store than
    aggregates of ``windows`` have, or than tables and aggregates without windows.
    """
    if materialized is not None and not isinstance(materialized, Materialized):
        next_step = 'use for example Materialized.as_("store")'
        raise TopologyError(place, "materialized= to be a Materialized", repr(materialized), next_step)
    kind = None if materialized is None else materialized.kind
    wanted = KEY_VALUE if windows is None else (SESSION if isinstance(windows, SessionWindows) else WINDOW)
    if kind not in (None, wanted, VERSIONED):
        got, next_step = f"that of a {kind} store", 'name the store alone: Materialized.as_("store")'
        raise TopologyError(place, f"the supplier of a {wanted} store", got, next_step)


def given_materialized(materialized: object, place: str, graph: Graph, windows: Windows | None = None) -> Materialized:
    """What a call was given, or what holds unless it says otherwise, with the kind of store that ``graph`` has by
    default. TopologyError as ``check_materialized``.
    """
    check_materialized(materialized, place, windows)
    given = materialized if isinstance(materialized, Materialized) else Materialized()
    return given if given.store is not None or given.is_versioned else replace(given, store=graph.default_store)


def check_store(shape: Shape, materialized: Materialized, place: str) -> None:
    """Raises TopologyError for versions of a windowed key, which itself says of when it is."""
    if shape.window is not None and materialized.is_versioned:
        next_step = "give it a store without versions, Materialized.as_(name)"
        raise TopologyError(place, "a table of plain keys for a versioned store", "windowed keys", next_step)
