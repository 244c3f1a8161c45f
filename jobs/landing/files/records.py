"""Records of a slice of a file, in the order in which they are there.

Owns what a row becomes. Rule: every row becomes exactly one record or is one of the ``SliceReading``'s bad rows, which
are kept, or raise LandingError with file and line (JSON lines, CSV) or row (Parquet), both from 1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ....state.records.murmur2 import murmur2_partitions
from ....state.times import LATEST_MS
from ..bad_rows import BadRow
from ..file_source import FileSource
from . import streams
from .blocks import Block
from .columns import (
    BadValue,
    BadValuesError,
    bytes_of,
    encoded,
    json_objects,
    listed,
    partition_numbers,
    time_text,
    times_ms,
    typed,
)
from .formats import blocks
from .reading import SliceReading
from .streams import FileSlice, parquet_file


@dataclass(frozen=True, slots=True)
class FileRecords:
    """Some consecutive records: key and value ``pa.binary``, time int64 ms, partition int32."""

    key: pa.Array
    value: pa.Array
    time_ms: np.ndarray
    partition: np.ndarray


def slices_of(source: FileSource, name: str, size: int, mtime_ns: int | None) -> list[FileSlice]:
    """Cut one file into slices of about ``SLICE_BYTES``, in order. Raises LandingError for Parquet that is none."""
    if source.format == "csv" or name.endswith(".gz") or size <= streams.SLICE_BYTES:
        return [FileSlice(name, 0, None, size, size, mtime_ns)]
    if source.format == "jsonl":
        starts = range(0, size, streams.SLICE_BYTES)
        cuts = [(s, min(s + streams.SLICE_BYTES, size)) for s in starts]
        return [FileSlice(name, s, e, streams.SLICE_BYTES, size, mtime_ns, s, e) for s, e in cuts]
    with parquet_file(source, name) as file:
        groups = file.metadata.num_row_groups
    step = max(1, groups * streams.SLICE_BYTES // size)
    starts = range(0, groups, step)
    parts = -(-size // streams.SLICE_BYTES)
    shares = [
        min(size, parts * number // max(1, len(starts)) * streams.SLICE_BYTES) for number in range(len(starts) + 1)
    ]
    return [
        FileSlice(
            name, s, min(s + step, groups), size * step // groups, size, mtime_ns, shares[number], shares[number + 1]
        )
        for number, s in enumerate(starts)
    ]


def read_slice(reading: SliceReading) -> Iterator[FileRecords]:
    """Records of the slice, block by block, in order."""
    for block in blocks(reading):
        while block.places:
            try:
                records = _records(reading, block)
            except BadValuesError as bad:
                lines = block.lines
                reading.refuse(
                    [
                        BadRow(block.places[v.row], v.expected, v.got, None if lines is None else lines[v.row])
                        for v in bad.values
                    ]
                )
                block = block.without({value.row for value in bad.values})
            else:
                yield records
                break


def _records(reading: SliceReading, block: Block) -> FileRecords:
    source, rows = reading.source, len(block.places)
    key = pa.nulls(rows, pa.binary()) if source.key is None else _as_bytes(block.columns[source.key], source.key_type)
    time_ms = times_ms(block.columns[source.timestamp], source.timestamp_unit)
    latest_ms = reading.rules.latest_ms
    _refuse_later(time_ms, LATEST_MS if latest_ms is None else min(latest_ms, LATEST_MS))
    if source.partition is not None:
        partition = partition_numbers(listed(block.columns[source.partition]), source.partitions)
    elif source.partitions == 1:
        partition = np.zeros(rows, np.int32)  # without Numba, which takes longer to load than a first landing
    else:
        partition = murmur2_partitions(key, source.partitions)
    return FileRecords(key, _value(source, block), time_ms, partition)


def _refuse_later(time_ms: np.ndarray, latest_ms: int) -> None:
    if len(later := np.flatnonzero(time_ms > latest_ms)):
        expected = f"a time up to {time_text(latest_ms)}"
        raise BadValuesError([BadValue(row, expected, time_text(int(time_ms[row]))) for row in later.tolist()])


def _value(source: FileSource, block: Block) -> pa.Array:
    if source.value is None and block.lines is not None:
        return pa.array(block.lines, pa.binary())
    if isinstance(source.value, str):
        return _as_bytes(block.columns[source.value], source.value_type)
    names = list(block.columns) if source.value is None else list(source.value)
    columns = [listed(block.columns[name]) for name in names]
    return json_objects(names, [typed(c, source.types.get(n, "string")) for n, c in zip(names, columns, strict=True)])


def _as_bytes(values: Sequence[Any] | pa.Array, kind: str | None) -> pa.Array:
    if kind is not None:
        return encoded(listed(values), kind)
    if isinstance(values, pa.Array):
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type) or pa.types.is_large_string(values.type):
            return values.cast(pa.binary())
    return bytes_of(listed(values))
