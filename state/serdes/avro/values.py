"""Python values of Avro types, checked before Arrow takes them, since Arrow converts in silence.

Owns the rule of what is taken:

- int, long: int; float, double: float or int; string, enum, UUID: str; bytes, fixed: bytes; array: list
- decimal: decimal.Decimal with no digit too many; date: datetime.date; times: datetime.time
- timestamps: datetime.datetime, of a timestamp with its zone, of a local timestamp without
- map: dict with str keys; record: dict, in which a field with a default may be missing; duration: dict of months, days
  and millis. Microseconds of what has milliseconds are dropped, as Avro's own classes do when a value is set
- of a union of several types: the first that takes the value; of several records the only one that does, and where more
  do, a dict of the one by its name. A callable is given a dict of all branches
"""

import datetime
import struct
import uuid
from contextlib import suppress
from decimal import Context, Decimal
from typing import Any, NoReturn

import pyarrow as pa

from ...errors import ConfigError
from ..codec import is_in_utc, refuse_value
from ..exact_decimals import with_scale
from ..fixed_width import number
from .matching import may_be
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

_SEVERAL = "give a value of that type; records of several types are those of Serde.avro([one, other])"
_EXACT = Context(prec=80)
_MILLIS = "time-millis", "timestamp-millis", "local-timestamp-millis"
_EPOCH = datetime.datetime(1970, 1, 1)


class _Undeclared(str):
    """The name of a field that the schema does not have."""


class _Refused(Exception):
    """A value that is not of a type: place, what was expected, the value."""


def from_python(values: list[Any], schema: Schema, kind: pa.DataType, place: str) -> pa.Array:
    """Column of ``values``; None is null. Raises ConfigError that names the row and the field of the first other."""
    rows = []
    for row, value in enumerate(values):
        try:
            rows.append(None if value is None else _stored(value, schema, ""))
        except _Refused as error:
            path, expected, got = error.args
            is_other_record = isinstance(schema, RecordSchema) and isinstance(value, dict) and not path
            next_step = _SEVERAL if is_other_record else "give a value of that type"
            where = f"{place}, row {row}{path and f', field {path}'}"
            if isinstance(got, _Undeclared):
                said = f"the field {str(got)!r}, which is not declared"
                raise ConfigError(where, expected, said, next_step) from None
            refuse_value(where, expected, got, next_step)
    return pa.array(rows, kind)


def _stored(value: Any, schema: Schema, path: str) -> Any:
    """``value`` as Arrow takes it."""
    if isinstance(schema, UnionSchema):
        return _branch(value, schema, path)
    if isinstance(schema, RecordSchema):
        return _record(value, schema, path)
    if isinstance(schema, ArraySchema):
        if not isinstance(value, list | tuple):
            _refuse(path, "a list", value)
        return [_stored(one, schema.items, f"{path}[{at}]") for at, one in enumerate(value)]
    if isinstance(schema, MapSchema):
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            _refuse(path, "a dict with str keys", value)
        return [(_text(key, path), _stored(one, schema.values, f"{path}[{key!r}]")) for key, one in value.items()]
    if isinstance(schema, EnumSchema):
        if not isinstance(value, str) or value not in schema.symbols:
            _refuse(path, f"one of {', '.join(schema.symbols)}", value)
        return value
    return _logical(value, schema, path) if schema.logical is not None else _leaf(value, schema, path)


def _record(value: Any, schema: RecordSchema, path: str) -> dict[str, Any]:
    names = [one.name for one in schema.fields]
    if not isinstance(value, dict):
        _refuse(path, f"a dict with the fields {', '.join(names)}", value)
    for name in value:
        if name not in names:
            _refuse(path, f"only the fields {', '.join(names)}", _Undeclared(name))
    fields = {}
    for one in schema.fields:
        below = f"{path}.{one.name}" if path else one.name
        if one.name in value:
            fields[one.name] = _stored(value[one.name], one.type, below)
        elif one.default is not MISSING:
            fields[one.name] = _default(one.default, one.type)
        elif _takes_null(one.type):
            fields[one.name] = None
        else:
            _refuse(below, "a value, since it has no default", None)
    return fields


def _takes_null(schema: Schema) -> bool:
    return isinstance(schema, UnionSchema) and any(one.kind == "null" for one in schema.branches)


def _names(schema: UnionSchema) -> list[str]:
    """Of the branches that are not null."""
    named = zip(branch_names(schema), schema.branches, strict=True)
    return [name for name, one in named if one.kind != "null"]


def _branch(value: Any, schema: UnionSchema, path: str) -> Any:
    branches = [one for one in schema.branches if one.kind != "null"]
    if value is None:
        if not _takes_null(schema):
            _refuse(path, "a value, since the union has no null", value)
        return None
    if len(branches) == 1:
        return _stored(value, branches[0], path)
    names = _names(schema)
    if isinstance(value, dict) and set(value) <= set(names) and sum(one is not None for one in value.values()) == 1:
        name = next(name for name, one in value.items() if one is not None)
        return {name: _stored(value[name], branches[names.index(name)], f"{path}.{name}")}
    fits: dict[str, Any] = {}
    for name, one in zip(names, branches, strict=True):
        try:
            stored = _stored(value, one, path)
        except _Refused:
            continue
        if not isinstance(one, RecordSchema):
            return fits or {name: stored}
        fits[name] = stored
    if len(fits) > 1:
        _refuse(path, f"{' or '.join(fits)} by its name, as {{{next(iter(fits))!r}: …}}, since it may be each", value)
    if not fits:
        _refuse(path, f"one of {', '.join(names)}", value)
    return fits


def _leaf(value: Any, schema: PrimitiveSchema | FixedSchema, path: str) -> Any:
    if schema.kind in ("int", "long", "float", "double"):
        return _number(value, schema.kind, path)
    if schema.kind == "boolean" and isinstance(value, bool):
        return value
    if schema.kind == "string" and isinstance(value, str):
        return _text(value, path)
    if schema.kind == "bytes" and isinstance(value, bytes):
        return value
    if isinstance(schema, FixedSchema) and isinstance(value, bytes) and len(value) == schema.size:
        return value
    words = {"boolean": "a bool", "string": "a str", "bytes": "bytes", "null": "None"}
    raise _Refused(path, f"{schema.size} bytes" if isinstance(schema, FixedSchema) else words[schema.kind], value)


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        _refuse(path, "a str that UTF-8 can write", value)
    return value


def _number(value: Any, kind: str, path: str) -> Any:
    if value is None:
        raise _Refused(path, f"{'an' if kind == 'int' else 'a'} {kind}", value)
    try:
        return number(value, kind, "")
    except ConfigError as error:
        raise _Refused(path, error.expected, value) from error


def _logical(value: Any, schema: PrimitiveSchema | FixedSchema, path: str) -> Any:
    logical = schema.logical
    if logical == "uuid" and isinstance(value, str):
        return _uuid_text(value, path) if isinstance(schema, FixedSchema) else _text(value, path)
    if logical == "decimal" and isinstance(value, Decimal) and value.is_finite():
        with suppress(ArithmeticError):
            stored = with_scale(value, schema.scale)
            if not stored or stored.adjusted() + schema.scale < schema.precision:
                return stored
    elif _is_timestamp(value, str(logical)):
        return value.replace(microsecond=value.microsecond // 1000 * 1000) if logical in _MILLIS else value
    words = {
        "uuid": "a str", "date": "a datetime.date", "duration": "a dict of months, days and millis",
        "decimal": f"a Decimal of at most {schema.precision} digits, {schema.scale} of them behind the point",
        "time-millis": "a datetime.time without a zone", "time-micros": "a datetime.time without a zone",
        "timestamp-millis": "a datetime with a zone", "timestamp-micros": "a datetime with a zone",
    }  # fmt: skip
    expected = words.get(str(logical), "a datetime without a zone")
    is_beyond = isinstance(value, datetime.datetime) and value.tzinfo is not None and not is_in_utc(value)
    raise _Refused(path, f"{expected}, of the years 1 to 9999 in UTC" if is_beyond else expected, value)


def _uuid_text(value: str, path: str) -> str:
    try:
        return str(uuid.UUID(value))
    except ValueError:
        _refuse(path, "a str of a UUID", value)


def _is_timestamp(value: Any, logical: str) -> bool:
    if logical == "duration":
        return isinstance(value, dict) and set(value) == {"months", "days", "millis"}
    if logical == "date":
        return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
    if logical.startswith("time-"):
        return isinstance(value, datetime.time) and value.tzinfo is None
    is_local = logical.startswith("local")
    if "timestamp" not in logical or not isinstance(value, datetime.datetime) or (value.tzinfo is None) != is_local:
        return False
    return is_local or is_in_utc(value)


def _default(value: Any, schema: Schema) -> Any:
    """A default's JSON as Arrow takes it."""
    if isinstance(schema, UnionSchema):
        branches = [one for one in schema.branches if one.kind != "null"]
        if value is None and _takes_null(schema):
            return None
        at = next((at for at, one in enumerate(branches) if may_be(one, value)), 0)
        default = _default(value, branches[at])
        return default if len(branches) == 1 else {_names(schema)[at]: default}
    if isinstance(schema, RecordSchema):
        return {one.name: _default(value.get(one.name, one.default), one.type) for one in schema.fields}
    if isinstance(schema, ArraySchema):
        return [_default(one, schema.items) for one in value]
    if isinstance(schema, MapSchema):
        return [(key, _default(one, schema.values)) for key, one in value.items()]
    if isinstance(schema, EnumSchema):
        return value
    if schema.kind in ("bytes", "fixed"):
        return _default_bytes(value.encode("latin-1"), schema)
    logical = schema.logical or ""
    if logical == "date":
        return (_EPOCH + datetime.timedelta(days=value)).date()
    if logical.startswith("time-"):
        return (_EPOCH + datetime.timedelta(microseconds=value * (1000 if logical.endswith("millis") else 1))).time()
    if "timestamp" in logical:
        unit = 1000 if logical.endswith("millis") else 1
        time = _EPOCH + datetime.timedelta(microseconds=value * unit)
        return time if logical.startswith("local") else time.replace(tzinfo=datetime.UTC)
    return value


def _default_bytes(written: bytes, schema: PrimitiveSchema | FixedSchema) -> Any:
    if schema.logical == "decimal":
        return Decimal(int.from_bytes(written, "big", signed=True)).scaleb(-schema.scale, _EXACT)
    if schema.logical == "duration":
        return dict(zip(("months", "days", "millis"), struct.unpack("<III", written), strict=True))
    return str(uuid.UUID(bytes=written)) if schema.logical == "uuid" else written


def _refuse(path: str, expected: str, value: object) -> NoReturn:
    raise _Refused(path, expected, value)
