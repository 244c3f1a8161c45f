"""The declared schema of a JSON serde, in the words of Spark's DDL.

    user string, page string, ms long, tags array<string>, place struct<lat double, lon double>

Numbers are byte (tinyint), short (smallint), int (integer), long (bigint), float (real), double and decimal(p,s) (dec,
numeric; p up to 38, 10 if not given, s 0). Other types are string, boolean, binary, date, time, timestamp
(timestamp_ltz), timestamp_ntz, array<type>, map<string, type> and struct<fields>. Case does not matter in them. ``field
type`` and ``field: type`` are both taken; a name with other characters than letters, digits and _ is in backquotes. A
type alone, such as ``array<string>``, is a value that is no object. Times are of microseconds; a timestamp is an
instant, a timestamp_ntz what a clock on the wall shows.
"""

import re
from typing import NoReturn

import pyarrow as pa

from ...errors import ConfigError

_PRIMITIVES = {
    "string": pa.string(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "tinyint": pa.int8(),
    "short": pa.int16(),
    "smallint": pa.int16(),
    "float": pa.float32(),
    "real": pa.float32(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_NAMES: dict[pa.DataType, str] = {}
for _word, _kind in _PRIMITIVES.items():
    _NAMES.setdefault(_kind, _word)
_DECIMALS = ("decimal", "dec", "numeric")
_DECIMAL_DIGITS_MAX = 38
_TOKEN = re.compile(r"\s*(?:(?P<word>\w+)|`(?P<quoted>(?:[^`]|``)+)`|(?P<mark>[<>,:()]))\s*")
_TYPES = "string, int, long, double, decimal(p,s), boolean, binary, date, time, timestamp, array<…>, map<string, …>, …"
_PLACE = "Serde.json"
_STRUCT = re.compile(r"\s*struct\s*<(.*)>\s*", re.IGNORECASE | re.DOTALL)
_ODD_NAME = re.compile(r"[$@#./-][\w$@#./-]*")
_NEXT_STEP = 'write it like "user string, ms long, tags array<string>, place struct<lat double, lon double>"'


def parse_schema(text: str) -> pa.DataType:
    """Arrow type of the object, or of a plain value. Raises ConfigError that quotes the place where the text cannot be
    read.
    """
    return _Parser(text).plain() or parse_fields(text, _PLACE)


def parse_fields(text: str, place: str) -> pa.StructType:
    """Arrow type of the object. ConfigError, of ``place``, as ``parse_schema``; a plain type is one."""
    fields = _STRUCT.fullmatch(text)  # as Spark and Arrow write the type of an object
    return _Parser(text if fields is None else fields[1], place).whole()


def schema_text(arrow_type: pa.DataType) -> str:
    """The schema that ``parse_schema`` reads as ``arrow_type``; equal for equal types."""
    return _fields_text(arrow_type) if pa.types.is_struct(arrow_type) else type_text(arrow_type)


def _fields_text(arrow_type: pa.StructType) -> str:
    return ", ".join(f"{_quoted(field.name)} {type_text(field.type)}" for field in arrow_type)


def type_text(arrow_type: pa.DataType) -> str:
    """Name of a type in the schema's words."""
    if pa.types.is_list(arrow_type):
        return f"array<{type_text(arrow_type.value_type)}>"
    if pa.types.is_struct(arrow_type):
        return f"struct<{_fields_text(arrow_type)}>"
    if pa.types.is_map(arrow_type) and arrow_type.key_type == pa.string():
        return f"map<string, {type_text(arrow_type.item_type)}>"
    if pa.types.is_decimal128(arrow_type) and 0 <= arrow_type.scale <= arrow_type.precision:
        return f"decimal({arrow_type.precision},{arrow_type.scale})"
    if arrow_type not in _NAMES:
        raise ConfigError(_PLACE, _TYPES, f"Arrow's {arrow_type}", "cast it to one of these")
    return _NAMES[arrow_type]


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"


class _Parser:
    """Recursive descent over ``text``; ``at`` is where the next token begins."""

    def __init__(self, text: str, place: str = _PLACE) -> None:
        self.text, self.place, self.at = text, place, 0

    def plain(self) -> pa.DataType | None:
        """The type that the whole text is; None when it is none, and has fields perhaps."""
        try:
            kind = self.type()
        except ConfigError:
            return None
        return kind if self.at == len(self.text) and not pa.types.is_struct(kind) else None

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
        if word in ("array", "struct", "map"):
            self.expect("<")
            inner = self.map() if word == "map" else pa.list_(self.type()) if word == "array" else self.fields()
            self.expect(">")
            return inner
        if word in _DECIMALS:
            return self.decimal()
        if word not in _PRIMITIVES:
            self.at = start
            self.refuse(f"a type ({_TYPES})")
        return _PRIMITIVES[word]

    def map(self) -> pa.DataType:
        start = self.at
        if self.type() != pa.string():
            self.at = start
            self.refuse("string, which the names in a JSON object are,")
        self.expect(",")
        return pa.map_(pa.string(), self.type())

    def decimal(self) -> pa.DataType:
        precision, scale = 10, 0
        if self.took("("):
            start = self.at
            precision = self.number()
            scale = self.number() if self.took(",") else 0
            if not 1 <= precision <= _DECIMAL_DIGITS_MAX or scale > precision:
                self.at = start
                self.refuse(f"1 to {_DECIMAL_DIGITS_MAX} digits, and not more of them behind the point,")
            self.expect(")")
        return pa.decimal128(precision, scale)

    def number(self) -> int:
        start, word = self.at, self.word()
        if not word.isdecimal():
            self.at = start
            self.refuse("a number")
        return int(word)

    def name(self) -> str:
        token = _TOKEN.match(self.text, self.at)
        if token is None or token["mark"]:
            self.refuse("the name of a field")
        self.at = token.end()
        return token["word"] or token["quoted"].replace("``", "`")

    def word(self) -> str:
        token = _TOKEN.match(self.text, self.at)
        if token is None or not token["word"]:
            self.refuse(f"a type ({_TYPES})")
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
        next_step = _NEXT_STEP
        if (odd := _ODD_NAME.match(rest)) is not None:
            next_step = f"write a name with other marks in backticks: `{odd[0]}`"
        raise ConfigError(self.place, f"{expected} at {self.at}", repr(rest) if rest else "the end", next_step)
