"""Deduplicate: forward the first record of an identity and discard the others of the interval (KIP-655, which Kafka
Streams does not have).

Owns an entry an identity: the record that was forwarded, its time and its coordinates. The identity is the key, key and
id, or the id; two are equal when their serialized bytes are. Rule: see jobs/operators/deduplicate_kernel.py. The
interval is inclusive on both sides. What passes continues unchanged and in order; a null key or id always passes.
Duplicates are counted, and not among the dropped records.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from ...state.buffers import only_chunk
from ...state.records.batches import Batch, Chunk
from ...state.records.keys import Keys
from ...state.serdes import Serde
from ...state.stores.slots import LIVE, LIVE_COUNT, Slots
from ..functions.expressions import Call, Expression
from . import deduplicate_kernel
from .base.operator import Counters, OperatorContext, StatefulOperator, with_deleted
from .deduplicate_node import DeduplicateNode, identity_columns, identity_schema

_KEPT_SLOTS = 65_536
"""Below this many entries those that are too old are not swept."""


class IdentitySlots(Slots):
    """``key``: code of the key (of the id, when that alone counts), ``start``: code of the id beside a key, else 0."""

    beside = ("offset", "record")
    extra: ClassVar[Mapping[str, type]] = {"topic": np.int16}
    offset: np.ndarray
    record: np.ndarray
    topic: np.ndarray


class Deduplicate(StatefulOperator):
    """``by``: "key", "key-value" or "id". ``interval_ms`` >= 0. ``id_selector``: of the latter two.

    ``semantics``: records that one input record caused (flatMap, a join) have its coordinates. "kafka", by the letter
    of the KIP: they are forwarded as if processed again. "kip": they are records like any other. Only a record of
    another cause at the same coordinates can have been processed before.
    """

    def __init__(
        self,
        context: OperatorContext,
        *,
        by: str,
        interval_ms: int,
        id_selector: Expression | Call | None = None,
        semantics: str = "kafka",
    ) -> None:
        super().__init__(context)
        self.by, self.interval_ms, self.id_selector, self.semantics = by, interval_ms, id_selector, semantics
        self.row_key = identity_columns(by)
        self.slots = IdentitySlots()
        self.ids = None if id_selector is None else Keys(id_selector.result)
        self.totals = np.array([-1, 0], np.int64)
        self._topics: dict[str, int] = {}
        self._chunk: Chunk | None = None
        self._first, self._records, self._kept, self._forwarded = 0, 0, 0, 0

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        self._sweep()
        self.slots.reserve(len(batch))
        chunk.left_out[batch.cause] = True
        source, offset = batch.coordinates(chunk)
        topics = np.array([*(self._topic(name) for name in chunk.context_topics), -1], np.int16)
        passes = np.empty(len(batch), np.bool_)
        if chunk is not self._chunk:  # a task that runs by record comes several times with one chunk
            self._chunk, self._first, self._records = chunk, self._records, self._records + len(chunk.offset)
        slots, record = self.slots, self._first + batch.cause.astype(np.int64)
        key, id_code = self._identities(batch)
        deduplicate_kernel.deduplicate(
            (key, id_code, batch.time_ms, topics[source], offset, record),
            self.interval_ms,
            self.semantics == "kip",
            slots.columns(),
            (slots.topic, slots.offset, slots.record),
            passes,
            self.totals,
        )
        self._forwarded += int(passes.sum())
        chunk.applied[batch.cause[passes & (key >= 0) & (id_code >= 0)]] = True  # remembered
        return batch.where(passes)

    def advance(self, advance_row: Batch, chunk: Chunk) -> None:
        self.totals[deduplicate_kernel.STREAM_TIME] = max(
            self.totals[deduplicate_kernel.STREAM_TIME], advance_row.time_ms[0]
        )

    def _identities(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Codes of key and id; one of them 0 when it does not count."""
        if self.ids is None or self.id_selector is None:
            return batch.key, np.zeros(len(batch), np.int32)
        ids = self.ids.intern(self.id_selector.result.encode(self.id_selector.evaluate(batch)))
        return (batch.key, ids) if self.by == "key-value" else (ids, np.zeros(len(batch), np.int32))

    def _topic(self, name: str) -> int:
        return self._topics.setdefault(name, len(self._topics))

    def _sweep(self) -> None:
        if int(self.slots.counts[LIVE_COUNT]) > 2 * self._kept + _KEPT_SLOTS:
            self._purge()
            self._kept = int(self.slots.counts[LIVE_COUNT])

    def _purge(self) -> None:
        """Take out what no later record can match."""
        slots = self.slots
        is_old = slots.time < int(self.totals[deduplicate_kernel.STREAM_TIME]) - self.interval_ms
        slots.bury(np.flatnonzero(is_old & (slots.flags & LIVE > 0)))

    # --- state -----------------------------------------------------------------------------------------------

    def resume(self, rows: pa.Table, counters: Counters) -> None:
        self.totals[deduplicate_kernel.STREAM_TIME] = counters.get("stream_time_ms", -1)
        columns = {name: rows[name].combine_chunks() for name in self.row_key}
        codes = {name: keys.intern(serde.encode(columns[name])) for name, (keys, serde) in self._coders().items()}
        first, *second = codes.values()
        at = self.slots.add(
            first,
            second[0] if second else np.zeros(len(rows), np.int64),
            np.zeros(len(rows), np.int64),
            rows["record_time_ms"].to_numpy(),
        )
        topics = rows["context_topic"].to_pylist()
        self.slots.topic[at] = [-1 if topic is None else self._topic(topic) for topic in topics]
        self.slots.offset[at], self.slots.record[at] = rows["context_offset"].to_numpy(), -1

    def _coders(self) -> dict[str, tuple[Keys, Serde]]:
        """Who codes each part of the identity."""
        coders = {"key": (self.context.keys, self.context.shape.key)}
        if self.ids is not None:
            coders["id"] = (self.ids, self.ids.serde)
        return {name: coders[name] for name in self.row_key}

    @property
    def finding_serde(self) -> Serde:
        return self._coders()[self.row_key[0]][1]

    def found_by(self, rows: pa.Table) -> pa.Array:
        return self.finding_serde.encode(only_chunk(rows, self.row_key[0]))

    def forgets(self, rows: pa.Table, counters: Counters) -> np.ndarray:
        return rows["record_time_ms"].to_numpy() < counters.get("stream_time_ms", -1) - self.interval_ms

    def counters(self) -> Counters:
        return {"stream_time_ms": int(self.totals[deduplicate_kernel.STREAM_TIME])}

    def changes(self) -> pa.Table:
        self._purge()
        return with_deleted(self._table(self.slots.changed()), self._table(self.slots.graves()))

    def rows(self) -> pa.Table:
        self._purge()
        return self._table(self.slots.live())

    def contents(self) -> pa.Table:
        """The identities; the value is the offset of the record that was forwarded."""
        return self.rows().rename_columns(["value" if n == "context_offset" else n for n in self.rows_schema().names])

    def rows_schema(self) -> pa.Schema:
        return identity_schema({name: serde.arrow_type for name, (_, serde) in self._coders().items()})

    def _table(self, at: np.ndarray) -> pa.Table:
        slots = self.slots
        parts = zip(self._coders().values(), (slots.key, slots.start), strict=False)
        identity = [keys.typed(codes[at].astype(np.int32)) for (keys, _), codes in parts]
        topic = slots.topic[at].astype(np.int64)
        topics = pa.array(list(self._topics), pa.string()).take(pa.array(topic, mask=topic < 0))
        columns = [*identity, pa.array(slots.time[at]), topics, pa.array(slots.offset[at])]
        return pa.table(columns, schema=self.rows_schema())

    def metrics(self) -> dict[str, Any]:
        """Of this increment: records forwarded, and duplicates discarded."""
        return {"forwarded": self._forwarded, "duplicates": int(self.totals[deduplicate_kernel.DUPLICATES])}


def build(node: DeduplicateNode, context: OperatorContext) -> Deduplicate:
    """The operator of a DeduplicateNode."""
    return Deduplicate(
        context, by=node.by, interval_ms=node.interval_ms, id_selector=node.id_selector, semantics=node.semantics
    )
