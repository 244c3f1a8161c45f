"""Files of a table that a topic reads where they lie: which of their rows are its own, and where Kafka's columns are.

Owns what is registered of a file. Rule: of a file whose footer says that all its rows are of one partition (and of one
topic) nothing but the footer is read. Of the others the columns that say it are read, and their times. What does not
fit a landed row, by its type or by these columns, is refused at once, and each offset is there once.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ....state.errors import LandingError
from ....state.tables.data_files import DataFile
from ....state.tables.in_place import (
    BY_COPY,
    TYPES_OF_TIMESTAMPS,
    WORDS_OF_TIMESTAMP_TYPES,
    InPlace,
    InPlaceRows,
    bounds_of,
    leaf_of,
)
from ....state.tables.kept_below import below, why_outside
from ....state.tables.object_stores import open_filesystem
from ....state.tables.offset_order import overlapping
from ....state.tables.parquet_reader import described, open_file
from ....state.tables.shared_groups import sharing_groups
from ....state.times import LATEST_MS
from ..files.columns import is_text, is_text_or_bytes
from ..files.coordinates import is_headers
from ..files.paths import kind_at, root_of
from ..ordered_plan import joined_ranges
from .chosen_columns import table_place
from .lake_rows import LakeMapping, read_columns
from .lake_table import LakeFile, LakeTable

_AT_ONCE = 16
"""Footers are read by so many threads, since each waits for the store."""


def refuse_other_types(table: LakeTable, topic: str, mapping: LakeMapping) -> None:
    """Raises LandingError where rows of the table would have to be converted to be landed ones."""
    fitting: list[tuple[str | tuple[str, ...] | None, Callable[[pa.DataType], bool]]] = [
        *((name, pa.types.is_integer) for name in (mapping.partition, mapping.offset)),
        *((name, is_text_or_bytes) for name in (mapping.key, mapping.value, mapping.topic_column)),
        (mapping.timestamp, partial(_is_time, mapping=mapping)),
        (mapping.headers, is_headers),
        (mapping.timestamp_type, _is_type),
    ]
    expected = "a column with what Kafka has, without conversion"
    for name, fits in fitting:
        if isinstance(name, tuple):
            _refuse(table, topic, expected, f"{name}: several columns ({', '.join(name)})")
        elif name is not None and not fits(kind := kind_at(mapping.columns_of.schema, name)):
            _refuse(table, topic, expected, f"{name}: {kind}")
    if mapping.value is None:
        _refuse(table, topic, "a column with the value's bytes", "whole rows as values")
    for word, given in (("key_type", mapping.key_type), ("value_type", mapping.value_type)):
        if given is not None:
            _refuse(table, topic, "keys and values as bytes", f"{word} {given}")


def _refuse(table: LakeTable, topic: str, expected: str, got: str) -> None:
    next_step = "land the topic by copy (without --in-place), or name other columns"
    raise LandingError(f"{table_place(topic, table)}, in place", expected, got, next_step)


def _has_more_rows_than_offsets(file: DataFile) -> bool:
    """Then some of its offsets come twice. Where others are missing only those who read the rows see it."""
    return file.records > (file.max_offset or 0) - (file.min_offset or 0) + 1


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
        data_files = [
            registered
            for file, (metadata, digest) in zip(given, footers, strict=True)
            for registered in self._registered(file, metadata, digest)
        ]
        data_files.sort(key=lambda file: (file.partition, file.min_offset or 0, file.path))
        for _, own in itertools.groupby(data_files, key=lambda file: file.partition):
            for together in overlapping(own, lambda file: (file.min_offset or 0, file.max_offset or 0)):
                if len(together) > 1 or _has_more_rows_than_offsets(together[0]):
                    self._refuse_twice(together)
        return data_files

    def _footer(self, file: LakeFile) -> tuple[pq.FileMetaData, str]:
        if why_outside(file.name) is not None:
            expected, got = f"files below {self.table.root}", f"{file.name}, {why_outside(file.name)}"
            raise LandingError(f"{table_place(self.topic, self.table)}, in place", expected, got, BY_COPY)
        filesystem, path = open_filesystem(below(self.table.root, file.name))
        with filesystem.open_input_file(path) as source:
            # Files of a table are never written again: one of another size is not the table's, whose own is gone.
            if source.size() != file.bytes:
                raise FileNotFoundError(path)
            return described(source)

    def _registered(self, file: LakeFile, metadata: pq.FileMetaData, digest: str) -> Iterator[DataFile]:
        if not metadata.num_rows:
            return
        stored = metadata.schema.to_arrow_schema()
        columns = self._columns(file, stored)
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
            headers=self._header_names(stored),
            rows=metadata.num_rows,
            footer=digest,
            topic=self.mapping.topic if "topic" in columns else None,
            unit=self.mapping.timestamp_unit,
            deleted=deleted_ranges(file.deleted),
        )
        offsets = _bounds(groups, columns["offset"])
        if (
            partition is None
            or offsets is None
            or "topic" in columns
            or partition < 0
            or offsets[0] < self.began.get(partition, 0)
        ):
            yield from self._by_rows(file, how)
            return
        columns.pop("partition", None)
        records = metadata.num_rows - (0 if file.deleted is None else len(file.deleted))
        if not records:
            return
        registered = self._file(file, records, partition, offsets, how)
        # `record_idle` takes the bound for the newest time, which a deleted row may have had.
        times = None if file.deleted is not None else _times(stored, groups, columns["timestamp"], how.unit)
        if times is None and file.deleted is None:
            times = _times_of_log(file.bounds.get(str(self.mapping.timestamp)))
        if times is None or times[1] > LATEST_MS or not _has_types(groups, columns.get("timestamp_type")):
            yield from self._with_times([registered])
        else:
            yield replace(registered, bounds={**registered.bounds, "timestamp": times})

    def _by_rows(self, file: LakeFile, how: InPlace) -> Iterator[DataFile]:
        """By its rows, of which partitions, offsets, times and their types are read."""
        names = [name for name in (self.mapping.partition, self.mapping.offset) if name is not None]
        parts = [
            [_numbers(columns[name], self.table, self.topic) for name in names]
            for columns in read_columns(self.mapping, file, names)
        ]
        if not parts:
            return
        partitions, offsets = (np.concatenate(each) for each in zip(*parts, strict=True))
        if len(outside := np.flatnonzero((partitions < 0) | (offsets < 0))):
            got = f"offset {offsets[outside[0]]} of partition {partitions[outside[0]]} ({len(outside):,} in all)"
            raise LandingError(self._place_of(file.name), "partitions and offsets of 0 or more", got, BY_COPY)
        registered = []
        for p in np.unique(partitions).tolist():
            own = offsets[partitions == p]
            first = self.began.get(p, 0)
            own = own[own >= first]
            if len(own):
                mine = replace(how, first_offset=first if first and int(own.min()) >= first else 0)
                registered.append(self._file(file, len(own), p, (int(own.min()), int(own.max())), mine))
        if registered:
            yield from self._with_times(registered)

    def _with_times(self, files: Sequence[DataFile]) -> list[DataFile]:
        """``files``, which are one file with rows of several partitions, with the bounds of their times. Raises
        LandingError for rows that no replay could read.
        """
        with open_file(self._root, files[0]) as opened, sharing_groups(len(files)):
            place = self._place_of(files[0].path)
            return [_with_times(file, replace(opened, file=file, place=place).rows()) for file in files]

    def _file(self, file: LakeFile, records: int, partition: int, offsets: tuple[int, int], how: InPlace) -> DataFile:
        least, most = offsets
        bounds = {"offset": offsets}
        return DataFile(file.name, file.bytes, records, partition, least, most, bounds, root=self._root, in_place=how)

    def _place_of(self, name: str) -> str:
        """The file ``name``, as errors call it."""
        return f"{table_place(self.topic, self.table)}, in place, {name}"

    @cached_property
    def _root(self) -> str:
        """Of the table, for processes that begin in another folder."""
        root = self.table.root
        return root if "://" in root else os.path.abspath(root)

    def _columns(self, file: LakeFile, stored: pa.Schema) -> dict[str, str]:
        """Where Kafka's columns are in a file."""
        mapping, table = self.mapping, self.mapping.columns_of
        fields = [stored.field(index) for index in range(len(stored.names))]
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
        paths = {}
        for name, given in wanted.items():
            if given is None or isinstance(given, tuple):
                continue
            root = root_of(given, table.schema.names)
            [column] = table.named([root])
            index = table.in_file(column, fields)
            if index >= 0:
                # Also where the log has it of all rows: then files of Iceberg have it all the same.
                parts = [] if given == root else given.split(".")[1:]
                paths[name] = table.path_in_file(column, fields[index], parts)
            elif not _is_known(name, file.constants.get(given)):
                got = f"{file.name} without it, which only the table's log has"
                self._refuse_without(
                    name, got, "land the topic by copy (without --in-place), which takes it from there"
                )
        for name in ("offset", "timestamp"):
            if name not in paths:
                self._refuse_without(name, f"{file.name} without it", BY_COPY)
        return paths

    def _refuse_without(self, name: str, got: str, next_step: str) -> NoReturn:
        raise LandingError(f"{table_place(self.topic, self.table)}, in place", f"a column {name}", got, next_step)

    def _header_names(self, stored: pa.Schema) -> tuple[str, str]:
        """What the fields of a header are called in a file."""
        named, table = self.mapping.headers, self.mapping.columns_of
        fields = [stored.field(index) for index in range(len(stored.names))]
        if named is None:
            return "key", "value"
        root = root_of(named, table.schema.names)
        [column] = table.named([root])
        for part in ["", *([] if named == root else named.split(".")[1:])]:
            if part:
                column = next(child for child in column.within if child.name == part)
            index = table.in_file(column, fields)
            if index < 0:
                return "key", "value"
            kind = fields[index].type
            inner = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind
            fields = [inner.field(number) for number in range(inner.num_fields)]
        indices = [table.in_file(child, fields) for child in column.within[0].within]
        key, value = (fields[index].name for index in indices)
        return key, value

    def _only_partition(
        self, file: LakeFile, groups: Sequence[pq.RowGroupMetaData], columns: Mapping[str, str]
    ) -> int | None:
        """The partition of all rows of a file; None: they are of several, or it is not known."""
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
        offsets = np.sort(np.concatenate([offsets for file in files for offsets in read_offsets(file)]))
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


def _is_known(name: str, constant: Any) -> bool:
    """Whether rows are read right though their file lacks a column and its table's log has ``constant`` of all."""
    if name == "timestamp_type" and constant is not None:
        return WORDS_OF_TIMESTAMP_TYPES.get(str(constant).lower()) == "CreateTime"
    return constant is None or name in ("partition", "topic")


def _bounds(groups: Sequence[pq.RowGroupMetaData], path: str) -> tuple[Any, Any] | None:
    """Of a column in all ``groups`` with rows; None: it is not known, or some row has no value."""
    bounds = []
    for group in groups:
        leaf = leaf_of(group, path)
        known = None if leaf is None else leaf.statistics
        ends = bounds_of(group, path)
        if ends is None or known is None or not known.has_null_count or known.null_count:
            return None
        bounds.append(ends)
    return (min(least for least, _ in bounds), max(most for _, most in bounds)) if bounds else None


def _with_times(file: DataFile, rows: pq.ParquetFile | InPlaceRows) -> DataFile:
    """``file``, of which all rows are read, with the bounds of their times."""
    ends = []
    for batch in rows.iter_batches(columns=["timestamp", "timestamp_type"]):
        times = np.asarray(batch.column(0))
        ends += [int(times.min()), int(times.max())]
    return replace(file, bounds={**file.bounds, "timestamp": (min(ends), max(ends))})


def _has_types(groups: Sequence[pq.RowGroupMetaData], path: str | None) -> bool:
    """Whether footers say that a column has timestamp types alone. ``path`` None: there is none, and it has."""
    if path is None:
        return True
    known = _bounds(groups, path)
    if known is None:
        return False
    least, most = (end.decode() if isinstance(end, bytes) else end for end in known)
    if isinstance(least, str):
        return least == most and least.lower() in WORDS_OF_TIMESTAMP_TYPES
    return min(TYPES_OF_TIMESTAMPS) <= int(least) and int(most) <= max(TYPES_OF_TIMESTAMPS)


def _times_of_log(known: tuple[Any, Any] | None) -> tuple[int, int] | None:
    """Bounds of times in ms as the table's log has them; None: it has none. Spark writes times of 96 bits, of which
    footers have no bounds.
    """
    if known is None or not isinstance(known[0], datetime):
        return None
    epoch = datetime.fromtimestamp(0, UTC)
    least, most = ((end.replace(tzinfo=end.tzinfo or UTC) - epoch) // timedelta(milliseconds=1) for end in known)
    return least, most


def _times(stored: pa.Schema, groups: Sequence[pq.RowGroupMetaData], path: str, unit: str) -> tuple[int, int] | None:
    """Bounds of times in ms; None: the footer does not say them exactly, or not that all rows have one."""
    kind = kind_at(stored, path)
    divisor = {"ms": 1, "us": 1_000, "ns": 1_000_000}.get(kind.unit if pa.types.is_timestamp(kind) else unit)
    leaves = [leaf_of(group, path) for group in groups]
    known = [leaf.statistics for leaf in leaves if leaf is not None and leaf.physical_type == "INT64"]
    if divisor is None or not groups or len(known) < len(groups):
        return None
    if not all(each is not None and each.has_min_max and each.has_null_count for each in known):
        return None
    if any(each.null_count for each in known):
        return None
    least, most = min(int(each.min_raw) for each in known), max(int(each.max_raw) for each in known)
    return least // divisor, most // divisor


def _numbers(values: pa.Array, table: LakeTable, topic: str) -> np.ndarray:
    if values.null_count:
        expected, got = "a partition and an offset in every row", f"{values.null_count:,} rows without"
        raise LandingError(f"{table_place(topic, table)}, in place", expected, got, BY_COPY)
    return np.asarray(values.cast(pa.int64()))


def deleted_ranges(deleted: np.ndarray | None) -> tuple[tuple[int, int], ...]:
    """Numbers of rows as ranges `[from, to)`."""
    return () if deleted is None else tuple((begin, end) for begin, end in joined_ranges(deleted))


def read_offsets(file: DataFile) -> list[np.ndarray]:
    """Offsets of the topic's rows in a registered file, piece by piece."""
    with open_file(file.root or "", file) as opened:
        return [batch.column(0).to_numpy() for batch in opened.rows().iter_batches(columns=["offset"])]
