"""Rows of a file of somebody else's table, as those of a landed topic: nothing is copied.

Owns which columns of the file are Kafka's, which of its rows are the topic's, and the way from one to the other. Rule:
what is registered is read as it was registered (its footer has the same digest), or it is refused. Here is no row that
does not fit: a landing by copy keeps those as dead letters, so the error names it as the next step.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import LandingError
from ..times import LATEST_MS
from .shared_groups import batches_of
from .warehouse import HEADERS, LANDED_SCHEMA

ROWS_SCHEMA = pa.schema([column for column in LANDED_SCHEMA if column.name != "partition"])
"""Columns of the rows, as files of a landed table have them."""
TYPES_OF_TIMESTAMPS = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
"""Kafka's number to its word."""
WORDS_OF_TIMESTAMP_TYPES = {
    **{word.lower(): word for word in TYPES_OF_TIMESTAMPS.values()},
    **{str(code): word for code, word in TYPES_OF_TIMESTAMPS.items()},
    "create": "CreateTime",  # kcat
    "logappend": "LogAppendTime",
    "unknown": "NoTimestampType",
}
"""Text in which tools write a timestamp type, in small letters, to Kafka's word."""
BY_COPY = "land the topic by copy (without --in-place), where such rows become dead letters"

_PER_MS = {"ns": 1_000_000, "us": 1_000, "ms": 1}
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class InPlace:
    """How a file is read. ``columns``: of a landed row to a column of the file (a.b: field b of a), `topic` beside
    them; one that is left out is null, and without `partition` or `topic` all rows are of one. ``rows`` of the file,
    with those that are not the topic's; ``deleted``: ranges `[from, to)` of their numbers from 0 that its table's log
    says are none. ``footer``: its digest. ``first_offset``: rows below it are not taken. ``unit``: of times that are
    integers. ``headers``: fields of a header's name and value. ``increment`` of the landing that registered it; the
    ledger has it, and not what is registered.
    """

    columns: Mapping[str, str]
    rows: int
    footer: str
    topic: str | None = None
    unit: str = "ms"
    headers: tuple[str, str] = ("key", "value")
    first_offset: int = 0
    deleted: tuple[tuple[int, int], ...] = ()
    increment: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        deleted = [list(pair) for pair in self.deleted]
        return {**fields, "columns": dict(self.columns), "headers": list(self.headers), "deleted": deleted}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """The reverse of ``to_dict``."""
        deleted = tuple((begin, end) for begin, end in fields["deleted"])
        return cls(**{**fields, "headers": tuple(fields["headers"]), "deleted": deleted})


def footer_digest(footer: bytes) -> str:
    """Of the bytes of a Parquet file's footer."""
    return hashlib.blake2b(footer, digest_size=8).hexdigest()


class InPlaceRows:
    """Rows of ``partition`` in an opened file, in the order in which they lie there. ``place``: named in errors.
    ``dictionary_keys``: keys that are read as a dictionary array stay one.
    """

    schema_arrow = ROWS_SCHEMA

    def __init__(
        self, parquet: pq.ParquetFile, how: InPlace, partition: int, place: str, *, dictionary_keys: bool = False
    ) -> None:
        self.parquet, self.how, self.partition, self.place = parquet, how, partition, place
        self.dictionary_keys = dictionary_keys

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, with ``columns`` (None: all)."""
        names = ROWS_SCHEMA.names if columns is None else [name for name in columns if name in ROWS_SCHEMA.names]
        schema = pa.schema([ROWS_SCHEMA.field(name) for name in names])
        return pa.Table.from_batches(list(self.iter_batches(columns=names)), schema)

    def iter_batches(
        self,
        batch_size: int = _BATCH_ROWS,
        *,
        row_groups: Sequence[int] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Rows of ``row_groups`` (None: all) in batches of at most ``batch_size``, with ``columns`` (None: all)."""
        names = ROWS_SCHEMA.names if columns is None else list(columns)
        metadata = self.parquet.metadata
        sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        first = np.concatenate([[0], np.cumsum(sizes)])
        for number in range(len(sizes)) if row_groups is None else row_groups:
            row, deciding = int(first[number]), self._deciding(number)
            asked = [*names, *deciding]
            paths = list(dict.fromkeys(self.how.columns[name] for name in asked if name in self.how.columns))
            for batch in self._decoded(number, batch_size, paths):
                rows = self._rows(batch, row, names, deciding)
                # Deletion vectors number the rows of the file, so rows count before any is left out.
                row += batch.num_rows
                if rows.num_rows:
                    yield rows

    def _decoded(self, number: int, batch_size: int, paths: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows of a row group as they lie there, decoded once for all tasks of this process."""
        decode = partial(self.parquet.iter_batches, batch_size, row_groups=[number], columns=paths)
        path = self.how.columns.get("partition")
        bounds = None if path is None else bounds_of(self.parquet.metadata.row_group(number), path)
        if bounds is None or bounds[0] == bounds[1]:  # no other task reads it
            return decode()
        named = (self.place, self.how.footer, number, batch_size, tuple(paths), self.parquet.schema_arrow)
        return batches_of(named, decode)

    def has(self, name: str) -> bool:
        """Whether rows have a column of landed rows. Headers are none where no row has any, since a column of nothing
        takes half as long to make as keys do to read.
        """
        return name in ROWS_SCHEMA.names and (name != "headers" or name in self.how.columns)

    def offset_bounds(self, row_group: int) -> tuple[int, int] | None:
        """The least and the largest offset in a row group, of all partitions; None: its statistics do not say."""
        return bounds_of(self.parquet.metadata.row_group(row_group), self.how.columns["offset"])

    def _deciding(self, number: int) -> list[str]:
        """Columns by which rows of a row group are the topic's, where its statistics do not say that all are."""
        wanted = {"topic": self.how.topic, "partition": self.partition}
        group = self.parquet.metadata.row_group(number)
        names = [
            name
            for name, value in wanted.items()
            if name in self.how.columns and not _is_always(group, self.how.columns[name], value)
        ]
        return [*names, "offset"] if self.how.first_offset else names

    def _rows(self, batch: pa.RecordBatch, row: int, names: Sequence[str], deciding: Sequence[str]) -> pa.RecordBatch:
        """``row``: the number of the first in the file."""
        columns = {
            name: _plain(self._column(batch, name))
            for name in dict.fromkeys([*names, *deciding])
            if name in self.how.columns
        }
        mask = np.ones(batch.num_rows, np.bool_)
        for begin, end in self.how.deleted:
            mask[max(0, begin - row) : max(0, end - row)] = False
        if "topic" in deciding:
            topics = columns["topic"]
            mask &= _true(pc.equal(topics, pa.scalar(self.how.topic, pa.string()).cast(topics.type)))
        if "partition" in deciding:
            partitions = columns["partition"]
            # A row that is deleted, or of another topic, may lack a partition.
            if partitions.null_count and (_true(pc.is_null(partitions)) & mask).any():
                self._refuse("a partition in every row", "null")
            mask &= _true(pc.equal(partitions, self.partition))
        if "offset" in deciding:
            mask &= _true(pc.greater_equal(columns["offset"], self.how.first_offset))
        rows = batch.num_rows
        if not mask.all():
            rows, kept = int(mask.sum()), pa.array(mask)
            columns = {name: values.filter(kept) for name, values in columns.items()}
        return pa.record_batch([self._landed(columns, rows, name) for name in names], names=list(names))

    def _landed(self, columns: Mapping[str, pa.Array], rows: int, name: str) -> pa.Array:
        """The column ``name`` of landed rows."""
        if name == "increment":
            return pa.repeat(pa.scalar(self.how.increment, pa.int64()), rows)
        if name not in columns:
            if name == "headers":
                return no_headers(rows)
            if name == "timestamp_type":
                return pa.repeat("CreateTime", rows)
            return pa.nulls(rows, ROWS_SCHEMA.field(name).type)
        values = columns[name]
        if name == "offset":
            offsets = self._known(values, "an offset").cast(pa.int64())
            if len(offsets) and pc.min(offsets).as_py() < 0:
                self._refuse("offsets of 0 or more", str(pc.min(offsets)))
            return offsets
        if name == "timestamp":
            return pa.array(self._times_ms(self._known(values, "a time")))
        if name == "timestamp_type":
            return self._types(values)
        if name == "headers":
            return self._headers(values)
        # Also unasked, a column that its writer had as a dictionary (a categorical) is read as one.
        if name == "key" and self.dictionary_keys and pa.types.is_dictionary(values.type):
            return values.cast(pa.dictionary(values.type.index_type, pa.binary()))
        return values.cast(pa.binary())

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        path = self.how.columns[name]
        if path in batch.schema.names:
            return batch.column(path)
        root, *fields = path.split(".")
        return pc.struct_field(batch.column(root), fields)

    def _known(self, values: pa.Array, what: str) -> pa.Array:
        if values.null_count:
            self._refuse(f"{what} in every row of the topic", f"{values.null_count:,} rows without")
        return values

    def _times_ms(self, values: pa.Array) -> np.ndarray:
        kind = values.type
        if pa.types.is_timestamp(kind) and kind.unit == "s":
            times = np.asarray(values.view(pa.int64())) * 1_000
        else:
            unit = kind.unit if pa.types.is_timestamp(kind) else self.how.unit
            numbers = values.view(pa.int64()) if pa.types.is_timestamp(kind) else values.cast(pa.int64())
            times = np.asarray(numbers) // _PER_MS[unit] if unit != "ms" else np.asarray(numbers)
        if len(times) and times.max() > LATEST_MS:
            self._refuse(f"times up to {LATEST_MS} ms", str(times.max()))
        return times

    def _types(self, values: pa.Array) -> pa.Array:
        if not pa.types.is_integer(values.type):
            written = pc.fill_null(values.cast(pa.string()), "CreateTime").dictionary_encode()
            known = [WORDS_OF_TIMESTAMP_TYPES.get(text.lower(), "") for text in written.dictionary.to_pylist()]
            if "" in known:
                got = repr(written.dictionary[known.index("")].as_py())
                self._refuse(f"a timestamp type ({', '.join(TYPES_OF_TIMESTAMPS.values())})", got)
            return pa.array(known, pa.string()).take(written.indices)
        codes = np.asarray(values.fill_null(0))
        words = types_of(codes)
        if words is None:
            self._refuse("timestamp types -1, 0 or 1", f"{codes.min()} to {codes.max()}")
        return words

    def _headers(self, values: pa.Array) -> pa.Array:
        pairs = values.flatten()
        names, contents = (_plain(pc.struct_field(pairs, name)) for name in self.how.headers)
        if pairs.null_count or names.null_count:
            self._refuse("headers that have names", "null")
        kind = HEADERS.value_type
        fields = [names.cast(kind.field("key").type), contents.cast(kind.field("value").type)]
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
        ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        return pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays(fields, fields=list(kind)))

    def _refuse(self, expected: str, got: str) -> NoReturn:
        raise LandingError(self.place, expected, got, BY_COPY)


def bounds_of(group: pq.RowGroupMetaData, path: str) -> tuple[Any, Any] | None:
    """The least and the largest value of a column of a row group; None: its statistics do not say."""
    leaf = leaf_of(group, path)
    known = None if leaf is None else leaf.statistics
    return None if known is None or not known.has_min_max else (known.min, known.max)


def _is_always(group: pq.RowGroupMetaData, path: str, value: Any) -> bool:
    """Whether statistics of a row group say that a column has ``value`` in every row: nothing is below it or above it,
    also where long texts were cut, and none is null.
    """
    leaf, bounds = leaf_of(group, path), bounds_of(group, path)
    if leaf is None or bounds is None or not leaf.statistics.has_null_count or leaf.statistics.null_count:
        return False
    least, most, wanted = (each.encode() if isinstance(each, str) else each for each in (*bounds, value))
    return bool(least == most == wanted)


def leaf_of(group: pq.RowGroupMetaData, path: str) -> pq.ColumnChunkMetaData | None:
    """The column of a row group at ``path``; None: there is none."""
    return next((leaf for leaf in map(group.column, range(group.num_columns)) if leaf.path_in_schema == path), None)


def _plain(values: pa.Array) -> pa.Array:
    """With types that can be filtered, which views cannot be, at any depth. A dictionary stays."""
    kind = _plain_kind(values.type)
    return values if kind == values.type else values.cast(kind)


def _plain_kind(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_plain_kind(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain_kind(field.type)) for field in kind])
    if pa.types.is_binary_view(kind):
        return pa.binary()
    return pa.string() if pa.types.is_string_view(kind) else kind


def _true(mask: pa.BooleanArray) -> np.ndarray:
    """Null is no."""
    return np.asarray(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))


def no_headers(rows: int) -> pa.Array:
    """So many records without headers."""
    return pa.ListArray.from_arrays(pa.array(np.zeros(rows + 1, np.int32)), pa.array([], HEADERS.value_type))


def types_of(codes: np.ndarray) -> pa.Array | None:
    """Words of Kafka's numbers of timestamp types; None: one of ``codes`` is none."""
    least, most = (int(codes.min()), int(codes.max())) if len(codes) else (0, 0)
    if least < min(TYPES_OF_TIMESTAMPS) or most > max(TYPES_OF_TIMESTAMPS):
        return None
    if least == most:
        return pa.repeat(TYPES_OF_TIMESTAMPS[least], len(codes))
    words = pa.array([TYPES_OF_TIMESTAMPS[code] for code in sorted(TYPES_OF_TIMESTAMPS)])
    return words.take(pa.array(codes.astype(np.int64) - min(TYPES_OF_TIMESTAMPS)))
