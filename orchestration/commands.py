"""What the commands do: land, run, describe, check, books, show.

Owns their output. Rule: results go to stdout, progress and errors to stderr; each returns the exit code. They call the
same functions as Dagster's steps, so both see one ledger and can take turns.
"""

import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from expectations.verdicts import Verdict, check_increment
from jobs.increment_report import IncrementReport, report_of
from jobs.landing import FileSource, KafkaSource, LandingReport, land_files, land_kafka
from jobs.reading import count_rows, done_row, read_newest, read_state, read_table
from jobs.recorded_time import record_idle
from jobs.replay import replay
from jobs.restatement import in_force
from jobs.runner import LocalRunner, Runner
from jobs.store_reading import read_store
from orchestration.facts import replay_facts
from orchestration.progress import progress_on
from orchestration.text_tables import flat_row, text_table
from orchestration.time_commands import print_recorded
from orchestration.topology_commands import wanted_of
from orchestration.topology_files import load_topology
from state.errors import ConfigError
from state.ledger import DONE, PLANNED, Ledger, LedgerRow
from state.run_cache import default_cache
from state.tables import HEADERS, Warehouse
from state.times import duration_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKEN = 1
"""Exit code of `check` when a guarantee does not hold or cannot be judged."""

HIDDEN = ("partition", "offset", "increment", "cause_offset", "stream_time_ms", "arrival", "deleted")
"""Columns that the newest rows are shown without; ``headers`` is one too where no row has any."""


def land(options: Namespace) -> int:
    """Land what is new in one topic."""
    warehouse, source = Warehouse(options.warehouse), _source(options)
    if isinstance(source, KafkaSource):
        if options.local:
            raise ConfigError(
                f"topic {options.topic!r}", "Spark, whose connector reads Kafka", "--local", "leave it out"
            )
        report = land_kafka(_spark(options), warehouse, options.topic, source, max_records=options.max_records)
    else:
        report = land_files(None if options.local else _spark(options), warehouse, options.topic, source)
    _print_landed(report)
    if options.idle_after is not None:
        recorded = record_idle(warehouse, options.topic, duration_ms(options.idle_after, "--idle-after"))
        print_recorded(options.topic, recorded)
    return 0


def _print_landed(report: LandingReport) -> None:
    if not report.increments:
        print(f"{report.topic}: nothing new")
        return
    increments = ", ".join(map(str, report.increments))
    print(f"{report.topic}: {report.records:,} records landed in {report.seconds:.1f} s (increment {increments})")
    spans = [
        {"partition": p, "from": report.cut_from.get(p, 0), "to": end, "gone": _gap(report.gaps.get(p))}
        for p, end in report.cut_to.items()
    ]
    print(text_table(spans, ["partition", "from", "to", *(["gone"] if report.gaps else [])]))


def run(options: Namespace) -> int:
    """Replay what has landed."""
    warehouse, topology = Warehouse(options.warehouse), load_topology(options.topology)
    runner, progress = _runner(options), progress_on(sys.stderr)
    started = time.monotonic()
    try:
        reports = list(
            replay(
                warehouse,
                topology,
                pipeline=options.pipeline,
                runner=runner,
                max_records=options.max_records,
                increments=options.increments,
                idle=options.idle,
                flush_at_end=options.flush_at_end,
                wanted=wanted_of(options),
                progress=progress.show,
            )
        )
    finally:
        progress.close()
    _print_run(warehouse, options.pipeline, reports, time.monotonic() - started)
    return 0


def describe(options: Namespace) -> int:
    """Print the topology as Kafka Streams would."""
    print(load_topology(options.topology).describe())
    return 0


def check(options: Namespace) -> int:
    """Verdicts on increments, with the rows that speak against them."""
    warehouse, facts = Warehouse(options.warehouse), replay_facts(load_topology(options.topology))
    last = done_row(warehouse, options.pipeline, options.increment).increment
    ledger = Ledger(warehouse.pipeline(options.pipeline).ledger, warehouse.storage_options)
    verdicts = [
        verdict
        for increment in (_own_increments(ledger.done_rows(ledger.oldest_kept())) if options.all else [last])
        for verdict in check_increment(warehouse, options.pipeline, facts, increment, engine=options.engine)
    ]
    for verdict in verdicts:
        _print_verdict(verdict)
    return 0 if all(verdict.answer == "true" for verdict in verdicts) else BROKEN


def books(options: Namespace) -> int:
    """One line an increment: what became of the records that it read."""
    warehouse = Warehouse(options.warehouse)
    last = done_row(warehouse, options.pipeline)
    ledger = Ledger(warehouse.pipeline(options.pipeline).ledger, warehouse.storage_options)
    rows = ledger.done_rows(max(1, last.increment - options.last + 1))
    lines = [
        _books_line(report_of(increment, contents[PLANNED], contents[DONE]))
        for increment in _own_increments(rows)
        if (contents := {row.phase: row.content for row in ledger.rows_of(increment)})
    ]
    if not lines:
        print(f"nothing replayed yet by {options.pipeline}")
        return 0
    counting = {row.increment for row in in_force(rows)}
    counted = [line for line in lines if line["increment"] in counting]
    total: dict[str, Any] = {name: sum(line.get(name) or 0 for line in counted) for name in _counted(lines)}
    lines = [line if line in counted else line | {"restated": "yes"} for line in lines]
    print(
        text_table([*lines, {"increment": "all" if lines[0]["increment"] == 1 else "these", **total}], thousands=True)
    )
    return 0


def _own_increments(rows: list[LedgerRow]) -> list[int]:
    """Of done rows, those that the pipeline itself did: not the one that a branch begins with."""
    return [row.increment for row in rows if "forked" not in row.content]


def show(options: Namespace) -> int:
    """A few rows of a table: the newest of each key, or with --changelog every record."""
    warehouse, name = Warehouse(options.warehouse), options.table
    table = name if "/" in name or name in ("dropped", "dead_letter") else f"outputs/{name}"
    kind, _, name = table.partition("/")
    if kind == "state" and options.topology is not None and not options.changelog:
        topology = load_topology(options.topology)
        rows = read_store(warehouse, options.pipeline, topology, name, increment=options.increment)
        total = len(rows)
        shown = rows.slice(0, options.limit).to_pylist()
    elif options.changelog or kind not in ("outputs", "state"):
        rows = read_table(warehouse, options.pipeline, table, increment=options.increment, last=options.limit)
        total = count_rows(warehouse, options.pipeline, table, increment=options.increment)
        shown = rows.to_pylist()
    else:
        read = read_newest if kind == "outputs" else read_state
        rows = read(warehouse, options.pipeline, name, increment=options.increment)
        total = len(rows)
        rows = rows.drop_columns(_hidden(rows))
        shown = rows.slice(0, options.limit).to_pylist()
    print(text_table([flat_row(row, as_numbers=options.raw) for row in shown] or [dict.fromkeys(rows.column_names)]))
    if kind == "state" and options.topology is None:
        print("rows as they are stored; with --topology, what the store shows (without those past its retention)")
    if total > len(shown):
        print(f"… {len(shown):,} of {total:,} rows; --limit shows more")
    return 0


def _hidden(rows: pa.Table) -> list[str]:
    headers = rows["headers"] if "headers" in rows.column_names else pa.chunked_array([], HEADERS)
    has_headers = pc.any(pc.greater(pc.list_value_length(headers), 0)).as_py()
    return [name for name in rows.column_names if name in HIDDEN or (name == "headers" and not has_headers)]


def _print_run(warehouse: Warehouse, pipeline: str, reports: list[IncrementReport], seconds: float) -> None:
    if not reports:
        print(f"nothing new to replay for {pipeline}")
        return
    print(text_table([_books_line(report) for report in reports], thousands=True))
    increments = "1 increment" if len(reports) == 1 else f"{len(reports)} increments"
    records = sum(report.books.read for report in reports)
    print(f"{records:,} records in {increments}, {records / max(seconds, 1e-9):,.0f} records/s")
    waiting = reports[-1].waiting
    if waiting:
        print(f"{waiting:,} landed records wait for partitions that lag behind; --idle proceed replays them now")
    print(f"tables: {warehouse.pipeline(pipeline).root}")


def _books_line(report: IncrementReport) -> dict[str, Any]:
    books = report.books
    return {
        "increment": report.increment,
        "read": books.read,
        "applied": books.applied,
        "dropped": books.dropped,
        "undecodable": books.undecodable,
        **dict(sorted(books.dropped_by_reason.items())),
        "emitted": sum(report.outputs.values()),
        "late_max_ms": report.lateness["max"],
        "seconds": round(sum(report.seconds.get(part, 0.0) for part in ("plan", "compute", "commit")), 2),
    }


def _counted(lines: list[dict[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for line in lines for name in line)
    return [name for name in names if name not in ("increment", "late_max_ms")]


def _print_verdict(verdict: Verdict) -> None:
    answer = {"true": "holds", "false": "BROKEN", "unknown": "UNKNOWN"}[verdict.answer]
    observed = ", ".join(f"{name} {count:,}" for name, count in verdict.observed.items())
    print(
        f"{answer:8}{verdict.guarantee} {verdict.table}, increment {verdict.increment}: {verdict.sentence} ({observed})"
    )
    if verdict.reason:
        print(f"        {verdict.reason}")
    if verdict.witnesses:
        print(text_table([flat_row(row, as_numbers=True) for row in verdict.witnesses]))


def _source(options: Namespace) -> FileSource | KafkaSource:
    if options.kafka is not None:
        pairs = [option.partition("=") for option in options.option]
        settings = {name: value for name, _, value in pairs}
        return KafkaSource(options.kafka, topic=options.source_topic, options=settings, on_gap=options.on_gap)
    if options.timestamp is None:
        raise ConfigError(
            f"topic {options.topic!r}", "the column of the record time", "none", "name it with --timestamp COLUMN"
        )
    value = options.value
    return FileSource(
        path=options.files,
        format=options.format,
        timestamp=options.timestamp,
        key=options.key,
        value=value[0] if value is not None and len(value) == 1 else tuple(value) if value else None,
        partition=options.partition,
        partitions=options.partitions,
        timestamp_unit=options.timestamp_unit,
        pattern=options.pattern,
        delimiter=options.delimiter,
    )


def _gap(gap: tuple[int, int] | None) -> str | None:
    return None if gap is None else f"[{gap[0]}, {gap[1]})"


def _runner(options: Namespace) -> Runner:
    if options.local:
        return LocalRunner(default_cache())
    from jobs.spark_runner import SparkRunner

    return SparkRunner(_spark(options), default_cache())


def _spark(options: Namespace) -> "SparkSession":
    from jobs.spark import open_spark

    return open_spark(options.master)
