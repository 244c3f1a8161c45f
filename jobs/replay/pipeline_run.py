"""Replays landed topics through a topology, increment by increment.

Owns the order of steps: plan row, tasks, one Delta transaction a table, done row. Rule: an increment that dies anywhere
is run again as planned and leaves every table as if it had run once; the done row is the commit point, and readers stop
there.
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

from ...state.argument_types import checked_types
from ...state.compilation.kernel_tiers import tiers
from ...state.errors import ConfigError
from ...state.kafka_version import replayed_version
from ...state.tables.branch_files import digests_of, refuse_damage
from ...state.tables.data_files import DataFile, OpenTables
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import PlanRow
from ...state.tables.requests import REQUESTS
from ...state.tables.warehouse import Warehouse
from ...state.tracing import span
from ...state.wall_clock import now_ms
from ..code_changes.state_migration import CodeChange, MigrationOptions, migrated_files, take_over
from ..execution.auto_runner import auto_runner
from ..execution.task_description import Runner, TaskReport, exchange_folder
from ..task.kernel_calls import call_kernels
from ..topology.topology import Topology
from .done_row import done_row_of
from .increment_report import IncrementReport, report_of
from .increment_tables import Transactions, placed, state_files, written_tables
from .increment_tasks import IncrementTasks
from .landed_records import LandedRecords
from .landed_times import LandedTimes
from .plan import Plan
from .planned_inputs import planned_inputs, tape_times
from .planner import Planner
from .progress import Meter, OnProgress
from .run_settings import OnStep, ReplaySettings
from .stage_exchange import clear_exchange
from .takeover import (
    in_place_of,
    make_tables,
    refusal_of,
    refuse_while_at_work,
    shut_out,
    tables_with,
    unused_epoch,
    why_not,
)
from .unfinished import refuse_after_flush, refuse_backfill, refuse_lost_between


@checked_types
def replay(
    warehouse: Warehouse,
    topology: Topology,
    *,
    pipeline: str,
    runner: Runner | Literal["auto"] = "auto",
    max_records: int | None = None,
    increments: int | None = None,
    idle: str = "wait",
    order: str = "time",
    flush_at_end: bool = False,
    on_step: OnStep = lambda step: None,
    wanted: MigrationOptions | None = None,
    progress: OnProgress | None = None,
    run: str | None = None,
    until_ms: int | None = None,
    times: LandedTimes | None = None,
    kafka_version: str | None = None,
) -> Iterator[IncrementReport]:
    """Replay what has landed in ``warehouse`` and ``pipeline`` has not read; yields a report as each increment is
    committed. An increment that was planned and is not done is run first. ``runner``: a LocalRunner, a SparkRunner,
    or "auto": Spark on this machine for large increments, this process for the others (jobs/execution/auto_runner.py).

    ``max_records``: records of an increment, at most; ``increments``: stop after so many. ``idle``: "wait" leaves
    records unread that a quiet partition may still precede, "proceed" reads them. ``order``: "time" (Kafka's
    PartitionGroup over whole topics) or "arrival" (landed records have their arrival). ``flush_at_end`` closes the
    history: one more increment advances every task to its end, and the pipeline takes no records after that.
    ``until_ms``: of each partition, read what is before its first record, or recorded time, of that time or later;
    ``times``: those of records read before. ``wanted``: what to do with the state of changed code. ``on_step``,
    ``progress``: called as a step begins, and with the progress. ``run``: name of the caller's heartbeats.
    ``kafka_version``: whose rows are made, "4.3" or "4.4"; None: that of the increment before, at first "4.3".
    CodeChanged when the topology cannot continue with the state, LedgerError for records after a flush, LedgerConflict
    when another runner commits first, ConfigError for ``until_ms`` with ``flush_at_end``, for another version and for
    ``increments`` below 1.
    """
    if increments is not None and increments < 1:
        raise ConfigError("increments", "1 or more", str(increments), "give a larger number, or leave it out")
    if flush_at_end and until_ms is not None:
        raise ConfigError("until", "no flush_at_end beside it", "both", "close history when all of it was read")
    if isinstance(runner, str) and runner != "auto":
        next_step = "give a LocalRunner, a SparkRunner or an AutoRunner for other places"
        raise ConfigError("runner", 'a runner, or "auto"', repr(runner), next_step)
    topology = topology.reading(warehouse.topics)
    settings = ReplaySettings(
        max_records=max_records, idle=idle, order=order, flush_at_end=flush_at_end, until_ms=until_ms, times=times,
        wanted=wanted, run=run, on_step=on_step, progress=progress, kafka_version=kafka_version,
    )  # fmt: skip
    work = PipelineRun(warehouse, topology, pipeline, auto_runner() if runner == "auto" else runner, settings)
    for plan in work.plans():
        if increments == 0:
            return
        yield work.run(plan)
        increments = None if increments is None else increments - 1


class PipelineRun:
    """A pipeline at work, from its last done increment on."""

    def __init__(
        self, warehouse: Warehouse, topology: Topology, pipeline: str, runner: Runner, settings: ReplaySettings
    ) -> None:
        self.warehouse, self.topology, self.name = warehouse, topology, pipeline
        self.runner, self.settings = runner, settings
        self.tables, self.meter = warehouse.pipeline(pipeline), Meter(settings.progress)
        self.on_step = self.meter.after(settings.on_step)
        self.ledger = Ledger(self.tables.ledger)
        last = self.ledger.last_done()
        self.code: CodeChange = take_over(pipeline, last, topology, settings.wanted)
        self.previous = self.code.previous
        self.kafka_version = replayed_version(settings.kafka_version, self.previous.kafka_version)
        self.increment, self.epoch = (0, 0) if last is None else (last.increment, last.epoch)
        self.last_done, self.last_epoch = self.increment, self.epoch
        self.last_versions = {} if last is None else last.content.versions
        self.given_up: tuple[LedgerRow[PlanRow], str] | None = None  # and why: the next plan replaces it
        self._opened: OpenTables = {}
        self._asked = REQUESTS.made()  # when the increment before was done
        refuse_damage(warehouse, pipeline, self.ledger, last, self._opened)

    def plans(self) -> Iterator[Plan]:
        """The unfinished increment, then new ones, then the flush."""
        settings = self.settings
        refuse_backfill(self.warehouse, self.name, self.previous, settings.kept is not None)
        refuse_lost_between(self.name, self.previous, self.topology)
        pending = self.ledger.pending()
        refusal = refusal_of(self.warehouse, self.name, pending, self.topology, self.code, self.last_done)
        without = None if pending is None or refusal is not None else self._without_excluded(pending)
        if pending is not None and (refusal is not None or without is not None):
            # Before anything is planned: past this line another run may lose what it has computed, since a plan takes
            # its place.
            refuse_while_at_work(self.warehouse, self.name, pending, at_ms=now_ms(), run=settings.run)
            why = "records that it reads were taken out of play" if refusal is None else why_not(refusal)
            # The number of the plan that is given up stays used: plan rows are never changed, and its runner may still
            # be at work under it.
            self.given_up, self.increment = (pending, why), self.ledger.next_free() - 1
        planner = self._planner()
        if without is not None:
            yield Plan(self.increment + 1, without)
        elif pending is not None and refusal is None:
            self.epoch = pending.epoch
            yield Plan(pending.increment, pending.content, is_rerun=True)
        elif self.code.rewrites:
            yield planner.migration(self.code)
        # What was yielded above, if anything, has run by now, so `previous` is another row, and records may have landed
        # meanwhile.
        if pending is not None or self.code.rewrites:
            planner = self._planner()
        for number, plan in enumerate(planner.plans(settings.max_records)):
            # Not before the loop: a flushed pipeline for which nothing has landed since may be run again, and does
            # nothing.
            refuse_after_flush(self.name, self.previous)
            # After a rerun or a migration `previous` is its done row: then the changes are in the plan of that
            # increment already.
            is_first = number == 0 and self.previous is self.code.previous
            yield replace(plan, row=replace(plan.row, changes=self.code.changes())) if is_first else plan
        if settings.flush_at_end and not self.previous.flushed:
            yield self._planner().flush()
        if refusal is not None and self.given_up is not None:  # nothing was planned in its place
            raise refusal

    def _write(self, plan: Plan) -> Plan:
        """Make its tables, then write the plan down; in the place of a pending one where this code takes over."""
        missing = {name: path for name, path in self._tables().items() if name not in self.previous.versions}
        make_tables(self.warehouse, self.topology, missing, self._opened)
        if plan.is_rerun:
            self.ledger.refuse_given_up(plan.increment)  # perhaps by somebody who saw no tables yet
            return plan
        plan = replace(plan, row=replace(plan.row, kafka_version=self.kafka_version))
        if self.given_up is None:
            self.epoch = self.ledger.plan(plan.increment, plan.row, written_at_ms=now_ms()).epoch
            return plan
        (pending, why), self.given_up = self.given_up, None
        row = in_place_of(plan.row, pending, why)
        self.epoch = unused_epoch(self.warehouse, self.name, pending.epoch)
        self.ledger.plan_instead(pending, plan.increment, row, epoch=self.epoch, written_at_ms=now_ms())
        return replace(plan, row=row)

    def _without_excluded(self, pending: LedgerRow[PlanRow]) -> PlanRow | None:
        """The plan in the place of one that reads what was taken out of play since; None: it runs as it is, also where
        tables have something of it already.
        """
        without = self._planner().without_excluded(pending.content)
        return None if without is None or tables_with(self.warehouse, self.name, pending) else without

    def _planner(self) -> Planner:
        """Of what has landed by now."""
        settings = self.settings
        planner = Planner(
            self.warehouse, self.topology, increment=self.increment + 1, previous=self.previous,
            # The flush is for what has been read: after it, records that still wait would all be late.
            idle="proceed" if settings.flush_at_end else settings.idle,
            order=settings.order, until_ms=settings.until_ms, times=settings.times,
        )  # fmt: skip
        self.meter.expect(planner.unread)
        self._landed = planner.landed
        return planner

    def run(self, plan: Plan) -> IncrementReport:
        with span(
            "increment", pipeline=self.name, warehouse=self.warehouse.root, increment=plan.increment, epoch=self.epoch
        ) as said:
            report = self._run(plan)
            books = report.books
            said.update(read=books.read, applied=books.applied, dropped=report.refused, undecodable=books.undecodable)
        return report

    def _run(self, plan: Plan) -> IncrementReport:
        started, plan = time.perf_counter(), self._write(plan)
        if plan.row.instead_of is not None:
            # Only once the plan is in the ledger. From there on the old runner's done row is a conflict, so that
            # undoing its commits cannot take away an increment that is done.
            shut_out(
                self.warehouse, self.name, self.topology, self._tables(), self.last_versions,
                last_done=self.last_epoch, epoch=self.epoch, increment=plan.increment, written_at_ms=now_ms(),
            )  # fmt: skip
        self.meter.begin(plan, self.topology)
        landed = LandedRecords(self.topology, self._landed, self.previous, self.settings.times).of_plan(plan.row)
        planned = time.perf_counter()
        tiers.expect(plan.row.records, lambda: call_kernels(self.topology), self.meter.count)
        self.on_step(f"planned {plan.increment}")
        ready = time.perf_counter()
        with self._unless_overtaken(plan):
            # By the plan, and not by the code: a plan that is run again after a crash is run as it was written.
            rewritten = self._migrate(plan) if plan.row.migrate is not None else {}
            reports = self._tasks(plan, landed).run() if plan.row.migrate is None else []
            self.on_step(f"computed {plan.increment}")
            computed = time.perf_counter()
            with span("commit", tables=len(self._tables())):
                versions = self._commit(plan, reports, rewritten)
        committed = time.perf_counter()
        seconds = {"plan": planned - started, "compute": computed - ready, "commit": committed - computed}
        times = tape_times(plan, landed)
        done = done_row_of(self.topology, self.code.record, self.previous, plan, reports, versions, times, seconds)
        digests = digests_of(self.warehouse, self.name, done, self.previous, self._opened)
        requests = sum((Counter(report.requests) for report in reports), REQUESTS.made() - self._asked)
        done = replace(done, digests=digests, requests=dict(sorted(requests.items())) or None)
        # The commit point. A crash before it runs the increment again, which finds its marks in the tables and commits
        # none twice; what is done after it may be left undone.
        self.ledger.done(plan.increment, done, written_at_ms=now_ms())
        clear_exchange(self.tables, plan.increment)
        self.previous, self.increment, self._asked = done, plan.increment, REQUESTS.made()
        self.meter.reached(done)
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

    def _tasks(self, plan: Plan, landed: LandedRecords) -> IncrementTasks:
        files = state_files(self.warehouse, self.name, self.topology, self.previous, self._opened)
        return IncrementTasks(
            warehouse=self.warehouse, pipeline=self.name, topology=self.topology, runner=self.runner,
            order=self.settings.order, inputs=planned_inputs(plan, landed, self.settings.order),
            previous=self.previous, state=placed(files, self.tables),
            exchange=exchange_folder(self.tables, plan.increment), meter=self.meter, kept=self.settings.kept,
        )  # fmt: skip

    def _migrate(self, plan: Plan) -> dict[str, list[DataFile]]:
        return migrated_files(
            self.warehouse, self.name, plan.increment, self.topology, self.code, before=self.last_done
        )

    def _commit(self, plan: Plan, reports: list[TaskReport], rewritten: dict[str, list[DataFile]]) -> dict[str, int]:
        transactions = Transactions(
            self.warehouse, self.name, self.topology, plan.increment, self.epoch, self.on_step, self._opened
        )
        versions = transactions.commit(self.previous.versions, reports, rewritten)
        self.ledger.compact(plan.increment)
        return versions

    def _tables(self) -> dict[str, str]:
        return written_tables(self.topology, self.tables)
