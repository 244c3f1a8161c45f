"""SuppressScenarioTest."""

from typing import Any

from kstreams_replay.jobs.topology import (
    BufferConfig,
    KStream,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TimeWindows,
)
from tests.kafka_suite.playing import LONG, STRING, Stage
from tests.kafka_suite.topologies import plays
from tests.kafka_suite.topologies.words import java_text, text

TEST = "SuppressScenarioTest."
FOREVER = 2**63 - 1
EARLY = {
    f"{TEST}shouldImmediatelyEmitEventsWithZeroEmitAfter": (0, BufferConfig.unbounded()),
    f"{TEST}shouldSuppressIntermediateEventsWithTimeLimit": (2, BufferConfig.unbounded()),
    f"{TEST}shouldSuppressIntermediateEventsWithRecordLimit": (
        FOREVER,
        BufferConfig.max_records(1).emit_early_when_full(),
    ),
    f"{TEST}shouldSuppressIntermediateEventsWithBytesLimit": (
        FOREVER,
        BufferConfig.max_bytes(200).emit_early_when_full(),
    ),
}
"""Wait and buffer."""


@plays(*EARLY)
def newest_changes(stage: Stage) -> None:
    counts = stage.table("input", materialized=Materialized()).group_by("value", "record_key").count()
    wait, buffer = EARLY[stage.tape.test]
    stage.to(counts.suppress(Suppressed.until_time_limit(wait, buffer)), "output-suppressed")
    stage.to(counts, "output-raw")


FINAL = {
    f"{TEST}shouldSupportFinalResultsForTimeWindows": TimeWindows.of_size_and_grace(2, 1),
    f"{TEST}shouldSupportFinalResultsForTimeWindowsWithLargeJump": TimeWindows.of_size_and_grace(2, 2),
    f"{TEST}shouldSupportFinalResultsForSlidingWindows": SlidingWindows.of_time_difference_and_grace(5, 15),
    f"{TEST}shouldSupportFinalResultsForSessionWindows": SessionWindows.of_inactivity_gap_with_no_grace(5),
}


@plays(*FINAL)
def final_results(stage: Stage) -> None:
    windows: Any = FINAL[stage.tape.test]
    grouped = stage.stream("input").group_by(lambda key, value: key, returns=STRING)
    counts = grouped.windowed_by(windows).count(Materialized.as_("counts"))
    stage.to(_of_texts(counts.suppress(Suppressed.until_window_closes())), "output-suppressed")
    stage.to(_of_texts(counts), "output-raw")


def _of_texts(table: KTable) -> KStream:
    return table.to_stream().map(lambda key, value: (java_text(key), value), returns_key=STRING, returns=LONG)


def _suppressed(table: KTable) -> KTable:
    return table.suppress(Suppressed.until_time_limit(10, BufferConfig.unbounded()))


@plays(f"{TEST}shouldWorkBeforeGroupBy")
def before_group_by(stage: Stage) -> None:
    stage.to(_suppressed(stage.table("topic")).group_by("record_key").count(), "output")


@plays(f"{TEST}shouldWorkBeforeJoinRight", f"{TEST}shouldWorkBeforeJoinLeft")
def before_join(stage: Stage) -> None:
    is_left = stage.tape.test.endswith("Left")
    left = stage.table("left")
    if is_left:
        left = _suppressed(left)
    right = stage.table("right")
    if not is_left:
        right = _suppressed(right)
    joined = left.outer_join(right, lambda one, other: f"({text(one)},{text(other)})", returns=STRING)
    stage.to(joined, "output")
