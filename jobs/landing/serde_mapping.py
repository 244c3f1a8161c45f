"""A mapping that fits what a topology reads: types of CSV columns, keys and values of one column, by its serdes.

Owns the step from serdes to a mapping. Rule: what the serdes do not say is left as it was declared.
"""

from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from ...state.errors import ConfigError, LandingError
from ...state.serdes import Serde
from .file_source import CSV_TYPES, SERDE_TYPES, FileSource
from .files.columns import SERDES
from .first_record import FirstRecord

_TYPES = {SERDES[kind](): kind for kind in SERDE_TYPES}
_TEXT = ("string", "bytes")


class Serdes(NamedTuple):
    """With which a topic is read."""

    key: Serde
    value: Serde


def with_serdes(source: FileSource, topic: str, serdes: Serdes) -> FileSource:
    """``source``, whose format is known, for a topic that is read with these serdes.

    Raises ConfigError where a number is to be written and no column is named for it.
    """
    key, value = serdes
    key_type, value_type, types = source.key_type, source.value_type, source.types
    if source.key is not None and source.key_type is None and _TYPES.get(key) not in (None, *_TEXT):
        key_type = _TYPES[key]
    kind = _TYPES.get(value)
    if kind not in (None, *_TEXT) and source.value_type is None:
        if not isinstance(source.value, str):
            got = "none" if source.value is None else f"{len(source.value)}"
            raise ConfigError(f"topic {topic!r}, read as {value}", "one column as the value", got, "name it (--value)")
        value_type = kind
    if value.is_struct and source.format == "csv" and not source.types and not isinstance(source.value, str):
        of = {field.name: _csv_type(field.type) for field in value.arrow_type}
        types = of if source.value is None else {name: of[name] for name in source.value if name in of}
    return replace(source, key_type=key_type, value_type=value_type, types=types)


def refuse_undecodable(topic: str, first: FirstRecord, serdes: Serdes) -> None:
    """Raises LandingError when none of the first records can be decoded: nothing that reads the topic could."""
    for part, serde, column in zip(("key", "value"), serdes, (first.block.key, first.block.value), strict=True):
        decoded = serde.decode(column)
        if decoded.bad.all():
            mapping = "correct the mapping" if serde.is_struct else f"name its one column (--{part})"
            next_step = f"{mapping}, or correct types of CSV columns (--types) or the serde of the topology"
            expected = f"a {part} that {serde} reads"
            raise LandingError(f"topic {topic}, {first.file}", expected, decoded.reasons[0], next_step)


def _csv_type(kind: pa.DataType) -> str:
    names = {
        pa.string(): "string",
        pa.int32(): "int",
        pa.int64(): "long",
        pa.float64(): "double",
        pa.bool_(): "boolean",
        pa.int8(): "int",
        pa.int16(): "int",
        pa.float32(): "double",
    }
    is_text = pa.types.is_temporal(kind) or pa.types.is_binary(kind) or pa.types.is_decimal(kind)
    csv_type = "string" if is_text else names.get(kind, "json")
    assert csv_type in CSV_TYPES
    return csv_type
