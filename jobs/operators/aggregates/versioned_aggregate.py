"""Aggregates of streams without windows in a versioned store (KStreamAggregate, KStreamReduce; KIP-889, KIP-914).

Owns the aggregates and their history. Rule: as without a version (jobs/operators/aggregates/record_aggregate.py), but a
result older than ``store time - history retention`` is refused and changes nothing. An aggregate that became null
leaves a deletion behind; what a record makes before that time is history only, and the aggregate stays null.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import only_chunk
from ....state.records.batches import Batch, Chunk
from ...functions.expressions import Shape
from ...functions.folds.aggregation import Aggregation
from ...functions.folds.fold_program import START, FoldProgram
from ...functions.folds.python import PythonState
from ..base.changelogs import Changelog, KeptStore, LeftState
from ..base.operator import Counters, OperatorContext, with_deleted
from ..tables.versioned_store import VersionedTableStore
from .aggregate_nodes import versioned_aggregate_schema
from .record_aggregate import RecordAggregate

_STATE = -1
"""``valid_from_ms`` of the row that has a key's aggregate in its durable form."""


class VersionedAggregate(RecordAggregate):
    """``table``: shape of the result. Rows: those of the versioned store, with the columns ``aggregate`` and
    ``record_time_ms``, which only a key's row at ``valid_from_ms`` -1 has.
    """

    row_key = VersionedTableStore.row_key
    _looks_at_every_row = True

    def __init__(
        self, context: OperatorContext, aggregation: Aggregation, table: Shape, history_retention_ms: int
    ) -> None:
        super().__init__(context, aggregation, history_ms=history_retention_ms)
        self.versions = VersionedTableStore(
            table,
            context.keys,
            node=context.node,
            history_retention_ms=history_retention_ms,
            sends_old=context.wants_old,
        )
        self._since: dict[int, int] = {}
        """By key: time of the aggregate, where a function may make it null."""
        self._ends: dict[int, int] = {}
        """By key: where the history before the aggregate ends."""

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        return self.versions.put(super().process(batch, chunk), chunk, keeps_old=True)

    def _remove_nulls(self, program: FoldProgram, state: PythonState) -> None:
        for flags, slot in zip(program.flags.tolist(), program.slots.tolist(), strict=True):
            key, time_ms, is_new = int(self.slots.key[slot]), int(self.slots.time[slot]), bool(flags & START)
            is_null = state.state[slot] is None
            # The key was deleted later than this result: RocksDBVersionedStore takes it into the history, and the
            # latest value stays null.
            if is_new and self._ends.get(key, 0) > time_ms:
                self._remove(slot)
                continue
            if is_null if is_new else time_ms > self._since[key]:
                self._ends[key] = time_ms
            self._since[key] = time_ms
            if is_null:
                self._remove(slot)

    # --- state -----------------------------------------------------------------------------------------------

    def restored(self, left: LeftState) -> tuple[pa.Table, Counters]:
        versions, counters = self.versions.restored(left)
        latest = versions.filter(pc.and_(pc.is_null(versions["valid_to_ms"]), pc.is_valid(versions["value"])))
        schema, n = self.rows_schema(), len(latest)
        columns = {
            "key": latest["key"], "valid_from_ms": pa.array(np.full(n, _STATE, np.int64)),
            "is_mark": pa.array(np.zeros(n, np.bool_)), "record_time_ms": latest["valid_from_ms"],
            "aggregate": self.folds.saved_of(only_chunk(latest, "value")),
        }  # fmt: skip
        states = [columns.get(field.name, pa.nulls(n, field.type)) for field in schema]
        clocks = dict.fromkeys(self._clock_names(), left.stream_time_ms)
        return pa.concat_tables([pa.table(states, schema=schema), self._beside(versions)]), clocks | counters

    def logged(self, rows: pa.Table, kept: KeptStore) -> tuple[Changelog, ...]:
        return self.versions.logged(rows.filter(pc.not_equal(rows["valid_from_ms"], _STATE)), kept)

    def resume(self, rows: pa.Table, counters: Counters) -> None:
        is_state = np.equal(rows["valid_from_ms"].to_numpy(), _STATE)
        kept, history = rows.filter(pa.array(is_state)), rows.filter(pa.array(~is_state))
        super().resume(kept, counters)
        self.versions.resume(history.select(self.versions.rows_schema().names), counters)
        live = self.slots.live()
        self._since = dict(zip(self.slots.key[live].tolist(), self.slots.time[live].tolist(), strict=True))
        ended = history.filter(history["valid_to_ms"].is_valid())
        codes = self.context.keys.intern(self.context.shape.key.encode(only_chunk(ended, "key")))
        for key, end_ms in zip(codes.tolist(), ended["valid_to_ms"].to_pylist(), strict=True):
            self._ends[key] = max(end_ms, self._ends.get(key, 0))

    def forgets(self, rows: pa.Table, counters: Counters) -> np.ndarray:
        return self.versions.forgets(rows, counters)

    def changes(self) -> pa.Table:
        self._settle()
        states = with_deleted(self._table(self.slots.changed()), self._table(self.slots.graves()))
        return pa.concat_tables([states, self._beside(self.versions.changes())])

    def rows(self) -> pa.Table:
        self._settle()
        return pa.concat_tables([self._table(self.slots.live()), self._beside(self.versions.rows())])

    def contents(self) -> pa.Table:
        return self.versions.contents()

    def rows_schema(self) -> pa.Schema:
        return versioned_aggregate_schema(self.versions.shape, self.folds.saved_type)

    def _table(self, slots: np.ndarray) -> pa.Table:
        schema, n = self.rows_schema(), len(slots)
        columns = {
            "key": self.context.keys.typed(self.slots.key[slots].astype(np.int32)),
            "valid_from_ms": pa.array(np.full(n, _STATE, np.int64)),
            "is_mark": pa.array(np.zeros(n, np.bool_)),
            "aggregate": self.folds.save(slots),
            "record_time_ms": pa.array(self.slots.time[slots]),
        }
        return pa.table([columns.get(field.name, pa.nulls(n, field.type)) for field in schema], schema=schema)

    def _beside(self, versions: pa.Table) -> pa.Table:
        """Rows of the versioned store, with ``deleted`` or without, in the columns of this one."""
        schema, n = self.rows_schema(), len(versions)
        names = [*schema.names, *(["deleted"] if "deleted" in versions.column_names else [])]
        return pa.table(
            {
                name: versions[name] if name in versions.column_names else pa.nulls(n, schema.field(name).type)
                for name in names
            }
        )
