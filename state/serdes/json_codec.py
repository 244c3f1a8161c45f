"""The JSON serde: objects with declared fields. The rules stand in json_reader and json_writer."""

from dataclasses import dataclass
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import ConfigError
from .codec import Codec, Decoded, refuse_value
from .fixed_width import number, numbers_from_python
from .json_reader import read_objects
from .json_schema import schema_text
from .json_writer import encode_objects
from .text import byte_lengths

_KINDS = {pa.int32(): "int", pa.int64(): "long", pa.float64(): "double"}

_NULL = type(None)
_OFFSET_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class JsonCodec(Codec):
    """``schema``: the object as an Arrow struct type."""

    schema: pa.StructType

    def __post_init__(self) -> None:
        schema_text(self.schema)  # raises ConfigError for a type that the schema has no word for

    @property
    def name(self) -> str:
        return f'json("{schema_text(self.schema)}")'

    @property
    def arrow_type(self) -> pa.DataType:
        return self.schema

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        return read_objects(binary, self.schema)

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        return encode_objects(values)

    def sizes(self, values: pa.Array) -> np.ndarray:
        return byte_lengths(encode_objects(values))

    def from_python(self, values: list[Any]) -> pa.Array:
        try:
            return _columns(values, self.schema)
        except (_NotPlain, ConfigError):
            pass  # convert what can be converted; say in which row something else stands
        rows = [_checked(value, self.schema, f"Serde.json, row {row}") for row, value in enumerate(values)]
        return pa.array(rows, self.schema)


class _NotPlain(Exception):
    """Values that are to be looked at one by one."""


def _columns(values: list[Any], arrow_type: pa.DataType) -> pa.Array:
    """Array of plain Python values, column by column. Raises _NotPlain when some value is not exactly of its type, and
    ConfigError when a number does not fit.
    """
    kinds = set(map(type, values))
    if pa.types.is_struct(arrow_type):
        return _struct_columns(values, kinds, arrow_type)
    if pa.types.is_list(arrow_type):
        if not kinds <= {list, _NULL}:
            raise _NotPlain
        lengths = [0 if value is None else len(value) for value in values]
        items = [one for value in values if value is not None for one in value]
        offsets = np.concatenate([[0], np.cumsum(np.array(lengths, np.int64))])
        if offsets[-1] > _OFFSET_MAX:
            raise _NotPlain
        mask = pa.array([value is None for value in values], pa.bool_())
        offsets = pa.array(offsets.astype(np.int32))
        return pa.ListArray.from_arrays(offsets, _columns(items, arrow_type.value_type), arrow_type, mask=mask)
    if arrow_type in _KINDS:
        kind = _KINDS[arrow_type]
        if not kinds <= ({int, float, _NULL} if kind == "double" else {int, _NULL}):
            raise _NotPlain
        return numbers_from_python(values, kind, "")
    if not kinds <= {bool if pa.types.is_boolean(arrow_type) else str, _NULL}:
        raise _NotPlain
    try:
        return pa.array(values, arrow_type)
    except (UnicodeError, pa.ArrowException) as error:
        raise _NotPlain from error


def _struct_columns(values: list[Any], kinds: set[type], arrow_type: pa.StructType) -> pa.Array:
    if not kinds <= {dict, _NULL}:
        raise _NotPlain
    objects = [{} if value is None else value for value in values] if _NULL in kinds else values
    names = [field.name for field in arrow_type]
    orders = set(map(tuple, objects))
    if not all(set(names).issuperset(order) for order in orders):
        raise _NotPlain
    arrays = []
    for field in arrow_type:
        get = (
            itemgetter(field.name) if all(field.name in order for order in orders) else methodcaller("get", field.name)
        )
        arrays.append(_columns(list(map(get, objects)), field.type))
    mask = pa.array([value is None for value in values], pa.bool_()) if _NULL in kinds else None
    return pa.StructArray.from_arrays(arrays, fields=list(arrow_type), mask=mask)


def _checked(value: Any, arrow_type: pa.DataType, place: str) -> Any:
    """``value`` as it is stored; ConfigError names the place where it is not of ``arrow_type``."""
    if value is None:
        return None
    if arrow_type in _KINDS:
        return number(value, _KINDS[arrow_type], place)
    if pa.types.is_struct(arrow_type):
        return _checked_fields(value, arrow_type, place)
    if pa.types.is_list(arrow_type):
        if not isinstance(value, list | tuple):
            refuse_value(place, "a list", value)
        return [_checked(one, arrow_type.value_type, f"{place}[{at}]") for at, one in enumerate(value)]
    if pa.types.is_boolean(arrow_type):
        if not isinstance(value, bool | np.bool_):
            refuse_value(place, "a bool", value)
        return bool(value)
    if not isinstance(value, str):
        refuse_value(place, "a str", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        refuse_value(place, "a str that UTF-8 can write", value, "remove the lone surrogate")
    return value


def _checked_fields(value: Any, arrow_type: pa.StructType, place: str) -> dict[str, Any]:
    names = [field.name for field in arrow_type]
    if not isinstance(value, dict):
        refuse_value(place, f"a dict with the fields {', '.join(names)}", value)
    for name in value:
        if name not in names:
            refuse_value(place, f"only the fields {', '.join(names)}", name, "declare the field or leave it out")
    return {
        field.name: _checked(value.get(field.name), field.type, f"{place}, field {field.name}") for field in arrow_type
    }
