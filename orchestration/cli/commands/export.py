"""The command `export`: all rows of a table in a file, for programs that do not read Delta.

Owns the form of the files. Rule: the file is there whole or not at all, and has the rows of one increment.
"""

import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ....jobs.history.committed_tables import read_newest, read_state, read_table
from ....jobs.history.landed_tables import landed_table
from ....jobs.history.row_choice import RowChoice
from ....state.errors import ConfigError
from ....state.tables.names import LANDED, OUTPUTS, STATE, TableName
from ....state.tables.warehouse import Warehouse
from ...text_tables import json_value
from .. import options
from ..command import argument, command, option
from .show import refuse_options, refuse_unknown, table_of

BATCH_ROWS = 10_000
"""Of JSON lines that are in memory as Python's objects."""


@command()
@argument("name", metavar="OUTPUT", help="an output, state/STORE, dropped, dead_letter or landed/TOPIC")
@options.warehouse
@option(
    "--pipeline",
    metavar="NAME",
    takes_default=True,
    help="folder of its tables in the warehouse; none for landed/TOPIC",
)
@option("--out", required=True, metavar="FILE", help="what is written: a path that ends in .parquet, .csv or .jsonl")
@option("--changelog", is_flag=True, help="every record instead of the newest of each key")
@options.increment
@options.key
@options.window
def export(
    name: str, warehouse: str, pipeline: str | None, out: str, changelog: bool, increment: int | None, key: str | None,
    window: str | None,
) -> int:  # fmt: skip
    """Write the rows of an output, a store, the drops, the dead letters or a landed topic into a file.

    Times are milliseconds. Of a landed topic, record_time is a timestamp as well.
    """
    path = Path(out)
    if path.suffix not in _WRITERS or "://" in out:
        expected = f"a path on this machine that ends in {', '.join(_WRITERS)}"
        raise ConfigError("--out", expected, repr(out), "choose one of these")
    table, opened = table_of(name), Warehouse(warehouse)
    kind, named = TableName(table).kind, TableName(table).name
    if kind == LANDED:
        rows = _landed(opened, name, changelog=changelog, increment=increment, window=window)
    elif pipeline is None:
        raise ConfigError(f"export {name}", "the pipeline whose table it is", "none", "name it with --pipeline")
    elif changelog or kind not in (OUTPUTS, STATE):
        rows = read_table(opened, pipeline, table, increment=increment)
    else:
        rows = (read_newest if kind == OUTPUTS else read_state)(opened, pipeline, named, increment=increment)
    rows, total = RowChoice(key, window).of(rows)
    _write_whole(path, lambda part: _WRITERS[path.suffix](rows, part))
    print(f"{table}: {total:,} {'row' if total == 1 else 'rows'} in {out}, {path.stat().st_size:,} bytes")
    return 0


def _landed(warehouse: Warehouse, name: str, *, changelog: bool, increment: int | None, window: str | None) -> pa.Table:
    """All records of a topic. Raises ConfigError for options that it does not know."""
    given = {"--changelog": changelog, "--increment": increment is not None, "--window": window is not None}
    refuse_options(f"export {name}", [option for option, is_there in given.items() if is_there])
    topic = name.partition("/")[2]
    refuse_unknown(f"export {name}", warehouse, topic)
    return landed_table(warehouse, topic)


def _write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """What is there under ``path`` stays until the new file is whole."""
    # In the same folder, since a rename is atomic within one file system alone.
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        write(part)
        part.replace(path)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _write_parquet(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows, path)


def _write_csv(rows: pa.Table, path: Path) -> None:
    """Fields of structs are columns; texts are in quotes, so that a null, which is empty, is not an empty text."""
    frame = pl.from_arrow(pa.table({name: _cells(column) for name, column in _flat(rows).items()}))
    assert isinstance(frame, pl.DataFrame)
    frame.write_csv(path, quote_style="non_numeric")


def _flat(rows: pa.Table) -> dict[str, pa.ChunkedArray]:
    """Columns by name, those of structs named as ``flat_row`` does."""
    flat: dict[str, pa.ChunkedArray] = {}
    for name in rows.column_names:
        column = rows[name]
        if pa.types.is_struct(column.type):
            for field in column.type:
                is_taken = field.name in flat or field.name in rows.column_names
                flat[f"{name}.{field.name}" if is_taken else field.name] = pc.struct_field(column, field.name)
        else:
            flat[name] = column
    return flat


def _cells(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """What CSV cannot have as text: bytes as ``json_value`` has them, lists and maps as JSON."""
    if pa.types.is_nested(column.type):
        texts = [None if value is None else json.dumps(json_value(value)) for value in column.to_pylist()]
    elif pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        texts = [json_value(value) for value in column.to_pylist()]
    else:
        return column
    return pa.array(texts, pa.string())


def _write_json_lines(rows: pa.Table, path: Path) -> None:
    with path.open("x", encoding="utf-8") as file:
        for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
            file.writelines(f"{json.dumps(json_value(row), ensure_ascii=False)}\n" for row in batch.to_pylist())


_WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    ".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_json_lines,
}  # fmt: skip
"""By the ending of the file's name."""
