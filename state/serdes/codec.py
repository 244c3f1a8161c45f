"""What every serde can do, and what decoding gives back.

Rule: a null row is a tombstone and stays null; a row that cannot be decoded is null, flagged, and has a sentence.
"""

from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np
import pyarrow as pa

from ..errors import ConfigError


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


class Codec(Protocol):
    """One format. Arrays come in as exactly ``pa.binary()`` or ``arrow_type``; Serde has seen to that."""

    @property
    def name(self) -> str:
        """As written after ``Serde.``, so that equal names mean equal bytes."""
        ...

    @property
    def arrow_type(self) -> pa.DataType: ...

    def decode(self, binary: pa.BinaryArray) -> Decoded: ...

    def encode(self, values: pa.Array) -> pa.BinaryArray: ...

    def sizes(self, values: pa.Array) -> np.ndarray: ...

    def to_python(self, values: pa.Array) -> list[Any]: ...

    def from_python(self, values: list[Any]) -> pa.Array: ...


def refuse_value(place: str, expected: str, value: object, next_step: str = "give a value of that type") -> NoReturn:
    """Raise ConfigError for a Python value that the serde cannot carry."""
    shown = repr(value)
    got = f"{shown if len(shown) <= 60 else shown[:57] + '...'} ({type(value).__name__})"
    raise ConfigError(place, expected, got, next_step)
