"""A pipeline's state as an application begins with it: changelogs of its stores, and the offsets that it has read.

Owns what of a pipeline is the application's. Rule: it is the reverse of a bootstrap: each operator writes the records
with which Kafka Streams restores its store, also those that only a restart shows. The time of a partition and what
processors remember are beside its offset. So they are beside offset 0 of repartition topics, which are empty: a task
that reads such a topic alone has no other place for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from ...state.argument_types import checked_types
from ...state.errors import ConfigError
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import TableName, TaskId
from ...state.tables.warehouse import Warehouse
from ...state.times import NO_TIMESTAMP_MS
from ..execution.store_files import StoreFiles
from ..execution.task_stores import of_partition
from ..graph.nodes import RepartitionNode, SourceNode
from ..history.committed_tables import done_row
from ..operators.base.changelogs import Changelog, KeptStore
from ..replay.increment_tables import placed, state_files
from ..replay.landed_records import LandedRecords
from ..tape.landed_topic import Landed
from ..task.task import Task
from ..topology.topology import SubTopology, Topology
from .application_state import ApplicationState, CommittedPosition


@checked_types
def state_of_pipeline(
    warehouse: Warehouse, topology: Topology, pipeline: str, *, application_id: str, increment: int | None = None
) -> ApplicationState:
    """What an application of the topology, called ``application_id``, would have after ``increment`` of ``pipeline``
    (None: the last) of ``warehouse``.

    Raises ConfigError for a topology that is not the increment's, and for a store whose changelog is not written here;
    LedgerError where nothing is replayed.
    """
    done = done_row(warehouse, pipeline, increment).content
    topology = topology.reading(done.cut_to)
    if done.topology != topology.fingerprint:
        got, next_step = f"another one than that of the increment ({done.topology})", "give the topology that ran it"
        raise ConfigError(f"pipeline {pipeline!r}", f"its topology ({topology.fingerprint})", got, next_step)
    if done.unread:
        got, next_step = f"records in {', '.join(done.unread)} that no task has taken", "run an increment first"
        raise ConfigError(f"pipeline {pipeline!r}", "a pipeline without records between tasks", got, next_step)
    return _Handed(warehouse, topology, pipeline, done).state(application_id)


@dataclass(frozen=True)
class _Handed:
    warehouse: Warehouse
    topology: Topology
    pipeline: str
    done: DoneRow

    def state(self, application_id: str) -> ApplicationState:
        files = placed(
            state_files(self.warehouse, self.pipeline, self.topology, self.done, {}),
            self.warehouse.pipeline(self.pipeline),
        )
        changelogs: dict[str, list[Changelog]] = {}
        for sub in self.topology.sub_topologies:
            for partition in range(self.done.partitions[str(sub.id)]):
                entry, task = self.done.task(TaskId(sub.id, partition)), Task(self.topology, sub, partition)
                for store, operator in task.stores.items():
                    node, counters = sub.stores[store], entry.counters.get(store, {})
                    names = node.changelogs(self.topology.graph)
                    topics = tuple(f"{application_id}-{name}-changelog" for name in names)
                    kept = KeptStore(store, topics, node.shape, node.windows_of_rows, partition=partition)
                    stored = StoreFiles(operator, of_partition(files[store], partition), None)
                    # Rows that the store hides are written, since a restarted one shows them again. Those of segments
                    # that it has lost are not: Kafka would restore none of them.
                    rows = stored.load(counters, restarts=True)
                    rows = rows.filter(pa.array(~operator.loses(rows, counters)))
                    for name, log in zip(names, operator.logged(rows, kept), strict=True):
                        changelogs.setdefault(name, []).append(log)
        unread = {topic: [Changelog.empty(topic)] * count for topic, count in self._repartitions.items()}
        landed = (Landed.of(self.warehouse, topic) for topic in self.topology.source_topics())
        ids = {each.topic: each.topic_id for each in landed if each.topic_id is not None}
        return ApplicationState(application_id, self._positions(), changelogs, unread, ids)

    @cached_property
    def _repartitions(self) -> dict[str, int]:
        """Partitions of the repartition topics that Kafka Streams makes. Others of ours are topics of users."""
        made = (node for node in self.topology.described.nodes.values() if isinstance(node, RepartitionNode))
        return {
            node.topic: self.done.partitions[TableName.repartition(node.topic)]
            for node in made
            if not node.is_replay_only
        }

    @cached_property
    def _merged(self) -> frozenset[str]:
        """Landed topics of whose partitions the largest time is known beside those of others."""
        return LandedRecords(self.topology, {}, self.done).merged

    def _positions(self) -> dict[str, dict[int, CommittedPosition]]:
        """Of topics that tasks read, not of global ones."""
        positions: dict[str, dict[int, CommittedPosition]] = {}
        for sub in self.topology.sub_topologies:
            for source in sub.sources:
                offsets = self.done.cut_to.get(source.landed_topic or "", {})
                if source.topic in self._repartitions:
                    offsets = {str(partition): 0 for partition in range(self._repartitions[source.topic])}
                for partition, offset in offsets.items():
                    position = CommittedPosition(
                        offset, self._time_ms(sub, source, partition), self._numbers(sub, partition)
                    )
                    positions.setdefault(source.topic, {})[int(partition)] = position
        return positions

    def _time_ms(self, sub: SubTopology, source: SourceNode | RepartitionNode, partition: str) -> int:
        """Of a partition its largest time, which its timestamp extractor gets. Of one of which that is not known the
        task's: Kafka's task begins at the largest of all (StreamTask.initializeTaskTimeAndProcessorMetadata).
        """
        entry = self.done.task(TaskId(sub.id, int(partition)))
        if source.time_step is not None:
            return entry.partition_times.get(source.topic, NO_TIMESTAMP_MS)
        if source.topic not in self._merged or self.done.tape_times is None:
            return entry.stream_time_ms
        # The tape has read what could not be decoded, too, which moves no time of Kafka's.
        return min(self.done.tape_times.get(source.topic, {}).get(partition, NO_TIMESTAMP_MS), entry.stream_time_ms)

    def _numbers(self, sub: SubTopology, partition: str) -> Mapping[str, int]:
        """Times at which stores of the Kafka task, which may be several of ours, have emitted closed windows last."""
        parts = (part for part in self.topology.sub_topologies if part.kafka_id == sub.kafka_id)
        entries = (self.done.task(TaskId(part.id, int(partition))) for part in parts)
        closed = {
            store: own.get("last_close_ms", NO_TIMESTAMP_MS)
            for entry in entries
            for store, own in entry.counters.items()
        }
        return {store: time_ms for store, time_ms in closed.items() if time_ms != NO_TIMESTAMP_MS}


@checked_types
def changelog_settings(topology: Topology) -> dict[str, dict[str, str]]:
    """By store of ``topology``, settings that Kafka Streams gives to its changelog."""
    return {
        name: dict(node.changelog_settings(topology.graph, name))
        for node in topology.stores().values()
        for name in node.changelogs(topology.graph)
    }
