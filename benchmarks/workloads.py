"""The workloads W1 to W11 and Nexmark's queries, as topologies, with the topics that each reads.

Owns what is counted, the gaps, windows and graces. Rule: nothing else says them again; peers read them from here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import polars as pl

from kstreams_replay.jobs.functions.processor_api import ProcessorContext
from kstreams_replay.jobs.topology import (
    Consumed,
    KeyValues,
    KStream,
    KTable,
    Materialized,
    Processor,
    Record,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    fold,
)

from .click_events import ROBOT, avro_serde, json_serde
from .nexmark import queries

GAP_MS, GRACE_MS, WINDOW_MS, INTERVAL_MS, HISTORY_MS = 30_000, 60_000, 60_000, 10_000, 600_000
"""Of sessions; of sessions and windows; of tumbling windows; of deduplication; of the versioned table."""

TOTALS = Serde.json("clicks long, total long")
USER = Serde.json("clicks long, total long, last array<long>")
"""What the store of W9 has of each key; ``last``: the last LAST values."""
LAST = 10


@dataclass(frozen=True)
class Workload:
    """``topics``: what it reads, the one whose records count first. ``outputs``: topics that it writes.

    ``exact``: a relational form has the same rows, so that all systems must agree. ``slices``: taken in increments of
    10,000 records. ``increments``: taken in so many of equal size. ``changing``: the answer is the last row of each
    key. ``landed``: all programs read the landed bytes, and no typed rows.
    """

    name: str
    words: str
    topics: tuple[str, ...]
    outputs: tuple[str, ...]
    build: Callable[[], Topology]
    exact: bool = False
    slices: bool = False
    increments: int = 1
    changing: bool = False
    landed: bool = False


def _long_topic() -> Consumed:
    return Consumed(Serde.string(), Serde.long())


def _sessions(topic: str) -> Callable[[], Topology]:
    def build() -> Topology:
        builder = StreamsBuilder()
        _counted_sessions(builder.stream(topic, _long_topic())).to("sessions")
        return builder.build()

    return build


def _counted_sessions(stream: KStream) -> KTable:
    """Count and sum by sessions, final results only."""
    return (
        stream.group_by_key()
        .windowed_by(SessionWindows.with_inactivity_gap(GAP_MS, grace=GRACE_MS))
        .aggregate(clicks=fold.count(), total=fold.sum())
        .suppress(Suppressed.until_window_closes())
    )


def _event_sessions(topic: str, serde: Callable[[], Serde]) -> Callable[[], Topology]:
    """Count and sums of the events that are no robot's."""

    def build() -> Topology:
        builder = StreamsBuilder()
        (
            builder.stream(topic, Consumed(Serde.string(), serde()))
            .filter(f"kind <> '{ROBOT}'")
            .group_by_key()
            .windowed_by(SessionWindows.with_inactivity_gap(GAP_MS, grace=GRACE_MS))
            .aggregate(clicks=fold.count(), total=fold.sum("amount"), seconds=fold.sum("seconds"))
            .suppress(Suppressed.until_window_closes())
            .to("sessions")
        )
        return builder.build()

    return build


def _windows() -> Topology:
    builder = StreamsBuilder()
    (
        builder.stream("clicks", _long_topic())
        .group_by_key()
        .windowed_by(TimeWindows.of_size(WINDOW_MS, grace=GRACE_MS))
        .aggregate(clicks=fold.count(), total=fold.sum())
        .suppress(Suppressed.until_window_closes())
        .to("windows")
    )
    return builder.build()


def _first_clicks() -> Topology:
    builder = StreamsBuilder()
    builder.stream("clicks", _long_topic()).deduplicate_by_key(INTERVAL_MS).to("first_clicks")
    return builder.build()


def _versions(builder: StreamsBuilder) -> KTable:
    return builder.table("users", _long_topic(), materialized=Materialized.versioned("users", HISTORY_MS))


def _joined_clicks() -> Topology:
    builder = StreamsBuilder()
    table = _versions(builder)
    builder.stream("clicks", _long_topic()).left_join(table, value="left", user="right").to("joined_clicks")
    return builder.build()


def _joined_tables() -> Topology:
    builder = StreamsBuilder()
    last_clicks, users, items = (builder.table(topic, _long_topic()) for topic in ("clicks", "users", "items"))
    last_clicks.join(users, value="left", user="right").to_stream().to("joined_tables")
    (
        users.join(items, foreign_key=pl.format("item-{}", pl.col("value")), value="left", item="right")
        .to_stream()
        .to("joined_items")
    )
    return builder.build()


def _pipeline() -> Topology:
    builder = StreamsBuilder()
    table = _versions(builder)
    first_clicks = builder.stream("clicks", _long_topic()).deduplicate_by_key(INTERVAL_MS)
    joined = first_clicks.left_join(table, pl.col("left") + pl.col("right").fill_null(0))
    _counted_sessions(joined).to("sessions")
    return builder.build()


def _nothing() -> dict[str, int]:
    return {"clicks": 0, "total": 0}


def _add(key: str, value: int, totals: dict[str, int]) -> dict[str, int]:
    return {"clicks": totals["clicks"] + 1, "total": totals["total"] + value}


def _merge(key: str, one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {"clicks": one["clicks"] + other["clicks"], "total": one["total"] + other["total"]}


def _python_sessions() -> Topology:
    builder = StreamsBuilder()
    (
        builder.stream("clicks", _long_topic())
        .group_by_key()
        .windowed_by(SessionWindows.with_inactivity_gap(GAP_MS, grace=GRACE_MS))
        .aggregate(initializer=_nothing, aggregator=_add, merger=_merge, returns=TOTALS)
        .suppress(Suppressed.until_window_closes())
        .to("sessions")
    )
    return builder.build()


class CountUsers(Processor):
    """Counts, sums and last values by key, in a store; forwards count and sum."""

    def init(self, context: ProcessorContext) -> None:
        self.context, self.users = context, context.store("users")

    def process(self, record: Record) -> None:
        user = self.users.get(record.key) or {"clicks": 0, "total": 0, "last": []}
        user["clicks"] += 1
        user["total"] += record.value
        user["last"] = [*user["last"][1 - LAST :], record.value]
        self.users.put(record.key, user)
        self.context.forward(record.with_value({"clicks": user["clicks"], "total": user["total"]}))


def _processor() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks_of_few", _long_topic())
    clicks.process(CountUsers, [KeyValues("users", Serde.string(), USER)], returns=TOTALS).to("totals")
    return builder.build()


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            "W1", "sessions: count and sum, gap 30 s, grace 60 s, final results", ("clicks",), ("sessions",),
            _sessions("clicks"), exact=True,
        ),
        Workload(
            "W1u", "W1 with uniform keys", ("clicks_uniform",), ("sessions",), _sessions("clicks_uniform"), exact=True
        ),
        Workload(
            "W2", "tumbling windows of 1 min: count and sum, grace 60 s, final results", ("clicks",), ("windows",),
            _windows, exact=True,
        ),
        Workload("W3", "deduplicate by key within 10 s", ("clicks",), ("first_clicks",), _first_clicks),
        Workload(
            "W4", "left join with a versioned table, history 10 min", ("clicks", "users"), ("joined_clicks",),
            _joined_clicks, exact=True,
        ),
        Workload(
            "W5", "table-table join and foreign-key join", ("clicks", "users", "items"),
            ("joined_tables", "joined_items"), _joined_tables,
        ),
        Workload(
            "W6", "W3, then the join of W4, then W1 of the joined sums", ("clicks", "users"), ("sessions",),
            _pipeline,
        ),
        Workload(
            "W7", "W1 with an aggregator in Python", ("clicks",), ("sessions",), _python_sessions, exact=True
        ),
        Workload(
            "W8", "W1 in increments of 10,000 records", ("clicks_in_files",), ("sessions",),
            _sessions("clicks_in_files"), exact=True, slices=True,
        ),
        Workload(
            "W9", "a processor with a JSON key-value store, 10^5 keys, in five increments", ("clicks_of_few",),
            ("totals",), _processor, exact=True, increments=5,
        ),
        Workload(
            "W10", "W1 over JSON of twelve fields, three of them used", ("clicks_json",), ("sessions",),
            _event_sessions("clicks_json", json_serde), exact=True, landed=True,
        ),
        Workload(
            "W11", "the same in Avro with the schema's id", ("clicks_avro",), ("sessions",),
            _event_sessions("clicks_avro", avro_serde), exact=True, landed=True,
        ),
    )
}  # fmt: skip

NEXMARK = {
    query: Workload(
        query, f"Nexmark {query}", queries.TOPICS[query], (query,), partial(queries.build, query),
        exact=True, changing=query in queries.CHANGING, landed=True,
    )
    for query in queries.QUERIES
}  # fmt: skip
WORKLOADS |= NEXMARK
