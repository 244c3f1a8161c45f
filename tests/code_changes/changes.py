"""Pairs of topologies, and what the rule of changed code says of the second with the state of the first."""

from collections.abc import Callable
from typing import Any

from kstreams_replay.jobs.code_changes.code_snapshot import code_snapshot
from kstreams_replay.jobs.code_changes.compatibility import Compatibility, StateRequests, compare
from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor
from kstreams_replay.jobs.functions.state_stores import Stores
from kstreams_replay.jobs.topology import (
    BufferConfig,
    Consumed,
    JoinWindows,
    KStream,
    Materialized,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    fold,
)

STRING, LONG, PAGES = Serde.string(), Serde.long(), Serde.json("page string, ms long")
NAMED = Materialized.as_("store")
Build = Callable[[KStream], Any]


def clicks(build: Build, *, value: Serde = PAGES, semantics: str = "kafka") -> Topology:
    builder = StreamsBuilder(semantics)
    build(builder.stream("clicks", Consumed(STRING, value)))
    return builder.build()


def verdict(before: Topology, now: Topology, requests: StateRequests | None = None) -> Compatibility:
    return compare(code_snapshot(before), code_snapshot(now), {}, requests)


def said(found: Compatibility) -> list[tuple[str, str, bool]]:
    return [(change.place, change.what, change.goes_on) for change in found.changes]


def windowed(windows: object, **options: object) -> Build:
    return lambda stream: stream.group_by_key().windowed_by(windows).count(Materialized.as_("store", **options))


def folded(**folds: object) -> Build:
    return lambda stream: stream.group_by_key().aggregate(**folds, materialized=NAMED)


def taken_back(**folds: object) -> Build:
    return lambda stream: stream.to_table().group_by("page").aggregate(**folds, materialized=NAMED)


def suppressed(suppress: Suppressed, size: int = 10) -> Build:
    windows = TimeWindows.of_size(size)
    return lambda stream: stream.group_by_key().windowed_by(windows).count(NAMED).suppress(suppress)


def joined(windows: JoinWindows, how: str = "outer_join") -> Build:
    def build(stream: KStream) -> None:
        other = stream.filter("ms > 3")
        getattr(stream, how)(other, lambda one, other: "", windows, returns=STRING, materialized=NAMED, name="join")

    return build


class Nothing(Processor):
    def process(self, record: object) -> None:
        """
        Keeps what it has.
        """


def window_store(retention: int, size: int = 10) -> KeyValues:
    return Stores.window_store_builder(Stores.in_memory_window_store("a", retention, size), STRING, LONG)


def processed(*stores: KeyValues) -> Build:
    return lambda stream: stream.process(Nothing, list(stores), name="seen")


SIZE = TimeWindows.of_size(10)
ONE_FOLD, TWO_FOLDS = folded(n=fold.count()), folded(n=fold.count(), ms=fold.sum("ms"))
GOES_ON: dict[str, tuple[Build, Build, set[str]]] = {
    "a longer grace": (windowed(SIZE), windowed(TimeWindows.of_size(10, grace=5)), {"grace_ms", "retention_ms"}),
    "a shorter retention": (windowed(SIZE, retention=90), windowed(SIZE, retention=50), {"retention_ms"}),
    "another kind of store": (windowed(SIZE), windowed(SIZE, store="in_memory"), {"is_persistent"}),
    "another emit strategy": (
        windowed(SIZE),
        lambda stream: stream.group_by_key().windowed_by(SIZE).emit_strategy("on_window_close").count(NAMED),
        {"emit"},
    ),
    "a fold more": (ONE_FOLD, TWO_FOLDS, {"column aggregate", "fold 'ms'"}),
    "a fold less": (TWO_FOLDS, ONE_FOLD, {"column aggregate", "fold 'ms'"}),
    "another filter": (
        lambda stream: stream.filter("ms > 3").group_by_key().count(NAMED),
        lambda stream: stream.filter("ms > 4").group_by_key().count(NAMED),
        {"steps"},
    ),
    "another Python function": (
        lambda stream: stream.group_by_key().reduce(lambda one, other: one, materialized=NAMED),
        lambda stream: stream.group_by_key().reduce(lambda one, other: other, materialized=NAMED),
        {"functions"},
    ),
    "another bound of a buffer": (
        suppressed(Suppressed.until_window_closes(name="held")),
        suppressed(Suppressed.until_window_closes(BufferConfig.max_records(5).spill_to_disk_when_full(), name="held")),
        {"max_records", "when_full"},
    ),
    "another wait of a buffer": (
        suppressed(Suppressed.until_time_limit(5, name="held")),
        suppressed(Suppressed.until_time_limit(9, name="held")),
        {"wait_ms"},
    ),
    "another interval of duplicates": (
        lambda stream: stream.deduplicate_by_key(5, name="once"),
        lambda stream: stream.deduplicate_by_key(9, name="once"),
        {"interval_ms"},
    ),
    "another wait of records": (
        lambda stream: stream.reorder_within(5, name="ordered"),
        lambda stream: stream.reorder_within(9, name="ordered"),
        {"grace_ms"},
    ),
    "another grace of a join": (
        joined(JoinWindows.of_time_difference_and_grace(5, 1)),
        joined(JoinWindows.of_time_difference_and_grace(5, 2)),
        {"grace_ms"},
    ),
    "a processor's store more": (
        processed(KeyValues("a", STRING, LONG)),
        processed(KeyValues("a", STRING, LONG), KeyValues("b", STRING, LONG)),
        {"store 'b'"},
    ),
    "a processor's windows kept longer": (
        processed(window_store(100)),
        processed(window_store(200)),
        {"store 'a' retention_ms"},
    ),
    "a processor's values with a field more": (
        processed(KeyValues("a", STRING, Serde.json("n long"))),
        processed(KeyValues("a", STRING, Serde.json("n long, m long"))),
        {"store 'a' value"},
    ),
    "a node that was renamed": (
        lambda stream: stream.group_by_key().count(NAMED, name="one"),
        lambda stream: stream.group_by_key().count(NAMED, name="other"),
        set(),
    ),
}  # fmt: skip
