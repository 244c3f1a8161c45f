"""What the programs said, line by line: rates, ratios to ours, and whether results agree.

Rule: a disagreement is an error in the table and in the exit code, never silent; a form that is not exact is compared
by speed alone.
"""

import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

OURS = "ours"
HEAD = (
    "workload", "system", "records/s, median of later runs (least to most)", "first run",
    "core-hours per 10^9", "memory, MiB", "rows out", "ours to it", "agrees",
)  # fmt: skip


@dataclass
class Line:
    """One system and configuration on one workload. ``said``: what its program printed, {} when it did not come to
    that. ``problem``: why it has no result, or how its result differs from ours. ``agrees``: "yes", "-" where nothing
    can be compared, "no".
    """

    workload: str
    system: str
    configuration: str = ""
    said: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None
    ratio: float | None = None
    agrees: str = "-"

    @property
    def name(self) -> str:
        """Of system and configuration."""
        return f"{self.system}, {self.configuration}" if self.configuration else self.system

    @property
    def rates(self) -> list[float]:
        """Records a second of the runs that count: all but the first, if there are others."""
        seconds = self.said.get("seconds", [])
        return [self.said["records"] / taken for taken in seconds[1:] or seconds]

    @property
    def rate(self) -> float | None:
        """Their median."""
        return statistics.median(self.rates) if self.rates else None

    @property
    def core_hours(self) -> float | None:
        """CPU hours of all its processes for 10^9 records, by the median of the runs that count."""
        cpu = self.said.get("cpu_seconds") or []
        cpu = cpu if isinstance(cpu, list) else [cpu]  # Kafka's program tells its last run's
        return statistics.median(cpu[1:] or cpu) / self.said["records"] * 1e9 / 3600 if cpu else None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self) | {"records_per_second": self.rate, "core_hours_per_billion": self.core_hours}


def compare(lines: list[Line], *, exact: bool) -> None:
    """Put ratio and agreement into the lines of one workload, ours among them. ``exact``: all forms must give the same
    rows; a line over fewer records than ours cannot be judged.
    """
    ours = next((line for line in lines if line.system == OURS), None)
    if ours is None or ours.rate is None:
        return
    for line in lines:
        if line is ours or line.rate is None:
            continue
        line.ratio = ours.rate / line.rate
        if exact and line.said["records"] == ours.said["records"]:
            line.problem = difference(ours.said, line.said)
            line.agrees = "yes" if line.problem is None else "no"


def difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """A sentence on the first number that differs: rows out, then the sums that both have; None when none does."""
    pairs = [("rows out", ours["rows_out"], theirs["rows_out"])]
    names = [name for name in ours["checks"] if name in theirs["checks"]]
    pairs += [(name, ours["checks"][name], theirs["checks"][name]) for name in names]
    for name, one, other in pairs:
        if one != other:
            return f"{name}: ours {one:,}, theirs {other:,}"
    return None


def table_text(lines: list[Line]) -> str:
    """The lines as a Markdown table; problems and what a program remarks on its form are below it."""
    rows = [HEAD, tuple("---" for _ in HEAD), *(_cells(line) for line in lines)]
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    remarks = [f"ERROR {line.workload} {line.name}: {line.problem}" for line in lines if line.problem]
    remarks += [f"{line.workload} {line.name}: {line.said['notes']}" for line in lines if line.said.get("notes")]
    return "\n\n".join([text, *remarks])


def _cells(line: Line) -> tuple[str, ...]:
    if line.rate is None:
        return line.workload, line.name, "ERROR" if line.problem else "-", *["-"] * (len(HEAD) - 3)
    said = line.said
    rate = f"{line.rate:,.0f}"
    if len(line.rates) > 1:
        rate += f" ({min(line.rates):,.0f} to {max(line.rates):,.0f})"
    return (
        line.workload,
        line.name,
        rate,
        f"{said['records'] / said['seconds'][0]:,.0f}" if len(said["seconds"]) > 1 else "-",
        "-" if line.core_hours is None else f"{line.core_hours:.3g}",
        f"{said['rss_bytes_max'] / 2**20:,.0f}" if said.get("rss_bytes_max") else "-",
        f"{said['rows_out']:,}",
        "1" if line.ratio is None else f"{line.ratio:.3g}",
        "ERROR" if line.agrees == "no" else line.agrees,
    )
