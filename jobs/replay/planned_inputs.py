"""What an increment reads, queue by queue, as its plan and what has landed say before any task runs.

Owns the answers about landed queues. Rule: they are worked out once, and nobody asks the planner while tasks run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...state.tables.ledger_rows import Cut
from ...state.times import NO_TIMESTAMP_MS
from ..kernels.partition_group import NO_MORE
from ..tape.input_queues import Queue
from ..tape.landed_slice import Slice
from ..tape.landed_topic import Landed
from ..tape.stream_time import SourceProgress
from .landed_records import LandedRecords
from .plan import Plan


@dataclass(frozen=True)
class PlannedInputs:
    """``queues``: of landed topics, by topic and partition, each of source 0."""

    plan: Plan
    landed: Mapping[str, Landed]
    queues: Mapping[tuple[str, str], Queue]

    def of_source(self, source: int, topic: str, partition: int) -> Queue:
        """Topics that are not joined may have fewer partitions than there are tasks; then it is empty."""
        queue = self.queues.get((topic, str(partition)))
        if queue is None:
            return Queue(source, self.landed[topic].slice(str(partition), 0, 0))
        return replace(queue, source=source)

    def of_global_table(self, source: int, topic: str) -> list[Queue]:
        """Of all its partitions. Recorded times do not reach it."""
        queues = [self.queues[topic, p] for p in self.landed[topic].ends]
        return [Queue(source, queue.slice, beyond_ms=queue.beyond_ms, is_global=True) for queue in queues]

    def read_before(self, topic: str) -> tuple[Slice, ...]:
        """All that the increments before have read of a topic."""
        cut, landed = self.plan.row.cut_from.get(topic, {}), self.landed[topic]
        return tuple(landed.slice(p, 0, cut.get(p, 0)) for p in landed.ends)


def planned_inputs(plan: Plan, records: LandedRecords, order: str) -> PlannedInputs:
    """Of a plan that continues from ``records.previous``. ``order``: "time" or "arrival"."""
    # By arrival each record has a number of its own, and one topic alone is read in the order of its offsets: what
    # comes after the cut decides nothing in either.
    is_merged = order == "time" and len(records.landed) > 1
    queues = {
        (topic, p): _queue(plan, records, topic, p, is_merged=is_merged)
        for topic, landed in records.landed.items()
        for p in landed.ends
    }
    return PlannedInputs(plan, records.landed, queues)


def _queue(plan: Plan, records: LandedRecords, topic: str, p: str, *, is_merged: bool) -> Queue:
    """``is_merged``: records of other topics are merged with it, so the next record of each decides the order."""
    landed = records.landed[topic]
    begin, end = (cut.get(topic, {}).get(p, 0) for cut in (plan.row.cut_from, plan.row.cut_to))
    beyond_ms, is_advance = NO_MORE, False
    if is_merged:
        beyond_ms, is_advance = plan.beyond(landed, p, records.first_after(topic, p, begin, end))
    before = landed.recorded.get(p, ())[: plan.taken_before(topic, p)]
    planned = (plan.row.restarts or {}).get(topic, {})
    times = [recorded.time_ms for recorded in before if not recorded.is_tick]
    ticks = [recorded.time_ms for recorded in before if recorded.is_tick]
    return Queue(
        0,
        landed.slice(p, begin, end),
        beyond_ms=beyond_ms,
        beyond_is_advance=is_advance,
        recorded=plan.recorded(landed, p),
        before=SourceProgress(max(times, default=NO_TIMESTAMP_MS), records.reached_ms(topic, p)),
        ticked_ms=max(ticks, default=NO_TIMESTAMP_MS),
        restarts=tuple(offset for offset in planned.get(p, ()) if begin <= offset < end),
    )


def tape_times(plan: Plan, records: LandedRecords) -> Cut:
    """The largest time of every partition of the merged topics up to the plan's cut, for the done row."""
    times_by_topic = {topic: dict(times) for topic, times in (records.previous.tape_times or {}).items()}
    for topic in records.merged:
        for p, end in plan.row.cut_to[topic].items():
            read = records.read(topic, p, plan.row.cut_from[topic].get(p, 0), end)
            # What follows a recorded time T in its partition is at T + 1 or later, whatever its own time.
            recorded = [each.time_ms + 1 for each in plan.recorded(records.landed[topic], p)]
            latest_ms = max([times_by_topic.get(topic, {}).get(p, NO_TIMESTAMP_MS), read.latest_ms(), *recorded])
            if latest_ms != NO_TIMESTAMP_MS:
                times_by_topic.setdefault(topic, {})[p] = latest_ms
    return times_by_topic
