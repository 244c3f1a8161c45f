"""The page about the quality of pipelines: what holds, what was refused, what is late, what waits.

Owns what the page says; its form is report.html.j2, whose every value is escaped. Rule: numbers come from the ledger
and verdicts from `quality_results`, so the page says what the tables say; an increment that nobody checked is "not
checked", never green. Nothing is written to the warehouse.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from ...expectations.quality_tables import Row, newest_results
from ...jobs.history.committed_tables import read_table
from ...jobs.history.fsck import pipelines_of
from ...jobs.replay.waiting_inputs import WaitingInput
from ...jobs.topology import Topology
from ...state.errors import ConfigError, ReplayError
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import DoneRow, PlanRow
from ...state.tables.names import OUTPUTS, TableName
from ...state.tables.warehouse import Warehouse
from ...state.times import duration_text
from ...state.wall_clock import now_ms
from ..text_tables import utc
from ..what_waits import results_that_wait, sentences_of
from . import charts, metrics
from .metrics import Increment, increments_in_force, metric_rows, recorded_open_windows
from .verdict_matrix import (
    FAILED,
    MATRIX_INCREMENTS,
    NOBODY,
    NOT_CHECKED,
    PASSED,
    STATES,
    WARNING,
    as_shown,
    faults_of,
    matrix,
    worst_by_increment,
)

KEYS_MAX = 10
KEY_INCREMENTS = 16
"""The largest keys are those of so many newest increments."""
KEY_ROWS_MAX = 1_000_000
_PERCENTILES = {metric: f"{percent} of 100" for percent, metric in metrics.PERCENTILES.items()}
_LATENESS = {
    0: "none", 1_000: "1 s", 10_000: "10 s", 60_000: "1 min", 600_000: "10 min", 3_600_000: "1 h", 21_600_000: "6 h",
    86_400_000: "1 d", 604_800_000: "7 d",
}  # fmt: skip
"""Bounds of the classes of the distribution, in ms; what is later is more."""
_LATENESS_MARKS = {ms / 1000: "0" if ms == 0 else name for ms, name in _LATENESS.items()}
"""In seconds."""


@dataclass(frozen=True)
class Chart:
    """``svg`` is drawn by us from numbers; its texts are escaped by who draws."""

    title: str
    says: str
    svg: Markup


def write_report(
    warehouse: Warehouse,
    pipelines: list[str] | None,
    out: Path,
    *,
    topology: Topology | None = None,
    advice: Mapping[str, Any] | None = None,
) -> int:
    """Write the page on ``pipelines`` (None: all of the warehouse) to ``out``; returns its bytes.

    ``topology``: of the one pipeline, to say until when its results wait; ``advice``: what `replay advise grace` said
    of a pipeline, as JSON has it. ConfigError for a pipeline that is not there
    or has replayed nothing, or when the warehouse has none.
    """
    known = pipelines_of(warehouse)
    for name in pipelines or ():
        if name not in known:
            raise ConfigError("--pipeline", f"one of {', '.join(known) or 'none'}", repr(name), "name one of them")
    chosen = pipelines or known
    if not chosen:
        raise ConfigError(warehouse.root, "a pipeline", "none", "run the replay first")
    increments = {name: increments_in_force(warehouse, name) for name in chosen}
    shown = [name for name in chosen if increments[name] or pipelines is not None]  # one only begun has nothing to show
    sections = [
        _section(warehouse, name, increments[name], topology, f"pipeline-{number}")
        for number, name in enumerate(shown or chosen, 1)
    ]
    sections.sort(key=lambda section: (STATES.index(section["state"]), section["name"]))
    for section in sections:
        if advice is not None and advice["pipeline"] == section["name"]:
            section["charts"] += grace_charts(advice)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    page = environment.get_template("report.html.j2").render(
        sections=sections, made_at=utc(now_ms()), warehouse=warehouse.root, columns=MATRIX_INCREMENTS
    )
    out.write_text(page, encoding="utf-8")
    return out.stat().st_size


def _section(
    warehouse: Warehouse, pipeline: str, increments: Sequence[Increment], topology: Topology | None, section: str
) -> dict[str, Any]:
    if not increments:
        raise ConfigError(f"pipeline {pipeline!r}", "an increment", "none", "run the replay first")
    rows = [row for planned, done in increments for row in metric_rows(planned, done)]
    rows += recorded_open_windows(warehouse, pipeline, increments)
    planned, last = increments[-1]
    epochs = {done.increment: done.epoch for _, done in increments}
    # After a RESTORE of the ledger a number comes again under a higher epoch; former verdicts are of other rows.
    results = [
        as_shown(row) for row in newest_results(warehouse, pipeline) if epochs.get(row["increment"]) == row["epoch"]
    ]
    counted = Counter(worst_by_increment(results, list(epochs)).values())
    where = {"warehouse": warehouse.root, "pipeline": pipeline, "section": section}
    faults = faults_of(results, len(epochs), **where)
    waits, days = _waits(warehouse, pipeline, planned, topology), _days(rows, increments)
    return {
        "name": pipeline,
        "id": section,
        "state": min(counted, key=STATES.index),  # what is broken stays so until its increment is repaired
        "line": _pipeline_line(rows, counted, last, days, waits),
        "tiles": _tiles(rows, counted, last.increment, last.written_at_ms),
        "matrix": matrix(results, list(epochs), faults),
        "faults": faults,
        "days": days,
        "charts": [*_charts(rows, days), *_distribution(increments)],
        "keys": _largest_keys(warehouse, pipeline, last.content.versions, last.increment),
        "waits": waits,
    }


def _days(rows: Iterable[Row], increments: Sequence[Increment]) -> dict[int, str]:
    """Of every increment the day that its stream time has come to; "" where it has none."""
    times = {done.increment: -1 for _, done in increments}
    for row in rows:
        if row["metric"] == metrics.STREAM_TIME:
            times[row["increment"]] = max(times[row["increment"]], int(row["value"]))
    return {increment: utc(time_ms)[:10] if time_ms >= 0 else "" for increment, time_ms in times.items()}


def _pipeline_line(
    rows: list[Row], counted: Counter[str], last: LedgerRow[DoneRow], days: dict[int, str], waits: list[str]
) -> dict[str, str]:
    """What the table of pipelines says of one; ``counted``: increments by their worst verdict."""
    came = sum(row["value"] for row in rows if row["metric"] == "process-total")
    dropped = sum(row["value"] for row in rows if row["metric"] == "records-dropped-total")
    return {
        "last increment": f"{last.increment:,}",
        "stream time": days[last.increment],
        "committed": utc(last.written_at_ms)[:19],
        "increments": f"{counted.total():,}",
        **{verdict: f"{counted[verdict]:,}" for verdict in (FAILED, NOT_CHECKED, WARNING)},
        "dropped": f"{dropped / came:.1%}" if came else "",
        "waits": f"{len(waits):,}",
    }


def _tiles(rows: list[Row], counted: Counter[str], last: int, committed_at_ms: int) -> list[tuple[str, str]]:
    read = sum(row["value"] for row in rows if row["metric"] == "process-total")
    refused = sum(row["value"] for row in rows if row["metric"] == metrics.DROPPED)
    lost = sum(row["value"] for row in rows if row["metric"] == "records-undecodable-total")
    return [
        ("last increment", f"{last:,}, committed {utc(committed_at_ms)}"),
        ("increments", f"{counted.total():,}"),
        ("records processed", f"{read:,.0f}"),
        ("refusals", f"{refused:,.0f}"),
        ("undecodable", f"{lost:,.0f}"),
        ("increments that passed", f"{counted[PASSED]:,}"),
        ("increments that failed", f"{counted[FAILED]:,}"),
        ("increments with a warning", f"{counted[WARNING]:,}"),
        ("increments not checked whole", f"{counted[NOT_CHECKED]:,}"),
        ("increments nobody checked", f"{counted[NOBODY]:,}"),
    ]


def _charts(rows: list[Row], days: dict[int, str]) -> list[Chart]:
    """Those for which there are numbers, over all increments of ``days``."""
    of = _Numbers(rows)
    bars, lines = partial(charts.bars, days=days), partial(charts.lines, days=days)
    outcome = {
        "records-applied-total": "applied", "records-left-out-total": "left out", "records-dropped-total": "dropped",
        "records-undecodable-total": "undecodable",
    }  # fmt: skip
    buffered = of.by("suppression-buffer-count-max", "operator")
    wanted = [
        ("Records", "What became of the records that sub-topologies took.", bars, of.named(outcome), "records"),
        ("Refusals by reason", "What operators refused (dropped-records-total).", bars,
         of.by(metrics.DROPPED, "label"), "refusals"),
        ("Lateness", "How far records were behind stream time: the largest, and what so many did not exceed.",
         partial(lines, marks=_LATENESS_MARKS), of.seconds({metrics.LATENESS_MAX: "largest", **_PERCENTILES}),
         "seconds"),
        ("Stream time behind the wall clock", "At the commit of the increment, of each sub-topology.", lines,
         of.days(metrics.LAG), "days"),
        ("Results in suppress buffers", "The most at one time (suppression-buffer-count-max).", lines, buffered,
         "results"),
        ("Open windows", "When the increment ended, as checks have counted them (open-windows).", lines,
         of.by(metrics.OPEN_WINDOWS, "operator"), "windows"),
        ("Join misses", "What a join looked up without a match.", bars, of.misses(), "records"),
        ("Duplicates", "Records that a deduplication left out.", bars,
         of.by(metrics.COUNTS["duplicates"], "operator"), "records"),
        ("Records that wait", "Landed, and held back for a slower partition.", lines,
         of.named({metrics.WAITING: "waiting"}), "records"),
        ("Records written", "By output.", bars, of.by(metrics.EMITTED, "label"), "records"),
        ("Seconds", "Plan, compute and commit.", bars,
         [point for point in of.by(metrics.SECONDS, "label") if point[1] in ("plan", "compute", "commit")], "seconds"),
    ]  # fmt: skip
    return [
        Chart(title, says, Markup(draw(points, unit)))
        for title, says, draw, points, unit in wanted
        if any(value for _, _, value in points)
    ]


def grace_charts(advice: Mapping[str, Any]) -> list[Chart]:
    """Of every operator, what another grace would have refused, and where results wait, the most that wait."""
    shown = []
    for node in advice["nodes"]:
        tried = [each for each in node["what_if"] if each["fails"] is None]
        names = [
            duration_text(each["grace_ms"]) + (" (now)" if each["grace_ms"] == node["grace_ms"] else "")
            for each in tried
        ]
        for title, column, unit in (
            ("Refused with another grace", "refused", "records"),
            ("Results that wait with another grace", "buffer_results", "results"),
        ):
            counts = [(name, unit, each[column]) for name, each in zip(names, tried, strict=True)]
            if any(number for _, _, number in counts):
                drawn = Markup(charts.distribution([(*each[:2], each[2] or 0) for each in counts], "grace", unit))
                shown.append(Chart(f"{title}: {node['node']}", _suggestion(node, advice), drawn))
    return shown


def _suggestion(node: Mapping[str, Any], advice: Mapping[str, Any]) -> str:
    suggested = "" if node["suggested_ms"] is None else f"Suggested: {duration_text(node['suggested_ms'])}. "
    return f"Increments {advice['since']} to {advice['until']}, run again with each grace. {suggested}{node['reason']}"


def _distribution(increments: Sequence[Increment]) -> list[Chart]:
    """Of lateness over all increments; none where an older version ran them all."""
    counts = {(name, sub): 0 for name in [*_LATENESS.values(), "more"] for sub in _subs(increments)}
    for _, done in increments:
        for sub, latenesses in (done.content.lateness_counts_by_sub_topology or {}).items():
            for late_ms, records in latenesses.items():
                name = next((word for most, word in _LATENESS.items() if int(late_ms) <= most), "more")
                counts[name, sub] += records
    if not any(counts.values()):
        return []
    says = "Records of all increments, by sub-topology. A class has all that are at most so late, to an eighth."
    classes = [(name, f"sub-topology {sub}", records) for (name, sub), records in counts.items()]
    return [Chart("Distribution of lateness", says, Markup(charts.distribution(classes, "late by at most")))]


def _subs(increments: Sequence[Increment]) -> list[str]:
    return sorted({sub for _, done in increments for sub in done.content.lateness_counts_by_sub_topology or {}})


class _Numbers:
    """Points for charts out of rows of metrics."""

    def __init__(self, rows: list[Row]) -> None:
        self._of: dict[str, list[Row]] = {}
        for row in rows:
            self._of.setdefault(row["metric"], []).append(row)

    def by(self, metric: str, column: str) -> list[charts.Point]:
        """A series for every text in ``column``, summed over the rest."""
        return _summed((row["increment"], str(row[column]), row["value"]) for row in self._of.get(metric, ()))

    def named(self, words: dict[str, str]) -> list[charts.Point]:
        """A series for every metric, under its word, summed over sub-topologies."""
        return _summed(
            (row["increment"], word, row["value"]) for metric, word in words.items() for row in self._of.get(metric, ())
        )

    def seconds(self, words: dict[str, str]) -> list[charts.Point]:
        """As ``named``, the largest of all sub-topologies, milliseconds as seconds."""
        points: dict[tuple[int, str], float] = {}
        for metric, word in words.items():
            for row in self._of.get(metric, ()):
                key = row["increment"], word
                points[key] = max(points.get(key, 0.0), row["value"] / 1000)
        return [(*key, value) for key, value in points.items()]

    def misses(self) -> list[charts.Point]:
        """A series for every join: what it looked up without a match."""
        looked_up, matched = (self.by(metrics.COUNTS[name], "operator") for name in ("looked_up", "matched"))
        return _summed([*looked_up, *((increment, name, -value) for increment, name, value in matched)])

    def days(self, metric: str) -> list[charts.Point]:
        """A series for every sub-topology, milliseconds as days."""
        rows = self._of.get(metric, ())
        return [(row["increment"], f"sub-topology {row['sub_topology']}", row["value"] / 86_400_000) for row in rows]


def _summed(points: Iterable[charts.Point]) -> list[charts.Point]:
    sums: dict[tuple[int, str], float] = {}
    for increment, name, value in points:
        sums[increment, name] = sums.get((increment, name), 0.0) + value
    return [(*key, value) for key, value in sums.items()]


def _largest_keys(warehouse: Warehouse, pipeline: str, versions: dict[str, int], last: int) -> list[dict[str, Any]]:
    """Of every output the keys with most records in the newest increments."""
    largest = []
    for table in sorted(versions):
        if TableName(table).kind != OUTPUTS:
            continue
        rows = read_table(warehouse, pipeline, table, last=KEY_ROWS_MAX, after=max(0, last - KEY_INCREMENTS))
        if not len(rows):
            continue
        counted = _texts(rows["key"]).value_counts()
        pairs = sorted(zip(counted.field(1).to_pylist(), counted.field(0).to_pylist(), strict=True), key=_by_number)
        keys = [(key, number, number / len(rows)) for number, key in itertools.islice(pairs, KEYS_MAX)]
        largest.append({"output": TableName(table).name, "keys": keys})
    return largest


def _texts(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    """Keys as texts that can be counted; of a struct its fields."""
    try:
        return pc.fill_null(keys.cast(pa.string()), "null")
    except pa.ArrowException:
        return pa.chunked_array([pa.array([str(key) for key in keys.to_pylist()], pa.string())])


def _by_number(pair: tuple[int, str]) -> tuple[int, str]:
    return -pair[0], pair[1]


def _waits(warehouse: Warehouse, pipeline: str, planned: PlanRow, topology: Topology | None) -> list[str]:
    sentences = sentences_of([WaitingInput(**each) for each in planned.waits or ()], warehouse.root)
    if topology is None:
        return sentences
    try:
        return sentences + [str(each) for each in results_that_wait(warehouse, topology, pipeline=pipeline)]
    except ReplayError as error:
        return [*sentences, f"what waits in stores cannot be said: {error}"]
