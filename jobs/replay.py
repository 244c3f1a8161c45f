"""Replays landed topics through a topology, increment by increment.

Owns the order of steps: plan row, tasks, one Delta transaction a table, done row. Rule: an increment that dies anywhere
is run again as planned and leaves every table as if it had run once; the done row is the commit point, and readers stop
there.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from pyarrow import fs

from jobs.exchange import Exchange
from jobs.increment_report import (
    IncrementReport,
    add_books,
    report_of,
    task_seconds,
    total_lateness,
    total_numbers,
)
from jobs.kernels.queues import NO_MORE
from jobs.planner import Landed, Plan, Planner
from jobs.restatement import now_ms, refuse_pending
from jobs.runner import ImportedStore, Runner, TaskDescription, TaskReport, exchange_folder, table_schema
from jobs.tape import Slice
from jobs.task import compile_kernels, wirings
from jobs.task_tape import Queue
from jobs.topology.nodes import SourceNode
from jobs.topology.topology import SubTopology, Topology
from state.commit import commit_files
from state.errors import LedgerError
from state.files import DataFile
from state.ledger import Ledger
from state.table_parts import table_files
from state.tables import Warehouse, open_filesystem

OnStep = Callable[[str], None]
"""Told of every step: "planned 3", "computed 3", "committed outputs/x 3", "done 3". What it raises stops the run
there.
"""


def replay(
    warehouse: Warehouse,
    topology: Topology,
    *,
    pipeline: str,
    runner: Runner,
    max_records: int | None = None,
    increments: int | None = None,
    idle: str = "wait",
    order: str = "time",
    on_step: OnStep = lambda step: None,
) -> Iterator[IncrementReport]:
    """Run what has landed and was not read yet; yields a report as each increment is committed.

    ``max_records``: cut into increments of at most so many records; ``increments``: stop after so many. An increment
    that a run before this one planned and did not finish is run first. Nothing new: nothing is written.
    ``order``: "time" (Kafka's PartitionGroup over whole topics) or "arrival" (landed records carry their arrival).
    Raises LedgerError when the topology is another one than that of the state, LedgerConflict when another runner is
    quicker.
    """
    pipeline_run = _Pipeline(warehouse, topology, pipeline, runner, order, on_step)
    left = increments
    for plan in pipeline_run.plans(max_records, idle):
        if left is not None and left == 0:
            return
        yield pipeline_run.run(plan)
        left = None if left is None else left - 1


class _Pipeline:
    def __init__(
        self, warehouse: Warehouse, topology: Topology, pipeline: str, runner: Runner, order: str, on_step: OnStep
    ) -> None:
        self.warehouse, self.topology, self.name, self.runner, self.order, self.on_step = (
            warehouse, topology, pipeline, runner, order, on_step,
        )  # fmt: skip
        self.tables = warehouse.pipeline(pipeline)
        self.ledger = Ledger(self.tables.ledger, warehouse.storage_options)
        last = self.ledger.last_done()
        self.previous: dict[str, Any] = {} if last is None else last.content
        self.increment, self.epoch = (0, 0) if last is None else (last.increment, last.epoch)
        self._is_compiled = False

    def plans(self, max_records: int | None, idle: str) -> Iterator[Plan]:
        """The unfinished increment, then new ones."""
        pending = self.ledger.pending()
        if "topology" in self.previous:
            self._check_topology(self.previous["topology"])
        if pending is not None:
            refuse_pending(self.name, pending)
            self._check_topology(pending.content["topology"])
            self.epoch = pending.epoch
            self.planner = self._planner(idle)
            yield Plan(pending.increment, **pending.content, is_rerun=True)
        self.planner = self._planner(idle)
        yield from self.planner.plans(max_records)

    def _planner(self, idle: str) -> Planner:
        return Planner(
            self.warehouse, self.topology, increment=self.increment + 1, previous=self.previous, idle=idle,
            order=self.order,
        )  # fmt: skip

    def _check_topology(self, fingerprint: str) -> None:
        if fingerprint != self.topology.fingerprint:
            raise LedgerError(
                f"pipeline {self.name!r}",
                f"the topology that made its state ({fingerprint})",
                f"another one ({self.topology.fingerprint})",
                "replay under another pipeline name, or go back to the topology of before",
            )

    def run(self, plan: Plan) -> IncrementReport:
        started = time.perf_counter()
        if not plan.is_rerun:
            self.epoch = self.ledger.plan(plan.increment, plan.content(), written_at_ms=now_ms()).epoch
        self.on_step(f"planned {plan.increment}")
        if not self._is_compiled:
            compile_kernels(self.topology)
            self._is_compiled = True
        planned = time.perf_counter()
        reports = self._compute(plan)
        self.on_step(f"computed {plan.increment}")
        computed = time.perf_counter()
        versions = self._commit(plan, reports)
        committed = time.perf_counter()
        seconds = {"plan": planned - started, "compute": computed - planned, "commit": committed - computed}
        content = self._done_content(plan, reports, versions, seconds)
        self.ledger.done(plan.increment, content, written_at_ms=now_ms())
        self._clear_exchange(plan.increment)
        self.previous, self.increment = content, plan.increment
        self.on_step(f"done {plan.increment}")
        return report_of(plan.increment, plan.content(), content)

    # --- tasks -----------------------------------------------------------------------------------------------

    def _compute(self, plan: Plan) -> list[TaskReport]:
        """Stage after stage: a sub-topology runs when all that write its repartition tables have run."""
        reports: list[TaskReport] = []
        state = self._state_files()
        landed = {topic: Landed.of(self.warehouse, topic) for topic in self.topology.source_topics()}
        exchange = Exchange(self.order)
        for sub in self.topology.sub_topologies:
            descriptions = [
                description
                for partition in range(plan.partitions[str(sub.id)])
                if (description := self._describe(plan, sub, partition, exchange, state, landed)) is not None
            ]
            if descriptions:
                stage = self.runner.run(self.topology, descriptions)
                exchange.add(sub, stage)
                reports += stage
        return reports

    def _describe(
        self,
        plan: Plan,
        sub: SubTopology,
        partition: int,
        exchange: Exchange,
        state: dict[str, list[DataFile]],
        landed: dict[str, Landed],
    ) -> TaskDescription | None:
        """The task, or None when it has nothing to read."""
        wiring = wirings(self.topology)[sub.id]
        queues: list[Queue] = []
        for source in sub.sources:
            if isinstance(source, SourceNode):
                queues.append(self._landed_queue(plan, len(queues), landed[source.topic], partition))
            else:
                queues.append(exchange.queue(len(queues), source.topic, partition, is_topic=not source.is_ours))
        for imported in wiring.imports:
            queues.append(exchange.queue(len(queues), imported.name, partition, is_topic=False))
        number = len(queues)
        for place, table in enumerate(sub.globals):
            queues += [
                self._landed_queue(plan, number + place, landed[table.topic], p)
                for p in range(len(landed[table.topic].ends))
            ]
        if not any(queue.has_rows for queue in queues):
            return None
        return TaskDescription(
            warehouse=self.warehouse,
            pipeline=self.name,
            increment=plan.increment,
            sub_topology=sub.id,
            partition=partition,
            queues=tuple(queues),
            order=self.order,
            state={store: _of_partition(state[store], partition) for store in sub.stores},
            imported=self._imported(sub, partition, state),
            globals={table.name: self._read_before(plan, landed[table.topic]) for table in sub.globals},
            repartitions={node.topic: plan.partitions[f"repartition/{node.topic}"] for node in sub.repartitions},
            before=self._before(sub.id, partition),
        )

    def _before(self, sub_topology: int, partition: int) -> dict[str, Any]:
        found: dict[str, Any] = self.previous.get("tasks", {}).get(f"{sub_topology}_{partition}", {})
        return found

    @staticmethod
    def _read_before(plan: Plan, landed: Landed) -> tuple[Slice, ...]:
        """All that the increments before have read of a topic."""
        cut = plan.cut_from.get(landed.topic, {})
        return tuple(landed.slice(p, 0, cut.get(p, 0)) for p in landed.ends)

    def _landed_queue(self, plan: Plan, source: int, landed: Landed, partition: int) -> Queue:
        p = str(partition)
        begin, end = (cut.get(landed.topic, {}).get(p, 0) for cut in (plan.cut_from, plan.cut_to))
        if p not in landed.ends:  # topics that are not joined may have fewer partitions than there are tasks
            return Queue(source, landed.slice(p, 0, 0))
        beyond = NO_MORE
        if len(self.topology.source_topics()) > 1 and self.order == "time":
            rest = landed.slice(p, end, landed.ends[p]).times()
            beyond = int(rest["timestamp"][0].as_py()) if len(rest) else NO_MORE
        return Queue(source, landed.slice(p, begin, end), beyond_ms=beyond)

    def _imported(self, sub: SubTopology, partition: int, state: dict[str, list[DataFile]]) -> dict[str, ImportedStore]:
        """Stores of earlier parts of the sub-topology that nodes of this one look into."""
        found = {}
        for name in {imported.node for imported in wirings(self.topology)[sub.id].imports if imported.when}:
            store = self.topology.graph.store_of(self.topology.graph.nodes[name])
            earlier = None if store is None else self.topology.sub_topology_of(store)
            if store is None or earlier is None:
                continue
            clocks = self._before(earlier.id, partition).get("clocks", {}).get(store)
            if clocks is not None:
                found[name] = ImportedStore(earlier.id, store, _of_partition(state[store], partition), clocks)
        return found

    def _state_files(self) -> dict[str, list[DataFile]]:
        """Files of every store as of the increment before, whatever was half written since."""
        found = {}
        for store in self.topology.stores():
            files = table_files(self.warehouse, self.name, self.previous, f"state/{store}")
            found[store] = sorted(files, key=lambda file: file.bounds.get("increment", (0, 0)))
        return found

    # --- commit ----------------------------------------------------------------------------------------------

    def _tables(self) -> dict[str, str]:
        """Path of every table that an increment commits, by name; state first, so that outputs never outrun it."""
        tables = {f"state/{store}": self.tables.state(store) for store in self.topology.stores()}
        for sub in self.topology.sub_topologies:
            for node in sub.repartitions:
                tables[f"repartition/{node.topic}"] = self.tables.repartition(node.topic)
        tables |= {"dropped": self.tables.dropped, "dead_letter": self.tables.dead_letter}
        return tables | {f"outputs/{sink.topic}": self.tables.output(sink.topic) for sink in self.topology.sinks()}

    def _commit(self, plan: Plan, reports: list[TaskReport]) -> dict[str, int]:
        versions = {}
        for table, path in self._tables().items():
            versions[table] = commit_files(
                path,
                table_schema(self.topology, table),
                [DataFile.from_dict(file) for report in reports for file in report.files.get(table, [])],
                app_id=f"{self.name}/{table}/{self.epoch}",
                increment=plan.increment,
                storage_options=self.warehouse.storage_options,
            )
            self.on_step(f"committed {table} {plan.increment}")
        return versions

    def _clear_exchange(self, increment: int) -> None:
        filesystem, root = open_filesystem(exchange_folder(self.tables, increment))
        if filesystem.get_file_info(root).type == fs.FileType.Directory:
            filesystem.delete_dir(root)

    # --- report ----------------------------------------------------------------------------------------------

    def _done_content(
        self, plan: Plan, reports: list[TaskReport], versions: dict[str, int], seconds: dict[str, float]
    ) -> dict[str, Any]:
        by_sub = {
            str(sub.id): add_books([r.counts for r in reports if r.sub_topology == sub.id])
            for sub in self.topology.sub_topologies
        }
        landed = [report.landed for report in reports]
        files = [
            (table, DataFile.from_dict(file))
            for report in reports
            for table, found in report.files.items()
            for file in found
        ]
        tasks = dict(self.previous.get("tasks", {}))
        tasks |= {f"{report.sub_topology}_{report.partition}": report.after for report in reports}
        return {
            "topology": self.topology.fingerprint,
            "cut_to": self.previous.get("cut_to", {}) | plan.cut_to,
            "partitions": plan.partitions,
            "books": add_books(landed) | {"read": plan.records, "by_sub_topology": by_sub},
            "outputs": {
                sink.topic: sum(file.records for table, file in files if table == f"outputs/{sink.topic}")
                for sink in self.topology.sinks()
            },
            "versions": self.previous.get("versions", {}) | versions,
            **{name: self.previous[name] for name in ("bases",) if name in self.previous},
            "tasks": tasks,
            "tape_times": self.planner.tape_times(plan),
            "lateness": total_lateness(reports),
            "operators": total_numbers(reports),
            "seconds": seconds | task_seconds(reports),
            "rss_bytes_max": max((report.rss_bytes for report in reports), default=0),
        }


def _of_partition(files: list[DataFile], partition: int) -> tuple[DataFile, ...]:
    return tuple(file for file in files if file.partition == partition)
