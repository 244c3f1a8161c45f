"""Increments of a pipeline's past, run again: for explanations, checks, verification and advice.

Owns what such a run may see. Rule: it continues from a done row, as the increment did that it repeats, and commits
nothing. Who runs its tasks decides what becomes of their rows. With ``last``, no more of a topic has landed than that
done row has read, whatever has come since.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from ...state.compilation.kernel_tiers import tiers
from ...state.errors import ConfigError
from ...state.runs.local_copies import StateFile
from ...state.tables.branch_files import refuse_damage
from ...state.tables.data_files import DataFile, OpenTables, read_rows
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import TableName
from ...state.tables.warehouse import Warehouse
from ..code_changes.state_migration import migrated_files, take_over
from ..execution.task_description import Runner, TaskReport, exchange_folder
from ..history.exclusions import refuse_erased
from ..tape.landed_topic import Landed
from ..task.kernel_calls import call_kernels
from ..topology.topology import Topology
from .done_row import done_row_of
from .increment_tables import new_files, placed, removed_files, state_files, written_tables
from .increment_tasks import IncrementTasks
from .landed_records import LandedRecords
from .landed_times import LandedTimes
from .left_out import is_planned_otherwise
from .plan import Plan
from .planned_inputs import planned_inputs, tape_times
from .planner import Planner
from .stage_exchange import clear_exchange


class Rerun:
    """``before``: the done row that it continues from, None: nothing. ``exchange``: folder for what stages hand to one
    another; None: the increment's own. ``order``, ``until_ms``, ``times``: as of ``replay``.

    Raises CodeChanged for a topology that cannot continue with the pipeline's state, and for damaged tables.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        topology: Topology,
        pipeline: str,
        runner: Runner,
        *,
        before: LedgerRow[DoneRow] | None,
        order: str,
        last: DoneRow | None = None,
        until_ms: int | None = None,
        times: LandedTimes | None = None,
        exchange: str | None = None,
    ) -> None:
        self.warehouse, self.topology, self.name, self.runner = warehouse, topology, pipeline, runner
        self.tables = warehouse.pipeline(pipeline)
        self.previous, self.increment = (DoneRow(), 0) if before is None else (before.content, before.increment)
        self._order, self._last, self._until_ms, self._times = order, last, until_ms, times
        self._exchange, self._opened = exchange, OpenTables()
        ledger = Ledger(self.tables.ledger)
        newest = ledger.last_done()
        self._code = take_over(pipeline, newest, topology)
        self._migrates = bool(self._code.rewrites)
        refuse_damage(warehouse, pipeline, ledger, newest, self._opened)

    # --- plans -----------------------------------------------------------------------------------------------

    def plans(self, max_records: int | None = None, *, flushes: bool = False) -> Iterator[Plan]:
        """Increments to its end, of ``max_records`` at most (None: as many as there are), and the flush. Each is to be
        run, and ``go_on`` called, before the next one is asked for.
        """
        planner = self._planner()
        if self._migrates:
            yield planner.migration(self._code)
            planner = self._planner()
        yield from planner.plans(max_records)
        if flushes and not self.previous.flushed:
            yield self._planner().flush()

    def _planner(self) -> Planner:
        return Planner(
            self.warehouse, self.topology, increment=self.increment + 1, previous=self.previous, idle="proceed",
            order=self._order, until_ms=self._until_ms, times=self._times, landed=self._landed,
        )  # fmt: skip

    @cached_property
    def _now(self) -> dict[str, Landed]:
        """Looked at once: nobody lands anything that the range may read."""
        return Planner(
            self.warehouse, self.topology, increment=self.increment + 1, previous=self.previous, idle="proceed"
        ).landed

    @cached_property
    def _landed(self) -> dict[str, Landed]:
        return self._now if self._last is None else {t: _bounded(each, self._last) for t, each in self._now.items()}

    def _records(self, plan: Plan) -> LandedRecords:
        return LandedRecords(self.topology, self._landed, self.previous, self._times).of_plan(plan.row)

    # --- tasks -----------------------------------------------------------------------------------------------

    def run(self, plan: Plan) -> list[TaskReport]:
        """Run the tasks of a plan from where it continues. Commits nothing; the runner decides what is written. Raises
        LedgerError for a plan of records that were erased since.
        """
        if is_planned_otherwise(plan.row, self._now):
            refuse_erased(self.warehouse, self.name, plan.increment, plan.row)
        tiers.expect(plan.row.records, lambda: call_kernels(self.topology))
        return IncrementTasks(
            warehouse=self.warehouse, pipeline=self.name, topology=self.topology, runner=self.runner,
            order=self._order, inputs=planned_inputs(plan, self._records(plan), self._order), previous=self.previous,
            state={store: self.state_of(store) for store in self.topology.stores()},
            exchange=self._exchange or exchange_folder(self.tables, plan.increment),
        ).run()  # fmt: skip

    def go_on(self, plan: Plan) -> None:
        """Run a plan; the next one continues from the files that its tasks wrote, which are known here alone."""
        reports: list[TaskReport] = []
        if plan.row.migrate is None:
            reports = self.run(plan)
        else:
            self._migrates = False
            self.files.update(
                migrated_files(
                    self.warehouse, self.name, plan.increment, self.topology, self._code, before=self.increment
                )
            )
        for table, files in self.files.items():
            gone = {file.path for file in removed_files(reports, table)}
            self.files[table] = [file for file in files if file.path not in gone] + new_files(reports, table)
        times = tape_times(plan, self._records(plan))
        self.previous = done_row_of(self.topology, self._code.record, self.previous, plan, reports, {}, times, {})
        self.increment = plan.increment
        clear_exchange(self.tables, plan.increment)

    # --- what there is ---------------------------------------------------------------------------------------

    @cached_property
    def files(self) -> dict[str, list[DataFile]]:
        """By table: of stores those that it begins with, changed by ``go_on``; of others what ``go_on`` adds."""
        stores = state_files(self.warehouse, self.name, self.topology, self.previous, self._opened)
        nothing: dict[str, list[DataFile]] = {table: [] for table in written_tables(self.topology, self.tables)}
        return nothing | {TableName.state(store): files for store, files in stores.items()}

    def state_of(self, store: str) -> list[StateFile]:
        """Files of a store, oldest first."""
        return placed({store: self.files[TableName.state(store)]}, self.tables)[store]

    def rows_of(self, table: str, schema: pa.Schema) -> pa.Table:
        """What ``go_on`` wrote to a table that is no store's, with the columns of ``schema``."""
        return read_rows(self.tables.table(table), self.files[table], schema)


def recorded_order(place: str, by_arrival: Collection[bool], given: str | None) -> str:
    """The order in which a pipeline took records, "time" or "arrival", as its ledger has it for the increments of
    ``place``. ``given``: by the caller, None: not at all. Raises ConfigError where that is another one, or where the
    increments had both.
    """
    orders = sorted({"arrival" if each else "time" for each in by_arrival})
    if len(orders) != 1:
        next_step = "choose increments of one order"
        raise ConfigError(place, "increments that took records in one order", " and ".join(orders), next_step)
    if given not in (None, orders[0]):
        raise ConfigError(place, f"the order of its replay, {orders[0]!r}", repr(given), "leave the order out")
    return orders[0]


def _bounded(landed: Landed, last: DoneRow) -> Landed:
    """What a done row has read of a topic."""
    taken = (last.recorded_to or {}).get(landed.topic, {})
    recorded = {p: times[: taken.get(p, 0)] for p, times in landed.recorded.items()}
    excluded = (last.excluded or {}).get(landed.topic, {})
    restarts = (last.restarts or {}).get(landed.topic, {})
    ends = dict(last.cut_to.get(landed.topic, {}))
    return replace(landed, ends=ends, recorded=recorded, excluded=excluded, restarts=restarts)
