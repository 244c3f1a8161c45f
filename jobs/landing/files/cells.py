"""A row of columns as a person reads it: for dead letters of formats whose bytes say nothing.

Owns that text.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from .columns import BadValuesError, json_text, listed


def row_json(names: Sequence[str], columns: Sequence[pa.Array], row: int) -> bytes:
    """Row number ``row`` of ``columns`` as a JSON object."""
    fields = {name: _readable(column.slice(row, 1)) for name, column in zip(names, columns, strict=True)}
    return json_text(fields).encode(errors="backslashreplace")


def _readable(cell: pa.Array) -> Any:
    """A value that JSON can hold; Arrow's own text of any other."""
    try:
        value = listed(cell)[0]
        json_text(value)
    except (BadValuesError, ValueError, TypeError):
        return str(cell)
    return value
