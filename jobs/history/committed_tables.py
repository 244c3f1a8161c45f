"""Reads tables of a pipeline as its readers may see them: whole increments, up to the last one that is done.

Owns the public view of outputs, stores, drops and dead letters. Rule: a table is read at the version in the ledger,
never "latest", so nobody sees half an increment; any increment before it can be asked for too. A branch's table is what
its parent had at the fork, and its own rows.
"""

from collections.abc import Collection, Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ...state.buffers import by_bits
from ...state.errors import ConfigError, LedgerError
from ...state.near_names import did_you_mean
from ...state.runs.sorted_runs import live_rows
from ...state.tables.branch_files import refuse_older_ledger, table_files, table_names, table_parts
from ...state.tables.data_files import DataFile, open_table, read_rows
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import OUTPUTS, TableName, given_names
from ...state.tables.warehouse import WINDOW_KEY, Warehouse, output_identity
from ...state.times import UNBOUNDED


def read_changelog(
    warehouse: Warehouse, pipeline: str, output: str, *, increment: int | None = None, last: int | None = None
) -> pa.Table:
    """Every record of an output up to ``increment`` (None: the last done one), by increment, partition and offset.

    ``last``: only so many, the newest. Raises ConfigError for an output that is not there, LedgerError for an increment
    that is not done.
    """
    return read_table(warehouse, pipeline, TableName.output(output), increment=increment, last=last)


def read_newest(
    warehouse: Warehouse,
    pipeline: str,
    output: str,
    *,
    increment: int | None = None,
    within: tuple[int, int] | None = None,
) -> pa.Table:
    """The output as a table: the newest record of every key (and window), tombstones left out, by key and window.
    ``within``: of the records with times in ``[from, to)`` ms alone.

    The newest is the one with the highest offset; where a key is in several partitions, that of the last increment and
    then of the highest record time. Raises as ``read_changelog``.
    """
    rows = read_changelog(warehouse, pipeline, output, increment=increment)
    if within is not None:
        times = rows["record_time_ms"]
        rows = rows.filter(pc.and_(pc.greater_equal(times, within[0]), pc.less(times, within[1])))
    table = newest_rows(rows)
    return table.filter(pc.is_valid(table["value"].combine_chunks()))


def newest_rows(rows: pa.Table) -> pa.Table:
    """Of ``rows`` of an output's changelog the newest of every key (and window), as ``read_newest`` with tombstones."""
    identity = output_identity(rows.column_names)
    frame = pl.from_arrow(by_bits(rows.select([*identity, "partition", "offset", "increment", "record_time_ms"])))
    assert isinstance(frame, pl.DataFrame)
    newest = (
        frame.with_row_index("row")
        .sort("partition", "offset")
        .unique(["partition", *identity], keep="last", maintain_order=True)
        .sort("increment", "record_time_ms", "partition", maintain_order=True)
        .unique(identity, keep="last", maintain_order=True)
    )
    rows = rows.take(pa.array(newest["row"].to_numpy()))
    named = pl.from_arrow(rows.select(identity))
    assert isinstance(named, pl.DataFrame)
    return rows.take(pa.array(named.with_row_index("row").sort(identity, maintain_order=True)["row"].to_numpy()))


def read_state(warehouse: Warehouse, pipeline: str, store: str, *, increment: int | None = None) -> pa.Table:
    """Live rows of a store: the newest of each (by key and window, or what else names a row of the store) that is not
    deleted. Raises as ``read_changelog``.
    """
    table = TableName.state(store)
    done = _done_row_with(warehouse, pipeline, table, increment)
    keys = [task.row_keys for task in done.tasks.values()]
    row_key = next((row_keys[store] for row_keys in keys if store in row_keys), WINDOW_KEY)
    return live_rows(rows_of(warehouse, pipeline, done, table), row_key)


def read_table(
    warehouse: Warehouse,
    pipeline: str,
    table: str,
    *,
    increment: int | None = None,
    last: int | None = None,
    after: int = 0,
) -> pa.Table:
    """Rows of a table by its name in the ledger ("outputs/x", "state/y", "repartition/z", "dropped", "dead_letter"), or
    of a topic that records have named, as if it were an output ("outputs/x").

    Order: increment, partition, offset. ``after``: only rows of later increments. ``increment``, ``last`` and errors:
    as ``read_changelog``.
    """
    done, topic = _done_row_with(warehouse, pipeline, table, increment), TableName(table).name
    if table in table_names(done):
        return rows_of(warehouse, pipeline, done, table, last, after)
    rows = _rows_of_topic(warehouse, pipeline, done, topic, after)
    return rows if last is None else rows.slice(max(len(rows) - last, 0))


def rows_of(
    warehouse: Warehouse, pipeline: str, done: DoneRow, table: str, last: int | None = None, after: int = 0
) -> pa.Table:
    """As ``read_table``, of the increment ``done``."""
    # The newest part has the columns of the code that wrote last: a column that an earlier pipeline's part lacks is
    # null in its rows.
    path, version, _ = table_parts(warehouse, pipeline, done, table)[-1]
    opened = open_table(path, version=version)
    assert opened is not None, f"{path}: in the ledger, yet not there"
    files = table_files(warehouse, pipeline, done, table)
    files = [file for file in files if file.may_hold("increment", after + 1, UNBOUNDED)]
    rows = read_rows(path, _newest_files(files, last), pa.schema(opened.schema().to_arrow()))
    if after:
        rows = rows.filter(pc.greater(rows["increment"], after))
    rows = rows.take(_order(rows))
    return rows if last is None else rows.slice(max(len(rows) - last, 0))


def count_rows(warehouse: Warehouse, pipeline: str, table: str, *, increment: int | None = None) -> int:
    """Rows of a table, counted from its log alone. Table and errors: as ``read_table``."""
    done = _done_row_with(warehouse, pipeline, table, increment)
    if table not in table_names(done):
        return len(_rows_of_topic(warehouse, pipeline, done, TableName(table).name))
    return sum(file.records for file in table_files(warehouse, pipeline, done, table))


def done_row(
    warehouse: Warehouse, pipeline: str, increment: int | None = None, *, of: Collection[str] | None = None
) -> LedgerRow[DoneRow]:
    """The ledger's done row of ``increment`` (None: the last one). LedgerError when there is none, or no more;
    DamagedLedger when the tables ``of`` which something is asked (None: all) have later ones.
    """
    ledger = Ledger(warehouse.pipeline(pipeline).ledger)
    if increment is None:
        row = ledger.last_done()
        refuse_older_ledger(warehouse, pipeline, ledger, row, of=of)
    else:
        row = ledger.rows_of(increment).done
        ledger.refuse_vacuumed(increment)
    if row is None:
        number = "" if increment is None else f" {increment}"
        next_step = warehouse.where_to_look(pipeline)
        last = None if increment is None else ledger.last_done()
        if increment is not None and last is not None and increment < last.increment:
            before = ledger.done_before(increment)
            next_step = "this number was given up or left out; " + (
                "no increment before it is done" if before is None else f"the last done before it is {before.increment}"
            )
        raise LedgerError(ledger.path, f"a done increment{number}", "none", next_step)
    return row


def _done_row_with(warehouse: Warehouse, pipeline: str, table: str, increment: int | None) -> DoneRow:
    """The done row of ``increment``. Raises ConfigError unless the row names ``table``, or ``table`` is an output and
    the row names an output whose records choose their topics.
    """
    done = done_row(warehouse, pipeline, increment, of=[table]).content
    names = table_names(done)
    if table in names or (TableName(table).kind == OUTPUTS and _outputs_of_topics(warehouse, pipeline, done)):
        return done
    next_step = did_you_mean(table, names, "name one of them")
    raise ConfigError(f"pipeline {pipeline!r}", f"one of {', '.join(given_names(names))}", repr(table), next_step)


def _outputs_of_topics(warehouse: Warehouse, pipeline: str, done: DoneRow) -> list[str]:
    """Outputs whose rows have topics of their own."""
    outputs = []
    for table in table_names(done):
        if TableName(table).kind == OUTPUTS:
            path, version, _ = table_parts(warehouse, pipeline, done, table)[-1]
            opened = open_table(path, version=version)
            if opened is not None and "topic" in pa.schema(opened.schema().to_arrow()).names:
                outputs.append(table)
    return outputs


def _rows_of_topic(warehouse: Warehouse, pipeline: str, done: DoneRow, topic: str, after: int = 0) -> pa.Table:
    """Rows under the name ``topic`` of the output that has some. Raises ConfigError when none has."""
    outputs = _outputs_of_topics(warehouse, pipeline, done)
    for table in outputs:
        rows = rows_of(warehouse, pipeline, done, table, after=after)
        rows = rows.filter(pc.equal(rows["topic"], topic))
        if len(rows):
            return rows
    expected = (
        f"one of {', '.join(given_names(table_names(done)))}, or a topic that records of {' or '.join(outputs)} name"
    )
    next_step = did_you_mean(TableName.output(topic), table_names(done), "name one of them")
    raise ConfigError(f"pipeline {pipeline!r}", expected, repr(TableName.output(topic)), next_step)


def _newest_files(files: Sequence[DataFile], last: int | None) -> Sequence[DataFile]:
    """Files of the newest increments that hold ``last`` rows together; all for None."""
    if last is None:
        return files
    if last == 0:
        return []
    rows, increment_of = 0, {id(file): file.bounds.get("increment", (0, UNBOUNDED))[1] for file in files}
    kept: list[DataFile] = []
    for file in sorted(files, key=lambda file: -increment_of[id(file)]):
        # Files of one increment are taken together: rows are in the order of increment, partition and offset, so any of
        # them may have the last ones.
        if rows >= last and increment_of[id(file)] < increment_of[id(kept[-1])]:
            break
        kept.append(file)
        rows += file.records
    return kept


def _order(rows: pa.Table) -> pa.Array:
    columns = [name for name in ("increment", "partition", "offset") if name in rows.column_names]
    keys = [rows[name].to_numpy() for name in reversed(columns)]
    return pa.array(np.lexsort(keys) if keys and len(rows) else np.arange(len(rows)))
