"""The versioned store of a materialized table (KIP-889, KIP-914; RocksDBVersionedStore), and a reader's look into one.

Rule: a change is put at its own time. It is forwarded with the key's latest value from before as old value, whatever
its time, and has a flag for whether it is the key's latest now. A change older than ``stream time - history retention``
is refused ("expired-version"), where stream time is the largest time of any change put here. What a put and a lookup do
exactly is in jobs/operators/tables/versioned_store_kernel.py.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from ....state.buffers import is_valid, only_chunk
from ....state.records.batches import Batch, Chunk, Drops, Values
from ....state.records.drop_reasons import DropReason
from ....state.records.keys import Keys
from ....state.stores.slots import FREE_TOP
from ....state.stores.versions import LATEST, TOMBSTONE, Versions
from ...functions.expressions import Shape
from ...graph.store_rows import VERSION_KEY, version_schema
from ..base.changelogs import Changelog, KeptStore, LeftState
from ..base.forward_order import merge_in_forward_order
from ..base.operator import Counters, Found, TableView, no_restart, with_deleted
from . import versioned_store_kernel
from .key_value_view import OBSERVED
from .table_store import TableStore


class VersionedTableStore(TableStore):
    """``shape``: of the table, keys not windowed; ``node``: whose refusals are booked; ``history_retention_ms`` >= 0.

    Rows: key, valid_from_ms, valid_to_ms (null: the latest; of history that is not yet past the retention), value
    (null: deleted), is_mark (a deletion of nothing, valid for no time; jobs/operators/tables/versioned_store_kernel.py
    says what it is for).
    """

    row_key = VERSION_KEY

    def __init__(self, shape: Shape, keys: Keys, *, node: str, history_retention_ms: int, sends_old: bool) -> None:
        self.shape, self.keys, self.node, self.sends_old = shape, keys, node, sends_old
        self.versions = Versions(keys, shape.value, history_retention_ms)
        self._left_to_view: tuple[Batch, Chunk, int, int] | None = None

    def restart(self) -> None:
        raise no_restart(self.node, "a versioned table")

    def put(self, batch: Batch, chunk: Chunk, *, keeps_old: bool = False, skips_nothing: bool = False) -> Batch:
        store, before = self.versions, self.versions.observed_ms
        store.reserve(len(batch))
        answers, old = np.empty(len(batch), np.int64), np.empty(len(batch), np.int64)
        rows = batch.key, batch.time_ms, store.append(batch.value.all(), batch.valid)
        versioned_store_kernel.put_all(
            rows, skips_nothing, store.retention_ms, store.columns(), versioned_store_kernel.NO_JOURNAL, answers, old
        )
        self._refuse(batch, answers, before, chunk)
        forwarded = replace(batch, latest=answers == versioned_store_kernel.IS_LATEST)
        if not keeps_old:
            values = Values(store.heap.take(old)) if self.sends_old else None
            forwarded = replace(forwarded, old=values, old_valid=old != TOMBSTONE if self.sends_old else None)
        store.tidy()
        return forwarded.where(
            (answers != versioned_store_kernel.NOT_PUT) & (answers != versioned_store_kernel.SKIPPED)
        )

    def _refuse(self, batch: Batch, answers: np.ndarray, before: int, chunk: Chunk) -> None:
        rows = np.flatnonzero(answers == versioned_store_kernel.NOT_PUT).astype(np.int32)
        if len(rows) == 0:
            return
        put = (answers != versioned_store_kernel.NOT_PUT) & (answers != versioned_store_kernel.SKIPPED)
        # The store's stream time as it was at each put: one that was refused or skipped did not move it.
        observed = np.maximum.accumulate(np.where(put, np.maximum(batch.time_ms, before), before))[rows]
        limit = observed - self.versions.retention_ms
        chunk.drop(
            self.node, batch, Drops(DropReason.EXPIRED_VERSION, rows, np.ones(len(rows), np.bool_), observed, limit)
        )

    def leave_to_view(self, batch: Batch, chunk: Chunk) -> Batch:
        """Leave the changes of ``batch`` to the view that puts into this store, each before the first row that sees it.

        Returns the batch as it is. Only that view reads the table, so nobody needs old values and ``latest`` flags.
        """
        self._left_to_view = batch, chunk, len(chunk.drops), self.versions.observed_ms
        return batch

    def book(self, answers: np.ndarray) -> None:
        """What became of the changes that the view has put: as if they had been put when they came."""
        assert self._left_to_view is not None, "only what was left to the view is booked"
        batch, chunk, drops, before = self._left_to_view
        # The view has put the changes later, but the refusals are listed where ``put`` would have listed them: before
        # those of the nodes below.
        later, chunk.drops[drops:] = chunk.drops[drops:], []
        self._refuse(batch, answers, before, chunk)
        chunk.drops += later
        chunk.applied[batch.cause[answers != versioned_store_kernel.NOT_PUT]] = True
        self._left_to_view = None

    def get(self, key: Any, as_of_ms: int | None = None) -> tuple[int, Any] | None:
        """(valid from, value) of the version of a Python ``key`` as of a time, as ``version``."""
        version = self.version(key, as_of_ms)
        return None if version is None else (version[1], version[0])

    def version(self, key: Any, as_of_ms: int | None = None) -> tuple[Any, int, int | None] | None:
        """Value, valid from and valid to (None: the latest) of the version of a Python ``key`` as of a time, by default
        its latest; None if there is none (VersionedKeyValueStore.get). Before ``stream time - history retention`` only
        a latest version is found.
        """
        encoded = self.shape.key.encode(self.shape.key.from_python([key]))[0].as_py()
        code, store = self.keys.lookup(encoded), self.versions
        store.cover()
        at = versioned_store_kernel.lookup(
            code, LATEST if as_of_ms is None else as_of_ms, store.retention_ms, store.columns()
        )
        if at < 0:
            return None
        value = self.shape.value.to_python(store.heap.take(store.slots.reference[at : at + 1]))[0]
        end_ms = int(store.slots.end[at])
        return value, int(store.slots.start[at]), None if end_ms == LATEST else end_ms

    # --- state -----------------------------------------------------------------------------------------------

    def restored(self, left: LeftState) -> tuple[pa.Table, Counters]:
        """By putting all versions once more, as RocksDBVersionedStore restores them."""
        log = left.log
        keys = self.shape.key.encode(log.decoded(self.shape.key, log.key))  # in the form in which stores have them
        values, n = log.decoded(self.shape.value, log.value), len(log)
        store = Versions(Keys(self.shape.key), self.shape.value, self.versions.retention_ms)
        code = store.keys.intern(keys).astype(np.int32)
        store.reserve(n)
        rows = code, log.time_ms, store.append(values, is_valid(values))
        answers, old = np.empty(n, np.int64), np.empty(n, np.int64)
        versioned_store_kernel.put_all(
            rows, False, store.retention_ms, store.columns(), versioned_store_kernel.NO_JOURNAL, answers, old
        )
        store.expire()
        return _table_of(store, store.slots.live(), self.rows_schema()), {"store_time_ms": store.observed_ms}

    def logged(self, rows: pa.Table, kept: KeptStore) -> tuple[Changelog, ...]:
        """Each version by its time; one that ends where no other begins was deleted then."""
        key, start = self.shape.key.encode(only_chunk(rows, "key")), rows["valid_from_ms"].to_numpy()
        value, ends = self.shape.value.encode(only_chunk(rows, "value")), only_chunk(rows, "valid_to_ms")
        begun = set(zip(key.to_pylist(), start.tolist(), strict=True))
        bounds = zip(key.to_pylist(), ends.to_pylist(), strict=True)
        gone = [(name, end) for name, end in bounds if end is not None and (name, end) not in begun]
        keys = pa.concat_arrays([key.cast(pa.binary()), pa.array([name for name, _ in gone], pa.binary())])
        values = pa.concat_arrays([value.cast(pa.binary()), pa.nulls(len(gone), pa.binary())])
        times = np.concatenate([start, np.array([end for _, end in gone], np.int64)])
        return (Changelog(kept.topic, keys, values, times).take(np.argsort(times, kind="stable")),)

    def resume(self, rows: pa.Table, counters: Counters) -> None:
        _load(self.versions, self.shape, rows, counters.get("store_time_ms", -1), is_durable=True)

    def counters(self) -> Counters:
        return {"store_time_ms": self.versions.observed_ms}

    def forgets(self, rows: pa.Table, counters: Counters) -> np.ndarray:
        ends = only_chunk(rows, "valid_to_ms").fill_null(LATEST).to_numpy()
        return ends <= counters.get("store_time_ms", -1) - self.versions.retention_ms

    def changes(self) -> pa.Table:
        self.versions.expire()
        slots = self.versions.slots
        return with_deleted(self._table(slots.changed()), self._table(slots.graves()))

    def rows(self) -> pa.Table:
        self.versions.expire()
        return self._table(self.versions.slots.live())

    def contents(self) -> pa.Table:
        """Every version that can still be asked for, by ``rows_schema`` and record_time_ms."""
        rows = self.rows()
        shown = rows.append_column("record_time_ms", rows["valid_from_ms"])
        return shown.replace_schema_metadata({OBSERVED: str(self.versions.observed_ms).encode()})

    def rows_schema(self) -> pa.Schema:
        return version_schema(self.shape)

    def _table(self, at: np.ndarray) -> pa.Table:
        return _table_of(self.versions, at, self.rows_schema())


def _table_of(versions: Versions, at: np.ndarray, schema: pa.Schema) -> pa.Table:
    """Rows of the slots ``at``."""
    slots = versions.slots
    start, end = slots.start[at], slots.end[at]
    key, value = versions.keys.typed(slots.key[at].astype(np.int32)), versions.heap.take(slots.reference[at])
    return pa.table([key, start, pa.array(end, mask=end == LATEST), value, pa.array(start == end)], schema=schema)


class VersionedView(TableView):
    """A reader's replica of the versioned store of node ``owner``, fed with what it put.

    It answers the latest version, or with ``as_of_ms`` the version as of that time (inclusive). One chunk may be asked
    about several times: each time the puts are run again from the chunk's beginning. A view that puts into the
    owner's store has no replica: who asks a second time is shown what is there after all puts.
    """

    is_versioned = True

    def __init__(self, owner: str, shape: Shape, keys: Keys, *, history_retention_ms: int) -> None:
        self.owner, self.shape, self.keys = owner, shape, keys
        self.wants = frozenset({(owner, TableView.PUT)})
        self.versions = Versions(keys, shape.value, history_retention_ms)
        self._puts: Batch | None = None
        self._references = np.zeros(0, np.int64)
        self._is_put = False
        self._counts = self.versions.slots.counts.copy()
        self._journal = versioned_store_kernel.journal_of(0)
        self._answers = np.zeros(0, np.int64)
        self._owners_store: VersionedTableStore | None = None

    def put_into(self, store: VersionedTableStore) -> None:
        """Put into ``store`` itself what its owner leaves to the view. Call before ``resume``."""
        assert store.keys is self.keys, "codes of one store's keys are those of its readers"
        self._owners_store, self.versions = store, store.versions
        self.is_replica = False

    def feed(self, seen: Mapping[tuple[str, str], Batch]) -> None:
        puts = seen[self.owner, self.PUT].coded_by(self.keys)
        self.versions.reserve(len(puts))
        self._references = self.versions.append(puts.value.all(), puts.valid)
        self._puts, self._is_put = puts, False
        self._answers = np.empty(len(puts), np.int64)
        self._counts = self.versions.slots.counts.copy()
        # Only a replica runs its puts again for a second reader, so only it notes how to take them back. In the owner's
        # store they are run once.
        self._journal = (
            versioned_store_kernel.journal_of(len(puts)) if self.is_replica else versioned_store_kernel.NO_JOURNAL
        )

    def get(self, asking: Batch, keys: np.ndarray, as_of_ms: np.ndarray | None = None) -> Found:
        as_of = np.full(len(keys), LATEST, np.int64) if as_of_ms is None else as_of_ms
        reference, time_ms = self._run(asking, keys, as_of)
        return Found(self.versions.heap.take(reference), reference != TOMBSTONE, time_ms)

    def take_puts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(key, time, reference) of the chunk's puts, for a reader that puts all of them itself, in their order."""
        assert self._puts is not None, "a view is fed before it is asked"
        self._is_put = True
        return self._puts.key, self._puts.time_ms, self._references

    def _run(self, asking: Batch, keys: np.ndarray, as_of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert self._puts is not None, "a view is fed before it is asked"
        # Each reader of the view sees the puts before its own row, so for another reader they are taken back and run
        # once more, merged with its rows.
        if self._is_put and self.is_replica:
            self._rewind()
        # The owner's store cannot go back.
        elif self._is_put:
            self._puts = _none_of(self._puts)
        store, puts = self.versions, self._puts
        store.cover()
        shown = np.empty(len(asking), np.int64), np.empty(len(asking), np.int64)
        versioned_store_kernel.put_and_find(
            tuple(merge_in_forward_order((puts, asking))),
            (puts.key, puts.time_ms, self._references),
            (keys.astype(np.int32, copy=False), as_of),
            store.retention_ms,
            store.columns(),
            self._journal,
            self._answers,
            shown,
        )
        self._is_put = True
        return shown

    def _rewind(self) -> None:
        """Back to the beginning of the chunk."""
        slots = self.versions.slots
        # Puts with a journal free no slot, so what was taken since the chunk began is the part of the stack of free
        # slots that lies between its two tops.
        versioned_store_kernel.take_back(self.versions.columns(), self._journal)
        self.versions.skip_lists.clear()
        slots.flags[slots.free[slots.counts[FREE_TOP] : self._counts[FREE_TOP]]] = 0
        slots.counts[:] = self._counts

    def settle(self) -> None:
        if self._puts is None:
            return
        # Nobody looked, so the puts have not been run yet.
        if not self._is_put:
            empty_batch = _none_of(self._puts)
            self._run(empty_batch, empty_batch.key, empty_batch.time_ms)
        if self._owners_store is not None:
            self._owners_store.book(self._answers)
        self._puts = None
        self.versions.tidy()

    def resume(self, stores: Mapping[str, pa.Table]) -> None:
        if self.is_replica and self.owner in stores:
            rows = stores[self.owner]
            observed_ms = int((rows.schema.metadata or {}).get(OBSERVED, b"-1"))
            _load(self.versions, self.shape, rows, observed_ms, is_durable=False)


def _none_of(batch: Batch) -> Batch:
    return batch.take(np.zeros(0, np.int64))


def _load(versions: Versions, shape: Shape, rows: pa.Table, observed_ms: int, *, is_durable: bool) -> None:
    key = versions.keys.intern(shape.key.encode(only_chunk(rows, "key")))
    value = only_chunk(rows, "value")
    end = only_chunk(rows, "valid_to_ms").fill_null(LATEST).to_numpy()
    start = only_chunk(rows, "valid_from_ms").to_numpy()
    versions.load(key, start, end, value, is_valid(value), observed_ms, is_durable=is_durable)
