"""What a consumer of an output must apply: new rows, and for restated increments the rows that are taken back.

Owns the change feed. Rule: a reader that has applied everything up to an increment, and applies these changes, has
the present output, without duplicates. Rows that it has read and that were withdrawn since are retracted. Rows that
were published since and are live are inserted. Rows that were published and withdrawn in between are left out.
"""

import pyarrow as pa
import pyarrow.compute as pc

from ...state.errors import ConfigError
from ...state.tables.branch_files import table_names
from ...state.tables.data_files import conformed
from ...state.tables.names import TableName
from ...state.tables.warehouse import RETRACTED_IN, Warehouse
from .committed_tables import done_row, read_table

CHANGE, RETRACT, INSERT = "change", "retract", "insert"


def read_changes(
    warehouse: Warehouse, pipeline: str, output: str, *, after: int, increment: int | None = None
) -> pa.Table:
    """Changes of an output for one who has applied all up to increment ``after`` (0: nothing), up to ``increment``
    (None: the last done one).

    Columns: `change` ("retract" or "insert"), then the output's. Retractions first; each by increment, partition,
    offset. A retracted row is the very row that was inserted. Raises ConfigError for an output that is not there or
    an ``after`` below 0, LedgerError for an increment that is not done.
    """
    if after < 0:
        raise ConfigError("after", "an increment, or 0 for nothing", str(after), "give a number of the ledger")
    row = done_row(warehouse, pipeline, increment)
    rows = read_table(warehouse, pipeline, TableName.output(output), increment=increment, after=after)
    changes = [_marked(rows, INSERT)]
    if TableName.retractions(output) in table_names(row.content):
        gone = read_table(warehouse, pipeline, TableName.retractions(output), increment=increment)
        # Rows that were withdrawn before the output got another column have none of it.
        gone = conformed(gone, rows.schema.append(gone.schema.field(RETRACTED_IN)))
        # Rows of later increments were never read, and what was withdrawn up to `after` was retracted by an earlier
        # feed.
        seen = pc.and_(pc.less_equal(gone["increment"], after), pc.greater(gone[RETRACTED_IN], after))
        changes.insert(0, _marked(gone.filter(seen).drop_columns([RETRACTED_IN]), RETRACT))
    return pa.concat_tables(changes)


def _marked(rows: pa.Table, change: str) -> pa.Table:
    return rows.add_column(0, CHANGE, pa.array([change] * len(rows), pa.string()))
