"""Whether a re-run writes for a record what its increment committed.

Owns the comparison. Rule: outputs and drops are compared, in the partition and increment of each task that ran again,
and only files that may hold that increment are read. Functions that are pure give no difference.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...state.tables.branch_files import table_parts
from ...state.tables.data_files import read_files, read_rows, without_partition
from ...state.tables.names import DROPPED, TableName
from ...state.tables.warehouse import WINDOW
from ..execution.table_schemas import table_schema
from ..history.history import History
from ..topology.topology import Topology
from .observed_task import ObservedTask

Row = dict[str, Any]

NOT_COMPARED = frozenset({"increment", "arrival"})


def difference(history: History, topology: Topology, increment: int, runs: Sequence[ObservedTask]) -> str | None:
    """The first row that differs, in a sentence; None when the re-run wrote what was committed."""
    for run in runs:
        for sink in run.sub.sinks:
            table = TableName.output(sink.topic)
            again = _rows(pa.concat_tables(run.written[table])) if table in run.written else []
            offsets = {row["offset"] for row in again}
            # An output names its cause by the offset alone. Where a task reads several topics, that may be another
            # record's, so there only rows that the re-run wrote are compared.
            causes = {taken.record[2] for taken in run.taken} if len(run.sub.sources) == 1 and run.is_alone else set()

            def is_selected(rows: pa.Table, offsets: set[int] = offsets, causes: set[int] = causes) -> Any:
                return pc.or_(_one_of(rows["offset"], offsets), _one_of(rows["cause_offset"], causes))

            committed = _committed(history, topology, increment, run, table, is_selected)
            said = _first(table, run, by_offset(committed), by_offset(again))
            if said is not None:
                return said
        said = _difference_of_drops(history, topology, increment, run)
        if said is not None:
            return said
    return None


def by_offset(rows: list[Row]) -> dict[Any, Row]:
    """Rows of an output by their offset."""
    return {row["offset"]: row for row in rows}


def _difference_of_drops(history: History, topology: Topology, increment: int, run: ObservedTask) -> str | None:
    records = {(taken.record[0], taken.record[2]) for taken in run.taken}
    offsets = {offset for _, offset in records}

    def is_selected(rows: pa.Table) -> Any:
        return pc.and_(_one_of(rows["offset"], offsets), pc.equal(rows["sub_topology"], run.sub.id))

    def by_record(rows: list[Row]) -> dict[Any, Row]:
        """A window refuses a record once, a node without windows too."""
        return {
            tuple(row[name] for name in ("topic", "offset", "node", "reason", *WINDOW)): row
            for row in rows
            if (row["topic"], row["offset"]) in records
        }

    again = by_record(_rows(pa.concat_tables(run.written[DROPPED]))) if DROPPED in run.written else {}
    return _first(DROPPED, run, by_record(_committed(history, topology, increment, run, DROPPED, is_selected)), again)


def _committed(
    history: History,
    topology: Topology,
    increment: int,
    run: ObservedTask,
    table: str,
    is_selected: Callable[[pa.Table], Any],
) -> list[Row]:
    """What the increment wrote to ``table`` in the run's partition, of the rows that ``is_selected`` marks."""
    committed: list[Row] = []
    schema = without_partition(table_schema(topology, table))
    for part in table_parts(history.warehouse, history.pipeline, history.at().row.content, table):
        within = "increment", increment, increment
        files = read_files(part.path, version=part.version, within=within)
        files = [file for file in files if file.partition == run.description.partition]
        rows = read_rows(part.path, files, schema)
        committed += _rows(rows.filter(pc.and_(pc.equal(rows["increment"], increment), is_selected(rows))))
    return committed


def _one_of(column: pa.ChunkedArray, numbers: set[int]) -> Any:
    return pc.is_in(column, value_set=pa.array(sorted(numbers), pa.int64()))


def _rows(table: pa.Table) -> list[Row]:
    rows: list[Row] = table.select([name for name in table.column_names if name not in NOT_COMPARED]).to_pylist()
    return rows


def _first(table: str, run: ObservedTask, committed: dict[Any, Row], again: dict[Any, Row]) -> str | None:
    """Rows are compared as they are written out, since no NaN equals another."""
    for key in sorted({*committed, *again}, key=repr):
        before, now = committed.get(key), again.get(key)
        if repr(before) == repr(now):
            continue
        some = before or now
        assert some is not None
        at = f"{table} {run.description.partition}:{some['offset']}"
        names = [name for name in some if before is None or now is None or repr(before[name]) != repr(now[name])]
        return (
            f"The re-run differs from what increment {run.description.increment} committed: {at} has "
            f"{_said(before, names)}, the re-run writes {_said(now, names)}. Functions must be "
            "pure (docs/topologies.md): one here gives another answer each time, or --order is not that of the replay. "
            "What follows is the re-run's account"
        )
    return None


def _said(row: Row | None, names: list[str]) -> str:
    if row is None:
        return "no such row"
    return ", ".join(f"{name} {row[name]!r}" for name in names if row[name] is not None) or "null"
