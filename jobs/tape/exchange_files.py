"""Files in which a stage of an increment hands rows to the next ones: written once, read whole, gone when it is done.

Owns their form: Arrow's own, with LZ4. As long as Parquet's, and written and read in two fifths of its time.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ...state.tables.object_stores import open_filesystem

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class ExchangeFile:
    """One file, written piece by piece; its folder is made."""

    def __init__(self, folder: str, name: str, schema: pa.Schema) -> None:
        filesystem, root = open_filesystem(folder)
        filesystem.create_dir(root, recursive=True)
        self.path = f"{folder}/{name}.arrow"
        self._sink = filesystem.open_output_stream(f"{root}/{name}.arrow")
        self._writer = pa.ipc.new_file(self._sink, schema, options=_OPTIONS)

    def write(self, table: pa.Table) -> None:
        """Append ``table``, which has the file's schema."""
        self._writer.write_table(table)

    def close(self) -> None:
        """Finish the file; before, nobody can read it."""
        self._writer.close()
        self._sink.close()


def read_exchange_file(path: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Rows in the order in which they were written, with ``columns`` in their order (None: all)."""
    with _opened(path) as source:
        if columns is None:
            return pa.ipc.open_file(source).read_all()
        schema = pa.ipc.open_file(source).schema
        chosen = pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(name) for name in columns])
        return pa.ipc.open_file(source, options=chosen).read_all().select(list(columns))


def rows_in(path: str) -> int:
    """How many rows a file has; of the rows one column is read."""
    with _opened(path) as source:
        first = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=[0]))
        return sum(first.get_batch(number).num_rows for number in range(first.num_record_batches))


def _opened(path: str) -> Any:
    filesystem, root = open_filesystem(path)
    return filesystem.open_input_file(root)
