"""Python processors, record by record, with stores and punctuation (Kafka Streams' Processor API).

Owns the running processor and its context. Rule: after every record that the task takes, whether it reached this node
or not, the schedules that are due by the task's stream time are called. The records that they forward come after
everything else that the record caused, and have no topic, no offset and no headers. Those by wall-clock time are called
at recorded ticks alone.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.distinct_numbers import distinct
from ....state.errors import ConfigError, ReplayError, TaskFailed
from ....state.near_names import did_you_mean
from ....state.records.batches import NO_OFFSET, OF_CAUSE, Batch, Chunk, Drops
from ....state.records.drop_reasons import DropReason
from ....state.records.keys import Keys
from ....state.runs.stored_rows import StoredRows, in_memory
from ....state.serdes import Serde
from ....state.serdes.handed_over import HandOver
from ....state.serdes.rebuilding import Take
from ....state.times import NO_TIMESTAMP_MS, Duration, bounded_ms, duration_ms, whole_ms
from ...functions.callable_bodies import check_nothing_returned
from ...functions.expressions import Shape
from ...functions.parameters import form_of
from ...functions.processor_api import (
    NOT_GIVEN,
    Cancellable,
    FixedKeyProcessorContext,
    FixedKeyRecord,
    Headers,
    ProcessingContext,
    ProcessorContext,
    PunctuationType,
    Record,
    RecordMetadata,
)
from ..base.changelogs import Changelog, KeptStore, LeftState
from ..base.failed_records import FailedRecords, records_of
from ..base.operator import (
    Counters,
    InnerStore,
    Links,
    Operator,
    OperatorContext,
    SharingOperator,
    WindowedStore,
    with_deleted,
)
from ..base.single_records import Single
from .global_store import GlobalStoreView
from .opened_stores import Expiring, stores_of
from .outbox import Handing, Outbox, SendingOutbox
from .process_node import ROWS, ProcessNode
from .punctuation import WALL_CLOCK, Punctuations, Schedule, Ticks
from .rows_of_store import RowsOfStore
from .stores import Store
from .table_stores import TableValues, Writer
from .table_windows import Place, windows_of

_Row = tuple[str, bytes, bytes | None]
"""Store, serialized key and value."""


class Process(SharingOperator):
    """``keys`` codes the keys of what is forwarded. A failure of the processor ends the run, with the record's key."""

    row_key = ROWS.row_key
    finds_rows = True

    def __init__(self, context: OperatorContext, node: ProcessNode) -> None:
        super().__init__(context)
        self.node, self.keys, self.handing = node, Keys(node.shape.key), Handing.of(node)
        self.own_stores = stores_of(node.stores, node.name)
        self.stores: dict[str, Any] = dict(self.own_stores)
        """Those of its own, and those that it shares."""
        self.replicas: dict[str, GlobalStoreView] = {}
        """Of global stores, whose rows are among those of its own."""
        self._given_key, self._given_value = _giving_keys(context.shape), HandOver(context.shape.value.codec).give
        self._expiring = [store for store in self.stores.values() if isinstance(store, Expiring)]
        self.schedules, self.ticks = Punctuations(), Ticks()
        self.stream_time_ms = NO_TIMESTAMP_MS
        self.processor_context = (_ProcessorContext if node.changes_keys else _FixedKeyContext)(self)
        self._writer = Writer()
        self._sending: SendingOutbox | None = None
        """None: what is forwarded waits for the end of the batch."""
        self._counters: Counters = {}

    def connect(self, owners: Mapping[str, Operator]) -> None:
        for store, owner in self.node.shared.items():
            keeper = owners[owner]
            assert isinstance(keeper, Process), f"{owner} is no processor"
            self.stores[store] = keeper.stores[store]
        self._expiring = [store for store in self.stores.values() if isinstance(store, Expiring)]
        views, shapes = iter(self.context.views), iter(self.context.shapes_read)
        for (store, owner), view, shape in zip(self.node.tables.items(), views, shapes, strict=False):
            operator = owners.get(owner)
            if isinstance(operator, WindowedStore) and shape.window is not None:
                self.stores[store] = windows_of(Place(store, owner, shape, self.node.name), operator, self._writer)
                continue
            values = TableValues(store, owner, shape, view, operator, self.node.name)
            self.stores[store], values.writer = values, self._writer
        for store, view in zip(self.node.replicas, views, strict=True):
            assert isinstance(view, GlobalStoreView), f"{store} is no global store"
            self.replicas[store], self.stores[store] = view, view.shown(self.node.name)

    def expect(self, batch: Batch) -> None:
        stores = [store for store in self._kept().values() if isinstance(store, Store) and store.has_stored]
        of_keys = [store for store in stores if store.key == batch.keys.serde]
        if of_keys and batch.window_start_ms is None:
            names = batch.keys.take(distinct(batch.key[batch.key >= 0]))
            for store in of_keys:
                store.expect(names)

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        self.expect(batch)
        records = records_of(self.context, batch)
        metadata = metadata_of(batch, chunk)
        self._writer.chunk = chunk
        outbox = self.processor_context.outbox = Outbox(self.node, self.keys, self.handing, self.context.number)
        failed = FailedRecords(self.context, batch, chunk)
        for row, cause in enumerate(batch.cause.tolist()):
            self._punctuate(chunk, cause, failed)
            self._come_to(chunk, cause)
            self.processor_context.enter(records[row], metadata[row])
            outbox.at_row(row)
            try:
                self._call(self.processor.process, self.node.handed(records[row]), f"key {records[row].key!r}")
            except TaskFailed as error:
                if error.is_decided:
                    raise
                failed.add(row, error)
            self._book_refused(chunk, cause)
        # Rows behind the last record that reached this node have moved the task's stream time as well.
        self._punctuate(chunk, len(chunk.stream_time_ms), failed)
        self.reach(max(chunk.stream_time_ms[-1:].tolist(), default=NO_TIMESTAMP_MS))
        if chunk.tick_ms is not None:
            self._call_ticked(chunk.tick_ms, failed)
        self.processor_context.leave()
        chunk.applied[np.delete(batch.cause, failed.rows)] = True
        failed.book()
        self.addressed = outbox.addressed()
        return outbox.batch(batch)

    def link(self, chunk: Chunk, links: Links | None) -> None:
        self._writer.chunk, self._writer.links, self.addressed = chunk, links, None
        self._sending = None if links is None else SendingOutbox(self.node, self.keys, self.handing, links.send)
        if self._sending is not None:
            self.processor_context.outbox = self._sending

    def take_single(self, one: Single, chunk: Chunk) -> Sequence[Single]:
        """As ``process``, without its schedules; all that is forwarded has continued when it returns."""
        assert self._sending is not None, "records come one by one while the operator is linked"
        key, value, time_ms, headers = one.record(self.context.shape)
        record = Record(self._given_key(key), self._given_value(value), time_ms, headers)
        self._come_to(chunk, one.cause)
        self._sending.at(one)
        self.processor_context.enter(record, place_of(one, chunk))
        failed: FailedRecords | None = None
        try:
            self._call(self.processor.process, self.node.handed(record), f"key {record.key!r}")
        except TaskFailed as error:
            if error.is_decided:
                raise
            failed = FailedRecords(self.context, one.batch(), chunk)
            failed.add(0, error)
        self._book_refused(chunk, one.cause)
        self.processor_context.leave()
        if failed is None:
            chunk.applied[one.cause] = True
        else:
            failed.book()
        return ()

    @property
    def now(self) -> tuple[int, int]:
        """The row of the chunk because of which the processor runs, and the time in ms of what it processes."""
        return self._writer.cause, self.processor_context.time_ms

    def _come_to(self, chunk: Chunk, cause: int) -> None:
        """What is processed next is because of that row of the chunk."""
        self.reach(int(chunk.stream_time_ms[cause]))
        self._writer.cause = cause
        for replica in self.replicas.values():
            replica.come_to(cause)

    def _punctuate(self, chunk: Chunk, before: int, failed: FailedRecords) -> None:
        """Call what gets due by records of the chunk before that one."""
        while (due_ms := self.schedules.next_due_ms) is not None:
            cause = int(np.searchsorted(chunk.stream_time_ms, due_ms))
            if cause >= before:
                return
            self._come_to(chunk, cause)
            while self.schedules.is_due(self.stream_time_ms):
                self._call_next(failed, cause, is_tick=False)

    def _call_ticked(self, tick_ms: int, failed: FailedRecords) -> None:
        """Call what gets due by a tick of the wall clock, the chunk's one row."""
        has_started = self.tick(tick_ms)
        self._writer.cause = 0
        while has_started and self.ticks.is_due(self.ticks.now_ms):
            self._call_next(failed, 0, is_tick=True)

    def tick(self, tick_ms: int) -> bool:
        return self.ticks.tick(tick_ms)

    def _call_next(self, failed: FailedRecords, cause: int, *, is_tick: bool) -> None:
        """The schedule that is due first."""
        schedules = self.ticks if is_tick else self.schedules
        now_ms = self.ticks.now_ms if is_tick else self.stream_time_ms
        at = f"{'wall-clock' if is_tick else 'stream'} time {now_ms}"
        self.processor_context.enter(None, None, now_ms)
        schedules.run_next(now_ms, partial(self._call_due, failed, cause, at, now_ms))

    def next_due_ms(self, *, is_tick: bool) -> int | None:
        return (self.ticks if is_tick else self.schedules).next_due_ms

    def punctuate(self, chunk: Chunk, cause: int, empty_batch: Batch, *, is_tick: bool) -> None:
        failed = FailedRecords(self.context, empty_batch, chunk)
        self._writer.cause = cause
        self._call_next(failed, cause, is_tick=is_tick)
        self.processor_context.leave()
        failed.book()

    def reach(self, stream_time_ms: int) -> None:
        self.stream_time_ms = max(self.stream_time_ms, stream_time_ms)

    def _call_due(self, failed: FailedRecords, cause: int, at: str, now_ms: int, schedule: Schedule) -> None:
        self.processor_context.outbox.at_punctuation(cause, schedule.due_ms)
        try:
            self._call(schedule.callback, now_ms, at)
        except TaskFailed as error:
            if error.is_decided:
                raise
            failed.add_punctuation(cause, now_ms, error)
        assert self._writer.chunk is not None
        self._book_refused(self._writer.chunk, cause)

    def _book_refused(self, chunk: Chunk, cause: int) -> None:
        """What stores of windows, sessions or versions were to put because of a record, and have not."""
        for store in self._expiring:
            if store.refused:
                starts, ends, times, limits = np.array(store.refused, np.int64).T
                causes, is_record = np.full(len(starts), cause, np.int32), np.zeros(len(starts), np.bool_)
                reason, rows = DropReason.EXPIRED_IN_STORE, np.arange(len(starts), dtype=np.int32)
                chunk.drops.append((store.keeper, causes, Drops(reason, rows, is_record, times, limits, starts, ends)))
                store.refused.clear()

    def _call(self, function: Callable[[Any], Any], argument: Any, given: str) -> None:
        try:
            returned = function(argument)
        except TaskFailed:
            raise  # what it forwarded failed further down, at once
        except Exception as error:
            next_step = "correct the processor"
            if isinstance(error, TypeError) and str(error).endswith("object is not callable"):
                next_step += ": key, value, timestamp_ms, headers and context are attributes, without ()"
            raise TaskFailed.by(
                error, self.node.name, "a processor that does not fail", f"on {given}", next_step
            ) from error
        if returned is not None:
            check_nothing_returned(returned, function, self.node.name)

    # --- state -----------------------------------------------------------------------------------------------

    def restored(self, left: LeftState) -> tuple[pa.Table, Counters]:
        """Schedules begin as new ones, as in Kafka wherever a task begins."""
        rows: list[_Row] = []
        counters: Counters = {"stream_time_ms": left.task_time_ms}
        for (name, store), log in zip(self.own_stores.items(), left.logs, strict=True):
            restored, own = store.restored(log)
            rows += [(name, key, value) for key, value in restored]
            counters |= own
        return _table(rows), counters

    def logged(self, rows: pa.Table, kept: KeptStore) -> tuple[Changelog, ...]:
        logs = []
        for (name, store), topic in zip(self.own_stores.items(), kept.topics, strict=True):
            own = rows.filter(pc.equal(rows["store"], name))
            logs.append(store.logged(topic, own["key"].to_pylist(), own["value"].to_pylist()))
        return tuple(logs)

    def resume(self, rows: pa.Table, counters: Counters) -> None:
        self.resume_with(in_memory(rows, self.row_key, self.found_by), counters)

    def resume_with(self, stored: StoredRows, counters: Counters) -> None:
        for name, store in self._kept().items():
            store.load(RowsOfStore(name, stored), counters)
        for replica in self.replicas.values():
            replica.is_known = replica.node.replica_counter in counters
        self.stream_time_ms = counters.get("stream_time_ms", NO_TIMESTAMP_MS)
        self.ticks.now_ms = counters.get(WALL_CLOCK, NO_TIMESTAMP_MS)
        self._counters = counters

    def begin(self) -> None:
        self.processor = self.node.supplier()
        if not all(callable(getattr(self.processor, name, None)) for name in ("init", "process")):
            expected, next_step = "a supplier of a Processor, which has init and process", "correct the supplier"
            raise ConfigError(self.node.name, expected, repr(self.processor), next_step)
        form_of(self.processor.init, self.node.name, ("context",), gives=False)
        form_of(self.processor.process, self.node.name, ("record",), gives=False)
        self.processor_context.is_in_init = True
        self._call(self.processor.init, self.processor_context, "init")
        self.processor_context.is_in_init = False
        # ``init`` has just made the schedules again, as new ones. Only now can each be put back to where it was.
        self.schedules.resume(self._counters)
        self.ticks.resume(self._counters)

    def running(self) -> Mapping[str, object]:
        return {"the processor": self.processor}

    def renew(self) -> None:
        self._counters = self.counters()
        self.schedules, self.ticks = Punctuations(), Ticks()
        self.ticks.now_ms = self._counters.get(WALL_CLOCK, NO_TIMESTAMP_MS)
        self.begin()

    @property
    def finding_serde(self) -> Serde:
        """Its rows hold keys as its stores' serdes write them."""
        return Serde.bytes()

    def counters(self) -> Counters:
        counters = {"stream_time_ms": self.stream_time_ms} | self.schedules.counters() | self.ticks.counters()
        for store in self.own_stores.values():
            counters |= store.counters()
        return counters | {replica.node.replica_counter: 1 for replica in self.replicas.values()}

    def _kept(self) -> dict[str, Any]:
        """Stores whose rows it keeps."""
        return self.own_stores | {name: view.replica for name, view in self.replicas.items()}

    def changes(self) -> pa.Table:
        gone: list[_Row] = [(name, key, None) for name, store in self._kept().items() for key in store.gone()]
        return with_deleted(_table(self._alive(only_changed=True)), _table(gone))

    def rows(self) -> pa.Table:
        return _table(self._alive(only_changed=False))

    def inner_stores(self) -> Mapping[str, InnerStore]:
        return self.own_stores

    def rows_schema(self) -> pa.Schema:
        return ROWS.schema

    def _alive(self, *, only_changed: bool) -> list[_Row]:
        return [
            (name, key, value)
            for name, store in self._kept().items()
            for key, value in store.alive(only_changed=only_changed)
        ]


class _StoreContext(ProcessingContext):
    """What contexts of running processors have in common."""

    outbox: Outbox

    def __init__(self, operator: Process) -> None:
        self._operator = operator
        self._record: Record | None = None
        self._metadata: RecordMetadata | None = None
        self._can_forward = False
        self._due_ms = NO_TIMESTAMP_MS
        self.is_in_init = False

    def enter(self, record: Record | None, metadata: RecordMetadata | None, now_ms: int = NO_TIMESTAMP_MS) -> None:
        """A record is processed next; None: a punctuation, at the stream time or wall-clock time ``now_ms``."""
        self._record, self._metadata, self._can_forward, self._due_ms = record, metadata, True, now_ms

    @property
    def time_ms(self) -> int:
        """Of the record that is processed; in a punctuation that at which it is due."""
        return self._due_ms if self._record is None else self._record.timestamp_ms

    def leave(self) -> None:
        self._record, self._metadata, self._can_forward = None, None, False

    def _send(self, record: Record | FixedKeyRecord, child: str | None) -> None:
        if not self._can_forward:
            raise self._refusal("forward in process or in a punctuation", "forward elsewhere", "forward later")
        time_ms = whole_ms(record.timestamp_ms, self._operator.node.name, "a timestamp", earliest=0)
        children = self._operator.context.children
        if child is not None and child not in children:
            next_step = "name the operator below by name=, or leave child= out: all below get the record"
            raise self._refusal(f"a child of {sorted(children)}", repr(child), next_step)
        self.outbox.put(record.key, record.value, time_ms, record.headers, child)

    def schedule(
        self,
        interval: Duration,
        kind: PunctuationType,
        callback: Callable[[int], None],
        *,
        start_ms: int | None = None,
    ) -> Cancellable:
        if not self.is_in_init:
            next_step = "schedule in init, and let the callback look whether there is something to do"
            expected = "schedules made in init, to be found again by the next increment"
            raise self._refusal(expected, "one later", next_step)
        if not isinstance(kind, PunctuationType):
            next_step = "write PunctuationType.STREAM_TIME or PunctuationType.WALL_CLOCK_TIME"
            raise self._refusal("a PunctuationType", repr(kind), next_step)
        is_tick = kind is PunctuationType.WALL_CLOCK_TIME
        interval_ms = duration_ms(interval, "interval")
        if interval_ms < 1:
            raise self._refusal("an interval of 1 ms or more", f"{interval_ms} ms", "correct the interval")
        bounded_ms(interval_ms, f"{self._operator.node.name}, interval")
        if start_ms is not None:
            start_ms = whole_ms(start_ms, self._operator.node.name, "a start", earliest=0)
        form_of(callback, self._operator.node.name, ("timestamp_ms",), gives=False)
        if is_tick:
            return self._operator.ticks.add(interval_ms, callback, start_ms, self._operator.ticks.now_ms)
        return self._operator.schedules.add(interval_ms, callback, start_ms, self._operator.stream_time_ms)

    def store(self, name: str) -> Any:
        stores = self._operator.stores
        if name not in stores:
            next_step = did_you_mean(str(name), stores, f"name it in the call: stores=[{name!r}]")
            raise self._refusal(f"a store of {sorted(stores)}", repr(name), next_step)
        return stores[name]

    def current_stream_time_ms(self) -> int:
        return self._operator.stream_time_ms

    def current_system_time_ms(self) -> int:
        if self._operator.ticks.now_ms == NO_TIMESTAMP_MS:
            next_step = "record ticks of the wall clock, or take record.timestamp_ms or current_stream_time_ms()"
            raise self._refusal("a recorded tick of the wall clock before it is asked for", "none", next_step)
        return self._operator.ticks.now_ms

    @property
    def record_metadata(self) -> RecordMetadata | None:
        return self._metadata

    def task_id(self) -> str:
        return self._operator.context.task_id

    def _refusal(self, expected: str, got: str, next_step: str) -> ReplayError:
        return ConfigError(self._operator.node.name, expected, got, next_step)


_NOTHING_TO_FORWARD = "to forward nothing do not call it; record.with_value(None) is a tombstone"


class _ProcessorContext(_StoreContext, ProcessorContext):
    """Of a processor that may change keys."""

    def forward(
        self,
        key: Any = NOT_GIVEN,
        value: Any = NOT_GIVEN,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
        *,
        child: str | None = None,
    ) -> None:
        if isinstance(key, Record):
            if value is not NOT_GIVEN and not (isinstance(value, str) and child is None):
                got, next_step = (
                    f"a Record and {value!r}",
                    "write forward(record.with_value(…)), or forward(record, child)",
                )
                raise self._refusal("a Record alone, or with the name of a child", got, next_step)
            self._send(key, child if value is NOT_GIVEN else value)
            return
        if value is NOT_GIVEN:
            got = "nothing" if key is NOT_GIVEN else repr(key)
            next_step = _NOTHING_TO_FORWARD if key is None or key is NOT_GIVEN else "give the value, too"
            raise self._refusal("a Record, or a key and a value, to forward", got, next_step)
        record = self._record or Record(None, None, self._due_ms)
        time_ms = record.timestamp_ms if timestamp_ms is None else timestamp_ms
        self._send(Record(key, value, time_ms, record.headers if headers is None else headers), child)


class _FixedKeyContext(_StoreContext, FixedKeyProcessorContext):
    """Of one that keeps them."""

    def forward(self, record: Any = NOT_GIVEN, child: str | None = None) -> None:
        if not isinstance(record, FixedKeyRecord):
            next_step = "forward the record of process(), with_value() or with_timestamp(); process() may change keys"
            if record is None or record is NOT_GIVEN:
                next_step = _NOTHING_TO_FORWARD
            got = "nothing" if record is NOT_GIVEN else repr(record)
            raise self._refusal("a FixedKeyRecord to forward", got, next_step)
        self._send(record, child)


def _table(rows: list[_Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ROWS.schema, strict=True)]
    return pa.table(arrays, schema=ROWS.schema)


def metadata_of(batch: Batch, chunk: Chunk) -> list[RecordMetadata | None]:
    """Where records are from, None for those of a punctuation."""
    sources, offsets = batch.coordinates(chunk)
    return [
        None if offset == NO_OFFSET else RecordMetadata(chunk.context_topics[source], chunk.partition, offset)
        for source, offset in zip(sources.tolist(), offsets.tolist(), strict=True)
    ]


def place_of(one: Single, chunk: Chunk) -> RecordMetadata | None:
    """As ``metadata_of``, of one record."""
    source, offset = one.context or (OF_CAUSE, OF_CAUSE)
    if offset == OF_CAUSE:
        source, offset = chunk.context_source[one.cause], chunk.context_offset[one.cause]
    if offset == NO_OFFSET:
        return None
    return RecordMetadata(chunk.context_topics[source], chunk.partition, int(offset))


def _giving_keys(shape: Shape) -> Take:
    """A copy of a key, for a function that may change it; with its window, if it has one."""
    give = HandOver(shape.key.codec).give
    return give if shape.window is None else lambda key: key._replace(key=give(key.key))
