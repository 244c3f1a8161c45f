"""Some rows of a file as columns, whatever its format.

Owns ``Block`` and what every format asks of a file's columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ....state.errors import LandingError
from ..file_source import FileSource

BLOCK_ROWS = 4_000
BLOCK_BYTES = 16 << 20
"""At most this much becomes records at a time: few enough for the processor's cache, which halves the time."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some consecutive rows as columns. ``places[i]`` is the place of row ``i``: its first byte in JSON lines, its
    number from 0 in CSV (with the header line), from 1 in Parquet. ``lines``: whole, of JSON lines.
    """

    columns: Mapping[str, Sequence[Any] | pa.Array]
    places: Sequence[int]
    lines: Sequence[bytes] | None = None

    def without(self, rows: set[int]) -> "Block":
        """The others, in their order."""
        kept = [row for row in range(len(self.places)) if row not in rows]
        columns = {
            name: column.take(pa.array(kept, pa.int64())) if isinstance(column, pa.Array) else _chosen(column, kept)
            for name, column in self.columns.items()
        }
        lines = None if self.lines is None else _chosen(self.lines, kept)
        return Block(columns, _chosen(self.places, kept), lines)


def check_columns(source: FileSource, name: str, names: Sequence[str]) -> None:
    """Raises LandingError when the file lacks a column of the mapping or has two of one name."""
    missing = [column for column in source.named_columns() if column not in names]
    if missing or len(set(names)) != len(names):
        expected = f"a column {missing[0]}" if missing else "each column once"
        raise LandingError(
            f"{source.path}/{name}", expected, f"columns {', '.join(names)}", "correct the mapping or the file"
        )


def _chosen(values: Sequence[Any], rows: Sequence[int]) -> list[Any]:
    return [values[row] for row in rows]
