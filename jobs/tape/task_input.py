"""Tables at a task's borders: what it is handed and what it hands out, as Arrow columns.

Owns the column names. Rule: ``cause`` is the row of the chunk that caused a row; who keeps positions (runner, test
driver) looks them up there.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.graph.nodes import RepartitionNode, SourceNode
from jobs.kernels.murmur2 import murmur2_partitions
from state.buffers import is_valid, only_chunk
from state.records.batches import NO_OFFSET, Batch, Chunk, Values
from state.records.keys import Keys
from state.serdes import Serde
from state.tables.warehouse import DROPPED_SCHEMA, HEADERS

INPUT_COLUMNS = {"offset": pa.int64(), "timestamp": pa.int64(), "key": pa.binary(), "value": pa.binary()}
"""Columns that a task reads of a landed or repartition table. It may also have ``headers``, ``context_offset`` (the
offset that operators see, null for none; default the offset) and ``old`` (of a change: the value it replaced, bytes).
"""


@dataclass(frozen=True)
class Input:
    """A chunk of a tape. ``source`` int16: place of each row's source in the task's ``sources``; ``tables``: the rows
    of each source, in order.
    """

    source: np.ndarray
    tables: tuple[pa.Table, ...]

    def __len__(self) -> int:
        return len(self.source)

    @classmethod
    def of(cls, table: pa.Table) -> "Input":
        """The records of a task with one source."""
        return cls(np.zeros(len(table), np.int16), (table,))

    def part(self, begin: int, end: int) -> "Input":
        """Rows ``begin`` to ``end``."""
        if begin == 0 and end == len(self):
            return self
        before, here = (
            np.bincount(self.source[rows], minlength=len(self.tables)).tolist()
            for rows in (slice(0, begin), slice(begin, end))
        )
        tables = zip(self.tables, before, here, strict=True)
        return Input(self.source[begin:end], tuple(table.slice(*rows).combine_chunks() for table, *rows in tables))

    def rows(self, number: int) -> np.ndarray:
        """Rows of the chunk that are from source ``number``."""
        return self._rows[number]

    @cached_property
    def _rows(self) -> list[np.ndarray]:
        if len(self.tables) == 1:
            return [np.arange(len(self.source))]
        return [np.flatnonzero(self.source == number) for number in range(len(self.tables))]

    def spread(self, name: str, missing: int) -> np.ndarray:
        """An int64 column over all rows of the chunk; ``missing`` where a source does not have it or has null."""
        if len(self.tables) == 1 and name in self.tables[0].column_names:
            return integers(self.tables[0], name, missing)
        column = np.full(len(self.source), missing, np.int64)
        for number, table in enumerate(self.tables):
            if name in table.column_names:
                column[self.rows(number)] = integers(table, name, missing)
        return column


def integers(table: pa.Table, name: str, missing: int) -> np.ndarray:
    """A copy: a kernel compiled for Arrow's read-only memory would be another one than for our own."""
    column = only_chunk(table, name)
    filled: np.ndarray = (column.fill_null(missing) if column.null_count else column).to_numpy()
    return filled.copy()


def headers_of(table: pa.Table) -> pa.Array | None:
    """Headers of the records, null where one has none, so that it does not show what else is in the chunk; None when
    none has any.
    """
    if "headers" not in table.column_names:
        return None
    headers = only_chunk(table, "headers")
    if len(headers) == headers.null_count or len(headers.flatten()) == 0:
        return None
    has_none = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False) == 0
    return headers.take(pa.array(np.arange(len(headers)), mask=has_none)) if has_none.any() else headers


def output_table(batch: Batch, chunk: Chunk) -> pa.Table:
    """Records for a sink: cause, cause_offset, key (as ``Keys.words``), [window bounds], value, record_time_ms,
    stream_time_ms, headers.
    """
    stream_time = chunk.stream_time_ms[batch.cause] if batch.stream_time_ms is None else batch.stream_time_ms
    window = {}
    if batch.window_start_ms is not None:
        window = {"window_start_ms": batch.window_start_ms, "window_end_ms": batch.window_end_ms}
    return pa.table(
        {
            "cause": batch.cause,
            "cause_offset": chunk.offset[batch.cause],
            "key": batch.keys.words(batch.key),
            **window,
            "value": batch.value.all(),
            "record_time_ms": batch.time_ms,
            "stream_time_ms": stream_time,
            "headers": _headers(batch),
        }
    )


def repartition_table(node: RepartitionNode, batch: Batch, chunk: Chunk, partitions: int) -> pa.Table:
    """Serialized records: cause, target (partition), timestamp, key, value, headers, and ``old`` of a change."""
    key = batch.keys.take(batch.key)
    value = batch.value.all()
    if node.target_of is not None:
        target = value.flatten()[value.type.get_field_index(node.target_of)].to_numpy().astype(np.int32)
    else:
        target = murmur2_partitions(key, partitions)
        target[batch.key < 0] = chunk.partition % partitions
    columns = {
        "cause": batch.cause,
        "target": target,
        "timestamp": batch.time_ms,
        "key": key.cast(pa.binary()),
        "value": node.shape.value.encode(value),
        "headers": _headers(batch),
    }
    if node.is_ours and not node.has_own_offsets:
        topic, offset = batch.coordinates(chunk)
        names = pa.array(chunk.context_topics, pa.string())
        columns |= {"context_offset": _nullable(offset, offset), "context_topic": names.take(_nullable(topic, offset))}
    if node.carries_change:
        columns["old"] = (
            pa.nulls(len(batch), pa.binary()) if batch.old is None else node.shape.value.encode(batch.old.all())
        )
    return pa.table(columns)


def export_table(batch: Batch, chunk: Chunk) -> pa.Table:
    """Records for a later part of the same task: cause, timestamp, key, value and what else the batch has."""
    topic, offset = batch.coordinates(chunk)
    columns = {
        "cause": batch.cause,
        "timestamp": batch.time_ms,
        "key": batch.keys.take(batch.key).cast(pa.binary()),
        "value": batch.value.all(),
        "headers": _headers(batch),
        "offset": chunk.offset[batch.cause],
        "context_offset": _nullable(offset, offset),
        "context_topic": pa.array(chunk.context_topics, pa.string()).take(_nullable(topic, offset)),
    }
    if batch.old is not None:
        columns["old"] = batch.old.all()
    for name in ("latest", "window_start_ms", "window_end_ms"):
        if getattr(batch, name) is not None:
            columns[name] = getattr(batch, name)
    return pa.table(columns)


def import_batch(table: pa.Table, cause: np.ndarray, keys: Keys) -> Batch:
    """The batch that ``export_table`` wrote down; ``cause``: its rows' places on the tape."""

    def column(name: str) -> np.ndarray | None:
        return integers(table, name, -1) if name in table.column_names else None

    old = only_chunk(table, "old") if "old" in table.column_names else None
    value = only_chunk(table, "value")
    return Batch(
        cause=cause.astype(np.int32),
        key=keys.intern(only_chunk(table, "key")),
        keys=keys,
        time_ms=integers(table, "timestamp", -1),
        valid=is_valid(value),
        value=Values(value),
        old=None if old is None else Values(old),
        old_valid=None if old is None else is_valid(old),
        window_start_ms=column("window_start_ms"),
        window_end_ms=column("window_end_ms"),
        latest=only_chunk(table, "latest").to_numpy(zero_copy_only=False) if "latest" in table.column_names else None,
        headers=headers_of(table),
    )


def _nullable(numbers: np.ndarray, offset: np.ndarray) -> pa.Array:
    """``numbers``, null for records that are from no topic."""
    return pa.array(numbers, mask=offset == NO_OFFSET)


def old_of(table: pa.Table, serde: Serde) -> pa.Array | None:
    """Decoded old values of a repartition table's changes, or None when it carries none."""
    return serde.decode(only_chunk(table, "old")).values if "old" in table.column_names else None


def contexts(
    input_: Input, topics: tuple[str, ...], offset: np.ndarray
) -> tuple[np.ndarray, tuple[str, ...], np.ndarray]:
    """Of every row the offset that operators see, the topics that they see, and which of these each row is from."""
    seen, names, source = offset, list(topics), input_.source
    if any("context_offset" in table.column_names for table in input_.tables):
        seen = offset.copy()
    for number, table in enumerate(input_.tables):
        rows = input_.rows(number)
        if "context_offset" in table.column_names:
            seen[rows] = integers(table, "context_offset", NO_OFFSET)
        if "context_topic" in table.column_names:
            found = only_chunk(table, "context_topic").dictionary_encode()
            names += [name for name in found.dictionary.to_pylist() if name not in names]
            numbers = np.array([*(names.index(name) for name in found.dictionary.to_pylist()), -1], np.int16)
            source = source.copy()
            source[rows] = numbers[found.indices.fill_null(-1).to_numpy()]
    return seen, tuple(names), source


def _headers(batch: Batch) -> pa.Array:
    return pa.nulls(len(batch), HEADERS) if batch.headers is None else batch.headers


_DROPPED = pa.schema([c for c in DROPPED_SCHEMA if c.name not in ("partition", "increment", "sub_topology", "arrival")])


def dropped_table(chunk: Chunk) -> pa.Table:
    """Every refusal, as DROPPED_SCHEMA, and its cause."""
    dropped = chunk.refused & ~chunk.applied
    schema = _DROPPED.append(pa.field("cause", pa.int32()))
    pieces = [schema.empty_table()]
    topics = pa.array([*chunk.topics, *chunk.context_topics], pa.string())
    source = np.where(chunk.is_record, chunk.source, len(chunk.topics) + chunk.context_source)
    for node, cause, drops in chunk.drops:
        n = len(cause)
        numbers = (drops.limit_ms, drops.window_start_ms, drops.window_end_ms)
        stream_time = chunk.stream_time_ms[cause] if drops.stream_time_ms is None else drops.stream_time_ms
        columns = [
            pa.array([node] * n, pa.string()),
            pa.array([drops.reason] * n, pa.string()),
            topics.take(pa.array(source[cause])),
            pa.array(chunk.offset[cause]),
            pa.array(chunk.time_ms[cause]),
            pa.array(stream_time),
            *(pa.nulls(n, pa.int64()) if column is None else pa.array(column) for column in numbers),
            pa.array(drops.is_record & dropped[cause] & chunk.is_record[cause]),
            pa.array(cause.astype(np.int32)),
        ]
        pieces.append(pa.table(columns, schema=schema))
    return pa.concat_tables(pieces)


def dead_letter_table(
    records: pa.Table, cause: np.ndarray, source: SourceNode | RepartitionNode, reasons: dict[int, str]
) -> pa.Table:
    """Undecodable records of one source, by row of ``records``."""
    rows = records.take(pa.array(list(reasons), pa.int64()))
    n = len(reasons)
    return pa.table(
        {
            "node": pa.array([source.name] * n, pa.string()),
            "reason": pa.array(list(reasons.values()), pa.string()),
            "topic": pa.array([source.topic] * n, pa.string()),
            "offset": rows["offset"],
            "record_time_ms": rows["timestamp"],
            "key": rows["key"].cast(pa.binary()),
            "value": rows["value"].cast(pa.binary()),
            "cause": pa.array(cause[list(reasons)].astype(np.int32)),
        }
    )
