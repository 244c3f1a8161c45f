"""A directory of files as the source of a topic: the declared mapping from rows to records.

Owns the configuration only. Rule: what is not declared is not guessed; a row that does not fit the mapping is an error
that names file and line, never a record that is missing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...state.errors import ConfigError, LandingError
from ...state.serdes.json_text.json_schema import parse_schema, type_text

FORMATS = ("jsonl", "parquet", "csv")
TIMESTAMP_UNITS = ("ms", "s", "us", "ns", "iso")
CSV_TYPES = ("string", "int", "long", "double", "boolean", "json")
SERDE_TYPES = ("string", "bytes", "int", "long", "double", "boolean")
EXTENSIONS = {
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
    "csv": "csv",
    "parquet": "parquet",
    "pq": "parquet",
}
"""What a file's extension says about its format, ``.gz`` taken off before."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files of a directory and what their rows mean. A row is a JSON line, a Parquet row or a CSV row.

    ``path``: the directory, searched with its subdirectories, or a URI. Names that begin with ``.`` or ``_`` are left
    out, and so is what ``pattern`` does not match: of the file's name (``*.jsonl``) or, where it has a slash, of its
    path below the directory (``day1/*``). JSON lines and CSV may be compressed (``.gz``).
    ``format``: ``jsonl``, ``parquet`` or ``csv``; None: what the extension of the files says (``EXTENSIONS``).

    ``timestamp``: column of the record time, in ``timestamp_unit``; Parquet's own timestamps need no unit. ``iso`` is
    ISO 8601 text, UTC where it names no zone. Parts of a millisecond are cut off.
    ``key``: column of the key, as UTF-8 bytes (other types as JSON text); None: all keys are null.
    ``value``: None: the whole line's bytes for JSON lines, a JSON object of all columns else; a column: its text or
    bytes, null being a tombstone; several columns: a JSON object of them. In a JSON object, times are milliseconds,
    dates days, bytes base64 (Kafka Connect's JSON), decimals text; JSON has no NaN, so it becomes null.
    ``key_type``, ``value_type``: write the key's, or the value's, one column as Kafka's serializer of ``long``,
    ``double``, ``int``, ``boolean``, ``string`` or ``bytes`` does; None: as its text or bytes.
    ``partition``: column with the partition; None: Kafka's murmur2 of the key, and 0 for a null key.
    ``partitions``: number of partitions of the topic, fixed by the first landing.

    CSV only: ``delimiter``; ``columns``: names when the files have no header line; ``types``: column to ``int``,
    ``long``, ``double``, ``boolean``, or ``json`` (the cell is JSON itself) for the JSON object, else text. They may be
    given as one text like that of ``Serde.json`` ("ms long, price double"). ``nulls``: fields that mean null.
    """

    path: str
    format: str | None = None
    timestamp: str = ""
    key: str | None = None
    value: str | tuple[str, ...] | None = None
    partition: str | None = None
    partitions: int = 1
    timestamp_unit: str = "ms"
    pattern: str = "*"
    delimiter: str = ","
    columns: tuple[str, ...] | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    nulls: tuple[str, ...] = ("",)
    key_type: str | None = None
    value_type: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", str(self.path).rstrip("/"))  # a pathlib.Path may come in
        for name in ("value", "columns", "nulls"):
            given = getattr(self, name)
            object.__setattr__(self, name, tuple(given) if isinstance(given, list) else given)
        if isinstance(self.types, str):
            object.__setattr__(self, "types", csv_types(self.types))
        _refuse("timestamp", self.timestamp, bool(self.timestamp), "the column of the record time")
        _refuse("format", self.format, self.format in (None, *FORMATS), f"one of {', '.join(FORMATS)}")
        unit_known = self.timestamp_unit in TIMESTAMP_UNITS
        _refuse("timestamp_unit", self.timestamp_unit, unit_known, f"one of {', '.join(TIMESTAMP_UNITS)}")
        _refuse("partitions", self.partitions, self.partitions >= 1, "a number of at least 1")
        _refuse("value", self.value, self.value != (), "at least one column")
        _refuse("delimiter", self.delimiter, len(self.delimiter) == 1, "one character")
        for column, kind in self.types.items():
            _refuse(f"types[{column!r}]", kind, kind in CSV_TYPES, f"one of {', '.join(CSV_TYPES)}")
        for name, written, of in (("key_type", self.key_type, self.key), ("value_type", self.value_type, self.value)):
            _refuse(name, written, written in (None, *SERDE_TYPES), f"one of {', '.join(SERDE_TYPES)}")
            _refuse(name, written, written is None or isinstance(of, str), f"nothing, or one column as {name[:-5]}")
        if self.format not in (None, "csv"):
            _refuse("columns", self.columns, self.columns is None, "nothing: they are for CSV")
            _refuse("types", self.types, not self.types, "nothing: they are for CSV")

    def named_columns(self) -> list[str]:
        """Columns that the mapping names, each once."""
        value = () if self.value is None else (self.value,) if isinstance(self.value, str) else self.value
        named = [self.timestamp, self.key, self.partition, *value, *self.types]
        return list(dict.fromkeys(name for name in named if name is not None))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, without the path, which may move."""
        return {
            "format": self.format,
            "timestamp": self.timestamp,
            "key": self.key,
            "value": list(self.value) if isinstance(self.value, tuple) else self.value,
            "partition": self.partition,
            "partitions": self.partitions,
            "timestamp_unit": self.timestamp_unit,
            "pattern": self.pattern,
            "delimiter": self.delimiter,
            "columns": None if self.columns is None else list(self.columns),
            "types": dict(self.types),
            "nulls": list(self.nulls),
            "key_type": self.key_type,
            "value_type": self.value_type,
        }

    def with_format_of(self, names: Iterable[str]) -> "FileSource":
        """Itself with the format that the extensions of the files ``names`` say, where none is declared.

        Raises LandingError for an extension that says nothing, or for files of two formats.
        """
        if self.format is not None:
            return self
        formats: dict[str, str] = {}
        for name in names:
            extension = name.removesuffix(".gz").rpartition("/")[2].rpartition(".")[2].lower()
            if extension not in EXTENSIONS:
                expected = f"an extension that gives the format ({', '.join(EXTENSIONS)}; also with .gz)"
                next_step = "declare the format (--format), or leave the file out (--pattern)"
                raise LandingError(f"{self.path}/{name}", expected, repr(extension), next_step)
            formats.setdefault(EXTENSIONS[extension], name)
        if len(formats) > 1:
            got = ", ".join(f"{name} ({kind})" for kind, name in formats.items())
            raise LandingError(self.path, "files of one format", got, "choose some of them (--pattern)")
        return replace(self, format=next(iter(formats))) if formats else self

    @classmethod
    def from_dict(cls, path: str, fields: Mapping[str, Any]) -> "FileSource":
        """The reverse of ``to_dict``."""
        return cls(path=path, **fields)


def csv_types(text: str) -> dict[str, str]:
    """Column to type, of text like that of ``Serde.json``; lists and structs are JSON in their cells."""
    types = {field.name: type_text(field.type) for field in parse_schema(text)}
    return {name: kind if kind in CSV_TYPES else "json" for name, kind in types.items()}


def _refuse(name: str, got: object, is_right: bool, expected: str) -> None:
    if not is_right:
        raise ConfigError(f"FileSource {name}", expected, repr(got), "correct the declaration of the source")
