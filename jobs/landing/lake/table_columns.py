"""Columns of a table, and where they are in its files, which keep names, ids and types with which they were written.

Owns the way from a file's columns to the table's. Rule: a column is found by its id or by its physical name, as the
table's format says, at every depth. One that a file does not have is null in it, since it was added later. So a column
that was renamed keeps its values, and one that was dropped and added again has none of the old ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..files.columns import is_text_or_bytes

_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """``name``: as users know it; ``physical``: names in files, unless they are known by ``id``. ``kind``: of Arrow.
    ``within``: fields of a struct, the element of a list, key and value of a map.
    """

    name: str
    physical: tuple[str, ...]
    id: int | None
    kind: pa.DataType
    within: tuple["TableColumn", ...] = ()


@dataclass(frozen=True, slots=True)
class TableColumns:
    """``by_id``: files have the columns' ids. ``names_too``: a file without ids is read by names."""

    columns: tuple[TableColumn, ...]
    by_id: bool = False
    names_too: bool = False

    @property
    def schema(self) -> pa.Schema:
        """As users know it."""
        return pa.schema([(column.name, column.kind) for column in self.columns])

    def named(self, names: Iterable[str]) -> list[TableColumn]:
        """Top-level columns, in the table's order."""
        wanted = set(names)
        return [column for column in self.columns if column.name in wanted]

    def in_file(self, column: TableColumn, fields: Sequence[pa.Field]) -> int:
        """The index among ``fields`` of a file, or of one of its structs; -1: it has none."""
        if self.by_id:
            ids = [None if field.metadata is None else field.metadata.get(_ID) for field in fields]
            if not self.names_too or any(each is not None for each in ids):
                wanted = str(column.id).encode()
                return ids.index(wanted) if wanted in ids else -1
        return next((index for index, field in enumerate(fields) if field.name in column.physical), -1)

    def path_in_file(self, column: TableColumn, stored: pa.Field, fields: Sequence[str]) -> str:
        """Parquet's path of a field within a struct, as far as the file has it. ``stored``: the column there."""
        path = str(stored.name)
        within = {child.name: child for child in column.within}
        kind = stored.type
        for name in fields:
            children = [kind.field(index) for index in range(kind.num_fields)]
            index = self.in_file(within[name], children)
            if index < 0:
                return path
            path, kind = f"{path}.{children[index].name}", children[index].type
            within = {child.name: child for child in within[name].within}
        return path

    def conformed(self, column: TableColumn, values: pa.Array) -> pa.Array:
        """A file's ``values`` with the names and types of the table. ArrowInvalid: they have no room in them."""
        kind = column.kind
        if values.type == kind:
            return values
        if pa.types.is_struct(kind) and pa.types.is_struct(values.type):
            fields = [values.type.field(index) for index in range(values.type.num_fields)]
            parts = []
            for child in column.within:
                index = self.in_file(child, fields)
                parts.append(nulls(child, len(values)) if index < 0 else self._field(child, values, index))
            return pa.StructArray.from_arrays(parts, [child.name for child in column.within], mask=values.is_null())
        if _is_list(kind) and _is_list(values.type):
            items = self.conformed(column.within[0], values.flatten())
            # `flatten` leaves out what is behind nulls and outside a slice,
            # so the offsets of the file's buffer do not fit its items.
            lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
            ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
            return pa.ListArray.from_arrays(ends, items, mask=values.is_null())
        if pa.types.is_map(kind) and pa.types.is_map(values.type):
            return values.cast(kind) if not _is_nested(kind.item_type) else values
        return values if is_text_or_bytes(values.type) else values.cast(kind)

    def _field(self, child: TableColumn, values: pa.StructArray, index: int) -> pa.Array:
        stored = values.field(index)
        return self.conformed(child, stored)


def nulls(column: TableColumn, rows: int) -> pa.Array:
    """Of a column that a file does not have."""
    return pa.nulls(rows, column.kind)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_nested(kind: pa.DataType) -> bool:
    return bool(kind.num_fields)
