"""What the command `show` does.

Rule: as in `orchestration/cli/describe_commands.py`; to look at rows imports neither Spark nor Numba.
"""

from argparse import Namespace

import pyarrow as pa
import pyarrow.compute as pc

from ...jobs.history.committed_tables import count_rows, read_newest, read_state, read_table
from ...state.tables.warehouse import HEADERS, Warehouse
from ..text_tables import flat_row, text_table

HIDDEN = ("partition", "offset", "increment", "cause_offset", "stream_time_ms", "arrival", "deleted")
"""Columns that the newest rows are shown without; ``headers`` is one too where no row has any."""


def show(options: Namespace) -> int:
    """A few rows of a table: the newest of each key, or with --changelog every record."""
    warehouse, name = Warehouse(options.warehouse), options.table
    table = name if "/" in name or name in ("dropped", "dead_letter") else f"outputs/{name}"
    kind, _, name = table.partition("/")
    if kind == "state" and options.topology is not None and not options.changelog:
        from ...jobs.history.store_reader import read_store
        from .topology_loading import load_topology

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
