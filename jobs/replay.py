"""Replays landed topics through a topology, increment by increment.

Owns the order of steps: plan row, tasks, one Delta transaction a table, done row. Rule: an increment that dies anywhere
is run again as planned and leaves every table as if it had run once; the done row is the commit point, and readers stop
there.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pyarrow import fs

from jobs.planner import Cut, Landed, Plan, Planner
from jobs.runner import Runner, TaskDescription, TaskReport, exchange_folder, table_schema
from jobs.task import compile_kernels
from jobs.topology.nodes import RepartitionNode
from jobs.topology.topology import SubTopology, Topology
from state.commit import commit_files
from state.errors import LedgerError
from state.files import DataFile, read_files
from state.ledger import Ledger
from state.tables import Warehouse, open_filesystem


@dataclass(frozen=True)
class Books:
    """Verdicts on the records read: ``read = applied + dropped + undecodable``; ``dropped_by_reason`` sums to
    ``dropped``.
    """

    read: int
    applied: int
    dropped: int
    undecodable: int
    dropped_by_reason: dict[str, int]
    windows_refused: int = 0
    """Windows that refused a record which other windows took."""

    @property
    def balance(self) -> bool:
        return self.read == self.applied + self.dropped + self.undecodable


@dataclass(frozen=True)
class IncrementReport:
    """One committed increment. ``books``: of the records read from landed topics; ``outputs``: records written by name.

    ``lateness``: avg and max in ms over all records taken; ``seconds`` by part; ``versions``: Delta version by table.
    """

    increment: int
    books: Books
    books_by_sub_topology: dict[str, Books]
    outputs: dict[str, int]
    versions: dict[str, int]
    lateness: dict[str, float | int | None]
    suppress: dict[str, dict[str, int]]
    seconds: dict[str, float]
    rss_bytes_max: int
    cut_from: Cut
    cut_to: Cut
    waiting: int
    done: dict[str, Any]


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
    on_step: OnStep = lambda step: None,
) -> Iterator[IncrementReport]:
    """Run what has landed and was not read yet; yields a report as each increment is committed.

    ``max_records``: cut into increments of at most so many records; ``increments``: stop after so many. An increment
    that a run before this one planned and did not finish is run first. Nothing new: nothing is written.
    Raises LedgerError when the topology is another one than that of the state, LedgerConflict when another runner is
    quicker.
    """
    pipeline_run = _Pipeline(warehouse, topology, pipeline, runner, on_step)
    left = increments
    for plan in pipeline_run.plans(max_records, idle):
        if left is not None and left == 0:
            return
        yield pipeline_run.run(plan)
        left = None if left is None else left - 1


class _Pipeline:
    def __init__(
        self, warehouse: Warehouse, topology: Topology, pipeline: str, runner: Runner, on_step: OnStep
    ) -> None:
        self.warehouse, self.topology, self.name, self.runner, self.on_step = (
            warehouse, topology, pipeline, runner, on_step,
        )  # fmt: skip
        self.tables = warehouse.pipeline(pipeline)
        self.ledger = Ledger(self.tables.ledger, warehouse.storage_options)
        last = self.ledger.last_done()
        self.previous: dict[str, Any] = {} if last is None else last.content
        self.increment = 0 if last is None else last.increment
        self._is_compiled = False

    def plans(self, max_records: int | None, idle: str) -> Iterator[Plan]:
        """The unfinished increment, then new ones."""
        pending = self.ledger.pending()
        if pending is not None:
            self._check_topology(pending.content["topology"])
            yield Plan(pending.increment, **pending.content, is_rerun=True)
        if "topology" in self.previous:
            self._check_topology(self.previous["topology"])
        planner = Planner(
            self.warehouse, self.topology, increment=self.increment + 1, previous=self.previous, idle=idle
        )
        yield from planner.plans(max_records)

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
            self.ledger.plan(plan.increment, plan.content(), written_at_ms=_now_ms())
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
        self.ledger.done(plan.increment, content, written_at_ms=_now_ms())
        self._clear_exchange(plan.increment)
        self.previous, self.increment = content, plan.increment
        self.on_step(f"done {plan.increment}")
        return report_of(plan.increment, plan.content(), content)

    # --- tasks -----------------------------------------------------------------------------------------------

    def _compute(self, plan: Plan) -> list[TaskReport]:
        """Stage after stage: a sub-topology runs when all that write its repartition table have run."""
        reports: list[TaskReport] = []
        state = self._state_files()
        landed = {topic: Landed.of(self.warehouse, topic) for topic in self.topology.source_topics()}
        for sub in self.topology.sub_topologies:
            descriptions = [
                description
                for partition in range(plan.partitions[str(sub.id)])
                if (description := self._describe(plan, sub, partition, reports, state, landed)) is not None
            ]
            if descriptions:
                reports += self.runner.run(self.topology, descriptions)
        return reports

    def _describe(
        self,
        plan: Plan,
        sub: SubTopology,
        partition: int,
        reports: list[TaskReport],
        state: dict[str, list[DataFile]],
        landed: dict[str, Landed],
    ) -> TaskDescription | None:
        """The task, or None when it has nothing to read."""
        source, p = sub.source, str(partition)
        slice_, pieces = None, tuple[str, ...]()
        if isinstance(source, RepartitionNode):
            written = sorted(reports, key=lambda report: (report.sub_topology, report.partition))
            pieces = tuple(
                report.pieces[source.topic][p] for report in written if p in report.pieces.get(source.topic, {})
            )
            if not pieces:
                return None
        else:
            begin, end = (cut[source.topic].get(p, 0) for cut in (plan.cut_from, plan.cut_to))
            slice_ = landed[source.topic].slice(p, begin, end)
            if not slice_.files:
                return None
        return TaskDescription(
            warehouse=self.warehouse,
            pipeline=self.name,
            increment=plan.increment,
            sub_topology=sub.id,
            partition=partition,
            slice=slice_,
            pieces=pieces,
            state={
                node.store: tuple(file for file in state[node.store] if file.partition == partition)
                for node in sub.stores
            },
            repartitions={
                node.topic: plan.partitions[str(below.id)]
                for node in sub.repartitions
                for below in self.topology.sub_topologies
                if below.source is node
            },
            before=self.previous.get("tasks", {}).get(f"{sub.id}_{partition}", {}),
        )

    def _state_files(self) -> dict[str, list[DataFile]]:
        """Files of every store as of the increment before, whatever was half written since."""
        versions: dict[str, int] = self.previous.get("versions", {})
        found = {}
        for node in self.topology.stores():
            version = versions.get(f"state/{node.store}")
            path = self.tables.state(node.store)
            files = [] if version is None else read_files(
                path, version=version, storage_options=self.warehouse.storage_options
            )  # fmt: skip
            found[node.store] = sorted(files, key=lambda file: file.bounds.get("increment", (0, 0)))
        return found

    # --- commit ----------------------------------------------------------------------------------------------

    def _tables(self) -> dict[str, str]:
        """Path of every table that an increment commits, by name; state first, so that outputs never outrun it."""
        tables = {f"state/{node.store}": self.tables.state(node.store) for node in self.topology.stores()}
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
                app_id=f"{self.name}/{table}/0",
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
            str(sub.id): _add_books([r.counts for r in reports if r.sub_topology == sub.id])
            for sub in self.topology.sub_topologies
        }
        landed = [
            by_sub[str(sub.id)] for sub in self.topology.sub_topologies if not isinstance(sub.source, RepartitionNode)
        ]
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
            "books": _add_books(landed) | {"read": plan.records, "by_sub_topology": by_sub},
            "outputs": {
                sink.topic: sum(file.records for table, file in files if table == f"outputs/{sink.topic}")
                for sink in self.topology.sinks()
            },
            "versions": versions,
            "tasks": tasks,
            "lateness": _lateness(reports),
            "suppress": _suppress(reports),
            "seconds": seconds | _task_seconds(reports),
            "rss_bytes_max": max((report.rss_bytes for report in reports), default=0),
        }


def _add_books(counts: list[dict[str, Any]]) -> dict[str, Any]:
    """Sums; ``read`` is what tasks counted. The increment's own ``read`` is put in by the plan, which counted
    tables.
    """
    total: dict[str, Any] = {
        name: sum(count[name] for count in counts)
        for name in ("read", "applied", "dropped", "undecodable", "windows_refused")
    }
    reasons: dict[str, int] = {}
    for count in counts:
        for reason, number in count["dropped_by_reason"].items():
            reasons[reason] = reasons.get(reason, 0) + number
    return total | {"dropped_by_reason": reasons}


def _lateness(reports: list[TaskReport]) -> dict[str, float | int | None]:
    records = sum(report.lateness["records"] for report in reports)
    if not records:
        return {"avg": None, "max": None}
    total = sum(report.lateness["total_ms"] for report in reports)
    return {"avg": total / records, "max": max(report.lateness["max_ms"] for report in reports)}


def _suppress(reports: list[TaskReport]) -> dict[str, dict[str, int]]:
    """Sums over tasks, which is what is buffered and emitted in all; maxima are sums of the tasks' own."""
    total: dict[str, dict[str, int]] = {}
    for report in reports:
        for node, metrics in report.suppress.items():
            of_node = total.setdefault(node, {})
            for name, number in metrics.items():
                of_node[name] = of_node.get(name, 0) + number
    return total


def _task_seconds(reports: list[TaskReport]) -> dict[str, float]:
    """Seconds that tasks spent by part, summed over tasks (they run side by side)."""
    total: dict[str, float] = {}
    for report in reports:
        for part, seconds in report.seconds.items():
            total[f"task_{part}"] = total.get(f"task_{part}", 0.0) + seconds
    return total


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _books(content: dict[str, Any]) -> Books:
    names = ("read", "applied", "dropped", "undecodable", "dropped_by_reason", "windows_refused")
    return Books(**{name: content[name] for name in names})


def report_of(increment: int, planned: dict[str, Any], done: dict[str, Any]) -> IncrementReport:
    """The report of an increment from its two ledger rows."""
    return IncrementReport(
        increment=increment,
        books=_books(done["books"]),
        books_by_sub_topology={sub: _books(books) for sub, books in done["books"]["by_sub_topology"].items()},
        outputs=done["outputs"],
        versions=done["versions"],
        lateness=done["lateness"],
        suppress=done["suppress"],
        seconds=done["seconds"],
        rss_bytes_max=done["rss_bytes_max"],
        cut_from=planned["cut_from"],
        cut_to=planned["cut_to"],
        waiting=planned["waiting"],
        done=done,
    )
