"""Records in flight: a batch of them as columns, and the chunk of input that caused them.

Owns the shapes that pass between operators. Rule: rows of a batch stand in the order in which Kafka Streams would
have forwarded them; ``cause`` names, for every row, the input record of the chunk that caused it.
"""

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from state.buffers import is_valid
from state.errors import BufferFull
from state.keys import Keys


class Column(Protocol):
    """Values of a batch's rows, perhaps not computed yet."""

    def take(self, rows: np.ndarray) -> pa.Array:
        """Values of ``rows`` (indices into the batch), in that order."""
        ...

    def all(self) -> pa.Array:
        """Values of every row."""
        ...


@dataclass(frozen=True, slots=True)
class Values:
    """A column that is already there."""

    array: pa.Array

    def take(self, rows: np.ndarray) -> pa.Array:
        return self.array.take(pa.array(rows))

    def all(self) -> pa.Array:
        return self.array


@dataclass(frozen=True, slots=True)
class Batch:
    """Records between two operators. All arrays have one element a record.

    ``cause`` int32: row of the chunk that caused the record, never falling.
    ``key`` int32: code in ``keys``, ``state.keys.NULL_CODE`` for null. ``time_ms`` int64: record time.
    ``valid`` bool: false for a tombstone. ``value``: the values, null where not valid.
    ``window_start_ms``/``window_end_ms`` int64 or None: of a windowed key; the end is exclusive for time windows and
    inclusive for sessions. ``old``/``old_valid``: the value that the change replaced, where an operator below asks.
    ``stream_time_ms`` int64 or None: the forwarding operator's stream time; None means that of the task.
    """

    cause: np.ndarray
    key: np.ndarray
    keys: Keys
    time_ms: np.ndarray
    valid: np.ndarray
    value: Column
    window_start_ms: np.ndarray | None = None
    window_end_ms: np.ndarray | None = None
    old: Column | None = None
    old_valid: np.ndarray | None = None
    stream_time_ms: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.cause)

    def where(self, mask: np.ndarray) -> "Batch":
        """The records for which ``mask`` is true."""
        if mask.all():
            return self
        rows = np.flatnonzero(mask)

        def pick(column: np.ndarray | None) -> np.ndarray | None:
            return None if column is None else column[rows]

        return Batch(
            cause=self.cause[rows],
            key=self.key[rows],
            keys=self.keys,
            time_ms=self.time_ms[rows],
            valid=self.valid[rows],
            value=Values(self.value.take(rows)),
            window_start_ms=pick(self.window_start_ms),
            window_end_ms=pick(self.window_end_ms),
            old=None if self.old is None else Values(self.old.take(rows)),
            old_valid=pick(self.old_valid),
            stream_time_ms=pick(self.stream_time_ms),
        )

    def with_value(self, array: pa.Array) -> "Batch":
        return replace(self, value=Values(array), valid=is_valid(array), old=None, old_valid=None)

    def with_key(self, codes: np.ndarray, keys: Keys) -> "Batch":
        return replace(self, key=codes, keys=keys, window_start_ms=None, window_end_ms=None)


@dataclass(frozen=True, slots=True)
class Drops:
    """Refused records of one node in one chunk, one element a refusal, in order.

    ``row`` int32: row of the node's input batch. ``is_record`` bool: the whole record had no effect at the node; else
    only the window ``[window_start_ms, window_end_ms]`` refused it. ``limit_ms``: the number that decided.
    """

    reason: str
    row: np.ndarray
    is_record: np.ndarray
    stream_time_ms: np.ndarray | None = None
    limit_ms: np.ndarray | None = None
    window_start_ms: np.ndarray | None = None
    window_end_ms: np.ndarray | None = None


@dataclass(slots=True)
class Chunk:
    """A slice of a task's tape: where its records are from, and what became of each.

    ``offset``/``time_ms``/``stream_time_ms`` int64: position, record time, and the task's stream time after the record
    was taken. ``tape_time_ms``: the largest time on the tape so far, undecodable records included.
    ``applied``/``refused`` bool: set by operators; a record may be both, when one branch took it and another did not.
    """

    topic: str
    partition: int
    offset: np.ndarray
    time_ms: np.ndarray
    stream_time_ms: np.ndarray
    tape_time_ms: np.ndarray
    applied: np.ndarray
    refused: np.ndarray
    drops: list[tuple[str, np.ndarray, Drops]] = field(default_factory=list)
    """(node, cause of each dropped record, the refusals)."""
    failure: BufferFull | None = None

    def fail(self, error: BufferFull) -> None:
        """A record ended the run; of several such records the first counts. The task raises it when the chunk is
        done.
        """
        if self.failure is None or error.cause_row < self.failure.cause_row:
            self.failure = error

    def drop(self, node: str, batch: Batch, drops: Drops) -> None:
        """Book refusals of rows of ``batch`` at ``node``."""
        if len(drops.row) == 0:
            return
        cause = batch.cause[drops.row]
        self.refused[cause[drops.is_record]] = True
        self.drops.append((node, cause, drops))
