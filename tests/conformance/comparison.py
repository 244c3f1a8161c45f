"""An engine's results beside those of Kafka Streams, record by record.

Rule: everything of a golden is compared: how it ended, outputs (key, window, value, ts, order) and dropped count of
each input record, and all metrics; messages are for people. Of lines tagged ``buffer_size`` the buffer's sizes are left
out, and metrics that an engine says it does not know.
"""

from dataclasses import dataclass
from typing import Any

from tests.conformance.scenarios import Scenario

Result = dict[str, Any]
NOT_KNOWN = "(not known)"
"""A metric that an engine cannot say; TopologyTestDriver says all."""
_NOTHING = "(nothing)"


@dataclass(frozen=True)
class StepDifference:
    """First step at which the two differ; rows are (what, want, got)."""

    step: str
    rows: list[tuple[str, str, str]]

    def __str__(self) -> str:
        table = [("what", "want", "got"), *self.rows]
        widths = [max(len(row[column]) for row in table) for column in range(3)]
        lines = [
            "  ".join([_mark(row), *(cell.ljust(width) for cell, width in zip(row, widths, strict=True))]).rstrip()
            for row in table
        ]
        return "\n".join([f"  {self.step}", *(f"  {line}" for line in lines)])


def _mark(row: tuple[str, str, str]) -> str:
    return " " if row[1] == row[2] or row[1] == "want" else "≠"


def first_difference(scenario: Scenario, want: Result, got: Result) -> StepDifference | None:
    """None when the two agree."""
    was_refused = [result.get("phase") in ("build", "init") for result in (want, got)]
    if was_refused[0] != was_refused[1]:
        return StepDifference("how it began", _ending_rows(want, got))
    for record in range(len(scenario.records)):
        rows = _rows_of_record(record, want, got)
        if _differs(rows):
            return StepDifference(f"record {record}: {_record(scenario.records[record])}", rows)
    for step, rows in (("how it ended", _ending_rows(want, got)), ("metrics", _metric_rows(scenario, want, got))):
        if _differs(rows):
            return StepDifference(step, rows)
    return None


def _differs(rows: list[tuple[str, str, str]]) -> bool:
    return any(want != got for _, want, got in rows)


def _rows_of_record(record: int, want: Result, got: Result) -> list[tuple[str, str, str]]:
    expected, actual = (_at(result, "outputs", record) or [] for result in (want, got))
    rows = []
    for place in range(max(len(expected), len(actual))):
        pair = [_output(outputs[place]) if place < len(outputs) else _NOTHING for outputs in (expected, actual)]
        rows.append((f"output {place}", pair[0], pair[1]))
    dropped = [_at(result, "dropped", record) for result in (want, got)]
    return [*rows, ("dropped", str(dropped[0]), str(dropped[1]))]


def _at(result: Result, field: str, record: int) -> Any:
    column = result.get(field, [])
    return column[record] if record < len(column) else None


def _ending_rows(want: Result, got: Result) -> list[tuple[str, str, str]]:
    rows = [
        (field, str(want.get(field, _NOTHING)), str(got.get(field, _NOTHING)))
        for field in ("phase", "error", "failed_at")
    ]
    if _differs(rows):
        rows.append(("(message)", want.get("message") or _NOTHING, got.get("message") or _NOTHING))
    return rows


def _metric_rows(scenario: Scenario, want: Result, got: Result) -> list[tuple[str, str, str]]:
    if got.get("metrics") == NOT_KNOWN:
        return []
    expected, actual = (_flat(result.get("metrics", {})) for result in (want, got))
    return [
        (name, str(expected.get(name, _NOTHING)), str(actual.get(name, _NOTHING)))
        for name in sorted(expected | actual)
        if not ("buffer_size" in scenario.sensitive and "buffer-size" in name) and actual.get(name) != NOT_KNOWN
    ]


def _flat(metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics by name, those of suppress nodes as ``node suppression-…``; 5.0 reads as 5."""
    flat = {name: value for name, value in metrics.items() if name != "suppress"}
    for node, numbers in metrics.get("suppress", {}).items():
        flat |= {f"{node} {name}": value for name, value in numbers.items()}
    return {name: int(v) if isinstance(v, float) and v.is_integer() else v for name, v in flat.items()}


def _output(row: dict[str, Any]) -> str:
    """The key, its window, the value and the time; strings in quotes, so that null and ``null`` differ."""
    window = "" if row["window"] is None else f" @ [{row['window'][0]}, {row['window'][1]}]"
    return f"{_text(row['key'])}{window} = {_text(row['value'])} ts {row['ts']}"


def _record(record: dict[str, Any]) -> str:
    return f"{record['topic']} {_text(record['key'])} = {_text(record['value'])} at {record['ts']}"


def _text(value: Any) -> str:
    return "null" if value is None else repr(value)
