"""Files of a table that a topic reads where they lie: which of their rows are its own, and where Kafka's columns are.

Owns what is registered of a file. Rule: of a file whose footer says that all its rows are of one partition (and of one
topic) nothing but the footer is read; of the others the columns that say it. What does not fit a landed row by its type
is refused at once, and each offset is there once.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ....state.errors import LandingError
from ....state.tables.data_files import DataFile
from ....state.tables.in_place import BY_COPY, InPlace, bounds_of, leaf_of
from ....state.tables.kept_below import below, why_outside
from ....state.tables.object_stores import open_filesystem
from ....state.tables.parquet_reader import described, open_file
from ..files.columns import is_text, is_text_or_bytes
from ..files.coordinates import is_headers
from ..files.paths import root_of
from .chosen_columns import table_place
from .lake_rows import LakeMapping, read_columns
from .lake_table import LakeFile, LakeTable

_AT_ONCE = 16
"""Footers are read by so many threads, since each waits for the store."""
_OFFSETS = ("offset",)


def refuse_other_types(table: LakeTable, topic: str, mapping: LakeMapping) -> None:
    """Raises LandingError where rows of the table would have to be converted to be landed ones."""
    kinds = _Kinds(mapping)
    numbers = [(name, kinds.of(name), pa.types.is_integer) for name in (mapping.partition, mapping.offset)]
    texts = [(name, kinds.of(name), is_text_or_bytes) for name in (mapping.key, mapping.value, mapping.topic_column)]
    others = [
        (mapping.timestamp, kinds.of(mapping.timestamp), lambda kind: _is_time(kind, mapping)),
        (mapping.headers, kinds.of(mapping.headers), is_headers),
        (
            mapping.timestamp_type,
            kinds.of(mapping.timestamp_type),
            _is_type,
        ),
    ]
    for name, kind, fits in (*numbers, *texts, *others):
        if isinstance(name, tuple) or (kind is not None and not fits(kind)):
            got = f"several columns ({', '.join(name)})" if isinstance(name, tuple) else f"{kind}"
            _refuse(table, topic, "a column with what Kafka has, without conversion", f"{name}: {got}")
    if mapping.value is None:
        _refuse(table, topic, "a column with the value's bytes", "whole rows as values")
    for word, given in (("key_type", mapping.key_type), ("value_type", mapping.value_type)):
        if given is not None:
            _refuse(table, topic, "keys and values as bytes", f"{word} {given}")


def _refuse(table: LakeTable, topic: str, expected: str, got: str) -> None:
    next_step = "land the topic by copy (without --in-place), or name other columns"
    raise LandingError(f"{table_place(topic, table)}, in place", expected, got, next_step)


class _Kinds:
    """Types of the columns of a mapping."""

    def __init__(self, mapping: LakeMapping) -> None:
        self.schema = mapping.columns_of.schema

    def of(self, name: Any) -> pa.DataType | None:
        """None: there is no such column."""
        if name is None or isinstance(name, tuple):
            return None
        root = root_of(name, self.schema.names)
        kind = self.schema.field(root).type
        for part in [] if name == root else name.split(".")[1:]:
            kind = kind.field(part).type
        return kind


def _is_type(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind)) or is_text(kind)


def _is_time(kind: pa.DataType, mapping: LakeMapping) -> bool:
    if pa.types.is_timestamp(kind):
        return kind.tz is not None or mapping.zone is None
    return pa.types.is_signed_integer(kind) and mapping.timestamp_unit in ("ms", "us", "ns")


@dataclass(frozen=True)
class Registering:
    """Registers files of ``table`` for ``topic``. ``began``: by partition the offset below which rows are not taken;
    {}: all are.
    """

    table: LakeTable
    topic: str
    mapping: LakeMapping
    began: Mapping[int, int]

    def files(self, files: Iterable[LakeFile]) -> list[DataFile]:
        """What is in ``files``, by partition and offset. Raises LandingError for rows that are none of Kafka's and for
        offsets that come twice, FileNotFoundError for a file that is gone.
        """
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            footers = list(threads.map(self._footer, given := list(files)))
        found = [
            registered
            for file, (metadata, digest) in zip(given, footers, strict=True)
            for registered in self._registered(file, metadata, digest)
        ]
        found.sort(key=lambda file: (file.partition, file.min_offset or 0, file.path))
        for together in _overlapping(found):
            self._refuse_twice(together)
        return found

    def _footer(self, file: LakeFile) -> tuple[pq.FileMetaData, str]:
        if why_outside(file.name) is not None:
            expected, got = f"files below {self.table.root}", f"{file.name}, {why_outside(file.name)}"
            raise LandingError(f"{table_place(self.topic, self.table)}, in place", expected, got, BY_COPY)
        filesystem, path = open_filesystem(below(self.table.root, file.name))
        with filesystem.open_input_file(path) as source:
            if source.size() != file.bytes:
                raise FileNotFoundError(path)
            return described(source)

    def _registered(self, file: LakeFile, metadata: pq.FileMetaData, digest: str) -> Iterator[DataFile]:
        columns = self._columns(file, metadata)
        named = self.mapping.topic_column
        if named is not None and "topic" not in columns and file.constants.get(named) != self.mapping.topic:
            return  # all rows are of another topic, or of none
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        topic = _Alone(groups, columns.get("topic"), (self.mapping.topic or "").encode())
        if topic.is_none:
            return
        if topic.is_all:
            columns.pop("topic", None)
        partition = self._only_partition(file, groups, columns)
        how = InPlace(
            columns=columns,
            headers=self._header_names(metadata),
            rows=metadata.num_rows,
            footer=digest,
            topic=self.mapping.topic if "topic" in columns else None,
            unit=self.mapping.timestamp_unit,
            deleted=deleted_ranges(file.deleted),
        )
        offsets = _bounds(groups, columns["offset"])
        if partition is None or offsets is None or "topic" in columns or offsets[0] < self.began.get(partition, 0):
            yield from self._by_rows(file, how)
            return
        if partition == -1:
            return
        if any(_has_nulls(group, columns["timestamp"]) for group in groups):
            got = f"{file.name} with rows without"
            raise LandingError(f"{table_place(self.topic, self.table)}, in place", "a time in every row", got, BY_COPY)
        columns.pop("partition", None)
        records = metadata.num_rows - (0 if file.deleted is None else len(file.deleted))
        if records:
            bounds = {"offset": offsets}
            times = None if file.deleted is not None else _times(metadata, groups, columns["timestamp"], how.unit)
            if times is not None:
                bounds["timestamp"] = times
            yield self._file(file, records, partition, bounds, how)

    def _by_rows(self, file: LakeFile, how: InPlace) -> Iterator[DataFile]:
        """By its rows, of which two columns are read."""
        names = [name for name in (self.mapping.partition, self.mapping.offset) if name is not None]
        parts = [
            [_numbers(columns[name], self.table, self.topic) for name in names]
            for columns in read_columns(self.mapping, file, names)
        ]
        if not parts:
            return
        partitions, offsets = (np.concatenate(each) for each in zip(*parts, strict=True))
        for p in np.unique(partitions).tolist():
            own = offsets[partitions == p]
            first = self.began.get(p, 0)
            own = own[own >= first]
            if len(own):
                mine = replace(how, first_offset=first if first and int(own.min()) >= first else 0)
                yield self._file(file, len(own), p, {"offset": (int(own.min()), int(own.max()))}, mine)

    def _file(
        self, file: LakeFile, records: int, partition: int, bounds: Mapping[str, tuple[int, int]], how: InPlace
    ) -> DataFile:
        least, most = bounds["offset"]
        return DataFile(file.name, file.bytes, records, partition, least, most, bounds, root=self._root, in_place=how)

    @cached_property
    def _root(self) -> str:
        """Of the table, for processes that begin in another folder."""
        root = self.table.root
        return root if "://" in root else os.path.abspath(root)

    def _columns(self, file: LakeFile, metadata: pq.FileMetaData) -> dict[str, str]:
        """Where Kafka's columns are in a file."""
        mapping, table = self.mapping, self.mapping.columns_of
        stored = metadata.schema.to_arrow_schema()
        fields = [stored.field(place) for place in range(len(stored.names))]
        wanted = {
            "partition": mapping.partition,
            "offset": mapping.offset,
            "timestamp": mapping.timestamp,
            "timestamp_type": mapping.timestamp_type,
            "key": mapping.key,
            "value": mapping.value,
            "headers": mapping.headers,
            "topic": mapping.topic_column,
        }
        found = {}
        for name, given in wanted.items():
            if given is None or isinstance(given, tuple) or given in file.constants:
                continue
            root = root_of(given, table.schema.names)
            [column] = table.named([root])
            place = table.in_file(column, fields)
            if place >= 0:
                parts = [] if given == root else given.split(".")[1:]
                found[name] = table.path_in_file(column, fields[place], parts)
        for name in ("offset", "timestamp"):
            if name not in found:
                got = f"{file.name} without it"
                raise LandingError(f"{table_place(self.topic, self.table)}, in place", f"a column {name}", got, BY_COPY)
        return found

    def _header_names(self, metadata: pq.FileMetaData) -> tuple[str, str]:
        """What the fields of a header are called in a file."""
        named, table = self.mapping.headers, self.mapping.columns_of
        stored = metadata.schema.to_arrow_schema()
        fields = [stored.field(place) for place in range(len(stored.names))]
        if named is None:
            return "key", "value"
        root = root_of(named, table.schema.names)
        [column] = table.named([root])
        for part in ["", *([] if named == root else named.split(".")[1:])]:
            if part:
                column = next(child for child in column.within if child.name == part)
            place = table.in_file(column, fields)
            if place < 0:
                return "key", "value"
            kind = fields[place].type
            inner = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind
            fields = [inner.field(number) for number in range(inner.num_fields)]
        places = [table.in_file(child, fields) for child in column.within[0].within]
        key, value = (fields[place].name for place in places)
        return key, value

    def _only_partition(
        self, file: LakeFile, groups: Sequence[pq.RowGroupMetaData], columns: Mapping[str, str]
    ) -> int | None:
        """The partition of all rows of a file; -1: it has no row. None: rows are of several, or it is not known."""
        if not sum(group.num_rows for group in groups):
            return -1
        if "partition" not in columns:
            given = file.constants.get(self.mapping.partition or "")
            if given is None:
                got = f"{file.name} without one"
                raise LandingError(f"{table_place(self.topic, self.table)}, in place", "a partition", got, BY_COPY)
            return int(given)
        known = _bounds(groups, columns["partition"])
        return known[0] if known is not None and known[0] == known[1] else None

    def _refuse_twice(self, files: Sequence[DataFile]) -> None:
        """Raises LandingError for an offset of a partition that several of ``files``, or one of them twice, have."""
        parts = []
        for file in files:
            with open_file(self.table.root, file) as opened:
                parts += [batch.column(0).to_numpy() for batch in opened.rows().iter_batches(columns=_OFFSETS)]
        offsets = np.sort(np.concatenate(parts))
        twice = offsets[1:][offsets[1:] == offsets[:-1]]
        if len(twice):
            place = f"{table_place(self.topic, self.table)}, in place, partition {files[0].partition}"
            got = f"offset {twice[0]} again ({len(twice):,} in all)"
            next_step = (
                "land the topic by copy (without --in-place), which takes each once where the bytes are the same"
            )
            raise LandingError(place, "each offset once", got, next_step)


class _Alone:
    """Whether a column of text has the value ``wanted`` in all rows (``is_all``), or in none, as footers say. ``path``
    None: there is no such column, and all rows count.
    """

    def __init__(self, groups: Sequence[pq.RowGroupMetaData], path: str | None, wanted: bytes) -> None:
        known = None if path is None else _bounds(groups, path)
        ends = None if known is None else tuple(end.encode() if isinstance(end, str) else bytes(end) for end in known)
        self.is_all = path is None or ends == (wanted, wanted)
        self.is_none = ends is not None and not ends[0] <= wanted <= ends[1]


def _bounds(groups: Sequence[pq.RowGroupMetaData], path: str) -> tuple[Any, Any] | None:
    """Of a column in all ``groups`` with rows; None: it is not known, or some row has no value."""
    found = []
    for group in groups:
        leaf = leaf_of(group, path)
        known = None if leaf is None else leaf.statistics
        ends = bounds_of(group, path)
        if ends is None or known is None or not known.has_null_count or known.null_count:
            return None
        found.append(ends)
    return (min(least for least, _ in found), max(most for _, most in found)) if found else None


def _has_nulls(group: pq.RowGroupMetaData, path: str) -> bool:
    """Whether the footer says so."""
    leaf = leaf_of(group, path)
    known = None if leaf is None else leaf.statistics
    return bool(known is not None and known.has_null_count and known.null_count)


def _times(
    metadata: pq.FileMetaData, groups: Sequence[pq.RowGroupMetaData], path: str, unit: str
) -> tuple[int, int] | None:
    """Bounds of times in ms; None: the footer does not say them exactly."""
    found = []
    for group in groups:
        leaf = leaf_of(group, path)
        known = None if leaf is None else leaf.statistics
        if known is None or not known.has_min_max or leaf is None or leaf.physical_type != "INT64":
            return None
        kind = _kind_at(metadata.schema.to_arrow_schema(), path)
        if pa.types.is_timestamp(kind):
            unit = kind.unit
        divisor = {"ms": 1, "us": 1_000, "ns": 1_000_000}.get(unit)
        if divisor is None:
            return None
        found.append((int(known.min_raw) // divisor, int(known.max_raw) // divisor))
    return (min(least for least, _ in found), max(most for _, most in found)) if found else None


def _kind_at(schema: pa.Schema, path: str) -> pa.DataType:
    root, *fields = [path] if path in schema.names else path.split(".")
    kind = schema.field(root).type
    for name in fields:
        kind = kind.field(name).type
    return kind


def _numbers(values: pa.Array, table: LakeTable, topic: str) -> np.ndarray:
    if values.null_count:
        expected, got = "a partition and an offset in every row", f"{values.null_count:,} rows without"
        raise LandingError(f"{table_place(topic, table)}, in place", expected, got, BY_COPY)
    return np.asarray(values.cast(pa.int64()))


def deleted_ranges(deleted: np.ndarray | None) -> tuple[tuple[int, int], ...]:
    """Numbers of rows, rising, as ranges `[from, to)`."""
    if deleted is None or not len(deleted):
        return ()
    breaks = np.flatnonzero(np.diff(deleted) > 1)
    first, last = np.append(0, breaks + 1), np.append(breaks, len(deleted) - 1)
    return tuple((int(deleted[a]), int(deleted[b]) + 1) for a, b in zip(first, last, strict=True))


def _overlapping(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Files of one partition whose offsets overlap, two or more together; ``files``: by partition and offset."""
    together: list[DataFile] = []
    last = -1
    for file in files:
        if together and (file.partition != together[0].partition or (file.min_offset or 0) > last):
            if len(together) > 1:
                yield together
            together, last = [], -1
        together.append(file)
        last = max(last, file.max_offset or 0)
    if len(together) > 1:
        yield together
