"""The right side of a foreign-key join: keeps the subscriptions and answers them (SubscriptionReceive,
SubscriptionJoin and ForeignTableJoin processors of Kafka Streams 4.3, KIP-213, KIP-914).

Owns one row a subscription, (foreign key, primary key). Rule: a subscription is answered at once with the current right
value, timed as the later of the two. A change of the right table is sent to all its subscriptions by rising serialized
primary key, with their stored hashes, timed as the change alone. A null foreign key is not stored.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from ....state.buffers import fixed_array, is_valid, only_chunk
from ....state.records.batches import Batch, Chunk, Drops, Values
from ....state.records.drop_reasons import DropReason
from ....state.records.keys import Keys
from ....state.serdes.java_bytes import JavaBytes, int_bytes, long_bytes, sized
from ....state.stores.slots import Slots
from ...graph.foreign_key_messages import Instruction, without_empty
from ...kernels.aggregate_buffers import empty, written
from ..base.changelogs import Changelog, KeptStore, LeftState, unknown_changelog
from ..base.forward_order import joined_batch, merge_in_forward_order
from ..base.operator import Counters, Found, MultiOperator, OperatorContext, StatefulOperator, with_deleted
from . import foreign_key_join_kernel
from .foreign_key_join_kernel import NEEDED, NEXT, NO_SLOT, WRITTEN, SubscriptionResponses
from .foreign_key_nodes import SUBSCRIPTION_KEY, ForeignKeyJoinNode, subscription_schema

_RIGHT = 1
"""Number of the right table among the inputs."""
_NO_HASH = 0x80
_WITH_PARTITION = bytes([1, Instruction.PROPAGATE_NULL_IF_NO_FK])
"""A version of subscriptions with the left partition, and the instruction of those that are kept."""
_ASKING = (Instruction.PROPAGATE_ONLY_IF_FK, Instruction.PROPAGATE_NULL_IF_NO_FK)
"""Instructions of a left value that looks for a right one; the others take it back."""


class Subscriptions(Slots):
    """``key``: foreign key, ``start``: primary key, ``end``: 0. The lists go by foreign key; see the kernel."""

    beside: ClassVar[tuple[str, ...]] = ("hash_a", "hash_b", "left_partition")
    extra: ClassVar[Mapping[str, type]] = {"following": np.int32, "previous": np.int32}

    hash_a: np.ndarray
    hash_b: np.ndarray
    left_partition: np.ndarray
    following: np.ndarray
    previous: np.ndarray

    def __init__(self) -> None:
        self.first = np.empty(0, np.int32)
        self.length = np.empty(0, np.int64)
        self.in_order = np.empty(0, np.bool_)
        super().__init__()

    def columns(self) -> tuple[np.ndarray, ...]:
        """What the kernel takes as ``store``: fields of SubscriptionColumns."""
        return *super().columns(), self.hash_a, self.hash_b, self.left_partition

    def lists(self) -> tuple[np.ndarray, ...]:
        """What the kernel takes as ``lists``: fields of KeyLists."""
        spare = np.empty((2, self.capacity), np.int32)
        return self.first, self.length, self.in_order, self.following, self.previous, *spare

    def reserve_keys(self, keys: int) -> None:
        """Make room for the lists of ``keys`` foreign keys."""
        missing = keys - len(self.first)
        if missing > 0:
            missing = max(missing, len(self.first))
            self.first = np.concatenate([self.first, np.full(missing, NO_SLOT, np.int32)])
            self.length = np.concatenate([self.length, np.zeros(missing, np.int64)])
            self.in_order = np.concatenate([self.in_order, np.zeros(missing, np.bool_)])


class ForeignKeyJoin(MultiOperator, StatefulOperator):
    """Inputs: subscriptions, and the right table's changes. Forwards responses; ``keys`` codes their primary keys.

    A right value of no bytes, such as an empty string, is sent as null, as in Kafka.
    """

    row_key = SUBSCRIPTION_KEY

    def __init__(self, context: OperatorContext, node: ForeignKeyJoinNode) -> None:
        super().__init__(context)
        self.node, self.keys, self.store = node, Keys(node.shape.key), Subscriptions()
        self.right_value = context.shapes[_RIGHT].value
        self.looked_up, self.matched = 0, 0

    def process_all(self, batches: tuple[Batch, ...], chunk: Chunk) -> Batch:
        subscriptions, changes = batches
        (view,) = self.context.views
        right_values = view.get(subscriptions, subscriptions.key)
        asked = self._asked(subscriptions, right_values, chunk)
        answers_due = self._answers_due(changes, chunk)
        merged = merge_in_forward_order(batches)
        self.store.reserve(len(subscriptions))
        self.store.reserve_keys(len(self.context.keys))
        answers = self._join((merged.which, merged.row), asked, answers_due)
        at, valid = answers.at, answers.valid
        right = pa.concat_arrays([right_values.value, changes.value.all()])
        right_rows = merged.row[at] + np.where(merged.which[at] == _RIGHT, len(subscriptions), 0)
        value = self._value(answers, right.take(pa.array(right_rows, mask=~valid)))
        plain = tuple(batch.with_value(pa.nulls(len(batch))) for batch in batches)
        every = np.ones(len(at), np.bool_)
        return joined_batch(plain, merged).forward(
            at, key=answers.primary, keys=self.keys, time_ms=answers.time, valid=every, value=Values(value)
        )

    def _asked(self, batch: Batch, right_values: Found, chunk: Chunk) -> tuple[np.ndarray, ...]:
        """The subscriptions as the kernel takes them: fields of SubscriptionRecords."""
        message = batch.value.all()
        primary, instruction, hash_a, hash_b, partition = message.flatten()
        instructions = instruction.to_numpy()
        refused = (batch.key < 0) & (instructions != Instruction.PROPAGATE_NULL_IF_NO_FK)
        self._drop(batch, refused, DropReason.NULL_FOREIGN_KEY, chunk)
        chunk.applied[batch.cause[~refused]] = True
        asks = ~refused & np.isin(instructions, _ASKING)
        self.looked_up += int(asks.sum())
        self.matched += int((asks & right_values.valid).sum())
        return (
            batch.key,
            self.keys.intern(primary),
            instructions.copy(),
            batch.time_ms,
            is_valid(hash_a),
            hash_a.fill_null(0).to_numpy().copy(),
            hash_b.fill_null(0).to_numpy().copy(),
            partition.to_numpy().copy(),
            refused,
            right_values.valid,
            right_values.time_ms,
        )

    def _answers_due(self, batch: Batch, chunk: Chunk) -> tuple[np.ndarray, ...]:
        """The right table's changes as the kernel takes them: fields of RightChanges."""
        refused = has_no_key = batch.key < 0
        self._drop(batch, has_no_key, DropReason.NULL_KEY, chunk)
        if batch.latest is not None and self.context.above[-1].is_versioned:
            refused = has_no_key | ~batch.latest
            self._drop(batch, ~has_no_key & ~batch.latest, DropReason.OUT_OF_ORDER_VERSION, chunk)
        chunk.applied[batch.cause[~refused]] = True
        return batch.key, batch.time_ms, batch.valid, refused

    def _drop(self, batch: Batch, refused: np.ndarray, reason: DropReason, chunk: Chunk) -> None:
        rows = np.flatnonzero(refused).astype(np.int32)
        chunk.drop(self.context.node, batch, Drops(reason, rows, np.ones(len(rows), np.bool_)))

    def _join(
        self, rows: tuple[np.ndarray, np.ndarray], asked: tuple[np.ndarray, ...], answers_due: tuple[np.ndarray, ...]
    ) -> SubscriptionResponses:
        """Answers of all rows. How many a change has is only known when its turn comes."""
        totals = np.zeros(3, np.int64)
        pieces: list[SubscriptionResponses] = []
        room = len(rows[0])
        while not pieces or totals[NEEDED]:
            room = max(room, int(totals[NEEDED]))
            answers = empty(SubscriptionResponses, room)
            foreign_key_join_kernel.join(
                *rows,
                asked,
                answers_due,
                self.store.columns(),
                self.store.lists(),
                (self.keys.data, self.keys.offsets),
                tuple(answers),
                int(totals[NEXT]),
                totals,
            )
            pieces.append(written(answers, totals[WRITTEN]))
        return SubscriptionResponses(*(np.concatenate(columns) for columns in zip(*pieces, strict=True)))

    def _value(self, answers: SubscriptionResponses, right: pa.Array) -> pa.Array:
        partition = answers.partition
        columns = [
            fixed_array(answers.hash_a, answers.has_hash, pa.int64()),
            fixed_array(answers.hash_b, answers.has_hash, pa.int64()),
            without_empty(right, self.right_value),
            fixed_array(partition, np.ones(len(partition), np.bool_), pa.int32()),
        ]
        return pa.StructArray.from_arrays(columns, fields=list(self.node.shape.value.arrow_type))

    def metrics(self) -> dict[str, Any]:
        """Of this increment: left values that came, and those for whose foreign key the right table had a value."""
        return {"looked_up": self.looked_up, "matched": self.matched}

    # --- state -----------------------------------------------------------------------------------------------

    def restored(self, left: LeftState) -> tuple[pa.Table, Counters]:
        """A key is the foreign key behind its length, and the primary key. A value (SubscriptionWrapperSerde) is a
        version, whose highest bit says that there is no hash, an instruction, the hash, the primary key, and the left
        partition.
        """
        last = left.log.last()
        keys, primary, hashes, partitions = [], [], [], []
        for key, value in zip(last.key.to_pylist(), last.value.to_pylist(), strict=True):
            taken, wrapped = JavaBytes(key), JavaBytes(value)
            keys.append(taken.read(taken.read_int()))
            primary.append(taken.read())
            version = wrapped.read_byte()
            wrapped.read_byte()  # the instruction, which has been followed
            hashes.append((0, 0) if version & _NO_HASH else (wrapped.read_long(), wrapped.read_long()))
            if version & ~_NO_HASH == 0:
                raise unknown_changelog(left.store, "subscriptions in a format that is older than Kafka Streams 3.1")
            wrapped.read(len(primary[-1]))
            partitions.append(wrapped.read_int())
        columns = [
            last.decoded(self.context.shape.key, pa.array(keys, pa.binary())),
            last.decoded(self.keys.serde, pa.array(primary, pa.binary())),
            *(pa.array([pair[half] for pair in hashes], pa.int64()) for half in (0, 1)),
            pa.array(partitions, pa.int32()),
            pa.array(last.time_ms),
        ]
        return pa.table(columns, schema=self.rows_schema()), {}

    def logged(self, rows: pa.Table, kept: KeptStore) -> tuple[Changelog, ...]:
        foreign = self.context.shape.key.encode(only_chunk(rows, "key")).to_pylist()
        primary = self.keys.serde.encode(only_chunk(rows, "primary_key")).to_pylist()
        numbers = zip(*(rows[name].to_pylist() for name in self.store.beside), strict=True)
        values = [
            _WITH_PARTITION + long_bytes(hash_a) + long_bytes(hash_b) + name + int_bytes(partition)
            for (hash_a, hash_b, partition), name in zip(numbers, primary, strict=True)
        ]
        keys = pa.array([sized(key) + name for key, name in zip(foreign, primary, strict=True)], pa.binary())
        return (Changelog(kept.topic, keys, pa.array(values, pa.binary()), rows["record_time_ms"].to_numpy()),)

    def resume(self, rows: pa.Table, counters: Counters) -> None:
        rows = rows.combine_chunks()
        key = self.context.keys.intern(self.context.shape.key.encode(rows["key"].combine_chunks()))
        primary = self.keys.intern(self.keys.serde.encode(rows["primary_key"].combine_chunks()))
        slots = self.store.add(key, primary, np.zeros(len(key), np.int64), rows["record_time_ms"].to_numpy())
        for name in self.store.beside:
            getattr(self.store, name)[slots] = rows[name].to_numpy()
        self.store.reserve_keys(len(self.context.keys))
        foreign_key_join_kernel.link_all(slots, self.store.key, self.store.lists())

    def counters(self) -> Counters:
        return {}

    def changes(self) -> pa.Table:
        return with_deleted(self._table(self.store.changed()), self._table(self.store.graves()))

    def rows(self) -> pa.Table:
        return self._table(self.store.live())

    def rows_schema(self) -> pa.Schema:
        return subscription_schema(self.context.shape.key, self.keys.serde)

    def _table(self, slots: np.ndarray) -> pa.Table:
        columns = [
            self.context.keys.typed(self.store.key[slots]),
            self.keys.typed(self.store.start[slots]),
            pa.array(self.store.hash_a[slots]),
            pa.array(self.store.hash_b[slots]),
            pa.array(self.store.left_partition[slots].astype(np.int32)),
            pa.array(self.store.time[slots]),
        ]
        return pa.table(columns, schema=self.rows_schema())
