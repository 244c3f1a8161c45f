"""A JSON Schema document as the type of a JSON serde's values.

Owns what becomes a column: ``type``, ``properties``, ``items``, ``additionalProperties``, ``format`` (date, date-time),
``contentEncoding`` (base64), ``enum`` of strings, references within the document, and ``oneOf`` or ``anyOf`` of null
and one type. Rule: what only narrows values (``required``, ``pattern``, ``minimum``) is not looked at, as Confluent's
deserializer does by default; what would need two types in one column is refused.
"""

import json
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from ...errors import ConfigError

_PLACE = "Serde.json_schema"
_PLAIN = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "string": pa.string()}
_FORMATS = {"date": pa.date32(), "date-time": pa.timestamp("us", "UTC")}


def type_of_document(schema: object) -> pa.DataType:
    """``schema``: text, a ``Path`` or a dict. Raises ConfigError for what is no schema, or none of columns."""
    try:
        text = schema.read_text(encoding="utf-8") if isinstance(schema, Path) else schema
        document = json.loads(text) if isinstance(text, str) else text
    except (ValueError, OSError) as error:
        raise ConfigError(_PLACE, "a JSON Schema document", str(error), "correct the text or the path") from error
    return _type(document, document, "document", ())


def _type(schema: Any, whole: Any, place: str, above: tuple[str, ...]) -> pa.DataType:
    if not isinstance(schema, dict):
        _refuse(place, "a schema that is an object", schema)
    if "$ref" in schema:
        return _referenced(schema["$ref"], whole, place, above)
    branches = schema.get("oneOf", schema.get("anyOf"))
    if branches is not None:
        some = [one for one in branches if one != {"type": "null"}]
        if len(some) != 1:
            _refuse(place, "one type, and null perhaps", branches)
        return _type(some[0], whole, place, above)
    kinds = schema.get("type", "string" if "enum" in schema else "object" if "properties" in schema else None)
    some = [one for one in kinds if one != "null"] if isinstance(kinds, list) else [kinds]
    if len(some) != 1 or some[0] not in (*_PLAIN, "array", "object"):
        _refuse(place, f"one type of {', '.join(_PLAIN)}, array, object, and null perhaps", kinds)
    if some[0] == "array":
        return pa.list_(_type(schema.get("items"), whole, f"{place}[]", above))
    if some[0] == "object":
        return _object(schema, whole, place, above)
    if some[0] == "string" and schema.get("contentEncoding") == "base64":
        return pa.binary()
    return _FORMATS.get(str(schema.get("format")), pa.string()) if some[0] == "string" else _PLAIN[some[0]]


def _object(schema: dict[str, Any], whole: Any, place: str, above: tuple[str, ...]) -> pa.DataType:
    if schema.get("properties"):
        below = {name: f"{place}.{name}" for name in schema["properties"]}
        fields = schema["properties"].items()
        return pa.struct([(name, _type(one, whole, below[name], above)) for name, one in fields])
    if isinstance(schema.get("additionalProperties"), dict):
        return pa.map_(pa.string(), _type(schema["additionalProperties"], whole, f"{place}[]", above))
    return _refuse(place, "an object with properties, or with additionalProperties of one type", schema)


def _referenced(name: str, whole: Any, place: str, above: tuple[str, ...]) -> pa.DataType:
    if name in above:
        _refuse(place, "schemas that end, as columns do", f"{name} inside itself")
    schema = whole
    for step in name.removeprefix("#").strip("/").split("/") if name.startswith("#/") else [None]:
        schema = schema.get(step) if isinstance(schema, dict) else None
    if schema is None:
        _refuse(place, "a reference into the document, such as #/$defs/Place", name)
    return _type(schema, whole, place, (*above, name))


def _refuse(place: str, expected: str, got: object) -> NoReturn:
    shown = got if isinstance(got, str) else json.dumps(got)
    next_step = "correct the schema, or read the field as Serde.json says it"
    raise ConfigError(f"{_PLACE}, {place}", expected, shown if len(shown) <= 80 else f"{shown[:77]}...", next_step)
