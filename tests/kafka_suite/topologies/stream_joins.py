"""KStreamKStream…JoinTest."""

from kstreams_replay.jobs.topology import Consumed, JoinWindows, Materialized
from tests.kafka_suite.playing import INT, INT_STRING, LONG, STRING, STRING_INT, STRINGS, Stage
from tests.kafka_suite.topologies import plays
from tests.kafka_suite.topologies.words import plus

INT_LONG = Consumed(INT, LONG)
INNER, LEFT, OUTER = "KStreamKStreamJoinTest.", "KStreamKStreamLeftJoinTest.", "KStreamKStreamOuterJoinTest."
WITHIN_100 = JoinWindows.of_time_difference_with_no_grace(100)
AND_GRACE_0 = JoinWindows.of_time_difference_and_grace(100, 0)
AND_GRACE_10 = JoinWindows.of_time_difference_and_grace(100, 10)

WINDOWS = {
    f"{INNER}testJoin": WITHIN_100,
    f"{INNER}testWindowing": WITHIN_100,
    f"{INNER}testAsymmetricWindowingAfter": JoinWindows.of_time_difference_with_no_grace(0).after(100),
    f"{INNER}testAsymmetricWindowingBefore": JoinWindows.of_time_difference_with_no_grace(0).before(100),
    f"{INNER}testOuterJoin": JoinWindows.of_time_difference_and_grace(100, "24h"),
    f"{LEFT}testLeftJoinWithSpuriousResultFixDisabledOldApi": JoinWindows.of(100),
    f"{LEFT}testLeftJoinDuplicatesWithSpuriousResultFixDisabledOldApi": JoinWindows.of(100).grace(10),
    f"{OUTER}testOuterJoinDuplicatesWithFixDisabledOldApi": JoinWindows.of(100).grace(10),
    f"{LEFT}testLeftJoinDuplicates": AND_GRACE_10,
    f"{LEFT}testLeftExpiredNonJoinedRecordsAreEmittedByTheLeftProcessor": AND_GRACE_0,
    f"{LEFT}testLeftExpiredNonJoinedRecordsAreEmittedByTheRightProcessor": AND_GRACE_0,
    f"{LEFT}testRightNonJoinedRecordsAreNeverEmittedByTheLeftProcessor": AND_GRACE_0,
    f"{LEFT}testRightNonJoinedRecordsAreNeverEmittedByTheRightProcessor": WITHIN_100,
    f"{LEFT}testLeftJoinedRecordsWithZeroAfterAreEmitted": WITHIN_100.after(0),
    f"{LEFT}testLeftJoinWithInMemoryCustomSuppliers": AND_GRACE_0,
    f"{LEFT}testLeftJoinWithDefaultSuppliers": WITHIN_100,
    f"{LEFT}testOrdering": WITHIN_100,
    f"{LEFT}testGracePeriod": AND_GRACE_10,
    f"{LEFT}testWindowing": WITHIN_100,
    f"{LEFT}shouldNotEmitLeftJoinResultForAsymmetricWindow": WITHIN_100.before(0),
    f"{OUTER}testOuterJoinDuplicates": AND_GRACE_10,
    f"{OUTER}testLeftExpiredNonJoinedRecordsAreEmittedByTheLeftProcessor": WITHIN_100,
    f"{OUTER}testLeftExpiredNonJoinedRecordsAreEmittedByTheRightProcessor": AND_GRACE_0,
    f"{OUTER}testRightExpiredNonJoinedRecordsAreEmittedByTheLeftProcessor": WITHIN_100,
    f"{OUTER}testRightExpiredNonJoinedRecordsAreEmittedByTheRightProcessor": AND_GRACE_0,
    f"{OUTER}testOrdering": WITHIN_100,
    f"{OUTER}testGracePeriod": AND_GRACE_10,
    f"{OUTER}testEmitAllNonJoinedResultsForAsymmetricWindow": JoinWindows.of_time_difference_with_no_grace(5).after(20),
    f"{OUTER}testOuterJoinWithInMemoryCustomSuppliers": WITHIN_100,
    f"{OUTER}testOuterJoinWithDefaultSuppliers": WITHIN_100,
    f"{OUTER}testWindowing": WITHIN_100,
    f"{OUTER}testShouldNotEmitLeftJoinResultForAsymmetricBeforeWindow": WITHIN_100.before(0),
    f"{OUTER}testShouldNotEmitLeftJoinResultForAsymmetricAfterWindow": WITHIN_100.after(0),
    f"{OUTER}testShouldForwardCurrentHeaders": AND_GRACE_10,
}
"""Windows of the tests that differ in nothing else."""


@plays(*WINDOWS)
def of_numbers(stage: Stage) -> None:
    test = stage.tape.test
    second = stage.tape.line["inputs"].get("topic2", ["", ""])[1]
    left = stage.stream("topic1", INT_STRING)
    right = stage.stream("topic2", INT_LONG if second == "LongSerializer" else INT_STRING)
    kind = "join" if test.startswith(INNER) else "left_join" if test.startswith(LEFT) else "outer_join"
    join = getattr(left, "outer_join" if test.endswith("testOuterJoin") else kind)
    stores = Materialized(store="in_memory") if "InMemory" in test else None
    stage.watch(join(right, plus, WINDOWS[test], returns=STRING, materialized=stores))


@plays(f"{INNER}shouldJoinWith*", f"{INNER}shouldLogAndMeterOnSkippedRecords*")
def sums(stage: Stage) -> None:
    left, right = stage.stream("left", STRING_INT), stage.stream("right", STRING_INT)
    stores = Materialized(store="in_memory") if "CustomStoreSuppliers" in stage.tape.test else None
    joined = left.join(right, "CAST(left + right AS INT)", WITHIN_100, materialized=stores)
    if stage.tape.channels():
        stage.watch(joined)


SELF = "KStreamKStreamSelfJoinTest.shouldMatchInnerJoinWithSelfJoin"


@plays(f"{SELF}*")
def with_itself(stage: Stage) -> None:
    """Of one stream, or of two of one topic. The test's second driver has ``topology.optimization`` on."""
    windows = WITHIN_100
    if "DifferentBeforeAfter" in stage.tape.test:
        windows = JoinWindows.of_time_difference_and_grace("11s", "10s")
    if "OutOfOrder" in stage.tape.test:
        windows = JoinWindows.of_time_difference_with_no_grace("10s")
    topic = next(iter(stage.tape.line["inputs"]))
    one = stage.stream(topic, STRINGS)
    other = one if "SingleStream" in stage.tape.test else stage.stream(topic, STRINGS)
    stage.watch(one.join(other, lambda left, right: left + right, windows, returns=STRING), stage.tape.channels()[-1])
