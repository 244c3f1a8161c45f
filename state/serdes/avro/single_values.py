"""Single values of an Avro schema: functions that are made once for a schema and then write or read one value.

Owns the quick way of Avro. Rule: they give the same as the programs over columns. A value that is not
exactly of its type, and bytes that the schema's own writer would not write (blocks with their size, numbers that are
too long), raise one of LEFT_TO_COLUMNS. Of a union of several types the branch must be named, as readers give it.
"""

import datetime
import struct
import uuid
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from ..codec import LeftToColumns, Read, Write
from ..exact_decimals import with_scale
from .schema import (
    MISSING,
    ArraySchema,
    EnumSchema,
    FixedSchema,
    MapSchema,
    PrimitiveSchema,
    RecordSchema,
    Schema,
    UnionSchema,
    branch_names,
)

WriteOne = Callable[[Any], bytes]
ReadOne = Callable[[bytes, int], tuple[Any, int]]
"""(bytes, place) to (value, place behind it)."""

_EXACT = Context(prec=80)
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.UTC)
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_MICROSECOND = datetime.timedelta(microseconds=1)
_DAY_US = 86_400_000_000
_ARROWS_UTC = pa.scalar(0, pa.timestamp("us", "UTC")).as_py().tzinfo
_SINGLE, _DOUBLE, _PARTS = struct.Struct("<f"), struct.Struct("<d"), struct.Struct("<III")
_LIMITS = {"int": 2**31, "long": 2**63}
_BYTES_OF_A_LONG = 10
_SHORT = [bytes([number]) for number in range(128)]
"""Zigzag numbers of one byte."""


def value_writer(schema: Schema) -> Write:
    """Bytes of a Python value that is not None."""
    return _writer(schema)


def value_reader(schema: Schema) -> Read:
    """The Python value of all of the bytes."""
    read = _reader(schema)

    def read_value(data: bytes) -> Any:
        value, end = read(data, 0)
        if end != len(data) or value is None:
            raise LeftToColumns
        return value

    return read_value


# --- writing ------------------------------------------------------------------------------------------------------


def _number(value: int) -> bytes:
    """Zigzag, seven bits a byte, of a number of 64 bits."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    if rest < 128:
        return _SHORT[rest]
    encoded = bytearray()
    while rest > 127:
        encoded.append(rest & 127 | 128)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _writer(schema: Schema) -> WriteOne:
    if isinstance(schema, RecordSchema):
        return _record_writer(schema)
    if isinstance(schema, UnionSchema):
        return _union_writer(schema)
    if isinstance(schema, ArraySchema):
        return _array_writer(_writer(schema.items))
    if isinstance(schema, MapSchema):
        return _map_writer(_writer(schema.values))
    if isinstance(schema, EnumSchema):
        numbers = {symbol: _number(index) for index, symbol in enumerate(schema.symbols)}
        return lambda value: numbers[_exactly(value, str)]
    return _leaf_writer(schema) if schema.logical is None else _logical_writer(schema)


def _exactly(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise LeftToColumns
    return value


def _record_writer(schema: RecordSchema) -> WriteOne:
    fields = [(one.name, _field_writer(one.type, one.default)) for one in schema.fields]
    names = {name for name, _ in fields}

    def write(value: Any) -> bytes:
        if not names.issuperset(_exactly(value, dict)):
            raise LeftToColumns
        return b"".join([one(value.get(name, MISSING)) for name, one in fields])

    return write


def _field_writer(schema: Schema, default: Any) -> WriteOne:
    """Of a value that may be MISSING."""
    write, may_be_left_out = _writer(schema), default is MISSING or default is None

    def write_field(value: Any) -> bytes:
        if value is not MISSING:
            return write(value)
        if not may_be_left_out or not isinstance(schema, UnionSchema):
            raise LeftToColumns
        return write(None)

    return write_field


def _union_writer(schema: UnionSchema) -> WriteOne:
    heads = [_number(branch) for branch in range(len(schema.branches))]
    present = [branch for branch, one in enumerate(schema.branches) if one.kind != "null"]
    null = next((heads[branch] for branch, one in enumerate(schema.branches) if one.kind == "null"), None)
    if len(present) == 1:
        head, write_only = heads[present[0]], _writer(schema.branches[present[0]])

        def write(value: Any) -> bytes:
            if value is not None:
                return head + write_only(value)
            if null is None:
                raise LeftToColumns
            return null

        return write
    names = branch_names(schema)
    writers = {names[branch]: (heads[branch], _writer(schema.branches[branch])) for branch in present}

    def write_branch(value: Any) -> bytes:
        if value is None and null is not None:
            return null
        taken = [(name, one) for name, one in _exactly(value, dict).items() if one is not None]
        if len(taken) != 1 or not writers.keys() >= value.keys():
            raise LeftToColumns
        head, write = writers[taken[0][0]]
        return head + write(taken[0][1])

    return write_branch


def _array_writer(write: WriteOne) -> WriteOne:
    def write_array(value: Any) -> bytes:
        if type(value) is not list and type(value) is not tuple:
            raise LeftToColumns
        return b"".join([_number(len(value)), *map(write, value), b"\0"]) if value else b"\0"

    return write_array


def _map_writer(write: WriteOne) -> WriteOne:
    def write_map(value: Any) -> bytes:
        parts = [_text(key) + write(one) for key, one in _exactly(value, dict).items()]
        return b"".join([_number(len(parts)), *parts, b"\0"]) if parts else b"\0"

    return write_map


def _text(value: Any) -> bytes:
    data: bytes = str.encode(value)
    size = len(data)
    return (_SHORT[size << 1] if size < 64 else _number(size)) + data


def _leaf_writer(schema: PrimitiveSchema | FixedSchema) -> WriteOne:
    if schema.kind == "string":
        return _text
    if schema.kind in _LIMITS:
        return _whole_writer(_LIMITS[schema.kind])
    if schema.kind in ("float", "double"):
        pack = (_SINGLE if schema.kind == "float" else _DOUBLE).pack

        def write_floating(value: Any) -> bytes:
            if type(value) is not float or value != value:
                raise LeftToColumns
            return pack(value)

        return write_floating
    if schema.kind == "boolean":
        return lambda value: b"\1" if _exactly(value, bool) else b"\0"
    if isinstance(schema, FixedSchema):
        return lambda value: _of_size(_exactly(value, bytes), schema.size)
    if schema.kind == "bytes":
        return lambda value: _number(len(_exactly(value, bytes))) + value
    return lambda value: _exactly(None, bytes)  # null, which is written by unions alone


def _whole_writer(limit: int) -> WriteOne:
    def write(value: Any) -> bytes:
        if type(value) is not int or not -limit <= value < limit:
            raise LeftToColumns
        return _number(value)

    return write


def _of_size(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise LeftToColumns
    return data


def _logical_writer(schema: PrimitiveSchema | FixedSchema) -> WriteOne:
    logical = str(schema.logical)
    if logical == "uuid":
        return (lambda value: uuid.UUID(_exactly(value, str)).bytes) if isinstance(schema, FixedSchema) else _text
    if logical == "decimal":
        return _decimal_writer(schema)
    if logical == "duration":
        return lambda value: _PARTS.pack(*(_exactly(value[name], int) for name in _duration(value)))
    if logical == "date":
        return lambda value: _number(_exactly(value, datetime.date).toordinal() - _EPOCH_DAY)
    per_unit, number = 1000 if logical.endswith("millis") else 1, _microseconds(logical)
    return lambda value: _number(number(value) // per_unit)


def _duration(value: Any) -> tuple[str, ...]:
    if _exactly(value, dict).keys() != {"months", "days", "millis"}:
        raise LeftToColumns
    return "months", "days", "millis"


def _microseconds(logical: str) -> Callable[[Any], int]:
    if logical.startswith("time-"):

        def of_day(value: Any) -> int:
            if _exactly(value, datetime.time).tzinfo is not None:
                raise LeftToColumns
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + int(value.microsecond)

        return of_day
    is_local = logical.startswith("local")
    epoch = _EPOCH if is_local else _EPOCH_UTC

    def since_epoch(value: Any) -> int:
        if (_exactly(value, datetime.datetime).tzinfo is None) != is_local:
            raise LeftToColumns
        return int((value - epoch) // _MICROSECOND)

    return since_epoch


def _decimal_writer(schema: PrimitiveSchema | FixedSchema) -> WriteOne:
    scale, limit, size = schema.scale, 10**schema.precision, schema.size if isinstance(schema, FixedSchema) else None

    def write(value: Any) -> bytes:
        if not _exactly(value, Decimal).is_finite() or value.as_tuple().exponent < -scale:
            raise LeftToColumns
        unscaled = int(with_scale(value, scale).scaleb(scale, _EXACT))
        if abs(unscaled) >= limit:
            raise LeftToColumns
        if size is not None:
            return unscaled.to_bytes(size, "big", signed=True)
        length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        return _number(length) + unscaled.to_bytes(length, "big", signed=True)

    return write


# --- reading ------------------------------------------------------------------------------------------------------


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    number, shift, byte = 0, 0, data[at]
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at + 1
    begin = at
    while byte > 127:
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        byte = data[at]
    number |= byte << shift
    if at - begin >= _BYTES_OF_A_LONG or number >= 2**64:
        raise LeftToColumns
    return (number >> 1) ^ -(number & 1), at + 1


def _reader(schema: Schema) -> ReadOne:
    if isinstance(schema, RecordSchema):
        fields = [(one.name, _reader(one.type)) for one in schema.fields]
        return lambda data, at: _read_record(fields, data, at)
    if isinstance(schema, UnionSchema):
        return _union_reader(schema)
    if isinstance(schema, ArraySchema):
        item = _reader(schema.items)
        return lambda data, at: _read_items(item, data, at)
    if isinstance(schema, MapSchema):
        return _map_reader(_reader(schema.values))
    if isinstance(schema, EnumSchema):
        return _enum_reader(schema.symbols)
    return _leaf_reader(schema) if schema.logical is None else _logical_reader(schema)


def _read_record(fields: list[tuple[str, ReadOne]], data: bytes, at: int) -> tuple[dict[str, Any], int]:
    record = {}
    for name, read in fields:
        record[name], at = read(data, at)
    return record, at


def _union_reader(schema: UnionSchema) -> ReadOne:
    present = [branch for branch, one in enumerate(schema.branches) if one.kind != "null"]
    readers = [None if one.kind == "null" else _reader(one) for one in schema.branches]
    names = branch_names(schema)
    is_one, nothing = len(present) == 1, {names[branch]: None for branch in present}

    def read(data: bytes, at: int) -> tuple[Any, int]:
        branch, at = _read_number(data, at)
        if branch < 0:
            raise LeftToColumns
        taken = readers[branch]
        if taken is None:
            return None, at
        value, at = taken(data, at)
        return (value if is_one else nothing | {names[branch]: value}), at

    return read


def _read_items(read: ReadOne, data: bytes, at: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    count, at = _read_number(data, at)
    while count:
        if count < 0 or count > len(data):
            raise LeftToColumns
        for _ in range(count):
            one, at = read(data, at)
            items.append(one)
        count, at = _read_number(data, at)
    return items, at


def _map_reader(value: ReadOne) -> ReadOne:
    def read_entry(data: bytes, at: int) -> tuple[tuple[str, Any], int]:
        key, at = _read_text(data, at)
        item, at = value(data, at)
        return (key, item), at

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        entries, at = _read_items(read_entry, data, at)
        return dict(entries), at

    return read


def _enum_reader(symbols: tuple[str, ...]) -> ReadOne:
    def read(data: bytes, at: int) -> tuple[str, int]:
        number, at = _read_number(data, at)
        if number < 0:
            raise LeftToColumns
        return symbols[number], at

    return read


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _read_number(data, at)
    if not 0 <= size <= len(data) - at:
        raise LeftToColumns
    return data[at : at + size], at + size


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    size = data[at]
    if size < 128 and not size & 1:
        begin, end = at + 1, at + 1 + (size >> 1)
        if end > len(data):
            raise LeftToColumns
        return data[begin:end].decode(), end
    encoded, at = _read_bytes(data, at)
    return encoded.decode(), at


def _fixed_reader(size: int) -> ReadOne:
    return lambda data, at: (_of_size(data[at : at + size], size), at + size)


def _leaf_reader(schema: PrimitiveSchema | FixedSchema) -> ReadOne:
    if schema.kind == "string":
        return _read_text
    if schema.kind in _LIMITS:
        return _whole_reader(_LIMITS[schema.kind])
    if schema.kind in ("float", "double"):
        coded = _SINGLE if schema.kind == "float" else _DOUBLE
        return lambda data, at: (coded.unpack_from(data, at)[0], at + coded.size)
    if schema.kind == "boolean":
        return lambda data, at: ((False, True)[data[at]], at + 1)
    return _fixed_reader(schema.size) if isinstance(schema, FixedSchema) else _read_bytes


def _whole_reader(limit: int) -> ReadOne:
    if limit == _LIMITS["long"]:
        return _read_number

    def read(data: bytes, at: int) -> tuple[int, int]:
        number, behind = _read_number(data, at)
        if not -limit <= number < limit or behind - at > 5:
            raise LeftToColumns
        return number, behind

    return read


def _logical_reader(schema: PrimitiveSchema | FixedSchema) -> ReadOne:
    logical = str(schema.logical)
    if logical == "uuid" and not isinstance(schema, FixedSchema):
        return _read_text
    if logical == "decimal":
        return _decimal_reader(schema)
    if isinstance(schema, FixedSchema):
        return _converted(_fixed_reader(schema.size), _uuid_text if logical == "uuid" else _duration_of)
    if logical == "date":
        return _converted(_whole_reader(_LIMITS["int"]), lambda days: datetime.date.fromordinal(days + _EPOCH_DAY))
    read = _whole_reader(_LIMITS[schema.kind])
    per_unit = 1000 if logical.endswith("millis") else 1
    if logical.startswith("time-"):
        return _converted(read, lambda number: _time_of_day(number * per_unit))
    zone = None if logical.startswith("local") else _ARROWS_UTC
    return _converted(
        read, lambda number: (_EPOCH + datetime.timedelta(microseconds=number * per_unit)).replace(tzinfo=zone)
    )


def _converted(read: ReadOne, convert: Callable[[Any], Any]) -> ReadOne:
    def read_converted(data: bytes, at: int) -> tuple[Any, int]:
        stored, at = read(data, at)
        return convert(stored), at

    return read_converted


def _uuid_text(data: bytes) -> str:
    return str(uuid.UUID(bytes=data))


def _duration_of(data: bytes) -> dict[str, int]:
    return dict(zip(("months", "days", "millis"), _PARTS.unpack(data), strict=True))


def _time_of_day(microseconds: int) -> datetime.time:
    if not 0 <= microseconds < _DAY_US:
        raise LeftToColumns
    return (_EPOCH + datetime.timedelta(microseconds=microseconds)).time()


def _decimal_reader(schema: PrimitiveSchema | FixedSchema) -> ReadOne:
    read = _fixed_reader(schema.size) if isinstance(schema, FixedSchema) else _read_bytes
    scale, limit = schema.scale, 10**schema.precision

    def convert(data: bytes) -> Decimal:
        unscaled = int.from_bytes(data, "big", signed=True)
        if not data or abs(unscaled) >= limit:
            raise LeftToColumns
        return Decimal(unscaled).scaleb(-scale, _EXACT)

    return _converted(read, convert)
