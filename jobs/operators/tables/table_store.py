"""The store of a materialized table: where its changes are put, and what they replaced.

Rule (KTableSource, KTableMaterializedValueGetterSupplier): a put replaces whatever its time, and the change that is
forwarded carries the value before it. A versioned store (jobs/operators/tables/versioned_store.py) may refuse a put,
and says of each whether it is the newest of its key.
"""

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ....state.buffers import only_chunk
from ....state.records.batches import Batch, Chunk, Values
from ....state.records.keys import Keys
from ....state.stores.key_values import NO_REFERENCE, KeyValueRows
from ....state.tables.warehouse import WINDOW_KEY
from ...functions.expressions import Shape
from ..base.changelogs import Changelog, KeptStore, LeftState
from ..base.operator import Counters, with_deleted
from .table_store_kernel import put_rows


class TableStore(ABC):
    """``put`` once a chunk; the rest as of StatefulOperator, whose durable side this is."""

    row_key: tuple[str, ...] = WINDOW_KEY

    @abstractmethod
    def put(self, batch: Batch, chunk: Chunk, *, keeps_old: bool = False, skips_nothing: bool = False) -> Batch:
        """Put every change of ``batch`` (keys not null) in order; what is forwarded of it.

        ``old`` of the result is the store's value before each put, where the table sends old values, or with
        ``keeps_old`` that of ``batch``. ``skips_nothing``: deletions of what has no value are neither put nor
        forwarded (KTableFilter). A refused put is booked in ``chunk`` and not forwarded.
        """

    def restart(self) -> None:  # noqa: B027 (a plain store has no stream time)
        """As of Operator."""

    @abstractmethod
    def restored(self, left: LeftState) -> tuple[pa.Table, Counters]: ...

    @abstractmethod
    def logged(self, rows: pa.Table, kept: KeptStore) -> tuple[Changelog, ...]: ...

    @abstractmethod
    def resume(self, rows: pa.Table, counters: Counters) -> None: ...

    @abstractmethod
    def counters(self) -> Counters: ...

    def forgets(self, rows: pa.Table, counters: Counters) -> np.ndarray:
        return np.zeros(len(rows), np.bool_)

    def loses(self, rows: pa.Table, counters: Counters) -> np.ndarray:
        return self.forgets(rows, counters)

    @abstractmethod
    def changes(self) -> pa.Table: ...

    @abstractmethod
    def rows(self) -> pa.Table: ...

    @abstractmethod
    def contents(self) -> pa.Table: ...

    @abstractmethod
    def rows_schema(self) -> pa.Schema: ...


class PlainStore(TableStore):
    """A key-value store. ``shape``: of the table; rows: key, [window bounds], value, record_time_ms."""

    def __init__(self, shape: Shape, keys: Keys, *, sends_old: bool) -> None:
        self.sends_old = sends_old
        self.table = KeyValueRows(shape.key, keys, shape.value.arrow_type, is_windowed=shape.window is not None)

    def put(self, batch: Batch, chunk: Chunk, *, keeps_old: bool = False, skips_nothing: bool = False) -> Batch:
        slots, values = self.table.slots, batch.value.all()
        at = slots.enter(batch.key, batch.window_start_ms, batch.window_end_ms)
        before = np.empty(len(batch), np.int64)
        put_rows(at, batch.time_ms, batch.valid, slots.time, slots.flags, slots.reference, before)
        forwarded = replace(batch, latest=None)
        if not keeps_old:
            old = Values(self.table.gather(before, values)) if self.sends_old else None
            old_valid = before != NO_REFERENCE if self.sends_old else None
            forwarded = replace(forwarded, old=old, old_valid=old_valid)
        self.table.keep(values, at)
        return forwarded.where(batch.valid | (before != NO_REFERENCE)) if skips_nothing else forwarded

    def restored(self, left: LeftState) -> tuple[pa.Table, Counters]:
        last = left.log.last()
        value = last.decoded(left.shape.value, last.value)
        columns = {**left.table_keys(last), "value": value, "record_time_ms": pa.array(last.time_ms)}
        return pa.table([columns[name] for name in self.rows_schema().names], schema=self.rows_schema()), {}

    def logged(self, rows: pa.Table, kept: KeptStore) -> tuple[Changelog, ...]:
        value = kept.shape.value.encode(only_chunk(rows, "value"))
        return (Changelog(kept.topic, kept.serialized_table_keys(rows), value, rows["record_time_ms"].to_numpy()),)

    def resume(self, rows: pa.Table, counters: Counters) -> None:
        self.table.load(rows)

    def counters(self) -> Counters:
        return {}

    def changes(self) -> pa.Table:
        return with_deleted(self.table.table(self.table.slots.changed()), self.table.table(self.table.slots.graves()))

    def rows(self) -> pa.Table:
        return self.table.table(self.table.slots.live())

    def contents(self) -> pa.Table:
        return self.rows()

    def rows_schema(self) -> pa.Schema:
        return self.table.schema()
