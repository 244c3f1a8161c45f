"""A directory of files as the source of a topic: the declared mapping from rows to records.

Owns the configuration only. Rule: what is not declared is not guessed; a row that does not fit the mapping is an error
that names file and line, never a record that is missing.
"""

import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Self
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from ...state.argument_types import check_fields, path_text
from ...state.errors import ConfigError, LandingError
from ...state.serdes.json_text.json_schema import parse_fields, type_text
from ...state.tables.kept_below import why_outside
from ...state.tables.object_stores import joined
from .file_formats import EXTENSIONS, FORMATS, FileFormat
from .files.compression import COMPRESSED, plain_name
from .files.envelopes import ENVELOPES

TIMESTAMP_UNITS = ("ms", "s", "us", "ns", "iso")
CSV_TYPES = ("string", "int", "long", "double", "boolean", "json")
UTF_8 = "utf-8"
BAD, TOMBSTONE = "bad", "tombstone"
NULL_LINES = (BAD, TOMBSTONE)
SERDE_TYPES = ("string", "bytes", "int", "long", "double", "boolean")

PATH_PATTERNS = {
    "confluent": r"(?P<topic>[^/]+)\+(?P<partition>\d+)\+(?P<offset>\d+)\.[^/]*$",
    "aiven": r"(?P<topic>[^/]+)-(?P<partition>\d+)-(?P<offset>\d+)\.[^/]*$",
    "lenses": r"(?:^|/)(?:(?P<topic>[^/]+)/)?(?P<partition>\d+)/(?P<last_offset>\d+)(?:_\d+_\d+)?\.[^/]*$",
}
"""Paths that Kafka Connect's sinks for object stores write: ``topic+0+100.json``, ``topic-0-100.gz``,
``topic/0/100.json``."""
KAFKA_OFFSETS, PATH_OFFSETS = "kafka", "path"
"""From where offsets of records are known."""
LAST_OFFSET = "last_offset"
_FROM_PATTERN = {"partition": "partition", LAST_OFFSET: "offset", "offset": "offset", "timestamp": "timestamp"}
"""Group of a path pattern to the field that it gives a column."""
BESIDE = ("keys", "headers")
"""Of a record, what may be in files beside those of the values (files/beside.py)."""
KEYS_BESIDE, HEADERS_BESIDE = ".keys", ".headers"
"""Columns for these; no file has a column of such a name."""
TYPE_BEFORE_TIME = ".timestamp_type"
"""Column for the timestamp type that the console consumer puts before a time; no file has one of such a name."""
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files of a directory and what their rows mean. A row is a JSON line, a Parquet row, a CSV row or an Avro record.

    ``path``: the directory, searched with its subdirectories, or a URI. Names that begin with ``.`` or ``_`` are left
    out, and so is what ``pattern`` does not match: of the file's name (``*.jsonl``) or, where it has a slash, of its
    path below the directory (``day1/*``). JSON lines and CSV may be compressed (gzip, Zstandard, bzip2, LZ4
    frames, Snappy), by their first bytes or their extension.
    ``format``: ``jsonl``, ``parquet``, ``csv`` or ``avro`` (object containers); None: what the extension of the files
    says (``EXTENSIONS``).

    ``timestamp``: column of the record time, in ``timestamp_unit``; Parquet's and Avro's timestamps need no unit.
    ``iso`` is ISO 8601 text, UTC where it names no zone. Parts of a millisecond are cut off.
    ``key``: column of the key, as UTF-8 bytes (other types as JSON text); several columns: a JSON object of them; None:
    all keys are null.
    ``value``: None: the whole line's bytes for JSON lines, a JSON object of all columns else; a column: its text or
    bytes, null being a tombstone; several columns: a JSON object of them. In a JSON object, times are milliseconds,
    dates days, bytes base64 (Kafka Connect's JSON), decimals text; JSON has no NaN, so it becomes null.
    ``key_type``, ``value_type``: write the key's, or the value's, one column as Kafka's serializer of ``long``,
    ``double``, ``int``, ``boolean``, ``string`` or ``bytes`` does; None: as its text or bytes.
    ``partition``: column with the partition; None: Kafka's murmur2 of the key, and 0 for a null key.
    ``partitions``: number of partitions of the topic, fixed by the first landing.

    ``offset``: column with Kafka's offset, which a record keeps; the rows of a landing are then sorted by it in each
    partition (from_files.py). None: records are numbered in the order in which they land.
    ``order_by``: columns by which all rows of a landing are sorted, instead of by the names of the files; rows of equal
    values stay in the order of names. Numbers (also as text) are before text, times are numbers.
    ``headers``: column with the headers: a list of structs or objects {key, value}, a map, an object, or a list of
    names and values in turn (kcat); CSV cells have them as JSON. ``timestamp_type``: column with ``CreateTime`` or
    ``LogAppendTime``, or Kafka's numbers of them; None: all are ``CreateTime``, unless lines say it before the time.
    ``topic_column``: only rows of it that have ``topic`` are landed (None: the name of the landed topic). Files whose
    paths have another one are not read.

    A folder ``name=value`` of a file's path is a column where the rows have none of the name, as in Hive. Every named
    group of ``path_pattern`` is one: a regular expression that is searched for in the path below the directory, or
    ``confluent``, ``aiven`` or ``lenses`` (see ``PATH_PATTERNS``). Its groups ``partition``, ``offset`` and
    ``timestamp`` need no declaration. An offset of the path is that of the file's first row, ``last_offset`` that of
    its last; the other rows have those after or before it, one each.

    ``beside``: ``keys``, ``headers`` or both are in files of their own, one beside each file, with as many rows, as
    Kafka Connect's S3 sink stores them: ``t+0+100.keys.json`` beside ``t+0+100.json``.

    ``a.b`` as a column names the field b of the object a, unless a column is so called as a whole.

    JSON lines only: ``envelope``: the row is in one, ``debezium``'s (the row after the change; a deleted one is a
    tombstone with the key of the row before) or ``connect``'s (payload, beside its schema). Columns of the envelope
    itself begin with ``__``, as in ``__ts_ms`` and ``__source.ts_ms``. ``null_lines``: ``tombstone``: a line ``null``
    deletes the key of the row before it, at its time; ``bad``: it is no row.

    ``zone``: of record times that name none, as in ``Europe/Berlin``; None: UTC.

    Parquet and Avro only: ``json_types``: column to the type of Serde.json by which it is read, in its words; it is
    written as that serde writes it (dates and times as text, NaN as NaN). Without it, as Kafka Connect's JSON has it.
    ``key_json_types``: of the key's columns, where the key's serde reads them otherwise; None: as ``json_types``.

    CSV, and lines with separators (``lines``): ``columns``: names, where CSV has no header line; such lines need them;
    ``delimiter``: one character of CSV (a comma), some of such lines (a tab); ``types``: column to ``int``, ``long``,
    ``double``, ``boolean``, or ``json`` (the cell is JSON itself) for the JSON object, else text. They may be given as
    one text like that of ``Serde.json`` ("ms long, price double"). ``nulls``: cells that mean null. ``encoding``: as
    Python names it. ``decimal_comma``: fractions have a comma, in columns that are declared as numbers.
    """

    path: str
    format: str | None = None
    timestamp: str = ""
    key: str | tuple[str, ...] | None = None
    value: str | tuple[str, ...] | None = None
    partition: str | None = None
    partitions: int = 1
    timestamp_unit: str = "ms"
    pattern: str = "*"
    delimiter: str = ""
    columns: tuple[str, ...] | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    nulls: tuple[str, ...] = ("",)
    key_type: str | None = None
    value_type: str | None = None
    offset: str | None = None
    order_by: tuple[str, ...] | None = None
    headers: str | None = None
    timestamp_type: str | None = None
    topic_column: str | None = None
    topic: str | None = None
    path_pattern: str | None = None
    envelope: str | None = None
    null_lines: str = BAD
    encoding: str = UTF_8
    decimal_comma: bool = False
    zone: str | None = None
    json_types: Mapping[str, str] = field(default_factory=dict)
    key_json_types: Mapping[str, str] | None = None
    beside: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", path_text(self.path, "FileSource path"))
        for name in ("key", "value", "columns", "nulls", "order_by", "beside"):
            given = getattr(self, name)
            object.__setattr__(self, name, tuple(given) if isinstance(given, list) else given)
        if isinstance(self.types, str):
            object.__setattr__(self, "types", csv_types(self.types))
        check_fields(self)
        for name, group in _pattern_columns(self.path_pattern).items():
            if getattr(self, name) in (None, ""):
                object.__setattr__(self, name, group)
        _refuse("beside", self.beside, set(self.beside) <= {*BESIDE}, f"some of {', '.join(BESIDE)}")
        for kind, name, column in zip(BESIDE, ("key", "headers"), (KEYS_BESIDE, HEADERS_BESIDE), strict=True):
            if kind in self.beside:
                given = getattr(self, name)
                _refuse(name, given, given in (None, column), f"nothing, since {kind} are beside the values")
                object.__setattr__(self, name, column)
        _refuse("timestamp", self.timestamp, bool(self.timestamp), "the column of the record time")
        _refuse("format", self.format, self.format in (None, *FORMATS), f"one of {', '.join(FORMATS)}")
        unit_known = self.timestamp_unit in TIMESTAMP_UNITS
        _refuse("timestamp_unit", self.timestamp_unit, unit_known, f"one of {', '.join(TIMESTAMP_UNITS)}")
        _refuse("partitions", self.partitions, self.partitions >= 1, "a number of at least 1")
        _refuse("key", self.key, self.key != (), "at least one column")
        _refuse("value", self.value, self.value != (), "at least one column")
        ordered = self.order_by is None or (self.order_by != () and self.offset is None)
        _refuse("order_by", self.order_by, ordered, "at least one column, and none where offsets are known")
        if self.format is not None:
            self._refuse_what_the_format_has_not(FORMATS[self.format])
        if not self.delimiter:
            object.__setattr__(self, "delimiter", "," if self.format is None else FORMATS[self.format].delimiter)
        object.__setattr__(self, "delimiter", self.delimiter.replace("\\t", "\t"))
        _refuse("topic", self.topic, self.topic is None or self.topic_column is not None, "a topic_column that has it")
        is_free = self.format is not None and not FORMATS[self.format].has_header
        _refuse("delimiter", self.delimiter, len(self.delimiter) == 1 or is_free, "one character")
        object.__setattr__(self, "encoding", _encoding(self.encoding))
        _refuse("zone", self.zone, _is_zone(self.zone), "a time zone, as in Europe/Berlin")
        for column, kind in self.types.items():
            _refuse(f"types[{column!r}]", kind, kind in CSV_TYPES, f"one of {', '.join(CSV_TYPES)}")
        for name, written, of in (("key_type", self.key_type, self.key), ("value_type", self.value_type, self.value)):
            _refuse(name, written, written in (None, *SERDE_TYPES), f"one of {', '.join(SERDE_TYPES)}")
            _refuse(name, written, written is None or isinstance(of, str), f"nothing, or one column as {name[:-5]}")
        known_envelope = self.envelope is None or self.envelope in ENVELOPES
        _refuse("envelope", self.envelope, known_envelope, f"one of {', '.join(ENVELOPES)}")
        _refuse("null_lines", self.null_lines, self.null_lines in NULL_LINES, f"one of {', '.join(NULL_LINES)}")

    def _refuse_what_the_format_has_not(self, format: FileFormat) -> None:
        if not format.has_json_lines:
            _refuse("envelope", self.envelope, self.envelope is None, "nothing: it is for JSON lines")
            _refuse("null_lines", self.null_lines, self.null_lines == BAD, f"{BAD}: it is for JSON lines")
        if not format.has_text_cells:
            _refuse("columns", self.columns, self.columns is None, "nothing: they are for CSV")
            _refuse("types", self.types, not self.types, "nothing: they are for CSV")
            _refuse("encoding", self.encoding, self.encoding == UTF_8, f"{UTF_8}: others are for CSV")
            _refuse("decimal_comma", self.decimal_comma, not self.decimal_comma, "none: it is for CSV")
        if not format.has_header:
            _refuse("columns", self.columns, bool(self.columns), "the names of the columns of a line")

    @property
    def is_ordered(self) -> bool:
        """Whether columns, and not the names of the files, give rows their order."""
        return self.offset is not None or self.order_by is not None

    @property
    def known_offsets(self) -> str | None:
        """KAFKA_OFFSETS: a column has them; PATH_OFFSETS: paths say one of a file, and the others are counted; None:
        they are not known.
        """
        if self.offset is None:
            return None
        return PATH_OFFSETS if self.offset in _pattern_columns(self.path_pattern).values() else KAFKA_OFFSETS

    @property
    def reports_changes(self) -> bool:
        """Whether other bytes at an offset that has landed are what somebody did on purpose, and no mistake."""
        return False

    def named_columns(self, file: str | None = None) -> list[str]:
        """Columns that the mapping names, each once; of ``file`` those that are not in its path. None of them is
        beside it.
        """
        key, value = ((of,) if isinstance(of, str) else of or () for of in (self.key, self.value))
        coordinates = self.partition, self.offset, self.headers, self.timestamp_type, self.topic_column
        named = [self.timestamp, *key, *coordinates, *(self.order_by or ()), *value, *self.types]
        elsewhere = {KEYS_BESIDE, HEADERS_BESIDE, *(() if file is None else self.pattern_columns(file))}
        return list(dict.fromkeys(name for name in named if name is not None and name not in elsewhere))

    def pattern_columns(self, file: str) -> dict[str, str | None]:
        """Groups of ``path_pattern`` in the path ``file`` below the directory. Raises LandingError where it does not
        match.
        """
        if self.path_pattern is None:
            return {}
        groups = self._groups_of(file)
        if groups is None:
            next_step = "correct the pattern (--path-pattern), or leave the file out (--pattern)"
            raise LandingError(f"{self.path}/{file}", f"a path that matches {self.path_pattern!r}", file, next_step)
        return groups

    def topic_of_path(self, file: str) -> str | None:
        """Of which topic all rows of ``file`` are, by the group ``topic_column`` of its path, or ``topic`` where none
        is named; None: the path does not say.
        """
        return (self._groups_of(file) or {}).get(self.topic_column or "topic")

    def _groups_of(self, file: str) -> dict[str, str | None] | None:
        if self.path_pattern is None:
            return None
        match = re.search(PATH_PATTERNS.get(self.path_pattern, self.path_pattern), file)
        return None if match is None else match.groupdict()

    def json_types_of(self, part: str) -> Mapping[str, str]:
        """Column to the type of Serde.json, of the columns of the ``part``, ``key`` or ``value``."""
        return self.json_types if part == "value" or self.key_json_types is None else self.key_json_types

    def uri_of(self, file: str) -> str:
        """Where it is, of its name below the directory. Links that a user has in it are the user's; a name comes from
        the ledger too. LandingError for one that leads elsewhere.
        """
        if (why := why_outside(file)) is not None:
            raise LandingError(
                f"directory {self.path}", "names of files that stay below it", f"{file!r}, {why}",
                "find out who wrote that name into the ledger of the topic's landing",
            )  # fmt: skip
        return joined(self.path, file)

    def folders_of(self, file: str) -> dict[str, str | None]:
        """Columns of folders ``name=value`` in its name, with their text."""
        return folder_columns(file)

    def for_files(self, names: Iterable[str]) -> "FileSource":
        """What a task takes along that reads these files."""
        return self

    def offset_of_path(self, file: str) -> str | None:
        """The group of the path from which rows of ``file`` have their offsets; None: of the path none have."""
        return self.offset if self.offset is not None and self.offset in self.pattern_columns(file) else None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, without the path, which may move."""
        return {
            "format": self.format,
            "timestamp": self.timestamp,
            "key": list(self.key) if isinstance(self.key, tuple) else self.key,
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
            "offset": self.offset,
            "order_by": None if self.order_by is None else list(self.order_by),
            "headers": self.headers,
            "timestamp_type": self.timestamp_type,
            "topic_column": self.topic_column,
            "topic": self.topic,
            "path_pattern": self.path_pattern,
            "envelope": self.envelope,
            "null_lines": self.null_lines,
            "encoding": self.encoding,
            "decimal_comma": self.decimal_comma,
            "zone": self.zone,
            "json_types": dict(self.json_types),
            "key_json_types": None if self.key_json_types is None else dict(self.key_json_types),
            "beside": list(self.beside),
        }

    def with_format_of(self, names: Iterable[str]) -> "FileSource":
        """Itself with the format that the extensions of the files ``names`` say, where none is declared.

        Raises LandingError for an extension that says nothing, or for files of two formats.
        """
        if self.format is not None:
            return self
        formats: dict[str, str] = {}
        for name in names:
            extension = plain_name(name).rpartition("/")[2].rpartition(".")[2].lower()
            if extension not in EXTENSIONS:
                compressed = ", ".join(f".{each}" for each in COMPRESSED)
                expected = f"an extension that gives the format ({', '.join(EXTENSIONS)}; also with {compressed})"
                next_step = "declare the format (--format), or leave the file out (--pattern)"
                raise LandingError(f"{self.path}/{name}", expected, repr(extension), next_step)
            formats.setdefault(EXTENSIONS[extension].name, name)
        if len(formats) > 1:
            got = ", ".join(f"{name} ({kind})" for kind, name in formats.items())
            raise LandingError(self.path, "files of one format", got, "choose some of them (--pattern)")
        return replace(self, format=next(iter(formats))) if formats else self

    @classmethod
    def from_dict(cls, path: str, fields: Mapping[str, Any]) -> Self:
        """The reverse of ``to_dict``, which gave ``fields``; ``path``: where the files are now."""
        return cls(path=path, **fields)


def csv_types(text: str) -> dict[str, str]:
    """Column to type, of text like that of ``Serde.json``; lists and structs are JSON in their cells. ConfigError for
    other text, and for a type without a column.
    """
    types = {field.name: type_text(field.type) for field in parse_fields(text, "FileSource types")}
    return {name: kind if kind in CSV_TYPES else "json" for name, kind in types.items()}


@cache
def _pattern_columns(pattern: str | None) -> dict[str, str]:
    """Field to the group of a path pattern that is its column. Raises ConfigError for no regular expression."""
    if pattern is None:
        return {}
    try:
        groups = re.compile(PATH_PATTERNS.get(pattern, pattern)).groupindex
    except re.error as error:
        _refuse("path_pattern", pattern, False, f"{', '.join(PATH_PATTERNS)} or a regular expression ({error})")
        raise
    _refuse("path_pattern", pattern, bool(groups), "at least one named group, as in (?P<partition>[0-9]+)")
    return {field: group for group, field in _FROM_PATTERN.items() if group in groups}


def folder_columns(file: str) -> dict[str, str | None]:
    """Columns of folders ``name=value`` in a path, with their text. Hive and Spark write both encoded."""
    pairs = [folder.partition("=") for folder in file.split("/")[:-1]]
    named = [(unquote(name), value) for name, is_one, value in pairs if name and is_one]
    return {name: None if value == _NO_VALUE else unquote(value) for name, value in named}


def _encoding(name: str) -> str:
    """Python's name of it. ConfigError for one that is none, or in which ASCII is not itself."""
    try:
        is_plain = '\n,"'.encode(name) == b'\n,"'
    except LookupError:
        is_plain = False
    _refuse("encoding", name, is_plain, "an encoding in which ASCII is itself, as in latin-1 or cp1252")
    return codecs.lookup(name).name


def _is_zone(name: str | None) -> bool:
    try:
        return name is None or bool(ZoneInfo(name))
    except (ValueError, OSError, LookupError):
        return False


def _refuse(name: str, got: object, is_right: bool, expected: str) -> None:
    if not is_right:
        flag = {"topic": "source-topic"}.get(name, name.partition("[")[0].replace("_", "-"))
        next_step = f"correct it in the declaration of the source, or --{flag} of `replay land`"
        raise ConfigError(f"FileSource {name}", expected, repr(got), next_step)
