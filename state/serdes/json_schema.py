"""The declared schema of a JSON serde, in the words of Spark's DDL.

    user string, page string, ms long, tags array<string>, place struct<lat double, lon double>

Types: string, int (integer), long (bigint), double, boolean, array<type>, struct<fields>; case does not matter in them.
``field type`` and ``field: type`` are both taken; a name with other characters than letters, digits and _ stands in
backquotes.
"""

import re
from typing import NoReturn

import pyarrow as pa

from ..errors import ConfigError

_PRIMITIVES = {
    "string": pa.string(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}
_NAMES = {pa.string(): "string", pa.int32(): "int", pa.int64(): "long", pa.float64(): "double", pa.bool_(): "boolean"}
_TOKEN = re.compile(r"\s*(?:(?P<word>\w+)|`(?P<quoted>(?:[^`]|``)+)`|(?P<mark>[<>,:]))\s*")
_PLACE = "Serde.json"
_NEXT_STEP = 'write it like "user string, ms long, tags array<string>, place struct<lat double, lon double>"'


def parse_schema(text: str) -> pa.StructType:
    """Arrow type of the object. Raises ConfigError that quotes the place where the text cannot be read."""
    return _Parser(text).whole()


def schema_text(arrow_type: pa.StructType) -> str:
    """The schema that ``parse_schema`` reads as ``arrow_type``; equal for equal types."""
    return ", ".join(f"{_quoted(field.name)} {type_text(field.type)}" for field in arrow_type)


def type_text(arrow_type: pa.DataType) -> str:
    """Name of a type in the schema's words."""
    if pa.types.is_list(arrow_type):
        return f"array<{type_text(arrow_type.value_type)}>"
    if pa.types.is_struct(arrow_type):
        return f"struct<{schema_text(arrow_type)}>"
    if arrow_type not in _NAMES:
        expected = "string, int, long, double, boolean, array<…> or struct<…>"
        raise ConfigError(_PLACE, expected, f"Arrow's {arrow_type}", "cast the field to one of these")
    return _NAMES[arrow_type]


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"


class _Parser:
    """Recursive descent over ``text``; ``at`` is where the next token begins."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def whole(self) -> pa.StructType:
        fields = self.fields()
        if self.at < len(self.text):
            self.refuse("a comma or the end")
        return fields

    def fields(self) -> pa.StructType:
        fields: dict[str, pa.DataType] = {}
        while True:
            start = self.at
            name = self.name()
            self.took(":")
            if name in fields:
                self.at = start
                self.refuse("each field once")
            fields[name] = self.type()
            if not self.took(","):
                return pa.struct(list(fields.items()))

    def type(self) -> pa.DataType:
        start = self.at
        word = self.word().lower()
        if word in ("array", "struct"):
            self.expect("<")
            inner = pa.list_(self.type()) if word == "array" else self.fields()
            self.expect(">")
            return inner
        if word not in _PRIMITIVES:
            self.at = start
            self.refuse("a type (string, int, long, double, boolean, array<…>, struct<…>)")
        return _PRIMITIVES[word]

    def name(self) -> str:
        token = _TOKEN.match(self.text, self.at)
        if token is None or token["mark"]:
            self.refuse("the name of a field")
        self.at = token.end()
        return token["word"] or token["quoted"].replace("``", "`")

    def word(self) -> str:
        token = _TOKEN.match(self.text, self.at)
        if token is None or not token["word"]:
            self.refuse("a type (string, int, long, double, boolean, array<…>, struct<…>)")
        self.at = token.end()
        return token["word"]

    def took(self, mark: str) -> bool:
        token = _TOKEN.match(self.text, self.at)
        if token is None or token["mark"] != mark:
            return False
        self.at = token.end()
        return True

    def expect(self, mark: str) -> None:
        if not self.took(mark):
            self.refuse(f"{mark!r}")

    def refuse(self, expected: str) -> NoReturn:
        rest = self.text[self.at :].strip()
        raise ConfigError(_PLACE, f"{expected} at {self.at}", repr(rest) if rest else "the end", _NEXT_STEP)
