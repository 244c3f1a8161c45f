"""What the ledger's done row says of an increment (state/tables/ledger_rows.py has it field by field)."""

from typing import Any

from ...state.tables.ledger_rows import Bases, Cut, DoneRow
from ...state.tables.names import TableName, TaskId
from ...state.tables.task_entry import TaskEntry
from ..execution.task_description import TaskReport
from ..topology.topology import Topology
from .books import add_books, add_refusals
from .increment_report import lateness_counts, task_seconds, total_lateness, total_numbers
from .left_out import left_out, restarts_taken
from .plan import Plan
from .unused_input import unused_input


def done_row_of(
    topology: Topology,
    code: dict[str, Any],
    previous: DoneRow,
    plan: Plan,
    reports: list[TaskReport],
    versions: dict[str, int],
    tape_times: Cut,
    seconds: dict[str, float],
) -> DoneRow:
    """``previous``: the done row before; tasks without records keep its values."""
    by_id = {
        str(sub.id): [report for report in reports if report.sub_topology == sub.id] for sub in topology.sub_topologies
    }
    by_sub = {sub: add_books([report.counts for report in of_sub]) for sub, of_sub in by_id.items()}
    after = [(TaskId(report.sub_topology, report.partition), report.after) for report in reports]
    tasks = {str(task): TaskEntry.from_json(entry) for task, entry in after}
    books = add_books([report.landed for report in reports])
    books["refused"] = add_refusals([report.counts["refused"] for report in reports])
    del books["by_operator"]  # of landed records alone, so it is in the books of the sub-topologies
    return DoneRow(
        topology=topology.fingerprint,
        code=code,
        cut_to=previous.cut_to | plan.row.cut_to,
        partitions=plan.row.partitions,
        books=books | {"read": plan.row.records, "by_sub_topology": by_sub},
        outputs={sink.topic: _rows_written(reports, TableName.output(sink.topic)) for sink in topology.sinks()},
        versions=versions,
        bases=_bases(previous, plan) or None,
        tasks=previous.tasks | tasks,
        tape_times=tape_times,
        lateness=total_lateness(reports),
        lateness_by_sub_topology={sub: total_lateness(of_sub) for sub, of_sub in by_id.items()},
        lateness_counts_by_sub_topology={sub: lateness_counts(of_sub) for sub, of_sub in by_id.items()},
        seconds_by_sub_topology={sub: task_seconds(of_sub) for sub, of_sub in by_id.items()},
        operators=total_numbers(reports),
        impure={node: said for report in reports for node, said in report.impure.items()} or None,
        unused=unused_input(reports) or None,
        recorded_to=((previous.recorded_to or {}) | (plan.row.recorded_to or {})) or None,
        excluded=left_out(previous, plan.row),
        restarts=restarts_taken(previous, plan.row),
        moments=sum(report.advances for report in reports) or None,
        by_arrival=previous.by_arrival or plan.row.by_arrival,
        # A migration may follow a flush: the history stays closed.
        flushed=previous.flushed or plan.row.flushes,
        kafka_version=plan.row.kafka_version,
        backfill=previous.backfill,
        # A migration runs no task that could take them.
        unread=None if plan.row.migrate is None else previous.unread,
        seconds=seconds | task_seconds(reports),
        rss_bytes_max=max((report.rss_bytes for report in reports), default=0),
        spark_tasks=sum(report.on_spark for report in reports),
    )


def _rows_written(reports: list[TaskReport], table: str) -> int:
    return sum(file["records"] for report in reports for file in report.files.get(table, []))


def _bases(previous: DoneRow, plan: Plan) -> Bases:
    """Of a branch: where its rows up to the fork are. A migrated store has all its rows in its own table."""
    migrated = {TableName.state(store) for store in plan.row.migrate or ()}
    return {table: parts for table, parts in (previous.bases or {}).items() if table not in migrated}
