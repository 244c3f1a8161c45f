"""The JSON serde: objects with declared fields, or plain values of one type. The rules are in json_reader,
spelled_types and json_writer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..codec import Codec, Decoded, Read, Write
from ..handed_over import taking
from ..text import byte_lengths
from . import single_texts
from .field_names import field_names
from .json_reader import read_json
from .json_schema import schema_text
from .json_writer import encode_json
from .python_values import values_from_python, values_to_python


@dataclass(frozen=True, slots=True)
class JsonCodec(Codec):
    """``schema``: the value as an Arrow type, a struct for an object."""

    schema: pa.DataType

    def __post_init__(self) -> None:
        schema_text(self.schema)  # raises ConfigError for a type that the schema has no word for

    @property
    def name(self) -> str:
        return f'json("{schema_text(self.schema)}")'

    @property
    def arrow_type(self) -> pa.DataType:
        return self.schema

    @property
    def has_fields(self) -> bool:
        return bool(pa.types.is_struct(self.schema))

    @property
    def is_canonical(self) -> bool:
        return False

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        return read_json(binary, self.schema)

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        return encode_json(values)

    def sizes(self, values: pa.Array) -> np.ndarray:
        return byte_lengths(encode_json(values))

    def to_python(self, values: pa.Array) -> list[Any]:
        return values_to_python(values)

    def from_python(self, values: list[Any]) -> pa.Array:
        return values_from_python(values, self.schema, "Serde.json")

    def names_of(self, binary: pa.BinaryArray) -> set[str] | None:
        return field_names(binary.to_pylist()) if self.has_fields else None

    def value_writer(self) -> Write:
        return single_texts.value_writer(self.schema)

    def value_reader(self) -> Read:
        return single_texts.value_reader(self.schema)

    def taking(self) -> Callable[[Any], Any]:
        return taking(self.schema, self._through_a_column)
