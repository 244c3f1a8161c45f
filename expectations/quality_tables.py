"""Two tables in which the quality of a pipeline is kept over time: verdicts on guarantees, and numbers of increments.

Owns their columns, and that a row comes in once, however often it is reported: of two writers at once, the second
reads the table again. Rule: rows are only added. Of several verdicts on one increment the newest counts
(`recorded_at_ms`); rows of an increment that a restore withdrew stay, with the epoch of that time.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from deltalake.exceptions import CommitFailedError

from ..state.errors import CommitLost
from ..state.tables.commit import append_row, create_table
from ..state.tables.compaction import EVERY, compact
from ..state.tables.data_files import live_files, mark_of, open_table, read_rows
from ..state.tables.ledger import Ledger, LedgerRow
from ..state.tables.ledger_rows import DoneRow
from ..state.tables.schema_evolution import grow
from ..state.tables.warehouse import Warehouse
from ..state.wall_clock import now_ms
from .guarantees import GUARANTEES
from .verdicts import Verdict

VERDICTS = {"true": "passed", "false": "failed", "unknown": "not checked", "unchecked": "not checked"}
"""What an answer is called in the table."""
_SEVERITIES = {guarantee.id: guarantee.severity for guarantee in GUARANTEES}
_ATTEMPTS = 8
_APP_ID = "quality"

RESULTS_SCHEMA = pa.schema(
    [
        ("increment", pa.int64()),
        ("epoch", pa.int64()),
        ("guarantee", pa.string()),
        ("kip", pa.string()),
        ("table", pa.string()),
        ("table_version", pa.int64()),
        ("verdict", pa.string()),
        ("broken", pa.list_(pa.string())),
        ("observed", pa.string()),
        ("threshold", pa.int64()),
        ("rows_checked", pa.int64()),
        ("witnesses", pa.string()),
        ("reason", pa.string()),
        ("engine", pa.string()),
        ("seconds", pa.float64()),
        ("topology", pa.string()),
        ("recorded_at_ms", pa.int64()),
        ("severity", pa.string()),
    ]
)
"""A verdict on one increment. `verdict`: "passed", "failed" or "not checked"; `broken`: the rules that do not hold;
`observed` (counts by name) and `witnesses` (rows) are JSON; `threshold`: the largest count that a rule allows;
`topology`: fingerprint of the code that ran the increment; `severity`: "error", or "warning" of what need not hold
(null in rows of earlier versions)."""

METRICS_SCHEMA = pa.schema(
    [
        ("increment", pa.int64()),
        ("epoch", pa.int64()),
        ("sub_topology", pa.int32()),
        ("operator", pa.string()),
        ("metric", pa.string()),
        ("label", pa.string()),
        ("value", pa.float64()),
        ("committed_at_ms", pa.int64()),
    ]
)
"""A number of one increment, under Kafka's name where it has one. `sub_topology` and `operator` are null where the
number is of all; `label`: the reason of drops, the output of records written, the part of seconds."""

Row = dict[str, Any]


def record_verdicts(warehouse: Warehouse, pipeline: str, verdicts: Sequence[Verdict]) -> int:
    """Add verdicts to `quality_results`; returns how many rows that made.

    A verdict adds no row if it equals the newest one of its increment, or if the increment is not done. Nor does a
    verdict without evidence replace one that had it: what was judged by the code that ran the increment stays, though
    the current code cannot judge it. Raises CommitLost when others kept writing.
    """
    tables = warehouse.pipeline(pipeline)
    ledger = Ledger(tables.ledger)
    numbers = sorted({verdict.increment for verdict in verdicts if verdict.increment})
    done = {row.increment: row for row in ledger.done_rows(numbers[0], numbers[-1])} if numbers else {}
    results = [
        (_result(verdict, done[verdict.increment]), verdict.answer == "unchecked")
        for verdict in verdicts
        if verdict.increment in done
    ]

    def news(known: pa.Table) -> list[Row]:
        newest = {_subject(row): _answer(row) for row in _in_order(known)}
        at_ms = max(
            [now_ms(), *(recorded_ms + 1 for recorded_ms in known["recorded_at_ms"].to_pylist())]
        )  # clocks differ
        return [
            row | {"recorded_at_ms": at_ms}
            for row, lacks_evidence in results
            if newest.get(_subject(row)) != _answer(row) and not (lacks_evidence and _subject(row) in newest)
        ]

    return _append(tables.quality_results, RESULTS_SCHEMA, news)


def record_metrics(
    warehouse: Warehouse, pipeline: str, rows_beside: Callable[[set[tuple[int, int]]], list[Row]]
) -> int:
    """Add numbers of increments to `quality_metrics`, as of METRICS_SCHEMA; returns how many rows that made.

    ``rows_beside``: the rows of all increments but those (increment, epoch) that the table has already. Raises
    CommitLost when others kept writing.
    """

    def news(known: pa.Table) -> list[Row]:
        return rows_beside(set(zip(known["increment"].to_pylist(), known["epoch"].to_pylist(), strict=True)))

    path = warehouse.pipeline(pipeline).quality_metrics
    return _append(path, METRICS_SCHEMA, news)


def read_quality(path: str, schema: pa.Schema) -> pa.Table | None:
    """All rows of one of the two tables; None when there is no table yet. DamagedFile for a file that is not whole."""
    table = open_table(path)
    return None if table is None else read_rows(path, live_files(table), schema)


def newest_results(warehouse: Warehouse, pipeline: str) -> list[Row]:
    """Of each increment, epoch, guarantee and table the newest verdict, by increment; [] when nothing was checked.

    `observed` and `witnesses` are read from their JSON; `severity` is the guarantee's where the row has none.
    """
    rows = read_quality(warehouse.pipeline(pipeline).quality_results, RESULTS_SCHEMA)
    newest = {_subject(row): row for row in _in_order(rows)} if rows is not None else {}
    results = [
        row
        | {name: json.loads(row[name]) for name in ("observed", "witnesses")}
        | {"severity": row["severity"] or _SEVERITIES.get(row["guarantee"], "error")}
        for row in newest.values()
    ]
    return sorted(results, key=lambda row: (row["increment"], row["epoch"], row["guarantee"], row["table"]))


def _append(path: str, schema: pa.Schema, news: Callable[[pa.Table], list[Row]]) -> int:
    """Add what ``news`` makes of the rows that are there; again where somebody else wrote meanwhile."""
    for _ in range(_ATTEMPTS):
        table = create_table(path, schema)
        rows = news(read_rows(path, live_files(table), schema))
        if not rows:
            return 0
        number = (mark_of(table, path, _APP_ID) or 0) + 1
        try:
            table = grow(table, path, schema)
            append_row(table, path, pa.Table.from_pylist(rows, schema), app_id=_APP_ID, increment=number)
        except CommitFailedError:
            continue
        if number % EVERY == 0:
            compact(path, app_id=_APP_ID, increment=number)
        return len(rows)
    raise CommitLost(
        path, "a time at which no other process writes", f"{_ATTEMPTS} others that were quicker", "run the check again"
    )


def _result(verdict: Verdict, row: LedgerRow[DoneRow]) -> Row:
    return {
        "increment": row.increment,
        "epoch": row.epoch,
        "guarantee": verdict.guarantee,
        "kip": verdict.kip,
        "table": verdict.table,
        "table_version": verdict.version,
        "verdict": VERDICTS[verdict.answer],
        "broken": list(verdict.broken),
        "observed": json.dumps(verdict.observed),
        "threshold": 0,
        "rows_checked": verdict.rows,
        "witnesses": json.dumps(verdict.witnesses),
        "reason": verdict.reason,
        "engine": verdict.engine,
        "seconds": verdict.seconds,
        "topology": row.content.topology,
        "severity": verdict.severity,
    }


def _subject(row: Row) -> tuple[Any, ...]:
    return row["increment"], row["epoch"], row["guarantee"], row["table"]


def _answer(row: Row) -> tuple[Any, ...]:
    return row["verdict"], tuple(row["broken"])


def _in_order(rows: pa.Table) -> list[Row]:
    """Rows in the order in which they were recorded."""
    return sorted(rows.to_pylist(), key=lambda row: row["recorded_at_ms"])
