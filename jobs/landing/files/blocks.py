"""Some rows of a file as columns, whatever its format.

Owns ``Block`` and what every format asks of a file's columns.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ....state.errors import LandingError
from ..file_source import FileSource
from .paths import has_column

BLOCK_ROWS = 4_000
BLOCK_BYTES = 16 << 20
"""At most this much becomes records at a time: few enough for the processor's cache, which halves the time."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some consecutive rows as columns. ``locations[i]`` says where row ``i`` is: its first byte in JSON lines, its
    number from 0 in CSV (with the header line), from 1 in Parquet and Avro. ``lines``: of formats whose rows are lines.
    ``whole``: names of the columns that are the row, where its line is not; ``columns`` may have fields of them as
    well. ``values``: the rows' values where neither are. ``deleted``: is the value null whatever the row has?
    ``is_typed``: types of Arrow's columns are the file's own.
    """

    columns: Mapping[str, Sequence[Any] | pa.Array]
    locations: Sequence[int]
    lines: Sequence[bytes] | pa.BinaryArray | None = None
    whole: Sequence[str] = ()
    values: Sequence[Any] | None = None
    deleted: Sequence[bool] | None = None
    is_typed: bool = True

    def line(self, row: int) -> bytes | None:
        """Of row ``row``, where rows are lines."""
        line = None if self.lines is None else self.lines[row]
        return line.as_py() if isinstance(line, pa.Scalar) else line

    def without(self, rows: Iterable[int]) -> "Block":
        """The others, in their order."""
        kept = np.delete(np.arange(len(self.locations)), list(rows)).tolist()
        columns = {name: _chosen(column, kept) for name, column in self.columns.items()}
        lines, values, deleted = (
            None if of is None else _chosen(of, kept) for of in (self.lines, self.values, self.deleted)
        )
        locations = [self.locations[row] for row in kept]
        return replace(self, columns=columns, locations=locations, lines=lines, values=values, deleted=deleted)


def check_columns(
    source: FileSource, name: str, names: Sequence[str], schema: pa.Schema | pa.StructType | None = None
) -> None:
    """Raises LandingError when the file lacks a column of the mapping or has two of one name. ``schema``: where fields
    of columns count, too.
    """
    known = {*names, *source.folders_of(name)}
    missing = [
        column
        for column in source.named_columns(name)
        if column not in known and (schema is None or not has_column(schema, column))
    ]
    if missing or len(set(names)) != len(names):
        expected = f"a column {missing[0]}" if missing else "each column once"
        raise LandingError(
            f"{source.path}/{name}", expected, f"columns {', '.join(names)}", "correct the mapping or the file"
        )


def _chosen(values: Sequence[Any] | pa.Array, rows: Sequence[int]) -> list[Any] | pa.Array:
    return values.take(pa.array(rows, pa.int64())) if isinstance(values, pa.Array) else [values[row] for row in rows]
