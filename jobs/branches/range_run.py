"""The increments of a backfill: those that warm up, of which only state stays, and those of the range.

Owns what of an increment's rows is kept. Rule: a row belongs to the range `[from, to)` when its own record time lies in
it; outputs, drops and dead letters have such rows alone, repartition tables none, state all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...state.tables.data_files import DataFile
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import REPARTITION, STATE, TableName
from ...state.tables.parquet_writer import TaskFile
from ...state.tables.warehouse import Warehouse
from ..execution.table_schemas import table_schema
from ..execution.task_description import Runner, TaskReport
from ..replay.increment_report import IncrementReport
from ..replay.pipeline_run import OnStep, Pipeline
from ..replay.plan import Plan
from ..replay.stage_exchange import delete_files
from ..topology.topology import Topology
from .restated_output import rewritten

TIME = "record_time_ms"


@dataclass(frozen=True)
class Range:
    """Times ``[from_ms, to_ms)``."""

    from_ms: int
    to_ms: int

    def has(self, rows: pa.Table) -> pa.ChunkedArray:
        """Which rows of an output, of drops or dead letters are of the range."""
        times = rows[TIME]
        return pc.and_(pc.greater_equal(times, self.from_ms), pc.less(times, self.to_ms))


@dataclass(frozen=True)
class RangeRun:
    """A branch at work. ``keeps``: rows of which range stay; None: none, while it warms up."""

    warehouse: Warehouse
    topology: Topology
    branch: str
    runner: Runner
    max_records: int | None
    on_step: OnStep
    keeps: Range | None = None

    def run(self, until_ms: int) -> Iterator[IncrementReport]:
        """Read what is before the cut of a time."""
        pipeline = _RangePipeline(self, until_ms)
        for plan in pipeline.plans(self.max_records, "proceed", False):
            yield pipeline.run(plan)

    def keeping(self, keeps: Range) -> "RangeRun":
        """The same branch, when it has come to the range."""
        return replace(self, keeps=keeps)


class _RangePipeline(Pipeline):
    runs_backfills = True

    def __init__(self, run: RangeRun, until_ms: int) -> None:
        place = run.warehouse, run.topology, run.branch
        super().__init__(*place, run.runner, "time", run.on_step, until_ms=until_ms)
        self._keeps = run.keeps

    def _commit(self, plan: Plan, reports: list[TaskReport], rewritten: dict[str, list[DataFile]]) -> dict[str, int]:
        for report in reports:
            report.files = {table: self._kept(plan, table, files) for table, files in report.files.items()}
        return super()._commit(plan, reports, rewritten)

    def _kept(self, plan: Plan, table: str, files: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Files of what stays; those of the rest go, since nobody has seen them."""
        if TableName(table).kind == STATE:
            return files
        path, keeps, found = self.tables.table(table), self._keeps, list[dict[str, Any]]()
        if keeps is not None and TableName(table).kind != REPARTITION:
            schema = table_schema(self.topology, table)
            for file in map(DataFile.from_dict, files):
                target = TaskFile(path, partition=file.partition, name=f"{plan.increment:08d}-range")
                placed = replace(file, root=path)
                kept = rewritten(placed, schema, target, lambda rows: rows.filter(keeps.has(rows)))
                found += [] if kept is None else [kept.to_dict()]
        delete_files(path, files)
        return found


def is_finished(done: DoneRow) -> bool:
    """Whether a branch is a backfill of a range of which all is there, and is proved."""
    return done.backfill is not None and "proof" in done.backfill
