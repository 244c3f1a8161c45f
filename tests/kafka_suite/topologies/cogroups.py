"""CogroupedKStreamImplTest and those of its windowed forms."""

from typing import Any

from kstreams_replay.jobs.topology import (
    CogroupedKStream,
    KGroupedStream,
    Materialized,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
)
from tests.kafka_suite.playing import INT, STRING, STRING_INT, STRINGS, Stage
from tests.kafka_suite.topologies import plays
from tests.kafka_suite.topologies.words import added, merged, plus, removed, zero

PLAIN = "CogroupedKStreamImplTest."
TIME, SESSION = "TimeWindowedCogroupedKStreamImplTest.", "SessionWindowedCogroupedKStreamImplTest."
SLIDING = "SlidingWindowedCogroupedKStreamImplTest."


def joined(key: Any, value: str, aggregate: str) -> str:
    return aggregate + value


def parsed(key: Any, value: str, aggregate: int) -> int:
    return aggregate + int(value)


def summed(key: Any, value: int, aggregate: int) -> int:
    return aggregate + value


def grouped(stage: Stage, topic: str) -> KGroupedStream:
    return stage.stream(topic).group_by_key()


@plays(f"{PLAIN}shouldCogroupAndAggregateSingleKStreams", f"{PLAIN}testCogroupHandleNullValues")
def one(stage: Stage) -> None:
    table = grouped(stage, "one").cogroup(joined).aggregate(lambda: "", returns=STRING)
    stage.to(table, "output")


@plays(f"{PLAIN}shouldCogroupAndAggregateTwoKStreams*", f"{PLAIN}testCogroupWithThreeGroupedStreams")
def some(stage: Stage) -> None:
    cogrouped = grouped(stage, "one").cogroup(joined).cogroup(grouped(stage, "two"), joined)
    if "Three" in stage.tape.test:
        cogrouped = cogrouped.cogroup(grouped(stage, "three"), joined)
    stage.to(cogrouped.aggregate(lambda: "", returns=STRING), "output")


@plays(f"{PLAIN}shouldAllowDifferentOutputTypeInCoGroup", f"{PLAIN}shouldCoGroupStreamsWithDifferentInputTypes")
def sums(stage: Stage) -> None:
    differs = "DifferentInput" in stage.tape.test
    other = stage.stream("two", STRING_INT if differs else STRINGS).group_by_key()
    cogrouped = grouped(stage, "one").cogroup(parsed).cogroup(other, summed if differs else parsed)
    stage.to(cogrouped.aggregate(lambda: 0, returns=INT, materialized=Materialized.as_("store1")), "output")


@plays(f"{PLAIN}testCogroupKeyMixedAggregators")
def mixed(stage: Stage) -> None:
    cogrouped = grouped(stage, "one").cogroup(removed).cogroup(grouped(stage, "two"), added)
    stage.to(cogrouped.aggregate(zero, returns=STRING, materialized=Materialized.as_("store1")), "output")


@plays(f"{PLAIN}testCogroupWithKTableKTableInnerJoin")
def with_table(stage: Stage) -> None:
    cogrouped = grouped(stage, "one").cogroup(joined).cogroup(grouped(stage, "two"), joined)
    left = cogrouped.aggregate(lambda: "", returns=STRING, materialized=Materialized.as_("store"), name="name")
    right = stage.table("three")
    stage.to(left.join(right, plus, returns=STRING, materialized=Materialized()), "output")


def both(stage: Stage) -> CogroupedKStream:
    return grouped(stage, "topic").cogroup(added).cogroup(grouped(stage, "topic2"), removed)


def first(stage: Stage) -> CogroupedKStream:
    """The test's second topic is read all the same."""
    groups = [grouped(stage, topic) for topic in ("topic", "topic2")]
    return groups[0].cogroup(added)


TUMBLING = TimeWindows.of_size_with_no_grace(500)
OF_BOTH = {
    f"{TIME}timeWindowAggregateTestStreamsTest": TUMBLING,
    f"{TIME}timeWindowMixAggregatorsTest": TUMBLING,
    f"{TIME}timeWindowMixAggregatorsManyWindowsTest": TUMBLING,
    f"{SLIDING}slidingWindowAggregateStreamsTest": SlidingWindows.of_time_difference_and_grace(500, 2000),
}
OF_FIRST = {
    f"{TIME}timeWindowAggregateManyWindowsTest": TUMBLING,
    f"{TIME}timeWindowAggregateOverlappingWindowsTest": TUMBLING.advance_by(200),
    f"{SLIDING}slidingWindowAggregateOverlappingWindowsTest": SlidingWindows.of_time_difference_and_grace(500, 2000),
}


@plays(*OF_BOTH, *OF_FIRST)
def windowed(stage: Stage) -> None:
    test = stage.tape.test
    cogrouped = both(stage) if test in OF_BOTH else first(stage)
    windows = OF_BOTH.get(test) or OF_FIRST[test]
    stage.to(cogrouped.windowed_by(windows).aggregate(zero, returns=STRING), "output")


@plays(f"{SESSION}sessionWindowAggregateTest", f"{SESSION}sessionWindowAggregate2Test")
def sessions_of_one(stage: Stage) -> None:
    windows = SessionWindows.of_inactivity_gap_with_no_grace(500)
    table = first(stage).windowed_by(windows).aggregate(zero, merger=merged, returns=STRING)
    stage.to(table, "output")


@plays(f"{SESSION}sessionWindowAggregateTest2StreamsTest", f"{SESSION}sessionWindowMix*")
def sessions_of_both(stage: Stage) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(100, "1d")
    table = both(stage).windowed_by(windows).aggregate(zero, merger=merged, returns=STRING)
    stage.to(table, "output")
