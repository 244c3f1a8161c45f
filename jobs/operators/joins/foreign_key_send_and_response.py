"""Both ends of a foreign-key join at the left table: what it asks for, and what it makes of the answers
(SubscriptionSendProcessorSupplier, ResponseJoinProcessorSupplier of Kafka Streams 4.3, KIP-213, KIP-914).

Rule: every change of the left table sends the instructions below, with the hash of the new value. An answer whose hash
is not that of the left table's current value is stale and is dropped.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ....state.buffers import fixed_array, is_valid
from ....state.records.batches import Batch, Chunk, Drops, Values
from ....state.records.drop_reasons import DropReason
from ....state.records.keys import Keys
from ....state.serdes import Serde
from ...graph.foreign_key_messages import Instruction
from ...kernels.murmur3 import murmur3_128
from ..base.operator import Operator, OperatorContext
from ..tables.materialized_table import StoredTable, open_store
from ..tables.table_steps import evaluate_present, old_values
from ..tables.table_store import TableStore
from .foreign_key_nodes import ForeignKeyResponseNode, ForeignKeySendNode

_NOTHING = -1


class ForeignKeySend(Operator):
    """Subscriptions of the left table's changes: one or two a change, in that order, timed as the change.

    What is sent, to the old key first::

        new value   foreign key, old to new         sent
        =========== =============================== ==============================================================
        inner join
        there       any to null                     refused; old key: DELETE_AND_PROPAGATE
        there       null to any, or the same        new key: PROPAGATE_ONLY_IF_FK
        there       another                         old key: DELETE_NO_PROPAGATE; new key: PROPAGATE_NULL_IF_NO_FK
        null        any                             old key: DELETE_AND_PROPAGATE
        left join
        there, or   another, or to null             old key: DELETE_NO_PROPAGATE; new key: PROPAGATE_NULL_IF_NO_FK
        old there   null to any, or the same        new key, which may be null: PROPAGATE_NULL_IF_NO_FK

    Foreign keys are the same when their bytes are. An out-of-order change of a versioned table is refused.
    """

    def __init__(self, context: OperatorContext, node: ForeignKeySendNode) -> None:
        super().__init__(context)
        self.node, self.keys = node, Keys(node.shape.key)

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        taken = _newest(self.context, batch, chunk)
        old, was_there = old_values(taken)
        new_key, old_key = self._foreign_keys(taken), self._foreign_keys(replace(taken, value=old, valid=was_there))
        sent = (
            _left_messages(was_there, old_key, taken.valid, new_key)
            if self.node.kind == "left"
            else _inner_messages(old_key, taken.valid, new_key)
        )
        refused = taken.valid & (new_key < 0) if self.node.kind != "left" else np.zeros(len(taken), np.bool_)
        # Kafka counts the drop and sends the deletion to the old foreign key all the same: such a change had an effect.
        is_record = sent.old_instruction[refused] == _NOTHING
        chunk.drop(self.context.node, taken, Drops(DropReason.NULL_FOREIGN_KEY, _rows(refused), is_record))
        sends = (sent.old_instruction != _NOTHING) | (sent.new_instruction != _NOTHING)
        chunk.applied[taken.cause[sends]] = True
        chunk.left_out[taken.cause[~refused & ~sends]] = True
        return self._messages(taken, chunk, sent, old_key, new_key)

    def _foreign_keys(self, batch: Batch) -> np.ndarray:
        """Code of every row's foreign key, null for a null value, of which the extractor is not asked."""
        extracted = evaluate_present(self.node.foreign_key, batch)
        return self.keys.intern(self.node.foreign_key.result.encode(extracted))

    def _messages(
        self, batch: Batch, chunk: Chunk, sent: "_SentInstructions", old_key: np.ndarray, new_key: np.ndarray
    ) -> Batch:
        instruction = np.stack([sent.old_instruction, sent.new_instruction], axis=1).ravel()
        is_sent = instruction != _NOTHING
        rows = np.repeat(np.arange(len(batch)), 2)[is_sent]
        key = np.stack([old_key, new_key], axis=1).ravel()[is_sent]
        hash_a, hash_b = _hash(self.node.left_value, batch.value.all())
        every = np.ones(len(rows), np.bool_)
        columns = [
            batch.keys.take(batch.key[rows]),
            fixed_array(instruction[is_sent], every, pa.int32()),
            fixed_array(hash_a[rows], batch.valid[rows], pa.int64()),
            fixed_array(hash_b[rows], batch.valid[rows], pa.int64()),
            fixed_array(np.full(len(rows), chunk.partition, np.int32), every, pa.int32()),
        ]
        value = pa.StructArray.from_arrays(columns, fields=list(self.node.shape.value.arrow_type))
        return batch.forward(
            rows, key=key, keys=self.keys, time_ms=batch.time_ms[rows], valid=every, value=Values(value)
        )


@dataclass(frozen=True, slots=True)
class _SentInstructions:
    """int32, one element a change: the instruction to the old foreign key and the one to the new key, or _NOTHING."""

    old_instruction: np.ndarray
    new_instruction: np.ndarray


def _inner_messages(old_key: np.ndarray, is_new: np.ndarray, new_key: np.ndarray) -> _SentInstructions:
    has_old, has_new = old_key >= 0, new_key >= 0
    moved = has_old & has_new & (old_key != new_key)
    to_old = np.where(moved, Instruction.DELETE_NO_PROPAGATE, _NOTHING)
    to_old = np.where(has_old & ~has_new, Instruction.DELETE_AND_PROPAGATE, to_old)
    to_new = np.where(moved, Instruction.PROPAGATE_NULL_IF_NO_FK, Instruction.PROPAGATE_ONLY_IF_FK)
    return _SentInstructions(to_old.astype(np.int32), np.where(is_new & has_new, to_new, _NOTHING).astype(np.int32))


def _left_messages(
    was_there: np.ndarray, old_key: np.ndarray, is_new: np.ndarray, new_key: np.ndarray
) -> _SentInstructions:
    to_old = np.where((old_key >= 0) & (old_key != new_key), Instruction.DELETE_NO_PROPAGATE, _NOTHING)
    to_new = np.where(was_there | is_new, Instruction.PROPAGATE_NULL_IF_NO_FK, _NOTHING)
    return _SentInstructions(to_old.astype(np.int32), to_new.astype(np.int32))


class ForeignKeyResponse(Operator):
    """The join's result: of every answer that is not stale, what the joiner makes of the left and the right value.

    A missing right value gives a tombstone, but in a left join whose left value is there. Timed as the answer. Nothing
    is filtered: a tombstone may follow a tombstone.
    """

    def __init__(self, context: OperatorContext, node: ForeignKeyResponseNode) -> None:
        super().__init__(context)
        self.node = node

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        results = self.resolve(batch, chunk)
        chunk.left_out[results.cause] = True
        return results

    def resolve(self, batch: Batch, chunk: Chunk) -> Batch:
        """Results of the answers that are not stale; the others are refused."""
        (view,) = self.context.views
        left_values = view.get(batch, batch.key)
        answers = batch.value.all()
        hash_a, hash_b = _hash(self.node.left_value, left_values.value)
        had_value = is_valid(answers.field("hash_a"))
        asked_a, asked_b = (answers.field(name).fill_null(0).to_numpy() for name in ("hash_a", "hash_b"))
        # A missing hash is 0 here, and so may be that of a value: whether there was one is compared as well.
        is_fresh = (had_value == left_values.valid) & (asked_a == hash_a) & (asked_b == hash_b)
        stale = _rows(~is_fresh)
        chunk.drop(self.context.node, batch, Drops(DropReason.STALE_RESPONSE, stale, np.ones(len(stale), np.bool_)))
        rows = np.flatnonzero(is_fresh)
        matched = pa.array(rows)
        return self._joined(batch.take(rows), left_values.value.take(matched), answers.field("right").take(matched))

    def _joined(self, batch: Batch, left: pa.Array, right: pa.Array) -> Batch:
        """The joiner is asked only where its result counts, as Kafka asks it."""
        asks = is_valid(right)
        if self.node.kind == "left":
            asks |= is_valid(left)
        asking = pa.array(np.flatnonzero(asks))
        values = self.node.joiner.evaluate(batch.where(asks), left.take(asking), right.take(asking))
        indices = np.cumsum(asks) - 1
        return batch.with_value(values.take(pa.array(indices, mask=~asks)))


class StoredForeignKeyResponse(StoredTable):
    """The same, and the result is materialized."""

    def __init__(self, context: OperatorContext, node: ForeignKeyResponseNode, store: TableStore) -> None:
        super().__init__(context, store)
        self.response = ForeignKeyResponse(context, node)

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        return self.put(self.response.resolve(batch, chunk), chunk)


def build_response(node: ForeignKeyResponseNode, context: OperatorContext) -> Operator:
    """The operator of ``node``."""
    store = open_store(context, node.shape, context.keys)
    return ForeignKeyResponse(context, node) if store is None else StoredForeignKeyResponse(context, node, store)


def _newest(context: OperatorContext, batch: Batch, chunk: Chunk) -> Batch:
    """Without the out-of-order changes of a versioned table (KIP-914), which are refused."""
    if batch.latest is None or not context.above[0].is_versioned:
        return batch
    skipped = _rows(~batch.latest)
    chunk.drop(context.node, batch, Drops(DropReason.OUT_OF_ORDER_VERSION, skipped, np.ones(len(skipped), np.bool_)))
    return batch.where(batch.latest)


def _hash(serde: Serde, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The two longs of each value's hash, 0 for null."""
    return murmur3_128(serde.encode(values))


def _rows(mask: np.ndarray) -> np.ndarray:
    return np.flatnonzero(mask).astype(np.int32)
