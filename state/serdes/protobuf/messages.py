"""Messages of a descriptor: which Arrow type they become, and one message as Python values and back.

Owns the types. Rule: a field that knows whether it was set (a message, ``optional``, ``oneof``, proto2) is null when it
was not. Other fields have their default, as in Java. Tables have no unsigned numbers, so uint32 is a long and uint64 a
decimal of 20 digits. An enum is the name of its value, or the number of one that the descriptor has not.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from ...errors import ConfigError
from ..exact_decimals import with_scale
from ..fixed_width import NO_FLOAT

_KINDS = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
    FieldDescriptor.CPPTYPE_STRING: pa.string(),
}

Read = Callable[[Any], Any]
Write = Callable[[Any, Any], None]


class MessageField(NamedTuple):
    """``read``: value of a message's field; ``write``: (message, value) sets it; ``numbers``: whole, not bool."""

    name: str
    arrow_type: pa.DataType
    read: Read
    write: Write


class MessageFields(NamedTuple):
    """Of a message, in the order in which they are declared."""

    fields: tuple[MessageField, ...]

    @property
    def arrow_type(self) -> pa.StructType:
        return pa.struct([(one.name, one.arrow_type) for one in self.fields])

    def read(self, message: Any) -> dict[str, Any]:
        """Values as Arrow takes them."""
        return {one.name: one.read(message) for one in self.fields}

    def write(self, message: Any, values: dict[str, Any]) -> None:
        """Set what is not null."""
        for one in self.fields:
            if (value := values.get(one.name)) is not None:
                one.write(message, value)


def fields_of(message: Descriptor, above: tuple[str, ...] = ()) -> MessageFields:
    """Raises ConfigError for a message inside itself and for one without fields, which no column can hold."""
    if message.full_name in above:
        got, next_step = (
            f"{message.full_name} inside itself",
            "use a descriptor without that field: it is then passed over",
        )
        raise ConfigError(f"Serde.protobuf, {above[0]}", "messages that end, as columns do", got, next_step)
    if not message.fields:
        next_step = "use a descriptor without it"
        raise ConfigError(f"Serde.protobuf, {message.full_name}", "a message with fields", "none", next_step)
    return MessageFields(tuple(_field(one, (*above, message.full_name)) for one in message.fields))


def _field(field: FieldDescriptor, above: tuple[str, ...]) -> MessageField:
    name = field.name
    if _is_map(field):
        return _map(field, above)
    kind, to_value, to_field = _one(field, above)
    if field.is_repeated:

        def read_all(message: Any) -> list[Any]:
            return [to_value(one) for one in getattr(message, name)]

        def write_all(message: Any, values: list[Any]) -> None:
            for value in values:
                _append(getattr(message, name), field, value, to_field)

        return MessageField(name, pa.list_(kind), read_all, write_all)

    def read(message: Any) -> Any:
        if field.has_presence and not message.HasField(name):
            return None
        return to_value(getattr(message, name))

    def write(message: Any, value: Any) -> None:
        if field.message_type is not None:
            # Else a message of which no field is set would not be written, and be read as null.
            getattr(message, name).SetInParent()
            to_field(getattr(message, name), value)
        else:
            setattr(message, name, to_field(None, value))

    return MessageField(name, kind, read, write)


def _append(items: Any, field: FieldDescriptor, value: Any, to_field: Callable[[Any, Any], Any]) -> None:
    if field.message_type is not None:
        to_field(items.add(), value)
    else:
        items.append(to_field(None, value))


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _map(field: FieldDescriptor, above: tuple[str, ...]) -> MessageField:
    name, entry = field.name, field.message_type
    assert entry is not None
    key_kind, key_to_value, key_to_field = _one(entry.fields_by_name["key"], above)
    kind, to_value, to_field = _one(entry.fields_by_name["value"], above)
    is_message = entry.fields_by_name["value"].message_type is not None

    def read(message: Any) -> list[tuple[Any, Any]]:
        entries = getattr(message, name)
        return [(key_to_value(key), to_value(entries[key])) for key in sorted(entries)]

    def write(message: Any, values: Any) -> None:
        entries = getattr(message, name)
        for key, value in values.items() if isinstance(values, dict) else values:
            if is_message:
                to_field(entries[key_to_field(None, key)], value)
            else:
                entries[key_to_field(None, key)] = to_field(None, value)

    return MessageField(name, pa.map_(key_kind, kind), read, write)


def _one(field: FieldDescriptor, above: tuple[str, ...]) -> tuple[pa.DataType, Read, Callable[[Any, Any], Any]]:
    """Type of one value, the value of what a message holds, and what a message is to hold of a value."""
    if field.message_type is not None:
        inner = fields_of(field.message_type, above)
        return inner.arrow_type, inner.read, inner.write
    if field.enum_type is not None:
        return pa.string(), _name_of(field.enum_type), _number_of(field.enum_type)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return pa.binary(), lambda one: one, lambda _, value: value
    kind = _KINDS[field.cpp_type]
    if pa.types.is_float32(kind):
        return kind, lambda one: one, _checked_float(field.name)
    return kind, lambda one: one, _whole if pa.types.is_decimal(kind) else _checked_bool(pa.types.is_boolean(kind))


def _whole(_: Any, value: Any) -> int:
    try:
        whole = int(with_scale(value, 0) if isinstance(value, Decimal) else value)
    except ArithmeticError:
        whole = None
    if whole is None or isinstance(value, bool) or value != whole:
        raise ValueError(f"expected a whole number, got {value!r}")
    return whole


def _checked_bool(is_bool: bool) -> Callable[[Any, Any], Any]:
    """A message would take a bool for a number, and a number for a bool."""

    def checked(_: Any, value: Any) -> Any:
        if isinstance(value, bool) != is_bool:
            raise TypeError(f"expected {'a bool' if is_bool else 'another type'}, got {value!r}")
        return value

    return checked


def _checked_float(name: str) -> Callable[[Any, Any], Any]:
    """A message would take a number that no float has for infinity."""
    check = _checked_bool(False)

    def checked(message: Any, value: Any) -> Any:
        if isinstance(value, int | float) and math.isfinite(value) and abs(value) >= NO_FLOAT:
            raise ValueError(f"{value!r} in the float {name}")
        return check(message, value)

    return checked


def _name_of(enum: EnumDescriptor) -> Read:
    names = {number: one.name for number, one in enum.values_by_number.items()}
    return lambda number: names.get(number, str(number))


def _number_of(enum: EnumDescriptor) -> Callable[[Any, Any], int]:
    def number(_: Any, name: str) -> int:
        if name in enum.values_by_name:
            return int(enum.values_by_name[name].number)
        if name.removeprefix("-").isdecimal():
            return int(name)
        raise ValueError(f"expected one of {', '.join(enum.values_by_name)}, got {name!r}")

    return number


def python_values(kind: pa.DataType) -> Read:
    """What makes of a value as Arrow takes it the one that a column of ``kind`` gives back, a map as a dict."""
    if pa.types.is_struct(kind):
        fields = [(one.name, python_values(one.type)) for one in kind]
        return lambda value: None if value is None else {name: convert(value[name]) for name, convert in fields}
    if pa.types.is_map(kind):
        key, item = python_values(kind.key_type), python_values(kind.item_type)
        return lambda value: {key(name): item(one) for name, one in value}
    if pa.types.is_list(kind):
        convert = python_values(kind.value_type)
        return lambda value: [convert(one) for one in value]
    if pa.types.is_decimal(kind):
        return lambda value: None if value is None else Decimal(value)
    return lambda value: value
