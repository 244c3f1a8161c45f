"""The increments of a backfill: those that warm up, of which only state stays, and those of the range.

Owns what of an increment's rows is kept. Rule: a row belongs to the range `[from, to)` when its own record time lies in
it; outputs, drops and dead letters have such rows alone, repartition tables none, state all. An output below a
repartition names no cause: its offset would be of a table that nobody has.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...state.tables.data_files import DataFile
from ...state.tables.names import REPARTITION, STATE, TableName
from ...state.tables.parquet_writer import TaskFile
from ...state.tables.warehouse import Warehouse
from ..code_changes.upstream_lineage import nodes_upstream
from ..execution.table_schemas import table_schema
from ..execution.task_description import Runner, TaskReport
from ..graph.nodes import SinkNode
from ..replay.increment_report import IncrementReport
from ..replay.pipeline_run import OnStep, Pipeline
from ..replay.plan import Plan
from ..replay.stage_exchange import delete_files
from ..topology.topology import Topology
from .restated_output import rewritten

TIME = "record_time_ms"
CAUSE = "cause_offset"
NO_CAUSE = -1


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
        self._nameless = {
            TableName.output(sink.topic) for sink in self.topology.sinks() if is_below_repartition(self.topology, sink)
        }

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

            def of_range(rows: pa.Table) -> pa.Table:
                rows = rows.filter(keeps.has(rows))
                return _without_cause(rows) if table in self._nameless else rows

            for file in map(DataFile.from_dict, files):
                target = TaskFile(path, partition=file.partition, name=f"{plan.increment:08d}-range")
                placed = replace(file, root=path)
                kept = rewritten(placed, schema, target, of_range)
                found += [] if kept is None else [kept.to_dict()]
        delete_files(path, files)
        return found


def is_below_repartition(topology: Topology, sink: SinkNode) -> bool:
    """Whether records of an output come from a topic of the topology's own, which has other offsets on a branch."""
    return any(node.is_source and node.landed_topic is None for node in nodes_upstream(topology.graph, sink))


def _without_cause(rows: pa.Table) -> pa.Table:
    at = rows.schema.get_field_index(CAUSE)
    return rows.set_column(at, rows.schema.field(at), pa.array([NO_CAUSE] * len(rows), pa.int64()))
