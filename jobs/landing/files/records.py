"""Records of a slice of a file, in the order in which they are there.

Owns what a row becomes. Rule: every row becomes exactly one record or is one of the ``SliceReading``'s bad rows, which
are kept, or raise LandingError with file and line (JSON lines, CSV) or row (Parquet), both from 1.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.errors import LandingError
from ....state.records.murmur2 import murmur2_partitions
from ....state.times import LATEST_MS
from ..bad_rows import BadRow
from ..file_source import LAST_OFFSET, TYPE_BEFORE_TIME, FileSource
from . import streams
from .beside import with_rows_beside
from .blocks import Block
from .columns import (
    LATEST_OFFSET,
    BadValue,
    BadValuesError,
    PlainTexts,
    bytes_of,
    count_zoned,
    encoded,
    equal_to,
    is_naive,
    is_text_or_bytes,
    json_objects,
    listed,
    of_column,
    partition_numbers,
    refuse_other_encodings,
    simple_json,
    time_text,
    times_ms,
    typed,
    whole_numbers,
)
from .coordinates import headers_of, timestamp_types
from .formats import reader_of
from .order_keys import order_keys
from .reading import SliceReading
from .serde_texts import can_be, serde_texts
from .streams import FileSlice, FoundFile
from .text_cells import numbers_with_commas, with_points


@dataclass(frozen=True, slots=True)
class FileRecords:
    """Some consecutive records: key and value ``pa.binary``, time int64 ms, partition int32. ``headers`` and
    ``timestamp_type``: None where no column has them. ``order``: by what they are sorted: offsets as int64, or keys of
    order_keys.py; None: by nothing.
    """

    key: pa.Array
    value: pa.Array
    time_ms: np.ndarray
    partition: np.ndarray
    headers: pa.Array | None = None
    timestamp_type: pa.Array | None = None
    order: pa.Array | None = None

    def filter(self, mask: np.ndarray) -> "FileRecords":
        """Those whose ``mask`` is true; itself where all are."""
        if mask.all():
            return self
        chosen = pa.array(mask)
        key, value, headers, kinds, order = (
            None if column is None else column.filter(chosen)
            for column in (self.key, self.value, self.headers, self.timestamp_type, self.order)
        )
        return FileRecords(key, value, self.time_ms[mask], self.partition[mask], headers, kinds, order)

    @property
    def nbytes(self) -> int:
        """In memory, about."""
        headers = 0 if self.headers is None else self.headers.nbytes
        return int(self.key.nbytes + self.value.nbytes + headers + 12 * len(self.partition))


def slices_of(source: FileSource, file: FoundFile) -> list[FileSlice]:
    """Cut one file into slices of about ``SLICE_BYTES``, in order. Raises LandingError for Parquet that is none."""
    whole = FileSlice(file.name, 0, None, file.bytes, file.bytes, file.mtime_ns, beside=file.beside)
    # Rows that are numbered from the file's first, or matched by
    # number with rows beside them, cannot begin in its middle.
    is_counted = source.offset_of_path(file.name) is not None or bool(file.beside)
    is_whole = is_counted or file.bytes <= streams.SLICE_BYTES
    return [whole] if is_whole else reader_of(source).slices(source, whole)


def read_slice(reading: SliceReading) -> Iterator[FileRecords]:
    """Records of the slice, block by block, in order."""
    source, name = reading.source, reading.piece.name
    path = _PathColumns(source.pattern_columns(name), source.folders_of(name))
    counted = source.offset_of_path(name)
    if counted is not None:
        yield from _with_offsets_of_path(reading, _read(reading, path), counted, path.pattern[counted])
    else:
        yield from _read(reading, path)
    reading.seen.update(path.pattern, path.folders)


@dataclass(frozen=True, slots=True)
class _PathColumns:
    """Columns that a file's path has; those of ``folders`` where the rows have none of the name."""

    pattern: Mapping[str, str | None]
    folders: Mapping[str, str | None]


def _read(reading: SliceReading, path: _PathColumns) -> Iterator[FileRecords]:
    blocks = reader_of(reading.source).blocks(reading)
    for block in with_rows_beside(reading, blocks) if reading.piece.beside else blocks:
        block = _of_topic(reading, block, path)
        while block.locations:
            try:
                records = _records(reading, block, path)
            except BadValuesError as bad:
                refused = [
                    BadRow(block.locations[v.row], v.expected, v.got_of_column, block.line(v.row)) for v in bad.values
                ]
                reading.refuse(refused)
                # The error has the bad rows of one column alone: the
                # others are tried again until every column takes them.
                block = block.without({value.row for value in bad.values})
            else:
                yield records
                break


def _of_topic(reading: SliceReading, block: Block, path: _PathColumns) -> Block:
    """The rows of the topic; the others are left out and counted."""
    source = reading.source
    if source.topic_column is None:
        return block
    mask = equal_to(_column(block, source.topic_column, path), source.topic or "")
    others = np.flatnonzero(~mask)
    reading.left_out += len(others)
    return block.without(others.tolist()) if len(others) else block


def _with_offsets_of_path(
    reading: SliceReading, read: Iterator[FileRecords], column: str, text: str | None
) -> Iterator[FileRecords]:
    """Offsets one by one from the file's first, or up to its last: of these the file is held in memory."""
    source, name = reading.source, reading.piece.name
    known = int(text) if text is not None and text.isdecimal() else None
    if known is None or known > LATEST_OFFSET:
        expected = f"an offset up to {LATEST_OFFSET} in its path, as {column}"
        raise LandingError(f"{source.path}/{name}", expected, repr(text), "correct the pattern (--path-pattern)")
    following = known
    held = list(read) if column == LAST_OFFSET else None
    if held is not None:
        rows = sum(len(records.partition) for records in held)
        following = known + 1 - rows
        if following < 0:
            expected, next_step = f"a last offset of {rows - 1:,} or more, for {rows:,} rows", "correct the file's name"
            next_step += ", or the pattern (--path-pattern): a first offset is its group offset"
            raise LandingError(f"{source.path}/{name}", expected, f"{column} {known:,}", next_step)
    for records in read if held is None else held:
        rows = len(records.partition)
        if following + rows - 1 > LATEST_OFFSET:
            expected, got = f"offsets up to {LATEST_OFFSET}", f"{column} {known} and {following - known + rows:,} rows"
            raise LandingError(f"{source.path}/{name}", expected, got, "correct the pattern (--path-pattern)")
        yield replace(records, order=pa.array(np.arange(following, following + rows, dtype=np.int64)))
        following += rows
    others = reading.left_out if reading.left_out < reading.rows else 0  # a file of another topic leaves no hole
    if reading.bad_rows or others:
        got = f"{reading.bad_rows + others:,} rows that are none"
        next_step = "correct the file, or take the offset from a column (--offset)"
        raise LandingError(f"{source.path}/{name}", "a record in each row, since rows count offsets", got, next_step)


def _records(reading: SliceReading, block: Block, path: _PathColumns) -> FileRecords:
    source, rows = reading.source, len(block.locations)
    _refuse_other_encodings(reading, block)
    key = pa.nulls(rows, pa.binary()) if source.key is None else _chosen(source, block, path, "key", source.key)
    times = _column(block, source.timestamp, path)
    with of_column(source.timestamp):
        time_ms = times_ms(times, source.timestamp_unit, source.zone)
        if block.is_typed:
            reading.kinds = reading.kinds or {n: c.type for n, c in block.columns.items() if isinstance(c, pa.Array)}
        reading.is_naive = reading.is_naive or (source.zone is None and is_naive(times, source.timestamp_unit))
        latest_ms = reading.rules.latest_ms
        _refuse_later(time_ms, LATEST_MS if latest_ms is None else min(latest_ms, LATEST_MS))
    if source.partition is not None:
        with of_column(source.partition):
            partition = partition_numbers(_column(block, source.partition, path), source.partitions)
    elif source.partitions == 1:
        partition = np.zeros(rows, np.int32)  # without Numba, which takes longer to load than a first landing
    else:
        partition = murmur2_partitions(key, source.partitions)
    records = FileRecords(
        key=key,
        value=_value(source, block, path),
        time_ms=time_ms,
        partition=partition,
        headers=_headers(source, block, path),
        timestamp_type=_timestamp_types(source, block, path),
        order=_order(source, block, path),
    )
    _count_not_finite(reading, block, path, records)
    if source.zone is None:
        naive, zoned = count_zoned(times, source.timestamp_unit)
        reading.naive, reading.zoned = reading.naive + naive, reading.zoned + zoned
    return records


def _refuse_other_encodings(reading: SliceReading, block: Block) -> None:
    """In columns that the mapping takes: other formats than Arrow's have looked at their text already."""
    for name in dict.fromkeys([*block.whole, *reading.source.named_columns(reading.piece.name)]):
        column = block.columns.get(name)
        if block.is_typed and isinstance(column, pa.Array):
            with of_column(name):
                refuse_other_encodings(column)


def _count_not_finite(reading: SliceReading, block: Block, path: _PathColumns, records: FileRecords) -> None:
    """Of keys and values of one column: nothing else becomes null. A column that is both counts once."""
    source, lost = reading.source, dict[str, int]()
    for name, written, deleted in ((source.key, records.key, None), (source.value, records.value, block.deleted)):
        if isinstance(name, str) and written.null_count:
            is_lost = np.asarray(pc.is_null(written)) & _is_there(_column(block, name, path))
            if deleted is not None:
                is_lost &= ~np.array(deleted, np.bool_)
            lost[name] = max(lost.get(name, 0), int(np.count_nonzero(is_lost)))
    reading.not_finite.update({name: count for name, count in lost.items() if count})


def _is_there(column: Sequence[Any] | pa.Array) -> np.ndarray:
    if isinstance(column, pa.Array):
        return np.asarray(pc.is_valid(column))
    return np.array([value is not None for value in column], np.bool_)


def _order(source: FileSource, block: Block, path: _PathColumns) -> pa.Array | None:
    if source.order_by is not None:
        columns = [_order_column(source, block, path, name) for name in source.order_by]
        return order_keys(columns, source.order_by, time=source.timestamp, unit=source.timestamp_unit, zone=source.zone)
    if source.offset is None or source.offset in path.pattern:
        return None
    with of_column(source.offset):
        return pa.array(whole_numbers(_column(block, source.offset, path), "an offset of 0 or more"))


def _order_column(source: FileSource, block: Block, path: _PathColumns, name: str) -> Sequence[Any] | pa.Array:
    """Its numbers with points; where the column is declared to be numbers, they have them."""
    column = _column(block, name, path)
    if not source.decimal_comma or name not in block.columns or name in numbers_with_commas(source):
        return column
    with of_column(name):
        return with_points(listed(column))


def _headers(source: FileSource, block: Block, path: _PathColumns) -> pa.Array | None:
    if source.headers is None:
        return None
    with of_column(source.headers):
        return headers_of(_column(block, source.headers, path))


def _timestamp_types(source: FileSource, block: Block, path: _PathColumns) -> pa.Array | None:
    if source.timestamp_type is None and TYPE_BEFORE_TIME not in block.columns:
        return None
    name = source.timestamp_type or TYPE_BEFORE_TIME
    with of_column(name):
        return timestamp_types(_column(block, name, path))


def _column(block: Block, name: str, path: _PathColumns) -> Sequence[Any] | pa.Array:
    """Of the rows, or of the path of their file."""
    if name in path.pattern:
        return [path.pattern[name]] * len(block.locations)
    if name in path.folders and name not in block.columns:
        return [path.folders[name]] * len(block.locations)
    return block.columns[name]


def _refuse_later(time_ms: np.ndarray, latest_ms: int) -> None:
    if len(later := np.flatnonzero(time_ms > latest_ms)):
        expected = f"a time up to {time_text(latest_ms)}"
        raise BadValuesError([BadValue(row, expected, time_text(int(time_ms[row]))) for row in later.tolist()])


def _value(source: FileSource, block: Block, path: _PathColumns) -> pa.Array:
    value = _whole_value(source, block, path)
    if block.deleted is None or not any(block.deleted):
        return value
    return pc.if_else(pa.array(block.deleted, pa.bool_()), pa.scalar(None, value.type), value)


def _whole_value(source: FileSource, block: Block, path: _PathColumns) -> pa.Array:
    if source.value is None and block.values is not None:
        return bytes_of(block.values)
    if source.value is None and block.lines is not None and not block.whole:
        return block.lines if isinstance(block.lines, pa.Array) else pa.array(block.lines, pa.binary())
    names = block.whole if source.value is None else source.value
    return _chosen(source, block, path, "value", names)


def _chosen(source: FileSource, block: Block, path: _PathColumns, part: str, names: str | Sequence[str]) -> pa.Array:
    """One column as its bytes, or some as a JSON object."""
    types = source.json_types_of(part)
    if isinstance(names, str):
        kind = source.key_type if part == "key" else source.value_type
        column = _column(block, names, path)
        if kind is None and any(path.startswith(f"{names}.") for path in types) and _is_struct(column):
            return _of_fields(source, types, names, column)
        with of_column(names):
            if kind is None and (texts := _texts(source, types.get(names), column)) is not None:
                return pc.if_else(pc.is_valid(column), texts.cast(pa.binary()), pa.scalar(None, pa.binary()))
            return _as_bytes(column, kind)
    return json_objects(names, [json_column(source, types, name, _column(block, name, path)) for name in names])


def _is_struct(column: Sequence[Any] | pa.Array) -> bool:
    return isinstance(column, pa.Array) and bool(pa.types.is_struct(column.type))


def _of_fields(source: FileSource, types: Mapping[str, str], name: str, column: pa.StructArray) -> pa.Array:
    """A column of structs as JSON objects, whose fields are written as columns are."""
    names = [field.name for field in column.type]
    fields = zip(names, column.flatten(), strict=True)
    objects = json_objects(names, [json_column(source, types, f"{name}.{field}", values) for field, values in fields])
    return pc.if_else(pc.is_valid(column), objects, pa.scalar(None, pa.binary()))


def json_column(
    source: FileSource, json_types: Mapping[str, str], name: str, column: Sequence[Any] | pa.Array
) -> Sequence[Any] | pa.StringArray | PlainTexts:
    """A column as ``json_objects`` takes it. ``json_types``: those of the part of the record that it is in."""
    kind = source.types.get(name, "string")
    with of_column(name):
        texts: pa.StringArray | PlainTexts | None = _texts(source, json_types.get(name), column)
        if texts is None and isinstance(column, pa.Array):
            texts = simple_json(column, kind)
        return typed(listed(column), kind) if texts is None else texts


def _texts(source: FileSource, json_type: str | None, column: Sequence[Any] | pa.Array) -> pa.StringArray | None:
    if json_type is None or not isinstance(column, pa.Array) or not can_be(column.type, json_type):
        return None
    return serde_texts(column, json_type, source.zone)


def _as_bytes(values: Sequence[Any] | pa.Array, kind: str | None) -> pa.Array:
    if kind is not None:
        return encoded(listed(values), kind)
    if isinstance(values, pa.Array):
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if is_text_or_bytes(values.type):
            return values.cast(pa.binary())
        if pa.types.is_integer(values.type):
            return values.cast(pa.string()).cast(pa.binary())
    return bytes_of(listed(values))
