"""Stored rows of one store of a processor, as increments leave them."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from kstreams_replay.jobs.operators.processor.process_node import ROWS
from kstreams_replay.jobs.operators.processor.rows_of_store import RowsOfStore
from kstreams_replay.state.runs.sorted_runs import RowForm, run_of
from kstreams_replay.state.runs.stored_rows import StoredRows

_MORE = [pa.field("increment", pa.int64()), pa.field("deleted", pa.bool_())]
FORM = RowForm("rows of a processor", pa.schema([*ROWS.schema, *_MORE]), ROWS.row_key, lambda rows: key_of(rows))


def key_of(rows: pa.Table) -> pa.Array:
    return rows["key"].combine_chunks()


def stored_rows(store: str, *runs: Sequence[tuple[bytes, bytes | None]]) -> RowsOfStore:
    """``runs``: (name, value) of the rows that each increment left, the oldest first; None: deleted. Beside each is a
    row of another store with the same name.
    """
    return RowsOfStore(store, StoredRows([run_of(_table(store, dict(rows)), FORM) for rows in runs], FORM))


def _table(store: str, rows: Mapping[bytes, bytes | None]) -> pa.Table:
    own = [(store, name, value or b"", 0, value is None) for name, value in rows.items()]
    others = [("another", name, b"of another", 0, False) for name in rows]
    columns = zip(*own, *others, strict=True) if rows else ([],) * len(FORM.schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, FORM.schema, strict=True)]
    return pa.table(arrays, schema=FORM.schema)
