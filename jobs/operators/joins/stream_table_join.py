"""Joins of a stream with a table (KStreamKTableJoin, KStreamGlobalKTableJoin; KIP-914, KIP-923, KIP-962).

Rule: only a record of the stream causes a result, which has its key, time and headers. A plain table is looked up as it
is when the record is joined, a versioned one as of the record's time (inclusive). No value there: an inner join gives
nothing, a left join null. A record with a null value is refused, and one with a null key unless the join is left: then
there is nothing to look up. With a grace a record waits until a record that waits too makes ``stream time - grace``
reach its time (inclusive), and is looked up then, so that versions which came meanwhile count. Stream time is the
largest time of any record that waited. Of those that leave at once the oldest goes first, of equal times by serialized
key, then as they came. What is older than ``stream time - grace`` when it comes does not wait. What still waits when
the input ends is not joined.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.errors import NullKey
from ....state.records.batches import Batch, Chunk, Drops
from ....state.records.drop_reasons import DropReason
from ....state.records.keys import NULL_CODE
from ....state.times import NO_TIMESTAMP_MS
from ...functions.expressions import Call, Expression
from ...functions.value_joiners import Joiner
from ..base.operator import Operator, OperatorContext
from ..base.record_buffer import BufferedByGrace
from ..tables.global_table import GlobalTableView
from .stream_table_join_nodes import StreamGlobalTableJoinNode, StreamTableJoinNode

_SEQUENCE_MASK = 0x7FFFFFFF


class Lookup:
    """What the three joins share: which records are refused, and what a looked up value makes of a record."""

    def __init__(self, context: OperatorContext, joiner: Joiner, *, is_left: bool) -> None:
        self.node, self.view, self.joiner, self.is_left = context.node, context.views[0], joiner, is_left
        self.looked_up, self.matched = 0, 0

    def accepted(self, batch: Batch, keys: np.ndarray, chunk: Chunk) -> np.ndarray:
        """Which records are joined by ``keys``; the others are booked as refused."""
        has_key = (keys != NULL_CODE) | self.is_left
        for reason, refused in ((DropReason.NULL_VALUE, ~batch.valid), (DropReason.NULL_KEY, batch.valid & ~has_key)):
            rows = np.flatnonzero(refused).astype(np.int32)
            chunk.drop(self.node, batch, Drops(reason, rows, np.ones(len(rows), np.bool_)))
        return batch.valid & has_key

    def join(self, batch: Batch, keys: np.ndarray) -> Batch:
        """Results of the records of ``batch``, each with the table's value of its one of ``keys``."""
        shown = self.view.get(batch, keys, batch.time_ms if self.view.is_versioned else None)
        self.looked_up += len(batch)
        self.matched += int(shown.valid.sum())
        if self.is_left or shown.valid.all():
            return batch.with_value(self.joiner.evaluate(batch, batch.value.all(), shown.value))
        joined, value = batch.where(shown.valid), shown.value.filter(pa.array(shown.valid))
        return joined.with_value(self.joiner.evaluate(joined, joined.value.all(), value))

    def metrics(self) -> dict[str, Any]:
        """Of this increment: records that were looked up, and those for which the table had a value."""
        return {"looked_up": self.looked_up, "matched": self.matched}

    def count_from(self, metrics: Mapping[str, Any]) -> None:
        """As of Operator."""
        self.looked_up, self.matched = metrics["looked_up"], metrics["matched"]


class StreamTableJoin(Operator):
    """Without a grace."""

    is_repeatable = True

    def __init__(self, context: OperatorContext, joiner: Joiner, *, is_left: bool) -> None:
        super().__init__(context)
        self.lookup = Lookup(context, joiner, is_left=is_left)

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        joined = batch.where(self.lookup.accepted(batch, batch.key, chunk))
        chunk.left_out[joined.cause] = True
        return self.lookup.join(joined, joined.key)

    def metrics(self) -> dict[str, Any]:
        return self.lookup.metrics()

    def count_from(self, metrics: Mapping[str, Any]) -> None:
        self.lookup.count_from(metrics)


class StreamGlobalTableJoin(Operator):
    """The key that is looked up is ``selector``'s; a null one counts as a null key."""

    is_repeatable = True

    def __init__(self, context: OperatorContext, selector: Expression | Call, joiner: Joiner, *, is_left: bool) -> None:
        super().__init__(context)
        self.selector, self.lookup = selector, Lookup(context, joiner, is_left=is_left)
        view = self.lookup.view
        assert isinstance(view, GlobalTableView)
        self.table_keys = view.keys

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        keys = np.full(len(batch), NULL_CODE, np.int32)
        named = np.flatnonzero(batch.valid)
        # Kafka maps the key before it drops a null value, which it drops whatever the key is. So the selector need not
        # be asked, and a callable never gets None for a value.
        selected = self.selector.result.encode(self.selector.evaluate(batch.take(named)))
        keys[named] = self.table_keys.intern(selected)
        accepted = self.lookup.accepted(batch, keys, chunk)
        joined = batch.where(accepted)
        chunk.left_out[joined.cause] = True
        return self.lookup.join(joined, keys[accepted])

    def metrics(self) -> dict[str, Any]:
        return self.lookup.metrics()

    def count_from(self, metrics: Mapping[str, Any]) -> None:
        self.lookup.count_from(metrics)


class BufferedStreamTableJoin(BufferedByGrace):
    """With a grace; the table is versioned (RocksDBTimeOrderedKeyValueBuffer).

    A null key ends the run at a left join, as in Kafka. ``takes_null_keys`` (semantics "kip"): there is nothing to wait
    for, so such a record is joined at once, with null, and moves no time (KIP-962).
    """

    observed_counter = "buffer_time_ms"

    def __init__(
        self, context: OperatorContext, joiner: Joiner, *, is_left: bool, grace_ms: int, takes_null_keys: bool = False
    ) -> None:
        super().__init__(context, grace_ms)
        self.lookup, self.takes_null_keys = Lookup(context, joiner, is_left=is_left), takes_null_keys

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        batch = batch if self.takes_null_keys else self._until_failure(batch, chunk)
        arrived = batch.where(self.lookup.accepted(batch, batch.key, chunk))
        chunk.applied[arrived.cause] = True
        leaves, is_late = self._leaves(arrived)
        self.buffer.enter(arrived, chunk, self._numbered(is_late))
        return self._leave(leaves, arrived, chunk)

    def _leave(self, leaves: np.ndarray, batch: Batch, chunk: Chunk) -> Batch:
        released = super()._leave(leaves, batch, chunk)
        return self.lookup.join(released, released.key)

    def metrics(self) -> dict[str, Any]:
        return self.lookup.metrics()

    def _until_failure(self, batch: Batch, chunk: Chunk) -> Batch:
        """Records before the first that Kafka's buffer cannot take: one with a value and no key, in a left join."""
        broken = np.flatnonzero((batch.key == NULL_CODE) & batch.valid & self.lookup.is_left)
        if len(broken) == 0:
            return batch
        row = int(broken[0])
        error = NullKey(
            self.context.node,
            "a key on every record that waits for its join",
            "none",
            "filter such records before the join, or join without a grace",
        )
        error.cause_row = int(batch.cause[row])
        chunk.fail(error)
        return batch.take(np.arange(row))

    def _leaves(self, arrived: Batch) -> tuple[np.ndarray, np.ndarray]:
        """The row of ``arrived`` at which each record leaves the buffer, buffered records first and then those that
        arrived; ``len(arrived)`` for a record that stays. And which of the arrived records are not buffered at all.
        """
        has_key = arrived.key != NULL_CODE
        times = np.where(has_key, arrived.time_ms, NO_TIMESTAMP_MS)
        passed = self._observe(times) - self.grace_ms
        self.buffer.load_due(int(passed[-1]))
        is_late, row = (arrived.time_ms < passed[:-1]) | ~has_key, np.arange(len(arrived))
        leaves = np.searchsorted(passed[1:], np.concatenate([self.buffer.time_ms, arrived.time_ms]))
        leaves[len(self.buffer) :] = np.where(is_late, row, np.maximum(leaves[len(self.buffer) :], row))
        return leaves, is_late

    def _numbered(self, is_late: np.ndarray) -> np.ndarray:
        """Sequence numbers of arrived records; those that do not wait get none."""
        # RocksDBTimeOrderedKeyValueBuffer counts with 31 bits, and counts only what it puts: a record that does not
        # wait takes no number.
        numbers = self.sequence + np.cumsum(~is_late)
        self.sequence = int(numbers[-1]) & _SEQUENCE_MASK if len(numbers) else self.sequence
        return np.where(is_late, 0, numbers & _SEQUENCE_MASK)

    def _in_order(self, going: np.ndarray, leaves: np.ndarray) -> np.ndarray:
        """Records ``going`` of the front by the row they leave at, time, then ``key || be32(sequence)``."""
        going = going[np.lexsort((self.buffer.sequence[going], self.buffer.time_ms[going], leaves[going]))]
        row, time, key = leaves[going], self.buffer.time_ms[going], self.buffer.key[going]
        starts = np.append(True, (row[1:] != row[:-1]) | (time[1:] != time[:-1]))[: len(going)]
        group = np.cumsum(starts)
        # Records of one key and time are in order of arrival already. Serialized keys are compared only where different
        # keys leave at one row with one time.
        differs = np.append(False, ~starts[1:] & (key[1:] != key[:-1]))[: len(going)]
        tied = np.flatnonzero(np.isin(group, group[differs]))
        if len(tied):
            number = np.ascontiguousarray(self.buffer.sequence[going[tied]].astype(">u4")).view("S4")
            suffix = pa.Array.from_buffers(pa.binary(4), len(tied), [None, pa.py_buffer(number)]).cast(pa.binary())
            name = pc.binary_join_element_wise(self.context.keys.take(key[tied].astype(np.int32)), suffix, b"")
            named = pa.table({"group": group[tied], "name": name})
            by_name = pc.sort_indices(named, [("group", "ascending"), ("name", "ascending")])
            going[tied] = going[tied[by_name.to_numpy()]]
        return going


def build(node: StreamTableJoinNode, context: OperatorContext) -> Operator:
    """The operator of ``node``."""
    is_left = node.kind == "left"
    if node.grace_ms is None:
        return StreamTableJoin(context, node.joiner, is_left=is_left)
    takes_null_keys = node.semantics == "kip"
    return BufferedStreamTableJoin(
        context, node.joiner, is_left=is_left, grace_ms=node.grace_ms, takes_null_keys=takes_null_keys
    )


def build_global(node: StreamGlobalTableJoinNode, context: OperatorContext) -> Operator:
    """The operator of ``node``."""
    return StreamGlobalTableJoin(context, node.selector, node.joiner, is_left=node.kind == "left")
