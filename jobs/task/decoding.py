"""Bytes to records: the border where a task's input becomes typed columns.

Owns the interners of a task's sources. Rule: a key or a value that its serde refuses makes its record undecodable, with
a reason; nothing else does.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.buffers import is_valid, only_chunk
from ...state.records.batches import NO_OFFSET, Batch, Values
from ...state.records.keys import Keys
from ...state.serdes import Serde
from ...state.serdes.confluent_head import VALUE_HEADER, with_header_ids
from ...state.times import LATEST_MS, NO_TIMESTAMP_MS
from ..graph.graph import Node
from ..tape.task_input import TapeChunk, integers


class Decoder:
    """Decodes the records of one task's sources."""

    def __init__(self) -> None:
        self._shared: list[tuple[Serde, Keys]] = []

    def keys_of(self, serde: Serde) -> Keys:
        """Sources with keys of one kind share their codes, so that those of a stream and a table compare."""
        for known, keys in self._shared:
            if known == serde:
                return keys
        self._shared.append((serde, Keys(serde)))
        return self._shared[-1][1]

    @staticmethod
    def _values(source: Node, table: pa.Table) -> pa.Array:
        """Values behind the ids of their schemas, which landed records may have in a header."""
        values = only_chunk(table, "value")
        is_landed = source.landed_topic is not None and "headers" in table.column_names
        if not (is_landed and source.shape.value.codec.has_schema_id):
            return values
        return with_header_ids(values, only_chunk(table, "headers"), VALUE_HEADER)

    def decode(
        self, source: Node, table: pa.Table, rows: np.ndarray, *, judges_time: bool = True
    ) -> tuple[Batch, np.ndarray, dict[int, str]]:
        """All records of one source, which of them cannot be read, and why. ``judges_time``: one whose time is after
        LATEST_MS, which no window can hold, counts among them.
        """
        keys = self.keys_of(source.shape.key)
        codes = keys.intern_records(only_chunk(table, "key"))
        bad_codes = keys.undecodable()
        decoded = source.shape.value.decode(self._values(source, table))
        old = old_of(table, source.shape.value)
        time_ms = integers(table, "timestamp", NO_TIMESTAMP_MS)
        bad = keys.is_undecodable(codes) | decoded.bad
        reasons = {
            row: f"key: {bad_codes[int(codes[row])]}"
            if int(codes[row]) in bad_codes
            else f"value: {decoded.reasons[row]}"
            for row in np.flatnonzero(bad).tolist()
        }
        if judges_time and (too_late := time_ms > LATEST_MS).any():
            for row in np.flatnonzero(too_late & ~bad).tolist():
                reasons[row] = f"time: expected at most 2 ** 53 - 1 ms, got {time_ms[row]} ms"
            bad |= too_late
        batch = Batch(
            cause=rows.astype(np.int32),
            key=codes,
            keys=keys,
            time_ms=time_ms,
            valid=is_valid(decoded.values),
            value=Values(decoded.values),
            old=None if old is None else Values(old),
            old_valid=None if old is None else is_valid(old),
            headers=headers_of(table),
        )
        return batch, bad, reasons


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


def old_of(table: pa.Table, serde: Serde) -> pa.Array | None:
    """Decoded old values of a repartition table's changes, or None when it carries none."""
    return serde.decode(only_chunk(table, "old")).values if "old" in table.column_names else None


def contexts(
    input_: TapeChunk, topics: tuple[str, ...], offset: np.ndarray
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
            source = source.copy()
            source[rows] = _places(only_chunk(table, "context_topic"), names)
    return seen, tuple(names), source


def origins(
    input_: TapeChunk, topics: tuple[str, ...], time_ms: np.ndarray
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """The topics that a chunk's records are from, of every row its place among them, and the record's time. A row that
    an earlier part handed over names both of the record that caused it there.
    """
    names, source, times = list(topics), input_.source, time_ms
    for number, table in enumerate(input_.tables):
        if "origin_topic" in table.column_names:
            rows = input_.rows(number)
            source, times = source.copy(), times.copy()
            source[rows] = _places(only_chunk(table, "origin_topic"), names)
            times[rows] = integers(table, "origin_time_ms", NO_TIMESTAMP_MS)
    return tuple(names), source, times


def _places(column: pa.Array, names: list[str]) -> np.ndarray:
    """Of every topic of ``column`` its place in ``names``, which gets those that it lacks; -1 of a null."""
    encoded = column.dictionary_encode()
    known = encoded.dictionary.to_pylist()
    names += [name for name in known if name not in names]
    # A null, of what a punctuation forwarded, becomes index -1 below, which is the last entry: no topic.
    numbers = np.array([*map(names.index, known), -1], np.int16)
    return numbers[encoded.indices.fill_null(-1).to_numpy()]
