"""The times of a landed log, as a range is found in it: where a time begins in each partition, and what comes late.

Owns cuts by time. Rule: the cut of a time is, in each partition, its first record (or recorded time) of that time or
later (Kafka's offsetsForTimes). So every record before it is earlier, and no task takes a record behind it before one
that is in front of it. Kept are 8 bytes a record.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...state.tables.ledger import LandingLedger, LedgerRow
from ...state.tables.ledger_rows import Cut, DoneRow, Excluded, LandingDoneRow, PlanRow
from ...state.tables.names import REPARTITION, TableName
from ...state.tables.warehouse import Warehouse
from ...state.times import NO_TIMESTAMP_MS
from ..replay.left_out import left_out, out_of_play
from ..replay.planner import Planner
from ..replay.unread_records import PendingQueue
from ..topology.topology import SubTopology, Topology

Group = int
"""Number of a set of partitions whose records are merged in a task, directly or through repartitions."""


@dataclass(frozen=True)
class Start:
    """Where a replay begins in the landed log. ``times``: of each group the time before which nothing is read; None:
    it is read from its first record.
    """

    times: Mapping[Group, int | None]


class RangeCuts:
    """All that has landed of the topics of a topology. ``partitions``: of repartition tables that there are."""

    def __init__(self, warehouse: Warehouse, topology: Topology, partitions: Mapping[str, int]) -> None:
        self.topology, self._warehouse = topology, warehouse
        kept = {name: count for name, count in partitions.items() if TableName(name).kind == REPARTITION}
        self._planner = Planner(warehouse, topology, increment=1, previous=DoneRow(partitions=kept), idle="proceed")
        self.partitions = self._planner.partitions()
        """Of every sub-topology and repartition table, as in a plan."""
        self.queues: dict[tuple[str, str], PendingQueue] = {
            (queue.topic, queue.partition): queue for queue in self._planner.queues()
        }
        merged_queues = self._planner.merged_queues()
        self.group_of: dict[tuple[str, str], Group] = {
            queue: number for number, merged in enumerate(merged_queues) for queue in merged
        }
        self.groups = range(len(merged_queues))

    @property
    def ends(self) -> Cut:
        """How far each partition has landed."""
        return {topic: dict(landed.ends) for topic, landed in self._planner.landed.items()}

    def tasks(self, sub: SubTopology, partitions: Mapping[str, int]) -> dict[int, Group]:
        """Partitions of a sub-topology's tasks, each with the group of what comes to it. ``partitions``: of a plan."""
        count = partitions.get(str(sub.id), 0)
        topics = [source.landed_topic for source in sub.sources if source.landed_topic is not None]
        if len(topics) < len(sub.sources):
            above = (source.landed_topic for other in self._above(sub) for source in other.sources)
            topic = next(topic for topic in above if topic is not None)
            return dict.fromkeys(range(count), self.group_of[topic, "0"])
        groups = {}
        for p in range(count):
            queues = [(topic, str(p)) for topic in topics if (topic, str(p)) in self.group_of]
            if queues:
                groups[p] = self.group_of[queues[0]]
        return groups

    def _above(self, sub: SubTopology) -> list[SubTopology]:
        """Sub-topologies that write what it reads, and what those read."""
        writers, waiting = list[SubTopology](), [sub]
        while waiting:
            one = waiting.pop()
            if one not in writers:
                writers.append(one)
                waiting += [writer for source in one.sources for writer in self.topology.writers_of(source.topic)]
                waiting += [o for o in self.topology.sub_topologies if o.kafka_id == one.kafka_id]
        return writers

    # --- places --------------------------------------------------------------------------------------------------

    def rows_before(self, queue: tuple[str, str], time_ms: int | None) -> int:
        """Records and recorded times of a partition before the cut of a time; None: none."""
        rows = self.queues[queue]
        return 0 if time_ms is None else rows.before(2 * time_ms, len(rows))

    def latest_before(self, queue: tuple[str, str], time_ms: int | None) -> int:
        """Time that the partition has reached before the cut of a time, NO_TIMESTAMP_MS where nothing is before it."""
        rows = self.rows_before(queue, time_ms)
        # Rounded up: a recorded time T is at 2 T + 1 and has brought its partition to T + 1, a record of time t is at 2
        # t.
        return NO_TIMESTAMP_MS if rows == 0 else (int(self.queues[queue].rows.position[rows - 1]) + 1) // 2

    def reached(self, group: Group, time_ms: int | None) -> int:
        """The highest time of any partition of a group before the cut of a time."""
        return max((self.latest_before(queue, time_ms) for queue in self._of(group)), default=NO_TIMESTAMP_MS)

    def slowest(self, group: Group, time_ms: int) -> int | None:
        """The lowest time that any task of a group has reached before the cut of a time; None: none of them has any
        records. Of the landed topics of a task the latest counts.
        """
        times = [
            max(self.latest_before((source, str(p)), time_ms) for source in topics)
            for sub in self.topology.sub_topologies
            for p in range(self.partitions.get(str(sub.id), 0))
            if (topics := self._landed_of(sub, group, p))
        ]
        return min((time for time in times if time != NO_TIMESTAMP_MS), default=None)

    def reached_by(self, cut: Cut) -> dict[Group, int]:
        """The highest time of any partition of a group before the offsets of ``cut``; groups of which nothing is before
        them are left out.
        """
        times: dict[Group, int] = {}
        for (topic, partition), queue in self.queues.items():
            rows = int(np.searchsorted(np.asarray(queue.rows.offset), cut.get(topic, {}).get(partition, 0)))
            if rows:
                group, latest = self.group_of[topic, partition], (int(queue.rows.position[rows - 1]) + 1) // 2
                times[group] = max(latest, times.get(group, latest))
        return times

    def first_time(self, group: Group) -> int | None:
        """The time with which a group begins; None when nothing of it has landed."""
        firsts = [int(self.queues[queue].rows.position[0]) // 2 for queue in self._of(group) if len(self.queues[queue])]
        return min(firsts, default=None)

    def missing_from_start(self) -> dict[Group, int]:
        """Where records before the first ones were never landed: the time of the first that were, by group."""
        times: dict[Group, int] = {}
        for queue, group in self.group_of.items():
            if len(self.queues[queue]) and self._begins_late(queue):
                first = int(self.queues[queue].rows.position[0]) // 2
                times[group] = max(first, times.get(group, first))
        return times

    def is_over(self, group: Group, time_ms: int) -> bool:
        """Whether nothing of a group is behind the cut of a time."""
        return all(self.rows_before(queue, time_ms) == len(self.queues[queue]) for queue in self._of(group))

    def is_first(self, group: Group, time_ms: int | None) -> bool:
        """Whether nothing of a group is before the cut of a time."""
        return all(self.rows_before(queue, time_ms) == 0 for queue in self._of(group))

    def latest_of_earlier(self, time_ms: int) -> int:
        """The time by which the last record before ``time_ms`` has come, be it late: the highest that its partition had
        reached by then; NO_TIMESTAMP_MS when there is none.
        """
        latest_ms = NO_TIMESTAMP_MS
        for (topic, partition), queue in self.queues.items():
            begin, _ = queue.cut(self.rows_before((topic, partition), time_ms))
            offsets, times = self._planner.records.times_from(topic, partition, begin)
            late = np.flatnonzero(times < time_ms)
            if len(late):
                at = np.searchsorted(np.asarray(queue.rows.offset), offsets[late[-1]], side="right") - 1
                latest_ms = max(latest_ms, (int(queue.rows.position[at]) + 1) // 2)
        return latest_ms

    def has_ties(self, group: Group, time_ms: int) -> bool:
        """Whether the first records after the cut of a time do not say by themselves in which order tasks that read
        several topics take them, so that it hangs on what was taken before.
        """
        if group not in self._with_several_queues:
            return False
        queues = self._of(group)
        rows = {queue: self.rows_before(queue, time_ms) for queue in queues}
        for queue in queues:
            positions = self.queues[queue].rows.position
            if rows[queue] < len(positions):
                head = positions[rows[queue]]
                for other in queues:
                    others = self.queues[other].rows.position[rows[other] :]
                    at = np.searchsorted(others, head)
                    if other != queue and at < len(others) and others[at] == head:
                        return True
        return False

    def earlier_times(self, group: Group, time_ms: int) -> np.ndarray:
        """Distinct times before ``time_ms`` at which a partition of a group moves on, latest first."""
        times = [self.queues[q].rows.position[: self.rows_before(q, time_ms)] // 2 for q in self._of(group)]
        return np.unique(np.concatenate(times))[::-1] if times else np.zeros(0, np.int64)

    def _begins_late(self, queue: tuple[str, str]) -> bool:
        """Whether the broker had deleted records of a partition before the first landing."""
        topic, partition = queue
        first = self._first_landings.get(topic)
        if first is None:
            return False
        return first.content.cut_from.get(partition, 0) > 0 or first.content.gaps.get(partition, [1])[0] == 0

    # --- rows of the ledger --------------------------------------------------------------------------------------

    def cut(self, start: Start) -> tuple[Cut, Cut]:
        """Next offsets and recorded times taken, by topic and partition, of a replay that begins at ``start``."""
        offsets: Cut = {}
        taken: Cut = {}
        for (topic, partition), queue in self.queues.items():
            time_ms = start.times[self.group_of[topic, partition]]
            offset, recorded = queue.cut(self.rows_before((topic, partition), time_ms))
            offsets.setdefault(topic, {})[partition] = offset
            if recorded:
                taken.setdefault(topic, {})[partition] = recorded
        return offsets, taken

    def times_at(self, start: Start) -> dict[str, dict[str, int]]:
        """Times that partitions have reached, by topic."""
        times: dict[str, dict[str, int]] = {}
        for (topic, partition), group in self.group_of.items():
            latest = self.latest_before((topic, partition), start.times[group])
            if latest != NO_TIMESTAMP_MS:
                times.setdefault(topic, {})[partition] = latest
        return times

    def _of(self, group: Group) -> list[tuple[str, str]]:
        return [queue for queue, number in self.group_of.items() if number == group]

    def _landed_of(self, sub: SubTopology, group: Group, partition: int) -> list[str]:
        """Landed topics of which a task reads a partition of the group."""
        topics = [source.landed_topic for source in sub.sources if source.landed_topic is not None]
        return [topic for topic in topics if self.group_of.get((topic, str(partition))) == group]

    def left_out(self, cut: Cut) -> Excluded | None:
        """What is out of play before ``cut``."""
        return left_out(DoneRow(), PlanRow(cut_to=cut, excluded=out_of_play(self._planner.landed, {})))

    @cached_property
    def _first_landings(self) -> dict[str, LedgerRow[LandingDoneRow]]:
        """The first increment of each topic's landing, of those that have one."""
        landings: dict[str, LedgerRow[LandingDoneRow]] = {}
        for topic in self._planner.landed:
            ledger = LandingLedger(self._warehouse.landing_ledger(topic))
            for first in ledger.done_rows()[:1]:
                landings[topic] = first
        return landings

    @cached_property
    def _with_several_queues(self) -> set[Group]:
        """Groups in which some task takes landed records in an order that several queues decide."""
        groups = set()
        for sub in self.topology.sub_topologies:
            landed = [source.landed_topic for source in sub.sources if source.landed_topic is not None]
            landed += [table.topic for table in sub.globals]
            if landed and len(sub.sources) + len(sub.globals) > 1:
                groups |= {group for (topic, _), group in self.group_of.items() if topic in landed}
        return groups
