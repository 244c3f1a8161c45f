"""What every serde can do, and what decoding gives back.

Rule: a null row is a tombstone and stays null; a row that cannot be decoded is null, flagged, and has a sentence.
"""

import dataclasses
import functools
import re
import struct
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from types import UnionType
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from ..errors import ConfigError, shown

Write = Callable[[Any], bytes]
Read = Callable[[bytes], Any]

_ROUTINES = types.FunctionType | types.BuiltinFunctionType | types.MethodType | functools.partial | type
_PART = re.compile(r", row \d+(?!\d)(?:, )?(.+)$")
"""Which part of a row's value a refusal is about."""


class LeftToColumns(ValueError):
    """A single value, or bytes of one, that the quick functions of a codec leave to its column functions."""


LEFT_TO_COLUMNS = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError, struct.error)
"""What quick functions raise for a value, or bytes, that they do not take."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Columns out of bytes: ``values`` (null where the bytes were null or bad), ``bad`` bool, ``reasons`` by row."""

    values: pa.Array
    bad: np.ndarray
    reasons: dict[int, str]

    @classmethod
    def whole(cls, values: pa.Array) -> "Decoded":
        """Nothing was bad."""
        return cls(values, np.zeros(len(values), np.bool_), {})


class Codec(ABC):
    """One format. Arrays come in as exactly ``pa.binary()`` or ``arrow_type``; Serde has seen to that."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """As written after ``Serde.``, so that equal names mean equal bytes."""

    @property
    @abstractmethod
    def arrow_type(self) -> pa.DataType:
        """Type of the decoded column."""

    @property
    def has_fields(self) -> bool:
        """Whether a value has named fields, which steps call by their names."""
        return False

    @property
    def window_bytes(self) -> int:
        """Of the window, behind those of the key; 0 for keys without one."""
        return 0

    @property
    def is_windowed(self) -> bool:
        """Whether a value is a key with its window."""
        return False

    @property
    def is_own(self) -> bool:
        """Whether functions of the user's are in it, so that its name says so."""
        return False

    @property
    def has_schema_id(self) -> bool:
        """Whether the bytes begin with the id of their schema, which a header may hold instead."""
        return False

    @property
    def is_canonical(self) -> bool:
        """Whether a value has one form in bytes only, so that equal keys have equal bytes."""
        return True

    @abstractmethod
    def decode(self, binary: pa.BinaryArray) -> Decoded:
        """Values of every row."""

    @abstractmethod
    def encode(self, values: pa.Array) -> pa.BinaryArray:
        """Bytes of every row; null stays null."""

    @abstractmethod
    def sizes(self, values: pa.Array) -> np.ndarray:
        """Bytes of every row as int64, 0 for null."""

    def to_python(self, values: pa.Array) -> list[Any]:
        """Python values; here those that Arrow gives."""
        return list(values.to_pylist())

    @abstractmethod
    def from_python(self, values: list[Any]) -> pa.Array:
        """Column of Python values; ConfigError names the first row that is not of the format's type."""

    def value_writer(self) -> Write | None:
        """What gives the bytes of one Python value as ``from_python`` and ``encode`` do, and raises one of
        LEFT_TO_COLUMNS for a value that is not exactly of the expected types. None: the codec has no such function.
        """
        return None

    def value_reader(self) -> Read | None:
        """What gives the Python value of bytes as ``decode`` and ``to_python`` do, and raises one of LEFT_TO_COLUMNS
        for bytes that the codec would not write. None: the codec has no such function.
        """
        return None

    def names_of(self, binary: pa.BinaryArray) -> set[str] | None:
        """Names of all fields that the texts have, declared or not; a.b is the field b of the object a. None: texts of
        the format have no names.
        """
        return None

    @property
    def can_change(self) -> bool:
        """Whether its Python values can be changed in place."""
        return bool(pa.types.is_nested(self.arrow_type))

    def taking(self) -> Callable[[Any], Any]:
        """What takes a single Python value (state/serdes/handed_over.py): a new object, equal to what reading gives
        after it was written. It raises ConfigError for what is not of the format's type.
        """
        return self._through_a_column

    def keeping(self) -> Callable[[Any], Any]:
        """As ``taking``, of what goes into a store, which keeps bytes in Kafka."""
        return self.taking()

    def _through_a_column(self, value: Any) -> Any:
        return None if value is None else self.to_python(self.from_python([value]))[0]


def is_in_utc(value: datetime) -> bool:
    """Whether a time with a zone is one of Python's in UTC too: those that are not can be stored, but not read."""
    try:
        value.astimezone(UTC)
    except OverflowError:
        return False
    return True


def check_values(values: list[Any], kinds: type | UnionType, place: str, expected: str) -> None:
    """Raise ConfigError for the first of ``values`` that is neither None nor of ``kinds``; ``expected``: in words."""
    for row, value in enumerate(values):
        if value is not None and not isinstance(value, kinds):
            refuse_value(f"{place}, row {row}", expected, value)


def refuse_value(place: str, expected: str, value: object, next_step: str = "give a value of that type") -> NoReturn:
    """Raise ConfigError for a Python value that the serde cannot carry."""
    text = shown(value)
    said = _unused(value) or _made_of(value, expected)
    got = f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__}){said}"
    raise ConfigError(place, expected, got, next_step)


def refuse_field(place: str, names: Iterable[str], name: object) -> NoReturn:
    """Raise ConfigError for a field that the type does not have."""
    expected, got = f"only the fields {', '.join(names)}", f"the field {name!r}, which is not declared"
    raise ConfigError(place, expected, got, "declare the field or leave it out")


def _unused(value: object) -> str:
    """What is missing where a function, a generator or a coroutine is given instead of its result."""
    if isinstance(value, types.CoroutineType):
        value.close()  # else Python warns later that nobody awaited it
        return ", which nobody awaits"
    if isinstance(value, types.GeneratorType | types.AsyncGeneratorType):
        return ", which nobody iterates"
    return ", which nobody calls" if isinstance(value, _ROUTINES) else ""


def _made_of(value: object, expected: str) -> str:
    """What makes the dict or list that is ``expected`` of a value which has the same parts."""
    made = ""
    if expected.startswith("a dict"):
        if dataclasses.is_dataclass(value):
            made = "dataclasses.asdict(…) makes a dict"
        else:
            methods = [name for name in ("model_dump", "_asdict") if callable(getattr(value, name, None))]
            made = f"{methods[0]}() makes a dict" if methods else ""
    elif expected.startswith("a list") and isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        made = f"{'sorted' if isinstance(value, Set) else 'list'}(…) makes a list"
    return made and f", of which {made}"


def refused_part(error: ConfigError) -> str:
    """What a serde refused, for a sentence that names the function which gave it; of a nested value with the part."""
    match = _PART.search(error.place)
    part = match[1] if match else ""
    if part:
        return f"{error.got}, in {part} instead of {error.expected}"
    return f"{error.got}, instead of {error.expected}" if error.expected.startswith("only ") else error.got


def maps_as_dicts(values: pa.Array) -> list[Any]:
    """Python values of a column, as Arrow gives them, but every map a dict; of equal keys the last counts."""
    converted = values.to_pylist()
    return [_with_dicts(one, values.type) for one in converted] if _has_map(values.type) else converted


def _has_map(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_map(one.type) for one in kind)
    return bool(pa.types.is_map(kind) or (pa.types.is_list(kind) and _has_map(kind.value_type)))


def _with_dicts(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: _with_dicts(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [_with_dicts(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {one.name: _with_dicts(value[one.name], one.type) for one in kind}
    return value
