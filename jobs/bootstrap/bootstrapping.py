"""A pipeline that begins with a live application's state: its stores, its positions and its times.

Owns the first row of such a pipeline. Rule: it is a done row of increment 1, whose stores have what Kafka Streams would
restore. The next increment reads from the committed offsets on. It is written last: what a death has left before is no
pipeline, and is deleted by the next try. Names and partitions are compared before anything is written.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ...state.argument_types import checked_types
from ...state.errors import BootstrapError, ConfigError
from ...state.kafka_version import replayed_version
from ...state.tables.branch_files import digests_of
from ...state.tables.data_files import DataFile, OpenTables
from ...state.tables.ledger import Ledger
from ...state.tables.ledger_rows import Cut, DoneRow
from ...state.tables.names import TableName, TaskId
from ...state.tables.object_stores import delete_folder, has_folder, open_filesystem
from ...state.tables.parquet_writer import TaskFile
from ...state.tables.task_entry import TaskEntry
from ...state.tables.warehouse import HEADERS, Warehouse
from ...state.times import NO_TIMESTAMP_MS
from ...state.wall_clock import now_ms
from ..code_changes.code_snapshot import code_snapshot
from ..graph.graph import Node
from ..graph.nodes import SourceNode
from ..operators.base.changelogs import Changelog, LeftState
from ..replay.increment_tables import Transactions, written_tables
from ..replay.planner import Planner
from ..replay.takeover import make_tables
from ..tape.causal_order import LANDED
from ..tape.exchange_files import ExchangeFile
from ..tape.input_queues import PLACE_COLUMNS
from ..tape.landed_topic import Landed
from ..task.task import Task
from ..topology.topology import SubTopology, Topology
from .application_state import ApplicationState, CommittedPosition

FIRST = 1
"""The increment that has the application's state."""
RESTARTED, UNINTERRUPTED = "restarted", "uninterrupted"
TIMES = (RESTARTED, UNINTERRUPTED)
"""Where stream times of operators begin, which Kafka keeps nowhere: at -1, as after a restart, or at the times of the
partitions, as if the application had never been restarted."""


@dataclass(frozen=True)
class BootstrapReport:
    """``pipeline`` begins with the state of ``application_id``, its operators at ``times`` (one of TIMES). ``rows``: by
    store. ``positions``: the next offset by topic and partition; ``stream_time_ms``: the largest of any task.
    ``replaced``: stores of tables for which the landed topic was read, since the application keeps no changelog of
    them. ``seconds``: all of it took.
    """

    pipeline: str
    application_id: str
    times: str
    rows: Mapping[str, int]
    positions: Cut
    stream_time_ms: int
    replaced: tuple[str, ...]
    seconds: float


@checked_types
def bootstrap(
    warehouse: Warehouse,
    topology: Topology,
    application: ApplicationState,
    *,
    pipeline: str,
    times: str = RESTARTED,
    kafka_version: str | None = None,
    dry_run: bool = False,
    say: Callable[[str], None] = lambda step: None,
) -> BootstrapReport:
    """Begin ``pipeline`` with the state of ``application``, as its first increment. The topics must have landed up to
    the application's positions, in ``warehouse``. ``times``: one of TIMES. ``kafka_version``: whose rows are made, as
    of ``replay``. ``dry_run``: compare and count, and write nothing. ``say``: called with the step.

    Raises ConfigError for a pipeline that is there already, and for a store whose changelog is not read here.
    BootstrapError where the application is not that of the topology (stores, repartition topics, partitions), has
    changes of tables between its tasks, or is ahead of what has landed.
    """
    started = time.perf_counter()
    if times not in TIMES:
        raise ConfigError("times", " or ".join(map(repr, TIMES)), repr(times), "choose one")
    work = _Bootstrap(warehouse, topology.reading(warehouse.topics), application, pipeline, times, say)
    kafka_version = replayed_version(kafka_version, None)
    return work.run(started, kafka_version, dry_run=dry_run)


class _Bootstrap:
    def __init__(
        self, warehouse: Warehouse, topology: Topology, application: ApplicationState, pipeline: str, times: str,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.warehouse, self.topology, self.application = warehouse, topology, application
        self.pipeline, self.times, self.say = pipeline, times, say
        self.tables, self.place = warehouse.pipeline(pipeline), f"application {application.application_id!r}"
        self.ledger = Ledger(self.tables.ledger)
        self._refuse_taken_name()
        self.cut = self._cut()
        previous = DoneRow(cut_to=self.cut)
        self.partitions = Planner(
            warehouse, self.topology, increment=FIRST + 1, previous=previous, idle="proceed"
        ).partitions()  # fmt: skip
        self.replaced: list[str] = []
        self._check_topics()
        self._check_stores()

    def run(self, started: float, kafka_version: str, *, dry_run: bool) -> BootstrapReport:
        if not dry_run:
            delete_folder(self.tables.root)  # of a bootstrap that died
            self._note_work()
        rows = dict.fromkeys(self.topology.stores(), 0)
        entries: dict[str, TaskEntry] = {}
        files: dict[str, list[DataFile]] = {}
        for sub in self.topology.sub_topologies:
            for partition in range(self.partitions[str(sub.id)]):
                self.say(f"restoring task {sub.kafka_id}_{partition}")
                counters: dict[str, dict[str, int]] = {}
                row_keys: dict[str, list[str]] = {}
                task = Task(self.topology, sub, partition)
                for store, operator in task.stores.items():
                    node = sub.stores[store]
                    restored, counters[store] = operator.restored(self._left(sub, node, store, partition))
                    row_keys[store] = node.store_rows(self.topology.graph).key_columns
                    rows[store] += len(restored)
                    if len(restored) and not dry_run:
                        files.setdefault(TableName.state(store), []).append(self._written(store, restored, partition))
                entries[str(TaskId(sub.id, partition))] = self._entry(sub, partition, counters, row_keys)
        stream_time_ms = max((entry.stream_time_ms for entry in entries.values()), default=NO_TIMESTAMP_MS)
        if not dry_run:
            self._begin(files, entries, self._write_unread(entries), kafka_version)
        return BootstrapReport(
            self.pipeline, self.application.application_id, self.times, rows, self.cut, stream_time_ms,
            tuple(self.replaced), time.perf_counter() - started,
        )  # fmt: skip

    def _begin(
        self, files: Mapping[str, list[DataFile]], entries: dict[str, TaskEntry], unread: dict[str, dict[str, str]],
        kafka_version: str,
    ) -> None:  # fmt: skip
        self.say("committing")
        opened: OpenTables = {}
        make_tables(self.warehouse, self.topology, written_tables(self.topology, self.tables), opened)
        transactions = Transactions(self.warehouse, self.pipeline, self.topology, FIRST, 0, lambda step: None, opened)
        versions = transactions.commit({}, [], files)
        done = DoneRow(
            topology=self.topology.fingerprint,
            code=code_snapshot(self.topology),
            cut_to=self.cut,
            partitions=self.partitions,
            versions=versions,
            tasks=entries,
            tape_times=self._tape_times(),
            kafka_version=kafka_version,
            bootstrap={"application": self.application.application_id, "times": self.times, "read_at_ms": now_ms()},
            unread=unread or None,
        )
        done = replace(done, digests=digests_of(self.warehouse, self.pipeline, done, DoneRow(), opened))
        self.ledger.begin(FIRST, done, epoch=0, written_at_ms=now_ms())
        # Behind the ledger's row: until that is there, the mark is what lets the next try delete the folder.
        delete_folder(self._mark)

    def _write_unread(self, entries: Mapping[str, TaskEntry]) -> dict[str, dict[str, str]]:
        """Files of the records between tasks, by topic and partition, in their order."""
        written: dict[str, dict[str, str]] = {}
        for topic, partitions in self.application.unread.items():
            writers = self.topology.writers_of(topic)
            tasks = [TaskId(sub.id, n) for sub in writers for n in range(self.partitions[str(sub.id)])]
            before_ms = min(entries[str(task)].tape_time_ms for task in tasks)  # all that is written later is behind
            for partition, records in enumerate(partitions):
                if len(records):
                    rows = _as_sent(records, before_ms, min(sub.id for sub in writers))
                    file = ExchangeFile(f"{self.tables.root}/unread", f"{topic[:100]}-{partition}", rows.schema)
                    file.write(rows)
                    file.close()
                    path = file.path.removeprefix(f"{self.warehouse.root}/")
                    written.setdefault(topic, {})[str(partition)] = path
        return written

    def _refuse_taken_name(self) -> None:
        """Only what a bootstrap that died has left may be deleted."""
        is_there, is_left = has_folder(self.tables.root), has_folder(self._mark)
        if self.ledger.rows() or (is_there and not is_left):
            expected, next_step = "a name that is free", "give --pipeline another name"
            raise ConfigError(f"pipeline {self.pipeline!r}", expected, "a folder of that name", next_step)

    def _note_work(self) -> None:
        filesystem, folder = open_filesystem(self._mark)
        filesystem.create_dir(folder, recursive=True)
        with filesystem.open_output_stream(f"{folder}/at-work") as file:
            file.write(self.application.application_id.encode())

    @property
    def _mark(self) -> str:
        """A folder that is there while a bootstrap is at work."""
        return f"{self.tables.root}/bootstrap"

    # --- what is compared ------------------------------------------------------------------------------------

    def _cut(self) -> Cut:
        """Of every landed topic that a task reads the committed offsets; of a global one all that has landed."""
        globals_ = {table.topic for sub in self.topology.sub_topologies for table in sub.globals}
        cut: Cut = {}
        for topic in self.topology.source_topics():
            landed, positions = Landed.of(self.warehouse, topic), self.application.positions.get(topic, {})
            cut[topic] = dict(landed.ends)
            if landed.topic_id is not None:
                next_step = "land what is there now, into another warehouse"
                self.application.refuse_other_topics({topic: landed.topic_id}, "what has landed", next_step)
            if topic in globals_:
                continue
            for partition, end in landed.ends.items():
                at = positions.get(int(partition), CommittedPosition(0)).offset
                if at > end:
                    got = f"offset {at} of partition {partition}, of which {end} have landed"
                    next_step = f"land it first: replay land {topic} --kafka …"
                    raise BootstrapError(f"topic {topic!r}", "all that the application has read", got, next_step)
                cut[topic][partition] = at
            unknown = sorted(set(positions) - {int(partition) for partition in landed.ends})
            if unknown:
                got = f"positions of partitions {', '.join(map(str, unknown))} as well"
                next_step = "land it again from Kafka, with all its partitions"
                raise BootstrapError(f"topic {topic!r}", f"{len(landed.ends)} partitions", got, next_step)
        return cut

    def _check_topics(self) -> None:
        """Repartition topics: those of the topology, and nothing unread that is not a record as it is in ours."""
        nodes = {
            node.topic: node
            for sub in self.topology.sub_topologies
            for node in sub.repartitions
            if not node.is_replay_only
        }
        self._compare("repartition topics", set(nodes), set(self.application.unread))
        for topic, unread in self.application.unread.items():
            expected = self.partitions[TableName.repartition(topic)]
            if len(unread) != expected:
                raise self._other(f"repartition topic {topic!r}", f"{expected} partitions", f"{len(unread)}")
            is_plain = not (nodes[topic].carries_change or self.topology.graph.parent(nodes[topic]).takes_back)
            if any(map(len, unread)) and not is_plain:
                got = f"{sum(map(len, unread)):,} records in {topic} that no task has taken"
                next_step = "let it run until its lag is 0 there, stop it and give the command again"
                raise BootstrapError(self.place, "no changes of tables between its tasks", got, next_step)

    def _check_stores(self) -> None:
        graph, given = self.topology.graph, self.application.changelogs
        wanted: dict[str, int] = {}
        for sub in self.topology.sub_topologies:
            for node in sub.stores.values():
                wanted |= dict.fromkeys(node.changelogs(graph), self.partitions[str(sub.id)])
                if self._table_source(node) is not None and graph.store_of(node) not in given:
                    self.replaced.append(str(graph.store_of(node)))
        self._compare("stores with changelogs", set(wanted) - set(self.replaced), set(given))
        for store in set(wanted) - set(self.replaced):
            if len(given[store]) != wanted[store]:
                raise self._other(f"store {store!r}", f"{wanted[store]} partitions", f"{len(given[store])}")

    def _compare(self, what: str, wanted: set[str], given: set[str]) -> None:
        if missing := sorted(wanted - given):
            raise self._other(f"{what} of the topology", ", ".join(missing), f"those of {self._listed(given)}")
        if more := sorted(given - wanted):
            raise self._other(f"{what} of the application", f"those of {self._listed(wanted)}", ", ".join(more))

    def _listed(self, names: set[str]) -> str:
        return ", ".join(sorted(names)) or "none"

    def _other(self, place: str, expected: str, got: str) -> BootstrapError:
        next_step = (
            "compare `replay describe` with the application's describe(): names of stores are Materialized's, and "
            "else have the numbers of their nodes"
        )
        return BootstrapError(f"{self.place}, {place}", expected, got, next_step)

    # --- what is left ----------------------------------------------------------------------------------------

    def _left(self, sub: SubTopology, node: Node, store: str, partition: int) -> LeftState:
        graph = self.topology.graph
        task_time_ms = self._task_time_ms(sub, partition)
        # A task commits its processors' numbers beside the offset of each of its partitions, and
        # begins with the largest (ProcessorMetadata.update).
        numbers: dict[str, int] = {}
        for position in self._positions(sub, partition):
            for name, number in position.numbers.items():
                numbers[name] = max(number, numbers.get(name, number))
        logs = tuple(self._log(node, name, partition) for name in node.changelogs(graph))
        return LeftState(
            store,
            tuple(log.topic for log in logs),
            node.shape,
            node.windows_of_rows,
            logs,
            NO_TIMESTAMP_MS if self.times == RESTARTED else task_time_ms,
            task_time_ms,
            numbers,
        )

    def _log(self, node: Node, store: str, partition: int) -> Changelog:
        if store not in self.replaced:
            return self.application.changelogs[store][partition]
        source = self._table_source(node)
        assert source is not None
        landed = Landed.of(self.warehouse, source)
        end = self.cut[source].get(str(partition), 0)
        tables = [
            table.select(["key", "value", "timestamp"])
            for table in landed.slice(str(partition), 0, end).chunks(1 << 20)
        ]
        if not tables:
            return Changelog.empty(source)
        rows = pa.concat_tables(tables).combine_chunks()
        key, value = (rows[name].combine_chunks().cast(pa.binary()) for name in ("key", "value"))
        return Changelog(source, key, value, rows["timestamp"].to_numpy())

    def _table_source(self, node: Node) -> str | None:
        """The landed topic of which a table has the records as they are, so that Kafka may keep no changelog of it
        (StreamsConfig.REUSE_KTABLE_SOURCE_TOPICS).
        """
        if not node.is_table_of_records or len(node.inputs) != 1:
            return None
        source = self.topology.graph.nodes[node.inputs[0]]
        return source.landed_topic if isinstance(source, SourceNode) else None

    def _positions(self, sub: SubTopology, partition: int) -> Iterator[CommittedPosition]:
        for source in sub.sources:
            position = self.application.positions.get(source.topic, {}).get(partition)
            if position is not None:
                yield position

    def _task_time_ms(self, sub: SubTopology, partition: int) -> int:
        """Of all parts of a sub-topology, which are one task in Kafka."""
        parts = [part for part in self.topology.sub_topologies if part.kafka_id == sub.kafka_id]
        times = [position.time_ms for part in parts for position in self._positions(part, partition)]
        return max(times, default=NO_TIMESTAMP_MS)

    def _entry(
        self, sub: SubTopology, partition: int, counters: dict[str, dict[str, int]], row_keys: dict[str, list[str]]
    ) -> TaskEntry:
        time_ms = self._task_time_ms(sub, partition)
        extracted = {
            source.topic: self.application.positions[source.topic][partition].time_ms
            for source in sub.sources
            if source.time_step is not None and partition in self.application.positions.get(source.topic, {})
        }
        return TaskEntry(
            counters=counters, row_keys=row_keys, stream_time_ms=time_ms, tape_time_ms=time_ms,
            partition_times=extracted,
        )  # fmt: skip

    def _tape_times(self) -> Cut:
        """The largest time read of each partition."""
        return {
            topic: {str(p): position.time_ms for p, position in positions.items()}
            for topic, positions in self.application.positions.items()
            if topic in self.cut
        }

    def _written(self, store: str, rows: pa.Table, partition: int) -> DataFile:
        for column, (name, value) in enumerate((("increment", FIRST), ("deleted", False))):
            rows = rows.add_column(column, name, pa.array(np.full(len(rows), value)))
        file = TaskFile(self.tables.state(store), partition=partition, name=f"{FIRST:08d}-bootstrap")
        file.write(rows.combine_chunks())
        written = file.close()
        assert written is not None
        return written


def _as_sent(records: Changelog, before_ms: int, writer: int) -> pa.Table:
    """``records`` as a task of the sub-topology ``writer`` sends them. No landed record is known that caused them: they
    are merged by their own times, and come before what causes up to ``before_ms`` have.
    """
    n = len(records)
    columns = {
        "timestamp": pa.array(records.time_ms), "key": records.key, "value": records.value,
        "headers": pa.nulls(n, HEADERS) if records.headers is None else records.headers,
        "send": pa.array(np.arange(n)),
    }  # fmt: skip
    places: dict[str, Any] = {
        "cause_time_ms": np.minimum(np.maximum.accumulate(records.time_ms), before_ms), "cause_sub": writer,
        "cause_partition": -1, "cause_offset": -1, "cause_depth": 1, "cause_number": LANDED,
    }  # fmt: skip
    of_rows = {name: pa.array(np.broadcast_to(places[name], n).astype(np.int64)) for name in PLACE_COLUMNS}
    return pa.table(columns | of_rows)
