"""Records in flight: a batch of them as columns, and the chunk of input that caused them.

Owns the shapes that pass between operators. Rule: rows of a batch are in the order in which Kafka Streams would
have forwarded them; ``cause`` names, for every row, the input record of the chunk that caused it.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from ..buffers import is_valid
from ..distinct_numbers import distinct, without
from ..errors import TaskFailed
from .drop_reasons import DropReason
from .keys import Keys


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
    ``key`` int32: code in ``keys``, ``kstreams_replay.state.records.keys.NULL_CODE`` for null. ``time_ms`` int64:
    record time. ``valid`` bool: false for a tombstone. ``value``: the values, null where not valid.
    ``window_start_ms``/``window_end_ms`` int64 or None: of a windowed key; the end is exclusive for time windows and
    inclusive for sessions. ``old``/``old_valid``: the value that the change replaced, where an operator below asks.
    ``stream_time_ms`` int64 or None: the forwarding operator's stream time; None means that of the task.
    ``latest`` bool or None: of a table's change, whether it is the newest of its key by time (KIP-914); None: all are.
    ``earlier`` int32 or None: of a table's change, the row that has the change before it of the same key and window, or
    what else jobs/kernels/earlier_changes.py says; None: not known.
    ``headers``: list of (key, value) a record, null where it has none, or None when no record has any.
    ``path``: further columns of a record's place, where branches of the topology merge again
    (jobs/operators/base/forward_order.py). ``context``: place in the chunk's topics (-1: none) and offset of every
    record's context, where a buffer kept them; OF_CAUSE where they are those of the causing record; None: they all are.
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
    latest: np.ndarray | None = None
    earlier: np.ndarray | None = None
    headers: pa.Array | None = None
    path: tuple[np.ndarray, ...] = ()
    context: tuple[np.ndarray, np.ndarray] | None = None

    def __len__(self) -> int:
        return len(self.cause)

    def where(self, mask: np.ndarray) -> "Batch":
        """The records for which ``mask`` is true."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def take(self, rows: np.ndarray) -> "Batch":
        """The records ``rows``, in that order."""

        def pick(column: np.ndarray | None) -> np.ndarray | None:
            return None if column is None else column[rows]

        return self.forward(
            rows,
            key=self.key[rows],
            time_ms=self.time_ms[rows],
            valid=self.valid[rows],
            value=Values(self.value.take(rows)),
            window_start_ms=pick(self.window_start_ms),
            window_end_ms=pick(self.window_end_ms),
            old=None if self.old is None else Values(self.old.take(rows)),
            old_valid=pick(self.old_valid),
            stream_time_ms=pick(self.stream_time_ms),
            latest=pick(self.latest),
        )

    def forward(
        self,
        rows: np.ndarray,
        *,
        key: np.ndarray,
        time_ms: np.ndarray,
        valid: np.ndarray,
        value: Column,
        keys: Keys | None = None,
        window_start_ms: np.ndarray | None = None,
        window_end_ms: np.ndarray | None = None,
        old: Column | None = None,
        old_valid: np.ndarray | None = None,
        stream_time_ms: np.ndarray | None = None,
        latest: np.ndarray | None = None,
        earlier: np.ndarray | None = None,
        has_headers: bool = True,
    ) -> "Batch":
        """What an operator forwards because of ``rows`` of this batch (not falling), one element each.

        Place and headers are those of the causing row; ``has_headers`` False: the records have none.
        """
        headers = None if self.headers is None or not has_headers else self.headers.take(pa.array(rows))
        return Batch(
            cause=self.cause[rows],
            key=key,
            keys=self.keys if keys is None else keys,
            time_ms=time_ms,
            valid=valid,
            value=value,
            window_start_ms=window_start_ms,
            window_end_ms=window_end_ms,
            old=old,
            old_valid=old_valid,
            stream_time_ms=stream_time_ms,
            latest=latest,
            earlier=earlier,
            headers=headers,
            path=tuple(column[rows] for column in self.path),
            context=None if self.context is None else (self.context[0][rows], self.context[1][rows]),
        )

    def coordinates(self, chunk: "Chunk", rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Place in ``chunk.context_topics`` (-1: none) and offset (NO_OFFSET: none) of the context of ``rows``, or of
        every record.
        """
        chosen = slice(None) if rows is None else rows
        cause = self.cause[chosen]
        source, offset = chunk.context_source[cause], chunk.context_offset[cause]
        if self.context is None:
            return np.where(offset == NO_OFFSET, -1, source) if chunk.lacks_offsets else source, offset
        kept_source, kept_offset = (column[chosen] for column in self.context)
        is_own = kept_offset == OF_CAUSE
        source, offset = np.where(is_own, source, kept_source), np.where(is_own, offset, kept_offset)
        return np.where(offset == NO_OFFSET, -1, source), offset

    def with_value(self, array: pa.Array) -> "Batch":
        return replace(self, value=Values(array), valid=is_valid(array), old=None, old_valid=None)

    def coded_by(self, keys: Keys) -> "Batch":
        """The records with their keys coded by ``keys``."""
        return self if self.keys is keys else replace(self, key=keys.intern(self.keys.take(self.key)), keys=keys)

    def with_key(self, codes: np.ndarray, keys: Keys) -> "Batch":
        return replace(self, key=codes, keys=keys, window_start_ms=None, window_end_ms=None, earlier=None)


@dataclass(frozen=True, slots=True)
class Drops:
    """Refused records of one node in one chunk, one element a refusal, in order.

    ``row`` int32: row of the node's input batch. ``is_record`` bool: the whole record had no effect at the node; else
    only the window ``[window_start_ms, window_end_ms]`` refused it. ``limit_ms``: the number that decided.
    """

    reason: DropReason
    row: np.ndarray
    is_record: np.ndarray
    stream_time_ms: np.ndarray | None = None
    limit_ms: np.ndarray | None = None
    window_start_ms: np.ndarray | None = None
    window_end_ms: np.ndarray | None = None


NO_OFFSET, OF_CAUSE = -1, -2
"""``context_offset`` of a record that is from no topic; in ``Batch.context``: that of the causing record."""


class Handling(Protocol):
    """Asks the application's exception handler about records on which a function of the user's failed."""

    def processing_failed(self, node: str, batch: Batch, row: int, record: Any, error: TaskFailed) -> None:
        """Of the ``row`` of the ``batch`` that came to ``node``. Raises ``error`` when the run is to end."""
        ...

    def punctuation_failed(self, node: str, cause: int, time_ms: int, error: TaskFailed) -> None:
        """Of a punctuation at that stream time, after the record ``cause`` of the chunk. Raises ``error`` when the run
        is to end.
        """
        ...


class Letter(NamedTuple):
    """A record for the topic of dead letters. ``cause``: row of the chunk; ``path``: further columns of its place."""

    cause: int
    path: tuple[int, ...]
    key: bytes | None
    value: bytes | None
    time_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


class Letters(Protocol):
    """Records of a chunk for the topic of dead letters."""

    def step_failed(self, node: str, batch: Batch, row: int, error: TaskFailed) -> None:
        """Of a step that keeps the ``row`` of its ``batch`` as a dead letter."""
        ...

    def take(self, until: int | None = None) -> list[Letter]:
        """Those that were not taken yet, of causes up to ``until`` (None: of all), in order."""
        ...


@dataclass(slots=True)
class Chunk:
    """A slice of a task's tape: where its records are from, and what became of each.

    ``source`` int16: the task's source that gave the row. ``origin`` int16: place in ``topics`` of the topic that the
    record is from; ``offset``/``time_ms`` int64: its position there and its time. Of a row that an earlier part of the
    sub-topology handed over, these are of the record that caused it there. ``stream_time_ms`` int64: the task's stream
    time after the record was taken.
    ``tape_time_ms``: the largest time on the tape so far, undecodable records included. ``context_offset`` int64: the
    offset that operators see, NO_OFFSET for a record that a punctuator made; ``context_source`` into
    ``context_topics``: the topic that they see. ``applied``/``refused`` bool: set by operators; a record may be both,
    when one branch took it and another did not. Applied is what reached an output, a store, another task, or a function
    that keeps it (a processor, foreach).
    """

    topics: tuple[str, ...]
    partition: int
    source: np.ndarray
    origin: np.ndarray
    offset: np.ndarray
    context_offset: np.ndarray
    context_topics: tuple[str, ...]
    context_source: np.ndarray
    time_ms: np.ndarray
    stream_time_ms: np.ndarray
    tape_time_ms: np.ndarray
    applied: np.ndarray
    refused: np.ndarray
    drops: list[tuple[str, np.ndarray, Drops]] = field(default_factory=list)
    """(node, cause of each dropped record, the refusals)."""
    failures: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Records on which a step failed that keeps them as dead letters: node and reason by row of the chunk."""
    failure: TaskFailed | None = None
    is_record: np.ndarray = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Which rows are records of the task's topics, and not imported from elsewhere."""
    tick_ms: int | None = None
    """The wall clock has reached that; the chunk's one row is no record."""
    left_out: np.ndarray = field(init=False)
    """bool: records that a step let go (a filter, a join without a match, a duplicate); it counts where nothing else of
    the record was applied or refused.
    """
    handling: Handling | None = None
    """None: the first failure of a function ends the run."""
    letters: Letters | None = None
    """None: the application has no topic of dead letters."""
    lacks_offsets: bool = field(init=False)
    """Whether any record is from no topic."""
    came: dict[str, int] = field(default_factory=dict)
    """How many records came to a node."""
    turned_away: dict[str, int] = field(default_factory=dict)
    """How many of them the node refused whole."""
    _refused_last: tuple[str, Batch, np.ndarray] | None = field(default=None, init=False, repr=False)
    """Node, batch and rows of it: a node may refuse a row for two reasons."""

    def __post_init__(self) -> None:
        self.left_out = np.zeros(len(self.offset), np.bool_)
        self.lacks_offsets = bool((self.context_offset == NO_OFFSET).any())

    def fail(self, error: TaskFailed) -> None:
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
        rows = distinct(drops.row[drops.is_record])
        if self._refused_last is not None and self._refused_last[0] == node and self._refused_last[1] is batch:
            known = self._refused_last[2]
            self.turn_away(node, len(without(rows, known)))
            rows = distinct(np.concatenate([known, rows]))
        else:
            self.turn_away(node, len(rows))
        self._refused_last = node, batch, rows

    def booked(self) -> "Booked":
        """What operators have booked so far."""
        flags = (self.applied.copy(), self.refused.copy(), self.left_out.copy())
        return Booked(len(self.drops), dict(self.turned_away), self._refused_last, *flags)

    def take_back(self, booked: "Booked") -> None:
        """Only that is booked: a node that has processed records since then processes them again, or never did."""
        del self.drops[booked.drops :]
        self.turned_away, self._refused_last = dict(booked.turned_away), booked.refused_last
        self.applied[:], self.refused[:], self.left_out[:] = booked.applied, booked.refused, booked.left_out

    def come(self, node: str, records: int) -> None:
        """So many ``records`` came to ``node``."""
        self.came[node] = self.came.get(node, 0) + records

    def turn_away(self, node: str, records: int) -> None:
        """``node`` refused so many ``records`` whole, of those that came to it."""
        self.turned_away[node] = self.turned_away.get(node, 0) + records


class Booked(NamedTuple):
    """What operators had booked in a chunk at some time (``Chunk.booked``); ``drops``: how many of them."""

    drops: int
    turned_away: dict[str, int]
    refused_last: tuple[str, Batch, np.ndarray] | None
    applied: np.ndarray
    refused: np.ndarray
    left_out: np.ndarray
