"""Records that wait in an operator and continue later as what they were: with their own time, headers and context.

Owns the columns of the waiting records, their durable rows, and the rule that the operators with a grace share
(stream-table join with a grace, reorder_within). Rule: a record may leave once ``stream time - grace`` has reached its
time (inclusive). At the front of the buffer, in the order of arrival, are the records that the operator has to look at.
The others are behind them, by time, and are not touched until their time is due.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from ....state.buffers import is_valid, only_chunk
from ....state.records.batches import Batch, Chunk, Values
from ....state.tables.warehouse import HEADERS
from ....state.times import NO_TIMESTAMP_MS, UNBOUNDED
from ...graph.store_rows import BUFFER_KEY, buffer_schema
from .operator import Counters, Due, OperatorContext, StatefulOperator, with_deleted

_NO_TOPIC = -1
_TIME = "record_time_ms"


class _Later:
    """Records by time, in few pieces, each at least twice as long as the next."""

    def __init__(self) -> None:
        self._pieces: list[pa.Table] = []

    def push(self, rows: pa.Table) -> None:
        """Add rows, in any order."""
        pieces = self._pieces
        if len(rows):
            pieces.append(rows.sort_by(_TIME))
        while len(pieces) > 1 and len(pieces[-2]) < 2 * len(pieces[-1]):
            last = pieces.pop()
            pieces[-1] = pa.concat_tables([pieces[-1], last]).sort_by(_TIME)

    def pop(self, time_ms: int) -> list[pa.Table]:
        """Take out all rows up to ``time_ms``, inclusive."""
        due, kept = [], []
        for piece in self._pieces:
            after = int(np.searchsorted(piece[_TIME].to_numpy(), time_ms, "right"))
            due.append(piece.slice(0, after))
            kept.append(piece.slice(after))
        self._pieces = [piece for piece in kept if len(piece)]
        return due


class RecordBuffer:
    """Rows: key, [window bounds], record_time_ms, sequence, value (null: a tombstone), headers, topic, offset."""

    row_key = BUFFER_KEY

    def __init__(self, context: OperatorContext) -> None:
        self.shape, self.keys = context.shape, context.keys
        self._bounds = () if self.shape.window is None else ("window_start_ms", "window_end_ms")
        self._topics: list[str] = []
        self._numbers = {name: np.zeros(0, np.int64) for name in self._number_names()}
        self._stored = np.zeros(0, np.bool_)
        self._value = pa.array([], self.shape.value.arrow_type)
        self._headers = pa.array([], HEADERS)
        self._later = _Later()
        self._gone = self.rows_schema().empty_table()

    def _number_names(self) -> tuple[str, ...]:
        return ("key", *self._bounds, "record_time_ms", "sequence", "topic", "offset")

    def __len__(self) -> int:
        """Records at the front."""
        return len(self._stored)

    @property
    def key(self) -> np.ndarray:
        """Codes of the keys, of the records at the front."""
        return self._numbers["key"]

    @property
    def time_ms(self) -> np.ndarray:
        return self._numbers["record_time_ms"]

    @property
    def sequence(self) -> np.ndarray:
        return self._numbers["sequence"]

    def load_due(self, time_ms: int) -> None:
        """At the front from now on are those with a time up to ``time_ms``, inclusive."""
        front = {**self._numbers, "stored": self._stored, "value": self._value, "headers": self._headers}
        self._later.push(pa.table(front))
        rows = pa.concat_tables([pa.table(front).slice(0, 0), *self._later.pop(time_ms)]).sort_by("sequence")
        self._numbers = {name: rows[name].to_numpy() for name in self._numbers}
        self._stored = only_chunk(rows, "stored").to_numpy(zero_copy_only=False)
        self._value, self._headers = only_chunk(rows, "value"), only_chunk(rows, "headers")

    def enter(self, batch: Batch, chunk: Chunk, sequence: np.ndarray) -> None:
        """Records of ``batch`` come in, at the front, behind those that are there already."""
        source, offset = batch.coordinates(chunk)
        arrived = {
            "key": batch.key,
            "record_time_ms": batch.time_ms,
            "sequence": sequence,
            "topic": self._topic_numbers(chunk)[source],
            "offset": offset,
            "window_start_ms": batch.window_start_ms,
            "window_end_ms": batch.window_end_ms,
        }
        self._numbers = {name: np.concatenate([old, arrived[name]]) for name, old in self._numbers.items()}
        self._stored = np.concatenate([self._stored, np.zeros(len(batch), np.bool_)])
        self._value = pa.concat_arrays([self._value, batch.value.all()])
        headers = pa.nulls(len(batch), HEADERS) if batch.headers is None else batch.headers.cast(HEADERS)
        self._headers = pa.concat_arrays([self._headers, headers])

    def _topic_numbers(self, chunk: Chunk) -> np.ndarray:
        """Our number of each of the chunk's topics; the last is for none."""
        self._topics += [topic for topic in chunk.context_topics if topic not in self._topics]
        return np.array([*(self._topics.index(topic) for topic in chunk.context_topics), _NO_TOPIC], np.int64)

    def leave(self, who: np.ndarray, batch: Batch, rows: np.ndarray, chunk: Chunk) -> Batch:
        """Records ``who`` go out in that order, each because of one of ``rows`` (not falling) of ``batch``."""
        value, headers = self._value.take(pa.array(who)), self._headers.take(pa.array(who))
        here = {name: column[who] for name, column in self._numbers.items()}
        forwarded = batch.forward(
            rows,
            key=here["key"].astype(np.int32),
            time_ms=here["record_time_ms"],
            valid=is_valid(value),
            value=Values(value),
            window_start_ms=here.get("window_start_ms"),
            window_end_ms=here.get("window_end_ms"),
            has_headers=False,
        )
        number_of = {topic: number for number, topic in enumerate(chunk.context_topics)}
        numbers = [*(number_of.get(topic, _NO_TOPIC) for topic in self._topics), _NO_TOPIC]
        source = np.array(numbers, np.int64)[here["topic"]]
        self._forget(who)
        return replace(
            forwarded,
            headers=None if headers.null_count == len(headers) else headers,
            context=(source, here["offset"]),
        )

    def _forget(self, who: np.ndarray) -> None:
        self._gone = pa.concat_tables([self._gone, self._table(who[self._stored[who]])])
        stays = np.ones(len(self), np.bool_)
        stays[who] = False
        kept = np.flatnonzero(stays)
        self._numbers = {name: column[kept] for name, column in self._numbers.items()}
        self._stored = self._stored[kept]
        self._value, self._headers = self._value.take(pa.array(kept)), self._headers.take(pa.array(kept))

    # --- state -----------------------------------------------------------------------------------------------

    def resume(self, rows: pa.Table) -> None:
        rows = rows.sort_by("sequence").combine_chunks()
        self._topics = [topic for topic in only_chunk(rows, "topic").unique().to_pylist() if topic is not None]
        topic = [_NO_TOPIC if name is None else self._topics.index(name) for name in rows["topic"].to_pylist()]
        key = self.keys.intern(self.shape.key.encode(only_chunk(rows, "key"))).astype(np.int64)
        others = [name for name in self._number_names() if name not in ("key", "topic")]
        numbers = {name: rows[name].to_numpy().copy() for name in others}
        numbers |= {"key": key, "topic": np.array(topic, np.int64)}
        self._numbers = {name: numbers[name] for name in self._number_names()}
        self._stored = np.ones(len(rows), np.bool_)
        self._value, self._headers = only_chunk(rows, "value"), only_chunk(rows, "headers")

    def changes(self) -> pa.Table:
        self.load_due(UNBOUNDED)
        return with_deleted(self._table(np.flatnonzero(~self._stored)), self._gone)

    def rows(self) -> pa.Table:
        self.load_due(UNBOUNDED)
        return self._table(np.arange(len(self)))

    def rows_schema(self) -> pa.Schema:
        return buffer_schema(self.shape)

    def _table(self, at: np.ndarray) -> pa.Table:
        names = pa.array([*self._topics, None], pa.string())
        columns = {name: column[at] for name, column in self._numbers.items()}
        columns |= {
            "key": self.keys.typed(columns["key"].astype(np.int32)),
            "value": self._value.take(pa.array(at)),
            "headers": self._headers.take(pa.array(at)),
            "topic": names.take(pa.array(np.where(columns["topic"] < 0, len(names) - 1, columns["topic"]))),
        }
        schema = self.rows_schema()
        return pa.table([columns[name] for name in schema.names], schema=schema)


class BufferedByGrace(StatefulOperator):
    """An operator whose records wait in ``buffer`` until ``observed_ms - grace_ms`` has reached their times.

    ``grace_ms`` >= 0. ``observed_ms``: stream time, as the operator counts it; -1 before the first record.
    """

    observed_counter = "stream_time_ms"
    """Name of ``observed_ms`` among the counters."""
    row_key = RecordBuffer.row_key

    def __init__(self, context: OperatorContext, grace_ms: int) -> None:
        super().__init__(context)
        self.grace_ms, self.buffer = grace_ms, RecordBuffer(context)
        self.due = Due(_TIME, grace_ms)
        self.observed_ms, self.sequence = NO_TIMESTAMP_MS, 0

    def _observe(self, time_ms: np.ndarray) -> np.ndarray:
        """Records of ``time_ms`` (int64) come: stream time before the first and after each of them, one longer."""
        observed = np.maximum.accumulate(np.concatenate([[self.observed_ms], time_ms]))
        self.observed_ms = int(observed[-1])
        return observed

    def _leave(self, leaves: np.ndarray, batch: Batch, chunk: Chunk) -> Batch:
        """Forward the records at the front that leave with ``batch``, in order. ``leaves``: for each record at the
        front the row of ``batch`` at which it leaves, len(batch) or more for one that stays.
        """
        going = self._in_order(np.flatnonzero(leaves < len(batch)), leaves)
        return self.buffer.leave(going, batch, leaves[going], chunk)

    def _in_order(self, going: np.ndarray, leaves: np.ndarray) -> np.ndarray:
        """Records ``going`` of the front by the row they leave at, then by time, of equal times as they came."""
        return going[np.lexsort((self.buffer.time_ms[going], leaves[going]))]

    def advance(self, advance_row: Batch, chunk: Chunk) -> Batch:
        self.observed_ms = max(self.observed_ms, int(advance_row.time_ms[0]))
        self.buffer.load_due(self.observed_ms - self.grace_ms)
        return self._leave(np.zeros(len(self.buffer), np.int64), advance_row, chunk)

    def propagated_time_ms(self, time_ms: int) -> int:
        return time_ms - self.grace_ms

    # --- state -----------------------------------------------------------------------------------------------

    def resume(self, rows: pa.Table, counters: Counters) -> None:
        self.buffer.resume(rows)
        self.observed_ms = counters.get(self.observed_counter, NO_TIMESTAMP_MS)
        self.sequence = counters.get("sequence", 0)

    def counters(self) -> Counters:
        left = max(self.observed_ms - self.grace_ms, NO_TIMESTAMP_MS)
        return {self.observed_counter: self.observed_ms, "sequence": self.sequence, "left_ms": left}

    def changes(self) -> pa.Table:
        return self.buffer.changes()

    def rows(self) -> pa.Table:
        return self.buffer.rows()

    def rows_schema(self) -> pa.Schema:
        return self.buffer.rows_schema()
