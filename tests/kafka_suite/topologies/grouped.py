"""KGroupedStreamImplTest and KGroupedTableImplTest."""

from typing import Any

from kstreams_replay.jobs.topology import (
    Consumed,
    KGroupedStream,
    Materialized,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
)
from tests.kafka_suite.playing import DOUBLE, INT, STRING, Stage
from tests.kafka_suite.topologies import plays
from tests.kafka_suite.topologies.words import added, plus, removed, zero

STREAM, TABLE = "KGroupedStreamImplTest.", "KGroupedTableImplTest."


def _grouped(stage: Stage) -> KGroupedStream:
    return stage.stream("topic").group_by_key()


def _stored(stage: Stage, name: str) -> Materialized | None:
    """A store of the test's own name, or one without."""
    return Materialized.as_(name) if name in stage.tape.line["stores"] else None


def _sessions(stage: Stage) -> KGroupedStream:
    gap = 0 if "sessionGapOfZero" in stage.tape.test else 30
    return _grouped(stage).windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(gap))


@plays(f"{STREAM}shouldCountSlidingWindows*", f"{STREAM}shouldCountWindowed*")
def windowed_counts(stage: Stage) -> None:
    windows: Any = TimeWindows.of_size_and_grace(500, 100)
    if "Sliding" in stage.tape.test:
        windows = SlidingWindows.of_time_difference_and_grace(500, 2000)
    stage.watch(_grouped(stage).windowed_by(windows).count(_stored(stage, "aggregate-by-key-windowed")))


@plays(f"{STREAM}shouldAggregateSessionWindows*", f"{STREAM}sessionGapOfZero*")
def aggregated_sessions(stage: Stage) -> None:
    table = _sessions(stage).aggregate(
        initializer=lambda: 0,
        aggregator=lambda key, value, aggregate: aggregate + 1,
        merger=lambda key, one, other: one + other,
        returns=INT,
        materialized=_stored(stage, "session-store"),
    )
    stage.watch(table)


@plays(f"{STREAM}shouldCountSessionWindows*")
def counted_sessions(stage: Stage) -> None:
    stage.watch(_sessions(stage).count(_stored(stage, "session-store")))


@plays(f"{STREAM}shouldReduceSessionWindows*")
def reduced_sessions(stage: Stage) -> None:
    reduced = _sessions(stage).reduce(lambda one, other: f"{one}:{other}", materialized=_stored(stage, "session-store"))
    stage.watch(reduced)


@plays(f"{STREAM}shouldCountAndMaterializeResults", f"{STREAM}shouldLogAndMeasureSkipsInAggregate")
def counts(stage: Stage) -> None:
    _grouped(stage).count(Materialized.as_("count"))


@plays(f"{STREAM}shouldReduceAndMaterializeResults", f"{STREAM}shouldLogAndMeasureSkipsInReduce")
def reduces(stage: Stage) -> None:
    _grouped(stage).reduce(plus, materialized=Materialized.as_("reduce"))


@plays(f"{STREAM}shouldAggregateAndMaterializeResults", f"{STREAM}shouldAggregateWithDefaultSerdes")
def aggregates(stage: Stage) -> None:
    table = _grouped(stage).aggregate(
        initializer=zero, aggregator=added, returns=STRING, materialized=_stored(stage, "aggregate")
    )
    if stage.tape.channels():
        stage.watch(table)


# --- of tables; the test reads a table and groups it before, which nobody uses --------------------------------


@plays(f"{TABLE}shouldReduce*")
def reduced_table(stage: Stage) -> None:
    table = stage.table("input", Consumed(STRING, DOUBLE), materialized=_stored(stage, "store"))
    grouped = table.group_by(lambda key, value: key, lambda key, value: int(value), returns_key=STRING, returns=INT)
    stored = _stored(stage, "reduced") or _stored(stage, "reduce")
    stage.watch(grouped.reduce(lambda one, other: one + other, lambda one, other: one - other, materialized=stored))


@plays(f"{TABLE}shouldCountAndMaterializeResults")
def counted_table(stage: Stage) -> None:
    stage.table("input").group_by("value").count(materialized=Materialized.as_("count"))


@plays(f"{TABLE}shouldAggregateAndMaterializeResults")
def aggregated_table(stage: Stage) -> None:
    stage.table("input").group_by("value").aggregate(
        initializer=zero,
        adder=added,
        subtractor=removed,
        returns=STRING,
        materialized=Materialized.as_("aggregate"),
    )
