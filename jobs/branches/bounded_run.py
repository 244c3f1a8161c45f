"""A replay that goes as far as a pipeline went, and no further: to run its past again.

Owns the bound. Rule: of each topic no more has landed than the last increment of the range has read, records and
recorded times, whatever has come since.
"""

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from ...state.compilation.kernel_tiers import tiers
from ...state.runs.local_copies import StateFile
from ...state.tables.branch_files import table_files
from ...state.tables.data_files import DataFile, oldest_first, read_rows
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import Cut, DoneRow
from ...state.tables.names import TableName
from ...state.tables.warehouse import Warehouse
from ..code_changes.state_migration import migrated_files
from ..replay.done_row import done_row_of
from ..replay.landed_times import LandedTimes
from ..replay.pipeline_run import Pipeline
from ..replay.plan import Plan
from ..replay.planner import Planner
from ..replay.stage_exchange import clear_exchange
from ..tape.landed_topic import Landed
from ..task.kernel_calls import call_kernels
from ..topology.topology import Topology

if TYPE_CHECKING:
    from ..execution.task_description import Runner, TaskReport


class BoundPipeline(Pipeline):
    """``last``: the done row at which the range ends. ``until_ms``, ``times``: as of ``replay``."""

    def __init__(
        self,
        warehouse: Warehouse,
        topology: Topology,
        name: str,
        runner: "Runner",
        order: str,
        last: DoneRow,
        *,
        until_ms: int | None = None,
        times: LandedTimes | None = None,
    ) -> None:
        super().__init__(
            warehouse, topology, name, runner, order, lambda step: None, until_ms=until_ms, times=times
        )  # fmt: skip
        self._last = last
        self._landed: dict[str, Landed] | None = None

    def _planner(self, idle: str, landed: dict[str, Landed] | None = None) -> Planner:
        """Topics are looked at once: nobody lands anything that the range may read."""
        planner = super()._planner(idle, landed or self._landed)
        cut_to, taken = self._last.cut_to, self._last.recorded_to or {}
        for topic, found in planner.landed.items():
            ends = cut_to.get(topic, {})
            recorded = {p: times[: taken.get(topic, {}).get(p, 0)] for p, times in found.recorded.items()}
            planner.landed[topic] = replace(found, ends=dict(ends), recorded=recorded)
            planner.begin[topic] = _of(ends, planner.begin, topic)
        self._landed = dict(planner.landed)
        return planner

    def all_at_once(self, before: LedgerRow[DoneRow] | None) -> Plan | None:
        """The plan of one increment from where ``before`` (None: nothing) ended to the end of the range; None when
        there is nothing in between. It is for ``compute_again``: nobody writes it down.
        """
        self.previous = DoneRow() if before is None else before.content
        self.increment = 0 if before is None else before.increment
        return next(self._planner("proceed").plans(None), None)


class UncommittedPipeline(BoundPipeline):
    """A branch whose increments are computed and not committed: one continues from what the one before wrote, which is
    known here alone. ``files``: of every table, those of stores with what was there before the range.
    """

    @cached_property
    def files(self) -> dict[str, list[DataFile]]:
        """Those before the range, when it is first asked; ``compute`` changes them."""
        stores = {TableName.state(store) for store in self.topology.stores()}
        return {table: [] for table in self._tables()} | {
            table: table_files(self.warehouse, self.name, self.previous, table, self._opened) for table in stores
        }

    def compute(self, plan: Plan) -> int:
        """Run an increment; returns how many records it read."""
        self.meter.begin(plan, self.planner, self.topology)
        tiers.expect(plan.row.records, lambda: call_kernels(self.topology), self.meter.count)
        reports: list[TaskReport] = []
        if plan.row.migrate is None:
            reports = self._compute(plan)
        else:
            self.files.update(
                migrated_files(
                    self.warehouse, self.name, plan.increment, self.topology, self.code, before=self.last_done
                )
            )
        for table, files in self.files.items():
            gone = {each["path"] for report in reports for each in report.removed.get(table, [])}
            new = [DataFile.from_dict(each) for report in reports for each in report.files.get(table, [])]
            self.files[table] = [file for file in files if file.path not in gone] + new
        tape_times = self.planner.tape_times(plan)
        self.previous = done_row_of(
            self.topology, self.code.record, self.previous, plan, reports, {}, tape_times, seconds={}
        )
        self.increment = plan.increment
        clear_exchange(self.tables, plan.increment)
        return plan.row.records

    def _state_files(self) -> dict[str, list[StateFile]]:
        return {store: self.state_of(store) for store in self.topology.stores()}

    def state_of(self, store: str) -> list[StateFile]:
        """Files of a store, oldest first."""
        files = oldest_first(self.files[TableName.state(store)])
        return [StateFile(file.root or self.tables.state(store), file) for file in files]

    def rows_of(self, table: str, schema: pa.Schema) -> pa.Table:
        """What the increments of the range wrote to a table that is no store's, with the columns of ``schema``."""
        return read_rows(self.tables.table(table), self.files[table], schema)


def _of(ends: dict[str, int], begin: Cut, topic: str) -> dict[str, int]:
    return {p: begin[topic].get(p, 0) for p in ends}
