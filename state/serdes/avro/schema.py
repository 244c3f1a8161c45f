"""Avro schemas: their text as a tree (Avro 1.12, "Schema Declaration").

Owns the reading of schemas. Rule: names are full names, a name that is used before it is declared comes from the
references. Attributes that Avro does not define (documentation, properties of other tools) are left out, so two schemas
that read and write alike have one text.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from ...errors import ConfigError

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_LOGICAL = {
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "duration": ("fixed",),
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACE = "Serde.avro"


class _NoDefault:
    def __repr__(self) -> str:
        return "no default"


MISSING = _NoDefault()
"""A field without a default, which is not the default null."""


@dataclass(frozen=True, eq=False, slots=True)
class PrimitiveSchema:
    """``kind``: one of PRIMITIVES. ``logical``: a logical type that this project knows, or None; others are ignored, as
    Avro says.
    """

    kind: str
    logical: str | None = None
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class FixedSchema:
    """``size`` bytes."""

    name: str
    size: int
    aliases: tuple[str, ...] = ()
    logical: str | None = None
    precision: int = 0
    scale: int = 0
    kind: str = "fixed"


@dataclass(frozen=True, eq=False, slots=True)
class EnumSchema:
    """``default``: the symbol that represents those that this schema does not have."""

    name: str
    symbols: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    default: str | None = None
    kind: str = "enum"


@dataclass(frozen=True, eq=False, slots=True)
class ArraySchema:
    """Any number of items, in their order."""

    items: "Schema"
    kind: str = "array"


@dataclass(frozen=True, eq=False, slots=True)
class MapSchema:
    """Values by names."""

    values: "Schema"
    kind: str = "map"


@dataclass(frozen=True, eq=False, slots=True)
class UnionSchema:
    """One of several types; the number of the branch is before the value."""

    branches: tuple["Schema", ...]
    kind: str = "union"


@dataclass(frozen=True, eq=False, slots=True)
class Field:
    """``default``: the JSON value, or MISSING."""

    name: str
    type: "Schema"
    default: Any = MISSING
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class RecordSchema:
    """``fields`` is filled after the record has its name, since a field may hold the record itself."""

    name: str
    aliases: tuple[str, ...] = ()
    fields: list[Field] = field(default_factory=list)
    kind: str = "record"


Schema = PrimitiveSchema | FixedSchema | EnumSchema | ArraySchema | MapSchema | UnionSchema | RecordSchema
Named = FixedSchema | EnumSchema | RecordSchema


def short_name(name: str) -> str:
    """A full name without its namespace."""
    return name.rpartition(".")[2]


def branch_names(schema: UnionSchema) -> tuple[str, ...]:
    """Names of a union's branches in columns and in values: short ones, or full ones where two short ones are equal."""
    full = tuple(getattr(one, "name", one.kind) for one in schema.branches)
    short = tuple(map(short_name, full))
    return short if len(set(short)) == len(short) else full


def text_of(schema: object) -> str:
    """The JSON text of a schema that a user gave: text, a path of a file, or what ``json.loads`` makes of a text.

    Raises ConfigError for anything else and for a file that is not there.
    """
    if isinstance(schema, Path):
        try:
            return schema.read_text(encoding="utf-8")
        except OSError as error:
            got = f"{schema} ({error.strerror})"
            raise ConfigError(_PLACE, "a file with a schema", got, "correct the path") from error
    if isinstance(schema, list):
        return json.dumps([json.loads(text_of(one)) if isinstance(one, Path) else one for one in schema])
    if isinstance(schema, dict):
        return json.dumps(schema)
    if isinstance(schema, str):
        text = schema.strip()
        is_name = text in PRIMITIVES
        return json.dumps(text) if is_name else text
    expected, got = "a schema's JSON text, a pathlib.Path of a file or a dict", repr(schema)
    raise ConfigError(_PLACE, expected, got, 'give for example Path("order.avsc")')


def parse(text: str, references: Sequence[str] = (), times: Sequence[str] = ()) -> Schema:
    """The tree of a schema. ``references``: texts of schemas whose names it uses, each after those that it uses itself.
    ``times``: logical types of a long that are kept in it, though the serde does not know them.

    Raises ConfigError that says where the text is no schema.
    """
    reader = _Reader(times)
    for reference in references:
        reader.whole(reference)
    return reader.whole(text)


class _Reader:
    """Reads texts, one after the other; ``names`` has the types declared so far."""

    def __init__(self, times: Sequence[str] = ()) -> None:
        self.names: dict[str, Named] = {}
        self.times = times

    def whole(self, text: str) -> Schema:
        try:
            declaration = json.loads(text)
        except ValueError as error:
            shown = text if len(text) <= 60 else text[:57] + "..."
            raise ConfigError(_PLACE, "a schema in JSON", f"{shown!r} ({error})", "correct the schema") from error
        return self.read(declaration, "", "schema")

    def read(self, declaration: Any, space: str, place: str) -> Schema:
        if isinstance(declaration, str):
            return self.named(declaration, space, place)
        if isinstance(declaration, list):
            return self.union(declaration, space, place)
        if not isinstance(declaration, dict) or "type" not in declaration:
            _refuse(place, "a type: a name, a list of branches, or an object with a type", declaration)
        kind = declaration["type"]
        if isinstance(kind, dict | list):
            return self.read(kind, space, place)
        if kind == "array":
            return ArraySchema(self.read(_part(declaration, "items", place), space, f"{place}[]"))
        if kind == "map":
            return MapSchema(self.read(_part(declaration, "values", place), space, f"{place}[]"))
        if kind in ("record", "error"):
            return self.record(declaration, space, place)
        if kind == "enum":
            return self.enum(declaration, space, place)
        if kind == "fixed":
            return self.fixed(declaration, space, place)
        if kind == "long" and declaration.get("logicalType") in self.times:
            return PrimitiveSchema(kind, declaration["logicalType"])
        if kind in PRIMITIVES:
            return PrimitiveSchema(kind, *_logical(declaration, kind, 0))
        return self.named(kind, space, place)

    def named(self, name: str, space: str, place: str) -> Schema:
        if name in PRIMITIVES:
            return PrimitiveSchema(name)
        full = name if "." in name or not space else f"{space}.{name}"
        if full not in self.names and name in self.names:
            full = name
        if full not in self.names:
            got = f"{name!r}, which is not declared before"
            raise ConfigError(
                f"{_PLACE}, {place}", "a type", got, "correct the name, or give its schema in references="
            )
        return self.names[full]

    def union(self, declaration: list[Any], space: str, place: str) -> UnionSchema:
        branches = tuple(self.read(one, space, f"{place}, branch {at}") for at, one in enumerate(declaration))
        keys = [getattr(branch, "name", branch.kind) for branch in branches]
        if not branches or len(set(keys)) != len(keys) or "union" in keys:
            _refuse(place, "a union of one or more types, each once and none a union", keys)
        return UnionSchema(branches)

    def declare(self, declaration: dict[str, Any], space: str, place: str) -> tuple[str, str, tuple[str, ...]]:
        """Full name, namespace for the types inside, and full aliases."""
        name = _part(declaration, "name", place)
        if not isinstance(name, str) or not all(_NAME.fullmatch(part) for part in name.split(".")):
            _refuse(place, "a name of letters, digits and _", name)
        inner = name.rpartition(".")[0] if "." in name else declaration.get("namespace", space) or ""
        full = name if "." in name or not inner else f"{inner}.{name}"
        if full in self.names:
            _refuse(place, "each name declared once", full)
        aliases = (one if "." in one or not inner else f"{inner}.{one}" for one in declaration.get("aliases", []))
        return full, inner, tuple(aliases)

    def record(self, declaration: dict[str, Any], space: str, place: str) -> RecordSchema:
        name, inner, aliases = self.declare(declaration, space, place)
        record = self.names[name] = RecordSchema(name, aliases)
        fields = _part(declaration, "fields", place)
        if not isinstance(fields, list) or not all(isinstance(one, dict) for one in fields):
            _refuse(place, "a list of fields", fields)
        for one in fields:
            own = _part(one, "name", place)
            where = f"field {own}" if place == "schema" else f"{place}.{own}"
            if own in [known.name for known in record.fields]:
                _refuse(where, "each field once", own)
            kind = self.read(_part(one, "type", where), inner, where)
            default = one.get("default", MISSING)
            record.fields.append(Field(own, kind, default, tuple(one.get("aliases", []))))
        return record

    def enum(self, declaration: dict[str, Any], space: str, place: str) -> EnumSchema:
        name, _, aliases = self.declare(declaration, space, place)
        symbols, default = tuple(_part(declaration, "symbols", place)), declaration.get("default")
        if not all(isinstance(one, str) for one in symbols) or len(set(symbols)) != len(symbols):
            _refuse(place, "symbols, each once", symbols)
        if default is not None and default not in symbols:
            _refuse(place, f"a default among {', '.join(symbols)}", default)
        enum = self.names[name] = EnumSchema(name, symbols, aliases, default)
        return enum

    def fixed(self, declaration: dict[str, Any], space: str, place: str) -> FixedSchema:
        name, _, aliases = self.declare(declaration, space, place)
        size = _part(declaration, "size", place)
        if not isinstance(size, int) or size < 0:
            _refuse(place, "a size in bytes", size)
        fixed = self.names[name] = FixedSchema(name, size, aliases, *_logical(declaration, "fixed", size))
        return fixed


def _logical(declaration: Mapping[str, Any], kind: str, size: int) -> tuple[str | None, int, int]:
    """Logical type, precision and scale. One that is not valid is ignored, as Avro says."""
    logical = declaration.get("logicalType")
    if logical not in _LOGICAL or kind not in _LOGICAL[logical]:
        return None, 0, 0
    if logical in ("uuid", "duration") and kind == "fixed" and size != {"uuid": 16, "duration": 12}[logical]:
        return None, 0, 0
    if logical != "decimal":
        return logical, 0, 0
    precision, scale = declaration.get("precision"), declaration.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or precision == 0:
        return None, 0, 0
    if kind == "fixed" and precision > len(str(2 ** max(8 * size - 1, 0) - 1)) - 1:
        return None, 0, 0
    return logical, precision, scale


def _part(declaration: Mapping[str, Any], name: str, place: str) -> Any:
    if name not in declaration:
        _refuse(place, f"{name!r} of the {declaration.get('type', 'field')}", declaration)
    return declaration[name]


def _refuse(place: str, expected: str, got: object) -> NoReturn:
    shown = repr(got)
    raise ConfigError(
        f"{_PLACE}, {place}", expected, shown if len(shown) <= 80 else shown[:77] + "...", "correct the schema"
    )


def normal_text(schema: Schema) -> str:
    """One text of all schemas that read and write alike: JSON without spaces, full names, no documentation."""
    return json.dumps(_normal(schema, set()), separators=(",", ":"), ensure_ascii=False)


def _normal(schema: Schema, known: set[str]) -> Any:
    if isinstance(schema, UnionSchema):
        return [_normal(branch, known) for branch in schema.branches]
    if isinstance(schema, ArraySchema):
        return {"type": "array", "items": _normal(schema.items, known)}
    if isinstance(schema, MapSchema):
        return {"type": "map", "values": _normal(schema.values, known)}
    if isinstance(schema, PrimitiveSchema):
        return {"type": schema.kind} | _logical_parts(schema) if schema.logical else schema.kind
    if schema.name in known:
        return schema.name
    known.add(schema.name)
    normal: dict[str, Any] = {"type": schema.kind, "name": schema.name}
    if schema.aliases:
        normal["aliases"] = list(schema.aliases)
    if isinstance(schema, FixedSchema):
        return normal | {"size": schema.size} | _logical_parts(schema)
    if isinstance(schema, EnumSchema):
        default = {} if schema.default is None else {"default": schema.default}
        return normal | {"symbols": list(schema.symbols)} | default
    return normal | {"fields": [_normal_field(one, known) for one in schema.fields]}


def _normal_field(one: Field, known: set[str]) -> dict[str, Any]:
    parts: dict[str, Any] = {"name": one.name, "type": _normal(one.type, known)}
    if one.default is not MISSING:
        parts["default"] = one.default
    return parts | ({"aliases": list(one.aliases)} if one.aliases else {})


def _logical_parts(schema: PrimitiveSchema | FixedSchema) -> dict[str, Any]:
    parts: dict[str, Any] = {} if schema.logical is None else {"logicalType": schema.logical}
    return parts | ({"precision": schema.precision, "scale": schema.scale} if schema.logical == "decimal" else {})
