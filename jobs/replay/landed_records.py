"""What has landed of the topics of a topology, read as tasks will read it: with the times that extractors give.

Owns the reading of offsets and times, for plans and for the queues of tasks. Rule: a partition's times
continue from where the increments before have got to, which the done row ``previous`` says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...state.tables.ledger_rows import DoneRow, PlanRow
from ...state.tables.names import TaskId
from ...state.times import NO_TIMESTAMP_MS
from ..graph.graph import Node
from ..tape.extracted_slice import ExtractedSlice, extracted
from ..tape.landed_slice import Slice
from ..tape.landed_topic import Landed
from ..task.time_extraction import TimeExtraction
from ..topology.topology import Topology
from .landed_times import LandedTimes, Times
from .left_out import as_planned


@dataclass(frozen=True)
class LandedRecords:
    """``landed``: by topic; ``times``: those that were read before (None: nobody keeps them)."""

    topology: Topology
    landed: Mapping[str, Landed]
    previous: DoneRow
    times: LandedTimes | None = None

    def of_plan(self, row: PlanRow) -> "LandedRecords":
        """The same without what was out of play when an increment that continues from ``previous`` was planned."""
        return replace(self, landed={t: as_planned(each, self.previous, row) for t, each in self.landed.items()})

    @cached_property
    def merged(self) -> frozenset[str]:
        """Topics that a task reads beside others, so that its own tape time is not theirs; a global table's always."""
        merged = set[str]()
        for sub in self.topology.sub_topologies:
            topics = [node.topic for node in (*sub.sources, *sub.globals) if node.landed_topic is not None]
            if len(topics) > 1 or sub.globals:
                merged |= set(topics)
        return frozenset(merged)

    @cached_property
    def _extracting(self) -> Mapping[str, Node]:
        """Topics with an extractor, each with its source."""
        subs = self.topology.sub_topologies
        return {source.topic: source for sub in subs for source in sub.sources if source.time_step}

    def read(self, topic: str, partition: str, begin: int, end: int) -> Slice:
        """Offsets ``[begin, end)`` of a partition, which begin where the increments before ended, or at 0."""
        source, read = self._extracting.get(topic), self.landed[topic].slice(partition, begin, end)
        if source is None:
            return read
        (sub,) = self.topology.readers_of(topic)
        before = self.previous.task(TaskId(sub.id, int(partition))).partition_times
        return extracted(read, TimeExtraction(source, int(partition), before.get(topic, NO_TIMESTAMP_MS)))

    def offsets_and_times(self, topic: str, partition: str, begin: int, end: int) -> Times:
        """As ``read``: offsets, and times in ms; negative for records without a time."""

        def read() -> Times:
            return self.read(topic, partition, begin, end).offsets_and("timestamp")

        return read() if self.times is None else self.times.of(topic, partition, begin, end, read)

    def times_from(self, topic: str, partition: str, begin: int) -> Times:
        """Offsets of all records of a partition from ``begin`` on, and their times."""
        first = 0 if topic in self._extracting else begin  # an extractor may know the largest time before
        offsets, times = self.offsets_and_times(topic, partition, first, self.landed[topic].ends[partition])
        return offsets[offsets >= begin], times[offsets >= begin]

    def first_after(self, topic: str, partition: str, begin: int, end: int) -> tuple[int, int] | None:
        """Offset and time of the first record from offset ``end`` on, None when there is none; of a topic with an
        extractor the first that has a time. ``begin``: where the increments before ended.
        """
        source, last = self._extracting.get(topic), self.landed[topic].ends[partition]
        if source is None or source.time_step is None:
            return self.landed[topic].slice(partition, end, last).first()
        # Kafka's TimestampExtractor.extract also gets the partition's time so far (partitionTime): such an answer needs
        # all the records that the increment reads before `end`.
        read = self.read(topic, partition, begin if source.time_step.knows_partition_time else end, last)
        assert isinstance(read, ExtractedSlice)
        return read.first(least=end)

    def reached_ms(self, topic: str, partition: str) -> int:
        """The largest time of a partition that the increments before have read; NO_TIMESTAMP_MS before the first."""
        if topic in self.merged:
            return (self.previous.tape_times or {}).get(topic, {}).get(partition, NO_TIMESTAMP_MS)
        # The first reader answers for all: each reads the topic alone, so their tapes have come to the same time.
        for sub in self.topology.readers_of(topic):
            return self.previous.task(TaskId(sub.id, int(partition))).tape_time_ms
        return NO_TIMESTAMP_MS  # a global table that no task looks into

    def arrivals(self, topic: str, partition: str, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """As ``read``: offsets, and arrivals."""
        return self.read(topic, partition, begin, end).offsets_and("arrival")
