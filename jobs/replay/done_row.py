"""What the ledger's done row says of an increment (state/README.md has it field by field)."""

from typing import Any

from ..execution.task_description import TaskReport
from ..topology.topology import Topology
from .books import add_books
from .increment_report import task_seconds, total_lateness, total_numbers
from .plan import Plan


def done_content(
    topology: Topology,
    code: dict[str, Any],
    previous: dict[str, Any],
    plan: Plan,
    reports: list[TaskReport],
    versions: dict[str, int],
    tape_times: dict[str, dict[str, int]],
    seconds: dict[str, float],
) -> dict[str, Any]:
    """``previous``: content of the done row before; tasks without records stand as they stood there."""
    by_sub = {
        str(sub.id): add_books([report.counts for report in reports if report.sub_topology == sub.id])
        for sub in topology.sub_topologies
    }
    tasks = {f"{report.sub_topology}_{report.partition}": report.after for report in reports}
    return {
        "topology": topology.fingerprint,
        "code": code,
        "cut_to": previous.get("cut_to", {}) | plan.cut_to,
        "partitions": plan.partitions,
        "books": add_books([report.landed for report in reports]) | {"read": plan.records, "by_sub_topology": by_sub},
        "outputs": {sink.topic: _rows_written(reports, f"outputs/{sink.topic}") for sink in topology.sinks()},
        "versions": versions,
        **_bases(previous, plan),
        "tasks": previous.get("tasks", {}) | tasks,
        "tape_times": tape_times,
        "lateness": total_lateness(reports),
        "operators": total_numbers(reports),
        **_recorded(previous, plan, reports),
        "seconds": seconds | task_seconds(reports),
        "rss_bytes_max": max((report.rss_bytes for report in reports), default=0),
    }


def _rows_written(reports: list[TaskReport], table: str) -> int:
    return sum(file["records"] for report in reports for file in report.files.get(table, []))


def _bases(previous: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Of a branch: where its rows up to the fork are. A migrated store has all its rows in its own table."""
    migrated = {f"state/{store}" for store in plan.migrate or ()}
    bases = {table: parts for table, parts in previous.get("bases", {}).items() if table not in migrated}
    return {"bases": bases} if bases else {}


def _recorded(previous: dict[str, Any], plan: Plan, reports: list[TaskReport]) -> dict[str, Any]:
    """What the done row says of recorded times; nothing where there are none."""
    found: dict[str, Any] = {}
    if recorded_to := previous.get("recorded_to", {}) | plan.recorded_to:
        found["recorded_to"] = recorded_to
    if advances := sum(report.advances for report in reports):
        found["moments"] = advances
    return found | ({"flushed": True} if plan.flushes else {})
