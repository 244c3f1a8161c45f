"""Pairs of topologies, and what the rule of changed code says of the second with the state of the first."""

from collections.abc import Callable
from typing import Any

from jobs.code_record import code_record
from jobs.processing import KeyValues, Processor
from jobs.topology import (
    Consumed,
    JoinWindows,
    KStream,
    Materialized,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from jobs.topology.compatibility import Verdict, Wishes, compare

STRING, LONG, PAGES = Serde.string(), Serde.long(), Serde.json("page string, ms long")
NAMED = Materialized.as_("store")


def clicks(build: Callable[[KStream], Any], *, value: Serde = PAGES, semantics: str = "kafka") -> Topology:
    builder = StreamsBuilder(semantics)
    build(builder.stream("clicks", Consumed(STRING, value)))
    return builder.build()


def verdict(before: Topology, now: Topology, wishes: Wishes | None = None) -> Verdict:
    return compare(code_record(before), code_record(now), {}, wishes)


def said(found: Verdict) -> list[tuple[str, str, bool]]:
    return [(change.place, change.what, change.goes_on) for change in found.changes]


def windowed(windows: object, **options: object) -> Callable[[KStream], Any]:
    return lambda stream: stream.group_by_key().windowed_by(windows).count(Materialized.as_("store", **options))


def folded(**folds: object) -> Callable[[KStream], Any]:
    return lambda stream: stream.group_by_key().aggregate(**folds, materialized=NAMED)


def suppressed(suppress: Suppressed) -> Callable[[KStream], Any]:
    windows = TimeWindows.of_size(10)
    return lambda stream: stream.group_by_key().windowed_by(windows).count(NAMED).suppress(suppress)


def joined(windows: JoinWindows, how: str = "outer_join") -> Callable[[KStream], Any]:
    def build(stream: KStream) -> None:
        other = stream.filter("ms > 3")
        getattr(stream, how)(other, lambda *both: "", windows, returns=STRING, materialized=NAMED, name="join")

    return build


class Nothing(Processor):
    def process(self, record: object) -> None:
        """
        Keeps what it has.
        """


def processed(*stores: KeyValues) -> Callable[[KStream], Any]:
    return lambda stream: stream.process(Nothing, list(stores), name="seen")
