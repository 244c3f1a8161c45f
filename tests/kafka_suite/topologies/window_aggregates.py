"""KStreamSlidingWindowAggregateTest and KStreamWindowAggregateTest: aggregates of hopping and sliding windows.

Rule: parameters are the emit strategy, the order in which a store's iterator goes, and the cache, which changes nothing
here. ``InOrder…`` is a store of the test's own whose iterators go forward where those of Kafka's stores go backward: of
what one record causes the order is not compared then.
"""

from collections.abc import Callable
from typing import Any

from kstreams_replay.jobs.topology import (
    KGroupedStream,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
)
from tests.kafka_suite.playing import STRING, Stage
from tests.kafka_suite.topologies import plays
from tests.kafka_suite.topologies.words import added, java_text, merged, plus, zero

SLIDING, HOPPING = "KStreamSlidingWindowAggregateTest.", "KStreamWindowAggregateTest."


def is_final(stage: Stage) -> bool:
    """Whether windows leave when they close."""
    return "ON_WINDOW_CLOSE" in stage.tape.parameters


def emitted(stage: Stage, windowed: KGroupedStream) -> KGroupedStream:
    return windowed.emit_strategy("on_window_close") if is_final(stage) else windowed


def store_of(stage: Stage, number: int = 0, retention: int = 50_000) -> Materialized:
    """The store as the tape names it; those in memory are ``InOrder…`` and ``Reverse…``."""
    name = sorted(stage.tape.line["stores"])[number]
    if name.startswith(("InOrder", "Reverse")):
        stage.is_order_kept = not name.startswith("InOrder")
        return Materialized.as_(name, store="in_memory", retention=retention)
    return Materialized.as_(name)


def strings(windowed: KGroupedStream, materialized: Materialized | None = None) -> KTable:
    """``0+value+value…``"""
    return windowed.aggregate(initializer=zero, aggregator=added, returns=STRING, materialized=materialized)


def sliding(stage: Stage, difference: int, grace: int, topic: str | None = None) -> KGroupedStream:
    windows = SlidingWindows.of_time_difference_and_grace(difference, grace)
    read = topic or next(iter(stage.tape.line["inputs"]))
    return emitted(stage, stage.stream(read).group_by_key().windowed_by(windows))


SMALL = {"testAggregateSmallInput": (10, 5), "testEarlyRecordsSmallInput": (50, 0)}
SMALL |= {"testEarlyRecordsRepeatedInput": (5, 0), "testEarlyNoGracePeriodSmallInput": (50, 0)}
SMALL |= {"testNoGracePeriodSmallInput": (50, 0)}


@plays(*(f"{SLIDING}{test}" for test in SMALL))
def sliding_small(stage: Stage) -> None:
    stage.watch(strings(sliding(stage, *SMALL[stage.tape.line["method"]]), store_of(stage)))


@plays(f"{SLIDING}testReduceSmallInput")
def sliding_reduce(stage: Stage) -> None:
    stage.watch(sliding(stage, 10, 5).reduce(plus, materialized=store_of(stage)))


FINAL_GRACE = {"testAggregateLargeInput": 10, "testEarlyRecordsLargeInput": 1}


@plays(f"{SLIDING}testAggregateLargeInput", f"{SLIDING}testEarlyRecordsLargeInput")
def sliding_large(stage: Stage) -> None:
    grace = FINAL_GRACE[stage.tape.line["method"]] if is_final(stage) else 50
    stage.watch(strings(sliding(stage, 10, grace), store_of(stage)))


@plays(f"{SLIDING}testEarlyNoGracePeriodLargeInput", f"{SLIDING}testNoGracePeriodLargeInput")
def sliding_without_grace(stage: Stage) -> None:
    stage.watch(strings(sliding(stage, 10, 0), store_of(stage, retention=500)))


@plays(f"{SLIDING}testAggregateRandomInput")
def sliding_random(stage: Stage) -> None:
    letters = sliding(stage, 10, 100).aggregate(
        initializer=lambda: "",
        aggregator=lambda key, value, letters: "".join(sorted(letters + value)),
        returns=STRING,
        materialized=store_of(stage),
    )
    stage.watch(letters)


@plays(f"{SLIDING}shouldLogAndMeterWhenSkippingNullKey")
def sliding_null_key(stage: Stage) -> None:
    strings(sliding(stage, 10, 100), store_of(stage))


@plays(f"{SLIDING}shouldLogAndMeterWhenSkippingExpiredWindowByGrace")
def sliding_late(stage: Stage) -> None:
    stage.to(strings(sliding(stage, 10, 90), store_of(stage)), "output")


def _joined(stage: Stage, windowed: Callable[[str], KGroupedStream]) -> None:
    one, other = (strings(windowed(f"topic{number + 1}"), store_of(stage, number)) for number in (0, 1))
    joined = one.join(other, lambda left, right: f"{left}%{right}", returns=STRING)
    for table in (one, other, joined):
        stage.watch(table)


@plays(f"{SLIDING}testJoin")
def sliding_join(stage: Stage) -> None:
    _joined(stage, lambda topic: sliding(stage, 10, 0 if is_final(stage) else 100, topic))


def hopping(stage: Stage, grace: int, advance: int = 5, topic: str | None = None) -> KGroupedStream:
    windows = TimeWindows.of_size_and_grace(10, grace).advance_by(advance)
    read = topic or next(iter(stage.tape.line["inputs"]))
    return emitted(stage, stage.stream(read).group_by_key().windowed_by(windows))


@plays(f"{HOPPING}testAggBasic")
def hopping_basic(stage: Stage) -> None:
    stage.watch(strings(hopping(stage, 100), store_of(stage)))


@plays(f"{HOPPING}testJoin")
def hopping_join(stage: Stage) -> None:
    grace = 5 if is_final(stage) else 100
    one = strings(hopping(stage, grace, topic="topic1"), store_of(stage, 0))
    stage.watch(one)
    other = strings(hopping(stage, grace, topic="topic2"), store_of(stage, 1))
    stage.watch(other)
    stage.watch(one.join(other, lambda left, right: f"{left}%{right}", returns=STRING))


@plays(f"{HOPPING}shouldLogAndMeterWhenSkippingNullKey")
def hopping_null_key(stage: Stage) -> None:
    strings(hopping(stage, 0), store_of(stage))


@plays(f"{HOPPING}shouldLogAndMeterWhenSkippingExpiredWindow*")
def hopping_late(stage: Stage) -> None:
    advance = 10 if "ByGrace" in stage.tape.test else 5
    windowed = hopping(stage, 90, advance).aggregate(
        initializer=lambda: "", aggregator=added, returns=STRING, materialized=store_of(stage)
    )
    texts = windowed.to_stream().map(lambda key, value: (java_text(key), value), returns_key=STRING, returns=STRING)
    stage.to(texts, "output")


# --- what a windowed stream can be made into -----------------------------------------------------------------

TIME, SESSION, LOOKING_BACK = (
    "TimeWindowedKStreamImplTest.",
    "SessionWindowedKStreamImplTest.",
    "SlidingWindowedKStreamImplTest.",
)


def _windowed(stage: Stage) -> KGroupedStream:
    windows: Any = SlidingWindows.of_time_difference_and_grace(100, 1000)
    if stage.tape.test.startswith(TIME):
        windows = TimeWindows.of_size_with_no_grace(500)
    if stage.tape.test.startswith(SESSION):
        windows = SessionWindows.of_inactivity_gap_with_no_grace(500)
    return emitted(stage, stage.stream("input").group_by_key().windowed_by(windows))


def _strings(stage: Stage, windowed: KGroupedStream, materialized: Materialized | None = None) -> KTable:
    merger = merged if stage.tape.test.startswith(SESSION) else None
    return windowed.aggregate(
        initializer=zero, aggregator=added, merger=merger, returns=STRING, materialized=materialized
    )


@plays(
    f"{TIME}shouldCountWindowed", f"{SESSION}shouldCountSessionWindowed*", f"{LOOKING_BACK}shouldCountSlidingWindows"
)
def counts(stage: Stage) -> None:
    stage.watch(_windowed(stage).count())


@plays(f"{TIME}shouldReduceWindowed", f"{SESSION}shouldReduceWindowed", f"{LOOKING_BACK}shouldReduceSlidingWindows")
def reduces(stage: Stage) -> None:
    stage.watch(_windowed(stage).reduce(plus))


@plays(f"{TIME}shouldAggregateWindowed", f"{SESSION}shouldAggregate*", f"{LOOKING_BACK}shouldAggregateSlidingWindows")
def aggregates(stage: Stage) -> None:
    stage.watch(_strings(stage, _windowed(stage)))


@plays(*(f"{each}shouldMaterializeCount" for each in (TIME, SESSION, LOOKING_BACK)))
def stored_counts(stage: Stage) -> None:
    _windowed(stage).count(Materialized.as_("count-store"))


@plays(*(f"{each}shouldMaterializeReduced" for each in (TIME, SESSION, LOOKING_BACK)))
def stored_reduces(stage: Stage) -> None:
    """The test with time windows leaves the emit strategy out here."""
    windowed = _windowed(stage)
    if stage.tape.test.startswith(TIME):
        windowed = windowed.emit_strategy("on_window_update")
    windowed.reduce(plus, materialized=Materialized.as_("reduced"))


@plays(*(f"{each}shouldMaterializeAggregated" for each in (TIME, SESSION, LOOKING_BACK)))
def stored_aggregates(stage: Stage) -> None:
    windowed = _windowed(stage)
    if stage.tape.test.startswith(TIME):
        windowed = windowed.emit_strategy("on_window_update")
    _strings(stage, windowed, Materialized.as_("aggregated"))


@plays(f"{LOOKING_BACK}shouldDropWindowsOutsideOfRetention")
def short_retention(stage: Stage) -> None:
    stored = Materialized.as_("aggregated", store="in_memory", retention=1200)
    _strings(stage, _windowed(stage), stored)


# --- stores that are read whole ------------------------------------------------------------------------------

FETCHES = {
    "WindowStoreFetchTest.testStoreConfig": TimeWindows.of_size_with_no_grace(500),
    "SessionStoreFetchTest.testStoreConfig": SessionWindows.of_inactivity_gap_with_no_grace(500),
}


@plays(*FETCHES)
def of_every_kind_of_store(stage: Stage) -> None:
    windows: Any = FETCHES[stage.tape.test]
    stage.window_ms = 500
    kind = "in_memory" if "InMemory" in stage.tape.parameters else "persistent"
    stored = Materialized.as_("store", store=kind, retention=10_000)
    stage.to(stage.stream("input").group_by_key().windowed_by(windows).count(stored), "output")


@plays("TimeOrderedSessionStoreUpgradeTest.shouldAggregateSessionsViaDslWithOnWindowClose")
def closed_sessions(stage: Stage) -> None:
    windows = SessionWindows.of_inactivity_gap_with_no_grace(500)
    windowed = stage.stream("input-topic").group_by_key().windowed_by(windows).emit_strategy("on_window_close")
    windowed.count(Materialized.as_("session-count-store", retention="5m"))
