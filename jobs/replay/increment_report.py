"""The report of an increment: numbers summed over its tasks, beside its books (jobs/replay/books.py)."""

from dataclasses import dataclass, fields
from typing import Any

from ...state.tables.ledger_rows import Cut, DoneRow, PlanRow
from ...state.tables.refused_shares import refused_shares
from ..execution.task_description import TaskReport
from .books import Books
from .waiting_inputs import WaitingInput


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
    operators: dict[str, dict[str, float | None]]
    seconds: dict[str, float]
    rss_bytes_max: int
    spark_tasks: int
    """How many of its tasks ran on Spark, and not in the driver's process."""
    requests: dict[str, int]
    """As in the done row; {}: none."""
    cut_from: Cut
    cut_to: Cut
    waiting: int
    waits: list[WaitingInput]
    lateness_by_sub_topology: dict[str, dict[str, float | int | None]]
    lateness_counts_by_sub_topology: dict[str, dict[str, int]]
    seconds_by_sub_topology: dict[str, dict[str, float]]
    """The three of an increment that an earlier version ran: {}."""
    done: DoneRow
    instead_of: dict[str, int] | None = None
    """`increment` and `epoch` of the plan of other code in whose place it was run."""
    instead_of_why: str | None = None

    @property
    def refused(self) -> int:
        """Records that operators refused, whatever else became of them: one that two operators refused counts twice."""
        shares = refused_shares([] if self.done.books is None else [self.done.books])
        return sum(each.refused for each in shares if each.operator is not None)

    def lateness_percentile_ms(self, sub_topology: str, percent: int) -> float | None:
        """Of the records that a sub-topology took; None: there are none, or an earlier version ran the increment."""
        counts = self.lateness_counts_by_sub_topology.get(sub_topology, {})
        most_ms = self.lateness_by_sub_topology.get(sub_topology, {}).get("max")
        return percentile_ms({int(late_ms): records for late_ms, records in counts.items()}, percent, most_ms)


def total_lateness(reports: list[TaskReport]) -> dict[str, float | int | None]:
    """``avg`` and ``max`` in ms over all records that tasks took; None when there were none."""
    records = sum(report.lateness["records"] for report in reports)
    if not records:
        return {"avg": None, "max": None}
    total = sum(report.lateness["total_ms"] for report in reports)
    return {"avg": total / records, "max": max(report.lateness["max_ms"] for report in reports)}


def lateness_counts(reports: list[TaskReport]) -> dict[str, int]:
    """How many records of the tasks were how late: the largest lateness of a class, in ms, as text, to its number."""
    total: dict[str, int] = {}
    for report in reports:
        for late_ms, records in report.lateness["counts"].items():
            total[late_ms] = total.get(late_ms, 0) + records
    return dict(sorted(total.items(), key=lambda each: int(each[0])))


def percentile_ms(counts: dict[int, int], percent: int, most_ms: float | None) -> float | None:
    """Of records by lateness, of which ``most_ms`` is the largest; None: there are none."""
    if most_ms is None or not counts:
        return None
    # Nearest rank, rounded up in integers. A class is known by the largest lateness that fits into it, which may be
    # more than any record had: hence the bound by `most_ms`.
    rank, seen = -(-percent * sum(counts.values()) // 100), 0
    for late_ms in sorted(counts):
        seen += counts[late_ms]
        if seen >= rank:
            break
    return min(late_ms, most_ms)


def total_numbers(reports: list[TaskReport]) -> dict[str, dict[str, float | None]]:
    """Numbers of operators over all tasks, by node. They are sums: buffered and emitted in all (maxima and averages are
    sums of the tasks' own). Of ``overtime`` they are the least, and the average over the emitted changes.
    """
    by_node: dict[str, list[dict[str, Any]]] = {}
    for report in reports:
        for node, numbers in report.operators.items():
            by_node.setdefault(node, []).append(numbers)
    return {node: {name: _total(name, tasks) for name in tasks[0]} for node, tasks in by_node.items()}


def _total(name: str, tasks: list[dict[str, Any]]) -> float | None:
    known = [numbers for numbers in tasks if numbers[name] is not None]
    if name == "overtime_min_ms":
        return min((numbers[name] for numbers in known), default=None)
    if name == "overtime_avg_ms":
        emitted = sum(numbers["emitted"] for numbers in known)
        return sum(numbers[name] * numbers["emitted"] for numbers in known) / emitted if emitted else None
    return float(sum(numbers[name] for numbers in known)) if name.endswith("_avg") else sum(n[name] for n in known)


def task_seconds(reports: list[TaskReport]) -> dict[str, float]:
    """Seconds that tasks spent by part, summed over tasks (they run side by side)."""
    total: dict[str, float] = {}
    for report in reports:
        for part, seconds in report.seconds.items():
            total[f"task_{part}"] = total.get(f"task_{part}", 0.0) + seconds
    return total


def _books(content: dict[str, Any]) -> Books:
    names = [field.name for field in fields(Books)]
    return Books(**{name: content[name] for name in names if name in content})


def report_of(increment: int, planned: PlanRow, done: DoneRow) -> IncrementReport:
    """The report of an increment from its two ledger rows."""
    assert done.books is not None, f"increment {increment} began a branch and read nothing"
    return IncrementReport(
        increment=increment,
        books=_books(done.books),
        books_by_sub_topology={sub: _books(books) for sub, books in done.books["by_sub_topology"].items()},
        outputs=done.outputs or {},
        versions=done.versions,
        lateness=done.lateness or {},
        operators=done.operators or {},
        seconds=done.seconds or {},
        rss_bytes_max=done.rss_bytes_max or 0,
        spark_tasks=done.spark_tasks or 0,
        requests=done.requests or {},
        cut_from=planned.cut_from,
        cut_to=planned.cut_to,
        waiting=planned.waiting,
        waits=[WaitingInput(**each) for each in planned.waits or ()],
        lateness_by_sub_topology=done.lateness_by_sub_topology or {},
        lateness_counts_by_sub_topology=done.lateness_counts_by_sub_topology or {},
        seconds_by_sub_topology=done.seconds_by_sub_topology or {},
        done=done,
        instead_of=planned.instead_of,
        instead_of_why=planned.instead_of_why,
    )
