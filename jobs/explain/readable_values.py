"""Keys and values as sentences show them: a decimal as its digits, dates and times as ISO 8601, a map as a dict.

Rule: values with a readable ``repr`` of Python's own stay as they are; a column without such types is not looked at.
"""

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from ...state.serdes import Serde
from ...state.serdes.windowed_codec import Windowed


class Shown(str):
    """A value that is said without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def readable(column: pa.Array, serde: Serde | None = None) -> list[Any]:
    """Python values of ``column``, as ``serde`` reads them."""
    values = column.to_pylist(maps_as_pydicts="strict") if serde is None else serde.to_python(column)
    is_unreadable = _is_unreadable(column.type) or any(isinstance(value, UUID | Windowed | list) for value in values)
    return [_shown(value) for value in values] if is_unreadable else list(values)


def _is_unreadable(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_is_unreadable(field.type) for field in kind)
    if pa.types.is_map(kind):
        return _is_unreadable(kind.item_type)
    if pa.types.is_list(kind):
        return _is_unreadable(kind.value_type)
    return bool(pa.types.is_decimal(kind) or pa.types.is_temporal(kind))


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shown(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_shown(one) for one in value]
    if isinstance(value, Windowed):
        return value._replace(key=_shown(value.key))
    if isinstance(value, datetime):
        return Shown(value.isoformat().replace("+00:00", "Z"))
    if isinstance(value, date | time):
        return Shown(value.isoformat())
    return Shown(value) if isinstance(value, Decimal | UUID) else value
