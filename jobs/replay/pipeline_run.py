"""Replays landed topics through a topology, increment by increment.

Owns the order of steps: plan row, tasks, one Delta transaction a table, done row. Rule: an increment that dies anywhere
is run again as planned and leaves every table as if it had run once; the done row is the commit point, and readers stop
there.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from ...state.compilation.kernel_tiers import tiers
from ...state.errors import CodeChanged, ConfigError
from ...state.runs.local_copies import StateFile
from ...state.tables.branch_files import digests_of, refuse_damage, table_files
from ...state.tables.commit import commit_files
from ...state.tables.compaction import compact
from ...state.tables.data_files import DataFile, OpenTables, oldest_first
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import DoneRow, PlanRow
from ...state.tables.names import DEAD_LETTER, DROPPED, STATE, TableName, TaskId
from ...state.tables.warehouse import Warehouse
from ...state.wall_clock import now_ms
from ..code_changes.state_migration import CodeChange, Wanted, migrated_files, take_over
from ..execution.table_schemas import table_schema
from ..execution.task_description import Runner, TaskDescription, TaskReport, exchange_folder
from ..execution.task_stores import ImportedStore, of_partition
from ..kernels.partition_group import NO_MORE
from ..tape.input_queues import Queue
from ..tape.landed_slice import Slice
from ..tape.landed_topic import Landed
from ..task.dataflow import dataflows
from ..task.kernel_calls import call_kernels
from ..topology.topology import SubTopology, Topology
from .done_row import done_row_of
from .increment_report import IncrementReport, report_of
from .landed_times import LandedTimes
from .plan import Plan
from .planner import Planner
from .progress import Meter, OnProgress
from .stage_exchange import Exchange, clear_exchange, discard
from .takeover import in_place_of, make_tables, refusal_of, refuse_while_at_work, shut_out, unused_epoch
from .unfinished import refuse_after_flush, refuse_backfill

OnStep = Callable[[str], None]
"""Called at every step, "planned 3", "computed 3", "committed outputs/x 3", "done 3"; it may raise, to stop there."""


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
    flush_at_end: bool = False,
    on_step: OnStep = lambda step: None,
    wanted: Wanted | None = None,
    progress: OnProgress | None = None,
    run: str | None = None,
    until_ms: int | None = None,
    times: LandedTimes | None = None,
) -> Iterator[IncrementReport]:
    """Replay what has landed in ``warehouse`` and ``pipeline`` has not read; yields a report as each increment is
    committed. An increment that was planned and is not done is run first. ``runner``: a LocalRunner or a SparkRunner.

    ``max_records``: records of an increment, at most; ``increments``: stop after so many. ``idle``: "wait" leaves
    records unread that a quiet partition may still precede, "proceed" reads them. ``order``: "time" (Kafka's
    PartitionGroup over whole topics) or "arrival" (landed records have their arrival). ``flush_at_end`` closes the
    history: one more increment advances every task to its end, and the pipeline takes no records after that.
    ``until_ms``: of each partition, read what is before its first record, or recorded time, of that time or later;
    ``times``: those of records read before. ``wanted``: what to do with the state of changed code. ``on_step``,
    ``progress``: called as a step begins, and with the progress. ``run``: name of the caller's heartbeats. CodeChanged
    when the topology cannot continue with the state, LedgerError for records after a flush, LedgerConflict when
    another runner commits first, ConfigError for ``until_ms`` with ``flush_at_end``.
    """
    if flush_at_end and until_ms is not None:
        raise ConfigError("until", "no flush_at_end beside it", "both", "close history when all of it was read")
    topology = topology.reading(warehouse.topics)
    work = Pipeline(warehouse, topology, pipeline, runner, order, on_step, wanted, progress, run, until_ms, times)
    for plan in work.plans(max_records, idle, flush_at_end):
        if increments == 0:
            return
        yield work.run(plan)
        increments = None if increments is None else increments - 1


class Pipeline:
    """A pipeline at work, from its last done increment on."""

    runs_backfills = False

    def __init__(
        self,
        warehouse: Warehouse,
        topology: Topology,
        pipeline: str,
        runner: Runner,
        order: str,
        on_step: OnStep,
        wanted: Wanted | None = None,
        progress: OnProgress | None = None,
        run: str | None = None,
        until_ms: int | None = None,
        times: LandedTimes | None = None,
    ) -> None:
        self.warehouse, self.topology, self.name = warehouse, topology, pipeline
        self.runner, self.order, self.own_run, self.until_ms, self.times = runner, order, run, until_ms, times
        self.tables, self.meter = warehouse.pipeline(pipeline), Meter(progress)
        self.on_step = self.meter.after(on_step)
        self.ledger = Ledger(self.tables.ledger, warehouse.storage_options)
        last = self.ledger.last_done()
        self.code: CodeChange = take_over(pipeline, last, topology, wanted)
        self.previous = self.code.previous
        self.increment, self.epoch = (0, 0) if last is None else (last.increment, last.epoch)
        self.last_done, self.last_epoch = self.increment, self.epoch
        self.last_versions = {} if last is None else last.content.versions
        self.given_up: tuple[LedgerRow[PlanRow], CodeChanged] | None = None  # by other code: the next one replaces it
        self._opened: OpenTables = {}
        refuse_damage(warehouse, pipeline, self.ledger, last, self._opened)

    def plans(self, max_records: int | None, idle: str, flush_at_end: bool) -> Iterator[Plan]:
        """The unfinished increment, then new ones, then the flush."""
        refuse_backfill(self.warehouse, self.name, self.previous, self.runs_backfills)
        idle = "proceed" if flush_at_end else idle
        pending = self.ledger.pending()
        refusal = refusal_of(self.warehouse, self.name, pending, self.topology, self.code, self.last_done)
        if pending is not None and refusal is not None:
            refuse_while_at_work(self.warehouse, self.name, pending, at_ms=now_ms(), run=self.own_run)
            self.given_up, self.increment = (pending, refusal), self.ledger.next_free() - 1
        self.planner = self._planner(idle)
        if pending is not None and refusal is None:
            self.epoch = pending.epoch
            yield Plan(pending.increment, pending.content, is_rerun=True)
        elif self.code.rewrites:
            yield self._migration()
        if pending is not None or self.code.rewrites:
            self.planner = self._planner(idle)
        for number, plan in enumerate(self.planner.plans(max_records)):
            refuse_after_flush(self.name, self.previous)
            is_first = number == 0 and self.previous is self.code.previous
            yield replace(plan, row=replace(plan.row, changes=self.code.changes())) if is_first else plan
        if flush_at_end and not self.previous.flushed:
            self.planner = self._planner(idle)
            yield self.planner.flush()
        if refusal is not None and self.given_up is not None:  # nothing was planned in its place
            raise refusal

    def _write(self, plan: Plan) -> Plan:
        """Make its tables, then write the plan down; in the place of a pending one where this code takes over."""
        missing = {name: path for name, path in self._tables().items() if name not in self.previous.versions}
        make_tables(self.warehouse, self.topology, missing, self._opened)
        if plan.is_rerun:
            self.ledger.refuse_given_up(plan.increment)  # perhaps by somebody who saw no tables yet
            return plan
        if self.given_up is None:
            self.epoch = self.ledger.plan(plan.increment, plan.row, written_at_ms=now_ms()).epoch
            return plan
        (pending, refusal), self.given_up = self.given_up, None
        row = in_place_of(plan.row, pending, refusal)
        self.epoch = unused_epoch(self.warehouse, self.name, pending.epoch)
        self.ledger.plan_instead(pending, plan.increment, row, epoch=self.epoch, written_at_ms=now_ms())
        return replace(plan, row=row)

    def _migration(self) -> Plan:
        """An increment that reads nothing and rewrites stores."""
        row = replace(self.planner.reads_nothing(), changes=self.code.changes(), migrate=self.code.migrate())
        return Plan(self.planner.increment, row)

    def _planner(self, idle: str, landed: dict[str, Landed] | None = None) -> Planner:
        return Planner(
            self.warehouse, self.topology, increment=self.increment + 1, previous=self.previous, idle=idle,
            order=self.order, until_ms=self.until_ms, times=self.times, landed=landed,
        )  # fmt: skip

    def run(self, plan: Plan) -> IncrementReport:
        started, plan = time.perf_counter(), self._write(plan)
        if plan.row.instead_of is not None:
            shut_out(
                self.warehouse, self.name, self.topology, self._tables(), self.last_versions,
                last_done=self.last_epoch, epoch=self.epoch, increment=plan.increment, written_at_ms=now_ms(),
            )  # fmt: skip
        self.meter.begin(plan, self.planner, self.topology)
        planned = time.perf_counter()
        tiers.expect(plan.row.records, lambda: call_kernels(self.topology), self.meter.count)
        self.on_step(f"planned {plan.increment}")
        ready = time.perf_counter()
        rewritten: dict[str, list[DataFile]] = {}
        with self._unless_overtaken(plan):
            if plan.row.migrate is not None:
                rewritten = migrated_files(
                    self.warehouse, self.name, plan.increment, self.topology, self.code, before=self.last_done
                )
            reports = self._compute(plan) if plan.row.migrate is None else []
            self.on_step(f"computed {plan.increment}")
            computed = time.perf_counter()
            versions = self._commit(plan, reports, rewritten)
        committed = time.perf_counter()
        seconds = {"plan": planned - started, "compute": computed - ready, "commit": committed - computed}
        tape_times = self.planner.tape_times(plan)
        done = done_row_of(self.topology, self.code.record, self.previous, plan, reports, versions, tape_times, seconds)
        done = replace(done, digests=digests_of(self.warehouse, self.name, done, self.previous, self._opened))
        self.ledger.done(plan.increment, done, written_at_ms=now_ms())
        clear_exchange(self.tables, plan.increment)
        self.previous, self.increment = done, plan.increment
        self.planner.previous = done
        self.on_step(f"done {plan.increment}")
        return report_of(plan.increment, plan.row, done)

    @contextmanager
    def _unless_overtaken(self, plan: Plan) -> Iterator[None]:
        """Raises LedgerConflict for any error while another runner finishes the increment and deletes what both use."""
        try:
            yield
        except Exception:
            self.ledger.refuse_done(plan.increment)
            raise

    # --- tasks -----------------------------------------------------------------------------------------------

    def compute_again(self, plan: Plan, before: LedgerRow[DoneRow] | None) -> list[TaskReport]:
        """Run the tasks of a plan from where the increment ``before`` it (None: nothing) ended. Commits nothing; the
        runner decides what is written.
        """
        self.previous = DoneRow() if before is None else before.content
        self.increment = plan.increment - 1
        self.planner = self._planner("proceed")
        return self._compute(plan)

    def _compute(self, plan: Plan) -> list[TaskReport]:
        """Stage after stage: a sub-topology runs when all that write its repartition tables have run. By arrival again,
        as long as what a stage sent shows that an earlier one took its records in another order than Kafka. With a loop
        again, too, as long as a run writes other rows to its topics than it read there. Until then these are trials, in
        which functions may fail on records that there are not in the end. If something failed in the last of them, the
        same records run once more, and what fails then ends the run.
        """
        state, exchange = self._state_files(), Exchange(self.order, self.topology, plan.row.partitions)
        reports = self._run_stages(plan, exchange, state, is_trial=exchange.may_run_again)
        while not (is_settled := exchange.is_settled) or any(report.has_failed for report in reports):
            discard(self._tables(), reports)
            exchange.again(is_settled=is_settled)
            reports = self._run_stages(plan, exchange, state, is_trial=not is_settled)
        return reports

    def _run_stages(
        self, plan: Plan, exchange: Exchange, state: dict[str, list[StateFile]], *, is_trial: bool
    ) -> list[TaskReport]:
        reports: list[TaskReport] = []
        landed = self.planner.landed
        for sub in self.topology.sub_topologies:
            descriptions = [
                description
                for partition in range(plan.row.partitions[str(sub.id)])
                if (description := self._describe(plan, sub, partition, exchange, state, landed)) is not None
            ]
            descriptions = [replace(description, is_trial=is_trial) for description in descriptions]
            stage: list[TaskReport] = []
            if descriptions:
                meter = self.meter.stage(sub, descriptions, exchange_folder(self.tables, plan.increment))
                with meter as tasks, self.topology.graph.naming_calls():
                    stage = self.runner.run(self.topology, tasks)
            exchange.add(sub, stage)
            reports += stage
        return reports

    def _describe(
        self,
        plan: Plan,
        sub: SubTopology,
        partition: int,
        exchange: Exchange,
        state: dict[str, list[StateFile]],
        landed: dict[str, Landed],
    ) -> TaskDescription | None:
        """The task, or None when it has nothing to read."""
        dataflow = dataflows(self.topology)[sub.id]
        queues = list[Queue]()
        for source in sub.sources:
            if source.landed_topic is not None:
                queues.append(self._landed_queue(plan, len(queues), landed[source.topic], partition))
            else:
                queues.append(exchange.queue(len(queues), source.topic, partition, sub))
        for imported in dataflow.imports:
            queues.append(exchange.queue(len(queues), imported.name, partition, sub))
        number = len(queues)
        for place, table in enumerate(sub.globals):
            queues += [
                self._landed_queue(plan, number + place, landed[table.topic], p, is_global=True)
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
            state={store: of_partition(state[store], partition) for store in sub.stores},
            imported=self._imported(sub, partition, state),
            globals={table.name: self._read_before(plan, landed[table.topic]) for table in sub.globals},
            repartitions={
                node.topic: plan.row.partitions[TableName.repartition(node.topic)] for node in sub.repartitions
            },
            before=self.previous.task(TaskId(sub.id, partition)),
            looks_twice=plan.row.changes is not None or not self.previous.tasks,
        )

    @staticmethod
    def _read_before(plan: Plan, landed: Landed) -> tuple[Slice, ...]:
        """All that the increments before have read of a topic."""
        cut = plan.row.cut_from.get(landed.topic, {})
        return tuple(landed.slice(p, 0, cut.get(p, 0)) for p in landed.ends)

    def _landed_queue(
        self, plan: Plan, source: int, landed: Landed, partition: int, *, is_global: bool = False
    ) -> Queue:
        p = str(partition)
        begin, end = (cut.get(landed.topic, {}).get(p, 0) for cut in (plan.row.cut_from, plan.row.cut_to))
        if p not in landed.ends:  # topics that are not joined may have fewer partitions than there are tasks
            return Queue(source, landed.slice(p, 0, 0), is_global=is_global)
        beyond, is_moment = NO_MORE, False
        if len(self.topology.source_topics()) > 1 and self.order == "time":
            beyond, is_moment = plan.beyond(landed, p, self.planner.next_record(plan, landed, p))
        queue = Queue(source, landed.slice(p, begin, end), beyond_ms=beyond, is_global=is_global)
        if is_global:
            return queue
        return replace(
            queue,
            recorded=plan.recorded(landed, p),
            beyond_is_advance=is_moment,
            **self.planner.recorded_before(plan, landed.topic, p),
        )

    def _imported(
        self, sub: SubTopology, partition: int, state: dict[str, list[StateFile]]
    ) -> dict[str, ImportedStore]:
        """Stores of earlier parts of the sub-topology that nodes of this one look into."""
        found = {}
        for name in {imported.node for imported in dataflows(self.topology)[sub.id].imports if imported.when}:
            store = self.topology.graph.store_of(self.topology.graph.nodes[name])
            earlier = None if store is None else self.topology.sub_topology_of(store)
            if store is None or earlier is None:
                continue
            counters = self.previous.task(TaskId(earlier.id, partition)).get("clocks", {}).get(store)
            if counters is not None:
                found[name] = ImportedStore(earlier.id, store, of_partition(state[store], partition), counters)
        return found

    def _state_files(self) -> dict[str, list[StateFile]]:
        """Files of every store as of the increment before, whatever was half written since, oldest first."""
        found = {}
        for store in self.topology.stores():
            path = self.tables.state(store)
            files = table_files(self.warehouse, self.name, self.previous, TableName.state(store), self._opened)
            found[store] = [StateFile(file.root or path, file) for file in oldest_first(files)]
        return found

    # --- commit ----------------------------------------------------------------------------------------------

    def _tables(self) -> dict[str, str]:
        """Path of every table that an increment commits, by name; state first, so that outputs never outrun it."""
        tables: dict[str, str] = {TableName.state(store): self.tables.state(store) for store in self.topology.stores()}
        for sub in self.topology.sub_topologies:
            for node in sub.repartitions:
                tables[TableName.repartition(node.topic)] = self.tables.repartition(node.topic)
        tables |= {DROPPED: self.tables.dropped, DEAD_LETTER: self.tables.dead_letter}
        return tables | {TableName.output(sink.topic): self.tables.output(sink.topic) for sink in self.topology.sinks()}

    def _commit(self, plan: Plan, reports: list[TaskReport], rewritten: dict[str, list[DataFile]]) -> dict[str, int]:
        """Versions of all tables, those that the topology has no more included. One that is there and gets nothing is
        left alone.
        """
        versions: dict[str, int] = dict(self.previous.versions)
        options = self.warehouse.storage_options
        for table, path in self._tables().items():
            app_id = f"{self.name}/{table}/{self.epoch}"
            files = [DataFile.from_dict(file) for report in reports for file in report.files.get(table, [])]
            removed = [DataFile.from_dict(file) for report in reports for file in report.removed.get(table, [])]
            if files or removed or table in rewritten or table not in versions:
                versions[table] = commit_files(
                    path,
                    table_schema(self.topology, table),
                    rewritten.get(table, []) + files,
                    app_id=app_id,
                    increment=plan.increment,
                    removed=removed,
                    storage_options=options,
                    may_grow=True,
                    replaces=table in rewritten,
                    opened=self._opened,
                )
            if TableName(table).kind != STATE:
                merged = compact(
                    path, app_id=app_id, increment=plan.increment, storage_options=options, opened=self._opened
                )
                versions[table] = versions[table] if merged is None else merged
            self.on_step(f"committed {table} {plan.increment}")
        self.ledger.compact(plan.increment)
        return versions
