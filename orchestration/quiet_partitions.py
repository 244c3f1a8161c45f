"""Kafka partitions in which nothing comes: how days continue without them, and a check that names those that stop all.

Owns both. Rule: a day runs when every Kafka partition has come to its end, so one that is empty, or a topic that
changes every few days, stops all days and leaves every run green. What `idle_after` of the definitions names is passed
over once another Kafka partition is ahead by so long, in record time. The run then records the day's end there, as
`replay advance` does, so that every replay repeats it.
"""

import dagster as dg

from ..jobs.landing.recorded_time import record_time
from ..jobs.replay.landed_times import LandedTimes
from ..state.errors import LandingError, LedgerConflict
from ..state.times import NO_TIMESTAMP_MS
from .partition_windows import Window, backlog_of, in_words, next_window, quiet_at, still_to_come, what_to_do
from .pipeline import Pipeline
from .text_tables import utc

HELD_UP = "holds_up_no_partition"
HELD_UP_RULE = "No Kafka partition of the topic stops all partitions while others are more than one of them ahead."


def record_quiet(context: dg.AssetExecutionContext, pipeline: Pipeline, window: Window, times: LandedTimes) -> None:
    """Record, in Kafka partitions that are passed over, that they have come to the partition's end.

    LedgerConflict while a landing of their topic is at work.
    """
    for behind in quiet_at(pipeline, backlog_of(pipeline, times), window.end_ms):
        try:
            record_time(pipeline.warehouse, behind.topic, window.end_ms, partition=int(behind.partition))
        except LandingError as error:
            raise LedgerConflict(
                error.place, error.expected, error.got, "run it again when the landing is done"
            ) from error
        context.log.info(f"{behind}, and is idle: {utc(window.end_ms)} recorded there")


def held_up_by(pipeline: Pipeline, topic: str) -> str | None:
    """In words, which Kafka partitions of a topic stop all partitions; None: none does.

    That they are just late is likely as long as no other one is ahead by more than one partition: then None.
    """
    assert pipeline.partitions is not None
    unread = backlog_of(pipeline, LandedTimes())
    window = next_window(pipeline, pipeline.partitions, unread)
    if window is None or unread.furthest_ms == NO_TIMESTAMP_MS:
        return None
    waiting = [each for each in still_to_come(pipeline, unread, window.end_ms) if each.topic == topic]
    if not waiting or unread.furthest_ms < 2 * window.end_ms - window.start_ms:
        return None
    return (
        f"Partition {window.key}, and all after it, wait: {in_words(waiting)}, while others have come to "
        f"{utc(unread.furthest_ms)}. What to do: {what_to_do(waiting, window.end_ms, pipeline.warehouse.root)}"
    )
