"""What a materialization says: numbers that Dagster plots over time, the cut, the table.

Owns the names of metadata. Rule: everything is read from the ledger and from the table at the version in it, so the
metadata of an increment are always the same. Only those about the placement of tasks are of the last increment alone.
Times and durations are milliseconds where the name ends in `_ms`; `seconds/<part>` are seconds.
"""

import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, cast

import dagster as dg
import pyarrow as pa

from ..jobs.execution.placement_hint import read_hint
from ..jobs.execution.table_schemas import table_schema
from ..jobs.graph.nodes import SinkNode
from ..jobs.graph.windows import Windows
from ..jobs.replay.increment_report import IncrementReport, report_of
from ..jobs.replay.increments_as_one import as_one
from ..jobs.replay.waiting_inputs import WaitingInput
from ..jobs.topology import SubTopology
from ..state.tables.branch_files import landed_files
from ..state.tables.data_files import read_files
from ..state.tables.files_in_place import source_in_place
from ..state.tables.ledger import LedgerRow
from ..state.tables.ledger_rows import Cut, DoneRow, LandingDoneRow, PlanRow
from ..state.tables.names import DROPPED, LANDED, STATE, TableName, TaskId
from ..state.tables.refused_shares import refused_shares
from ..state.tables.row_content import RowContent
from ..state.tables.warehouse import LANDED_SCHEMA
from .lineage import Table, column_lineage
from .pipeline import Pipeline
from .placement.tables import placement_numbers
from .reported_increments import INCREMENT, NOTHING_NEW, TABLE
from .what_waits import sentences_of

Metadata = dict[str, Any]
NO_INCREMENT = "increment-0-epoch-0"
LATEST_MS = 253_402_300_799_000
"""9999-12-31T23:59:59Z: Dagster shows no later time."""
UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))
COLUMN_WORDS = {
    "partition": "partition of the topic, and of the task",
    "offset": "position in the partition",
    "increment": "number of the increment that wrote the row",
    "cause_offset": "offset of the task's input record that caused it",
    "timestamp": "record time, milliseconds",
    "record_time_ms": "the record's own time, milliseconds",
    "stream_time_ms": "stream time of the operator that forwarded it, milliseconds",
    "window_start_ms": "start of the window, inclusive, milliseconds",
    "window_end_ms": "end of the window, exclusive (of a session: inclusive), milliseconds",
    "headers": "headers of the record, in order",
    "arrival": "number of the landed record that caused it, where the replay follows arrivals",
    "deleted": "the row deletes its key (and window)",
    "value": "null is a tombstone",
}


def data_version(row: LedgerRow[RowContent] | None) -> dg.DataVersion:
    """A table as of a ledger row. Two tables of one row are equal whoever wrote them."""
    return dg.DataVersion(NO_INCREMENT if row is None else f"increment-{row.increment}-epoch-{row.epoch}")


def topic_version(pipeline: Pipeline, row: LedgerRow[RowContent]) -> dg.DataVersion:
    """A landed topic as of a ledger row. Below partitions it stays the same when more lands, since what had landed
    stays as it was: a landing makes partitions possible, and none out of date.
    """
    return data_version(row) if pipeline.partitions is None else dg.DataVersion(f"epoch-{row.epoch}")


def table_metadata(pipeline: Pipeline, table: str) -> Metadata:
    """What is known of a table before anything has run: where it lies and its columns."""
    schema = LANDED_SCHEMA if TableName(table).kind == LANDED else table_schema(pipeline.topology, table)
    location = {} if pipeline.known_root is None else {TABLE: pipeline.path(table)}
    return location | {"dagster/column_schema": _column_schema(schema)} | _columns_above(pipeline, table)


def _columns_above(pipeline: Pipeline, table: str) -> Metadata:
    """Which columns of other assets its columns are made from, as Dagster draws them; of what was refused, none."""
    mine = next((each for _, each in pipeline.all_tables() if each.name == table), None)
    if mine is None:
        return {}
    deps = {
        column: [dg.TableColumnDep(pipeline.key(above), name) for above, name in sources]
        for column, sources in column_lineage(pipeline.topology, mine).items()
    }
    return {"dagster/column_lineage": dg.TableColumnLineage(deps)}


def increment_metadata(pipeline: Pipeline, sub: SubTopology, table: Table, *increments: int) -> Metadata:
    """What increments that followed each other did to ``table`` and to the sub-topology that writes it. Of an increment
    of another topology, only what goes by names: its sub-topologies and operators may have had other numbers.
    """
    increment, epoch, rows = _rows_of(pipeline, increments)
    if not rows or table.name not in rows[-1][1].versions:
        # Of a fork or a bootstrap, or before the table was added.
        return quiet_metadata(pipeline, table.name, pipeline.ledger.rows_of(increment).done)
    report = report_of(increment, *as_one(rows))
    is_same = all(done.topology == pipeline.topology.reading(done.cut_to).fingerprint for _, done in rows)
    return {
        INCREMENT: increment,
        "epoch": epoch,
        **(_books(report, sub) if is_same else {}),
        **(_emitted(report, table) if is_same or isinstance(table.node, SinkNode) else {}),
        **(_lateness(report, sub) | _seconds(report, sub) | _stream_time(report, sub) if is_same else {}),
        **_memory(report.rss_bytes_max),
        "tasks on Spark": report.spark_tasks,
        **{f"requests/{kind}": number for kind, number in report.requests.items()},
        **waiting_metadata(report.waits, pipeline.warehouse.root),
        **placement_numbers(read_hint(pipeline.warehouse.pipeline(pipeline.name)), increment),
        "cut": _cut(report.cut_from, report.cut_to),
        **_committed(pipeline, table.name, report.versions[table.name]),
    }


def _rows_of(pipeline: Pipeline, increments: Sequence[int]) -> tuple[int, int, list[tuple[PlanRow, DoneRow]]]:
    """The last of ``increments``, its epoch, and the ledger rows of all; none for a fork or a bootstrap."""
    rows, epoch = list[tuple[PlanRow, DoneRow]](), 0
    for increment in increments:
        planned, done = pipeline.ledger.rows_of(increment)
        assert done is not None, f"increment {increment} is done"
        epoch = done.epoch
        if planned is not None:
            rows.append((planned.content, done.content))
    return increments[-1], epoch, rows


def refusals_metadata(pipeline: Pipeline, table: str, *increments: int) -> Metadata:
    """What increments that followed each other added to `dropped` or `dead_letter`, of all that they read."""
    increment, epoch, rows = _rows_of(pipeline, increments)
    if not rows:  # a fork or a bootstrap
        return quiet_metadata(pipeline, table, pipeline.ledger.rows_of(increment).done)
    report = report_of(increment, *as_one(rows))
    books = report.books
    mine = {"records_undecodable": books.undecodable}
    if table == DROPPED:
        mine = _dropped(report)
    version = report.versions[table]
    said = {INCREMENT: increment, "epoch": epoch, "records_read": books.read, "records_applied": books.applied}
    return said | mine | _committed(pipeline, table, version)


def quiet_metadata(pipeline: Pipeline, table: str, row: LedgerRow[DoneRow | LandingDoneRow] | None) -> Metadata:
    """For a table that has nothing new since the ``row`` that was reported before; None: nothing was ever run."""
    said: Metadata = {INCREMENT: 0 if row is None else row.increment, NOTHING_NEW: True}
    if row is None:
        return said | table_metadata(pipeline, table)
    said |= {"epoch": row.epoch}
    if isinstance(row.content, DoneRow):
        version = row.content.versions.get(table)  # None: of a fork, or of a table that was added since
        return said | (table_metadata(pipeline, table) if version is None else _committed(pipeline, table, version))
    return said | _landed(pipeline, TableName(table).name, cast(LedgerRow[LandingDoneRow], row))


def landing_metadata(pipeline: Pipeline, topic: str, increment: int) -> Metadata:
    """What one landing increment of a topic brought."""
    row = pipeline.landing_ledger(topic).rows_of(increment).done
    assert row is not None, f"landing increment {increment} of {topic} is done"
    content = row.content
    return {
        INCREMENT: row.increment,
        "epoch": row.epoch,
        "records_read": content.records,
        "dead_letters": content.dead_letters or 0,
        "implausible_times": (content.implausible or {}).get("records", 0),
        "partitions": content.partitions,
        "gaps": len(content.gaps),
        "cut": _cut({topic: content.cut_from}, {topic: content.cut_to}),
        **_landed(pipeline, topic, row),
    }


def _landed(pipeline: Pipeline, topic: str, row: LedgerRow[LandingDoneRow]) -> Metadata:
    """Of a topic's table; of records that lie in somebody else's table, too."""
    version = row.content.table_version
    assert version is not None, "every landing that is done names its table's version"
    said = _committed(pipeline, TableName.landed(topic), version)
    if row.content.in_place is not None:
        files = landed_files(pipeline.warehouse, topic, row)
        said |= {
            "dagster/row_count": sum(file.records for file in files),
            "in_place": source_in_place(pipeline.warehouse, topic, row)["lake"]["place"],
        }
    return said


def _books(report: IncrementReport, sub: SubTopology) -> Metadata:
    books = report.books_by_sub_topology[str(sub.id)]
    return {
        "records_read": books.read,
        "records_applied": books.applied,
        "records_left_out": books.left_out,
        "records_undecodable": books.undecodable,
        "windows_refused": books.windows_refused,
        **_dropped(report, sub),
    }


def _dropped(report: IncrementReport, sub: SubTopology | None = None) -> Metadata:
    """Records that operators dropped, in all and by operator, of all of them or of those of a sub-topology: the same
    number wherever it is shown, whatever other operators did with the records. By reason: those that an operator
    refused in some of their windows count, too.
    """
    shares = refused_shares([] if report.done.books is None else [report.done.books])
    mine = [each for each in shares if each.operator is not None and (sub is None or each.sub_topology == str(sub.id))]
    by_operator = {f"records_dropped/{each.operator}": each.refused for each in mine if each.refused}
    books, by_reason = report.books if sub is None else report.books_by_sub_topology[str(sub.id)], dict[str, int]()
    for reasons in books.refused.values():
        for reason, (records, _) in sorted(reasons.items()):
            name = f"records_dropped/{reason}"
            by_reason[name] = by_reason.get(name, 0) + records
    return {"records_dropped": sum(each.refused for each in mine), **by_operator, **by_reason}


def _emitted(report: IncrementReport, table: Table) -> Metadata:
    if isinstance(table.node, SinkNode):
        return {"records_emitted": report.outputs[table.node.topic]}
    numbers = report.operators.get(table.node.name, {}) if table.kind == STATE else {}
    kind = table.node.metric_prefix
    names = {"emitted": "results_emitted", "count_current": "buffer_count"}
    return {names.get(name, f"{kind}_{name}"): number for name, number in numbers.items() if number is not None}


def _lateness(report: IncrementReport, sub: SubTopology) -> Metadata:
    """Of the sub-topology's tasks. Left out where nothing was taken: no records have no lateness, not one of 0."""
    own = report.lateness_by_sub_topology.get(str(sub.id), {})
    numbers = {"lateness_avg_ms": own.get("avg"), "lateness_max_ms": own.get("max")}
    numbers |= {
        f"lateness_p{percent}_ms": report.lateness_percentile_ms(str(sub.id), percent) for percent in (50, 90, 99)
    }
    known = {name: round(number, 3) for name, number in numbers.items() if number is not None}
    return known | {name.removesuffix("_ms"): duration_in_words(number) for name, number in known.items()}


def _memory(most: int) -> Metadata:
    """Bytes twice: as a number that Dagster plots, and in words."""
    return {"memory_bytes_max": most, "memory_max": f"{most / 2**20:,.0f} MiB"}


def _seconds(report: IncrementReport, sub: SubTopology) -> Metadata:
    """Of the sub-topology's tasks, summed over them, by part."""
    own = report.seconds_by_sub_topology.get(str(sub.id), {})
    return {f"seconds/{part}": round(seconds, 3) for part, seconds in own.items()}


def waiting_metadata(waits: Sequence[WaitingInput], warehouse: str) -> Metadata:
    """Landed records that are held back, and for whom."""
    said: Metadata = {"records_waiting": sum(each.records for each in waits)}
    if waits:
        said["waits"] = dg.MetadataValue.md("\n".join(f"- {sentence}" for sentence in sentences_of(waits, warehouse)))
    return said


def _stream_time(report: IncrementReport, sub: SubTopology) -> Metadata:
    """The largest of the sub-topology's tasks; left out before any record."""
    tasks = {TaskId.of(name): task for name, task in report.done.tasks.items()}
    times = [task.stream_time_ms for name, task in tasks.items() if name.sub_topology == sub.id]
    return times_of("stream_time", max(times)) if times else {}


def times_of(name: str, time_ms: int) -> Metadata:
    """A time twice: as a number that Dagster plots, in ms, and as the time that it shows."""
    said: Metadata = {f"{name}_ms": time_ms}
    return said | ({name: dg.MetadataValue.timestamp(time_ms / 1000)} if 0 <= time_ms <= LATEST_MS else {})


def windows_in_words(windows: Windows) -> str:
    """As "time windows: size 1 h, advance 1 h, grace 4 h"."""
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(windows).__name__).lower()
    parts = [f"{each.name.removesuffix('_ms')} {_duration(getattr(windows, each.name))}" for each in fields(windows)]
    return f"{kind}: {', '.join(parts)}"


def duration_in_words(duration_ms: float) -> str:
    """The two largest units that it has, as "3 h 20 min"; what is shorter than a second in milliseconds."""
    left, said = max(round(duration_ms), 0), list[str]()
    for size, unit in UNITS:
        if left >= size and len(said) < 2 and (unit != "ms" or not said):
            said.append(f"{left // size:,} {unit}")
        left %= size
    return " ".join(said) or "0 ms"


def _duration(duration_ms: int) -> str:
    """In the largest unit that divides it."""
    size, unit = next((size, unit) for size, unit in UNITS if duration_ms % size == 0)
    return f"{duration_ms // size:,} {unit}" if duration_ms else "0 ms"


def _committed(pipeline: Pipeline, table: str, version: int) -> Metadata:
    return {
        "table_version": version,
        "dagster/row_count": _row_count(pipeline.path(table), version),
        **table_metadata(pipeline, table),
    }


def rows_added(
    pipeline: Pipeline, table: str, before: LedgerRow[DoneRow] | None, row: LedgerRow[DoneRow]
) -> int | None:
    """Rows that a table has got from after the ledger row ``before`` (None: from nothing) up to ``row``; None: of a
    store, whose files are written together, which leaves rows out.
    """
    if TableName(table).kind == STATE:
        return None
    path = pipeline.path(table)
    versions = [None if each is None else each.content.versions.get(table) for each in (before, row)]
    begin, end = (0 if version is None else _row_count(path, version) for version in versions)
    return end - begin


def _row_count(path: str, version: int) -> int:
    """Rows of the table at ``version``, counted from its log alone."""
    return sum(file.records for file in read_files(path, version=version))


def _cut(cut_from: Cut, cut_to: Cut) -> dg.TableMetadataValue:
    """Offsets `[from, to)` of every partition that was read."""
    spans = [
        (topic, int(partition), cut_from.get(topic, {}).get(partition, 0), end)
        for topic, ends in cut_to.items()
        for partition, end in ends.items()
    ]
    return dg.MetadataValue.table(
        [dg.TableRecord(dict(zip(("topic", "partition", "from", "to"), span, strict=True))) for span in sorted(spans)],
        dg.TableSchema(
            [dg.TableColumn("topic", "string"), *(dg.TableColumn(name, "int") for name in ("partition", "from", "to"))]
        ),
    )


def _column_schema(schema: pa.Schema) -> dg.TableSchema:
    return dg.TableSchema(
        [dg.TableColumn(column.name, str(column.type), COLUMN_WORDS.get(column.name)) for column in schema]
    )
