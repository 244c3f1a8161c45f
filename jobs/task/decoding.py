"""Bytes to records: the border where a task's input becomes typed columns.

Owns the interners of a task's sources. Rule: a key or a value that its serde refuses makes its record undecodable, with
a reason; nothing else does.
"""

import numpy as np
import pyarrow as pa

from jobs.graph.graph import Node
from jobs.tape.task_input import headers_of, integers, old_of
from state.buffers import is_valid, only_chunk
from state.records.batches import Batch, Values
from state.records.keys import Keys
from state.serdes import Serde
from state.times import NO_TIMESTAMP_MS


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

    def decode(self, source: Node, table: pa.Table, rows: np.ndarray) -> tuple[Batch, np.ndarray, dict[int, str]]:
        """All records of one source, which of them cannot be read, and why."""
        keys = self.keys_of(source.shape.key)
        codes = keys.intern(only_chunk(table, "key"))
        bad_codes = keys.undecodable()
        decoded = source.shape.value.decode(only_chunk(table, "value"))
        old = old_of(table, source.shape.value)
        bad = keys.is_undecodable(codes) | decoded.bad
        reasons = {
            row: f"key: {bad_codes[int(codes[row])]}"
            if int(codes[row]) in bad_codes
            else f"value: {decoded.reasons[row]}"
            for row in np.flatnonzero(bad).tolist()
        }
        batch = Batch(
            cause=rows.astype(np.int32),
            key=codes,
            keys=keys,
            time_ms=integers(table, "timestamp", NO_TIMESTAMP_MS),
            valid=is_valid(decoded.values),
            value=Values(decoded.values),
            old=None if old is None else Values(old),
            old_valid=None if old is None else is_valid(old),
            headers=headers_of(table),
        )
        return batch, bad, reasons
