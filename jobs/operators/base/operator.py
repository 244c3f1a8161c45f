"""What an operator is: a batch of records in, a batch of records out, and perhaps a store between.

Rule: an operator never sees a table of the warehouse, a clock or an increment. It sees other operators' tables through
a TableView; a SharingOperator alone uses the stores of others. Rows come and leave in order, and every record that it
receives is either applied, refused with the number that decided, or forwarded.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import only_chunk
from ....state.errors import ConfigError
from ....state.records.batches import Batch, Chunk
from ....state.records.keys import Keys
from ....state.runs.sorted_runs import NEVER
from ....state.runs.stored_rows import StoredRows
from ....state.serdes import Serde
from ....state.tables.warehouse import WINDOW_KEY
from ...functions.expressions import Shape
from ...graph.graph import TableTraits
from .changelogs import Changelog, KeptStore, LeftState, unknown_changelog
from .single_records import Single

Counters = dict[str, int]
"""Numbers that live with an operator's state: its stream time, its store's, bytes in its buffer."""


@dataclass(frozen=True)
class OperatorContext:
    """Where an operator is in a running task: the name of its node, what it reads, and the keys it codes with.
    ``shape``: serdes of its first input.
    """

    node: str
    shape: Shape
    keys: Keys
    wants_old: bool = False
    """An operator below asks for the value that a change replaced."""
    is_lazy: bool = False
    """One operator alone reads the values, once and in part, so they are computed when it asks."""
    counts_bytes: bool = False
    """Suppress buffers count their bytes even without a byte limit."""
    is_viewed: bool = False
    """Some operator looks into the node's table."""
    table: TableTraits = field(default_factory=TableTraits)
    """Of the node itself, when it is a table."""
    above: tuple[TableTraits, ...] = ()
    """Of the tables among its inputs, in order of the inputs."""
    shapes: tuple[Shape, ...] = ()
    """Shapes of all inputs; ``shape`` is the first."""
    views: "tuple[TableView, ...]" = ()
    """Of the tables that the node reads, in order of ``reads``."""
    children: tuple[str, ...] = ()
    """Nodes below."""
    shapes_read: tuple[Shape, ...] = ()
    """Of those tables."""
    task_id: str = "0_0"
    """Kafka's: sub-topology and partition."""
    number: int = 0
    """Of the node among all nodes of the topology, in the order in which they were added."""


class Operator(ABC):
    """One node of one task. ``context``: where it is. ``chunk``, of the calls: where refused records are written, with
    the number that decided.
    """

    puts: Batch | None = None
    """What the last batch put into the store, where that is not what was forwarded (emit on close)."""

    is_repeatable = False
    """It computes each row from that row and what the tables show to it, and keeps nothing: it can be asked again. What
    it counts can be taken back by ``count_from``.
    """
    addressed: np.ndarray | None = None
    """The child that gets each row of the last forwarded batch, by name, or None for all children; None instead of an
    array: every child gets every row.
    """

    topics: list[str] | None = None
    """The topic of every row of the last written batch, where rows name their topics; None: the topic of the sink."""

    def __init__(self, context: OperatorContext) -> None:
        self.context = context

    def metrics(self) -> dict[str, Any]:
        """Numbers of this increment for its report."""
        return {}

    def count_from(self, metrics: Mapping[str, Any]) -> None:  # noqa: B027 (most that are repeatable count nothing)
        """Of an operator that is repeatable: what it has counted since it had those ``metrics`` does not count."""

    def running(self) -> Mapping[str, object]:
        """Objects of the user's that run here, each by what a sentence calls it."""
        return {}

    def renew(self) -> None:  # noqa: B027 (most operators run nothing of the user's)
        """Make new objects in place of those of ``running``, as the next increment does: they find what stores and
        schedules have, and nothing else.
        """

    def restart(self) -> None:  # noqa: B027 (most operators have no stream time)
        """Production restarted here: its stream time begins at -1 again, and its store has what is on the disk. Raises
        ConfigError where it cannot do that.
        """

    @abstractmethod
    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        """Process the records of ``batch`` in order; returns what is forwarded, in order of the causing rows. Refused
        records go to ``chunk``.
        """

    def process_up_to_failures(self, batch: Batch, failing: np.ndarray, chunk: Chunk) -> Batch:
        """As ``process``, of a batch on whose rows ``failing`` (bool) it fails: of these it forwards what it would have
        forwarded before it failed.
        """
        return self.process(batch.where(~failing), chunk)

    def take_single(self, one: Single, chunk: Chunk) -> Sequence[Single] | None:
        """Process one record of a task that runs record by record, and return what is forwarded. It puts what it
        forwards, if it puts anything. None: such a record must come as a batch, and nothing was done.
        """
        return None

    def settle_singles(self, chunk: Chunk) -> None:  # noqa: B027 (most operators keep nothing of single records)
        """No more single records come in ``chunk``."""

    def advance(self, advance_row: Batch, chunk: Chunk) -> Batch | None:
        """Stream time has reached that of ``advance_row``, one row that is no record: forward what is due now.

        None: nothing. What came to the node because of the same advance has been processed already.
        """
        return None

    def propagated_time_ms(self, time_ms: int) -> int:
        """The time that the nodes below have reached when this node has reached ``time_ms``: no older record is
        buffered here.
        """
        return time_ms


def no_restart(node: str, got: str) -> ConfigError:
    """The error of an operator for which it is not known here what a restart of Kafka Streams leaves. ``node``: its
    name; ``got``: what it is.
    """
    expected = "an operator that can restart (aggregates, joins of streams, suppress, plain tables, steps)"
    next_step = "land the topic under another name, without --restart, and replay that"
    return ConfigError(f"{node}, at a recorded restart", expected, got, next_step)


class MultiOperator(Operator):
    """One node with several inputs (joins, merges). Stateful ones are a StatefulOperator too, named second."""

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        return self.process_all((batch,), chunk)

    @abstractmethod
    def process_all(self, batches: tuple[Batch, ...], chunk: Chunk) -> Batch:
        """Process one batch of every input; returns what they cause, in the order of
        jobs/operators/base/forward_order.py. Keys of all batches are coded by ``context.keys``.
        """


class TableView(ABC):
    """A reader's own view of a table: it answers as a KTableValueGetter would when the asking row is processed.

    ``feed`` keeps it up to date: before the reader's ``process``, the task passes what the nodes of ``wants`` did in
    the chunk. ``wants`` has pairs of a node and which of its rows the view sees. PUT: those it put into its store.
    INPUT: those it reads. AFTER: those it forwarded, which are seen once all that they cause below is done.
    """

    PUT, INPUT, AFTER = "put", "input", "after"
    wants: AbstractSet[tuple[str, str]]
    is_versioned = False
    """Whether ``get`` can be asked as of a time (KTableValueGetter.isVersioned)."""
    is_replica = True
    """False: it looks into the owner's own store, and has nothing to resume."""

    @abstractmethod
    def feed(self, seen: Mapping[tuple[str, str], Batch]) -> None:
        """Take in the rows ``seen`` in this chunk, by node and kind as in ``wants``, in order."""

    def take_single(self, one: Single) -> bool:
        """Take in one row that was put, as ``feed`` and ``settle``. False: it must be fed, and nothing was done."""
        return False

    @abstractmethod
    def get(self, asking: Batch, keys: np.ndarray, as_of_ms: np.ndarray | None = None) -> "Found":
        """What the table shows to every row of ``asking`` for ``keys`` (codes of ``context.keys``, NULL_CODE: nothing),
        each row seeing the puts before it and none after. ``as_of_ms``: look into a versioned table as of that time.
        """

    @abstractmethod
    def settle(self) -> None:
        """The chunk is done: its puts become part of the table."""

    def begin_input(self) -> None:  # noqa: B027 (only buffers emit what a view must still show)
        """By record: a row of INPUT comes, and until ``end_input`` all that its node emits because of it goes out."""

    def end_input(self) -> None:  # noqa: B027
        """By record: all below that row is done."""

    def advance(self, reached_ms: Mapping[str, int]) -> None:  # noqa: B027 (most views have no clock)
        """The chunk had no record, and advanced nodes to the stream times ``reached_ms``. Called before ``settle``."""

    def running(self) -> Mapping[str, object]:
        """As ``Operator.running``."""
        return {}

    def renew(self) -> None:  # noqa: B027 (most views run nothing of the user's)
        """As ``Operator.renew``."""

    @abstractmethod
    def resume(self, stores: Mapping[str, pa.Table]) -> None:
        """Begin with ``stores``, by node: the ``contents`` of the nodes of ``wants`` after the previous increment."""


@dataclass(frozen=True, slots=True)
class Found:
    """Answers of a view: ``value`` null where not ``valid``; ``time_ms`` int64 of the value, -1 where there is none."""

    value: pa.Array
    valid: np.ndarray
    time_ms: np.ndarray


@dataclass(frozen=True)
class Due:
    """Durable rows with a timer: a row fires when stream time reaches ``column + wait_ms`` (None: all that there are
    may be asked for at any time). The counter "left_ms" is a value of ``column`` up to which none is left.

    ``where``: only rows whose value in that column is one of those.
    """

    column: str
    wait_ms: int | None
    where: tuple[str, tuple[str, ...]] | None = None

    def times(self, rows: pa.Table) -> np.ndarray:
        """``column`` of every row, NEVER where it does not act."""
        times = rows[self.column].to_numpy()
        if self.where is None:
            return times
        name, among = self.where
        acts = pc.is_in(only_chunk(rows, name), pa.array(among)).to_numpy(zero_copy_only=False)
        return np.where(acts, times, NEVER)

    def until(self, time_ms: int | None) -> int:
        """The last value of ``column`` that may act when stream time gets as far as ``time_ms`` (None: any)."""
        return int(NEVER) - 1 if self.wait_ms is None or time_ms is None else time_ms - self.wait_ms


class StatefulOperator(Operator):
    """An operator with a store, which a task resumes before its first batch and saves after its last.

    A task may leave out of ``resume`` the rows that no record of the increment finds and that are not due, so whatever
    is a number of all rows is a counter.
    """

    row_key: tuple[str, ...] = WINDOW_KEY
    """Columns that name a durable row, those of them that ``rows_schema`` has."""
    due: Due | None = None
    """Rows with a timer."""
    needs_all = False
    """Any row may be asked for, by whatever record."""

    finds_rows = False
    """It looks up single rows by their keys when it needs them: a task calls ``resume_with``."""

    @property
    def finding_serde(self) -> Serde:
        """Which writes the keys of the records that find rows. Copies of rows that are sorted by them depend on it."""
        return self.context.shape.key

    def found_by(self, rows: pa.Table) -> pa.Array:
        """The serialized key of the records that find each of the durable ``rows``."""
        return self.finding_serde.encode(only_chunk(rows, "key"))

    def forgets(self, rows: pa.Table, counters: Counters) -> np.ndarray:
        """Which of the durable ``rows`` no record will ever see again unless production restarts: a bool for each row.
        ``counters``: those after the increment, as ``counters()`` gave them.
        """
        return np.zeros(len(rows), np.bool_)

    def loses(self, rows: pa.Table, counters: Counters) -> np.ndarray:
        """Which of the durable ``rows`` are gone from the store, so that none sees them even if production restarts:
        a bool for each row. ``counters``: as of ``forgets``.
        """
        return self.forgets(rows, counters)

    @abstractmethod
    def resume(self, rows: pa.Table, counters: Counters) -> None:
        """Continue with the live ``rows``, as ``rows_schema`` describes them, and the ``counters`` of the previous
        increment.
        """

    def resume_with(self, stored: StoredRows, counters: Counters) -> None:
        """As ``resume``, with ``stored``: live rows that are found when they are asked for, in columns of
        ``rows_schema`` and perhaps more. ``counters``: those of the previous increment.
        """
        self.resume(stored.every.select(self.rows_schema().names), counters)

    def restart(self) -> None:
        raise no_restart(self.context.node, type(self).__name__)

    def restored(self, left: LeftState) -> tuple[pa.Table, Counters]:
        """Rows and counters to ``resume`` with, where an application's task has left ``left``: what Kafka Streams would
        restore from its changelogs. Raises ConfigError for a store whose changelog is not read here.
        """
        raise unknown_changelog(left.store, f"that of {self.context.node} ({type(self).__name__})")

    def logged(self, rows: pa.Table, kept: KeptStore) -> tuple[Changelog, ...]:
        """The reverse of ``restored``: records of the changelogs of ``kept`` with which a task of an application begins
        with the live ``rows``. Raises as ``restored``.
        """
        raise unknown_changelog(kept.store, f"that of {self.context.node} ({type(self).__name__})")

    def begin(self) -> None:
        """All stores and views have been resumed; the first record comes next."""

    @abstractmethod
    def counters(self) -> Counters:
        """Counters to hand to the next increment."""

    @abstractmethod
    def changes(self) -> pa.Table:
        """Rows that changed since ``resume``: ``rows_schema`` and ``deleted`` (true: the row is gone)."""

    @abstractmethod
    def rows(self) -> pa.Table:
        """All visible rows, in ``rows_schema``."""

    def contents(self) -> pa.Table:
        """What a reader sees of ``rows``: key, a window's bounds, ``value``, ``record_time_ms``."""
        return self.rows()

    def inner_stores(self) -> "Mapping[str, InnerStore]":
        """Stores of other names that it keeps in its rows, by name (a Python processor)."""
        return {}

    @abstractmethod
    def rows_schema(self) -> pa.Schema:
        """Columns of the store's durable rows: ``key``, a window's bounds, the rest; times in milliseconds."""


@dataclass(frozen=True, slots=True)
class StoreVersions:
    """``rows`` of a versioned store, which reach ``retention_ms`` back from the largest time put, ``observed_ms``."""

    rows: pa.Table
    retention_ms: int
    observed_ms: int


@dataclass(frozen=True, slots=True)
class StoreContents:
    """What a reader sees of one store. ``rows``: key, a window's bounds, value, and record_time_ms where the store
    knows times; ``window``: None, "time" or "session"; ``versions``: of a versioned store, whose rows are the latest.
    """

    key: Serde
    value: Serde
    rows: pa.Table
    window: str | None = None
    versions: StoreVersions | None = None


class InnerStore(Protocol):
    """A store of a Python processor, as readers outside see it."""

    @property
    def key(self) -> Serde:
        """Of its keys."""
        ...

    def contents(self) -> StoreContents:
        """What it shows."""
        ...

    def contents_of(self, key: bytes) -> StoreContents:
        """What it shows of one serialized key; the other rows are not looked at."""
        ...


class RowStore(Protocol):
    """What keeps durable rows for an operator: a table's store, or an operator within. Its methods are those of
    StatefulOperator.
    """

    def resume(self, rows: pa.Table, counters: Counters) -> None:
        """Continue with the ``rows`` and ``counters`` of the previous increment."""

    def counters(self) -> Counters:
        """Counters to hand to the next increment."""
        ...

    def forgets(self, rows: pa.Table, counters: Counters) -> np.ndarray:
        """Which of ``rows`` no record will ever see again, by ``counters``: a bool for each row."""
        ...

    def loses(self, rows: pa.Table, counters: Counters) -> np.ndarray:
        """Which of ``rows`` are gone, by ``counters``: a bool for each row."""
        ...

    def restart(self) -> None:
        """As of Operator."""

    def restored(self, left: LeftState) -> tuple[pa.Table, Counters]:
        """Rows and counters out of what an application's task has ``left``, as of StatefulOperator."""
        ...

    def logged(self, rows: pa.Table, kept: KeptStore) -> tuple[Changelog, ...]:
        """Records of the changelogs of ``kept`` that make the ``rows``, as of StatefulOperator."""
        ...

    def changes(self) -> pa.Table:
        """Rows that changed since ``resume``, with ``deleted``."""
        ...

    def rows(self) -> pa.Table:
        """All visible rows."""
        ...

    def contents(self) -> pa.Table:
        """What a reader sees of the rows."""
        ...

    def rows_schema(self) -> pa.Schema:
        """Columns of the rows."""
        ...


class WritableStore(ABC):
    """An operator with a key-value store into which processors of its task may put."""

    @property
    @abstractmethod
    def store_keys(self) -> Keys:
        """Codes the keys of what is put."""

    @abstractmethod
    def put_by_processor(self, one: Single, chunk: Chunk) -> None:
        """Put ``one`` (its value None: delete its key), because of a record of ``chunk``. Nothing is forwarded because
        of it.

        Raises ConfigError, without a place, for a value that the store cannot keep.
        """


class WindowedStore(WritableStore):
    """An operator with a store of windows or sessions, which processors of its task read and put into."""

    @property
    @abstractmethod
    def window_size_ms(self) -> int:
        """Of its windows, where all have one."""

    @property
    @abstractmethod
    def store_segment_ms(self) -> int:
        """Length of the segments of a persistent store, 0 for one in memory."""

    @abstractmethod
    def remove_by_processor(self, one: Single, chunk: Chunk) -> None:
        """Delete the window of ``one``, because of a record of ``chunk``, as SessionStore.remove does: nothing of it is
        refused.
        """

    @abstractmethod
    def shown_windows(self, key: int | None = None) -> np.ndarray:
        """Slots of all windows that the store shows, or of those of a key by its code."""

    @abstractmethod
    def window_at(self, key: int, start_ms: int, end_ms: int) -> int:
        """The slot of the window from ``start_ms`` to ``end_ms``, -1 where the store shows none."""

    @abstractmethod
    def windows_in(self, slots: np.ndarray) -> "ShownWindows":
        """What is in the ``slots``, in their order."""


class ShownWindows(NamedTuple):
    """Windows of a store, one element each: ``key`` codes int32, times int64 in ms, ``value`` as readers see it."""

    key: np.ndarray
    start_ms: np.ndarray
    end_ms: np.ndarray
    time_ms: np.ndarray
    value: pa.Array


class Links(NamedTuple):
    """What an operator calls while a task runs record by record (jobs/task/record_run.py)."""

    send: Callable[[Single, str | None], None]
    """What it forwards goes through all nodes below, or one child of that name, before the call returns."""
    show: Callable[[str, Single], None]
    """What was put into the table of a node, not by that node: to everybody who looks into the table."""


class SharingOperator(StatefulOperator):
    """An operator that may use stores of other operators, whose records then run one by one through the task."""

    @abstractmethod
    def link(self, chunk: Chunk, links: Links | None) -> None:
        """Records of ``chunk`` come one by one to ``take_single`` from now on, and what is forwarded continues at once.
        ``links``: what it calls; None: they come one by one no longer.
        """

    @abstractmethod
    def connect(self, owners: Mapping[str, Operator]) -> None:
        """Use the stores of ``owners``, operators by node. Called once, before ``resume``."""

    def expect(self, batch: Batch) -> None:
        """Records with the keys of ``batch`` come to the task next, one by one, perhaps to this node."""

    @abstractmethod
    def next_due_ms(self, *, is_tick: bool) -> int | None:
        """When its next timer fires: a stream time in ms, or with ``is_tick`` a tick of the wall clock; None: never."""

    @abstractmethod
    def punctuate(self, chunk: Chunk, cause: int, empty_batch: Batch, *, is_tick: bool) -> None:
        """Call the punctuators that are due at the stream time of row ``cause`` of ``chunk``, or with ``is_tick`` at
        its tick of the wall clock, each once. ``empty_batch``: a batch of the operator's input without records.
        """

    @abstractmethod
    def tick(self, tick_ms: int) -> bool:
        """The wall clock has reached ``tick_ms``. False for the first tick, at which nothing is due."""

    @abstractmethod
    def reach(self, stream_time_ms: int) -> None:
        """The task has read a record, and its stream time is ``stream_time_ms``."""


class StoreOperator(StatefulOperator):
    """An operator whose durable rows are those of ``store``."""

    store: RowStore

    def resume(self, rows: pa.Table, counters: Counters) -> None:
        self.store.resume(rows, counters)

    def counters(self) -> Counters:
        return self.store.counters()

    def restart(self) -> None:
        self.store.restart()

    def restored(self, left: LeftState) -> tuple[pa.Table, Counters]:
        return self.store.restored(left)

    def logged(self, rows: pa.Table, kept: KeptStore) -> tuple[Changelog, ...]:
        return self.store.logged(rows, kept)

    def forgets(self, rows: pa.Table, counters: Counters) -> np.ndarray:
        return self.store.forgets(rows, counters)

    def loses(self, rows: pa.Table, counters: Counters) -> np.ndarray:
        return self.store.loses(rows, counters)

    def changes(self) -> pa.Table:
        return self.store.changes()

    def rows(self) -> pa.Table:
        return self.store.rows()

    def contents(self) -> pa.Table:
        return self.store.contents()

    def rows_schema(self) -> pa.Schema:
        return self.store.rows_schema()


def with_deleted(alive: pa.Table, gone: pa.Table) -> pa.Table:
    """The rows ``alive`` and then the rows ``gone``, with a column ``deleted``: true for those that are gone."""
    marks = (alive, np.zeros(len(alive), np.bool_)), (gone, np.ones(len(gone), np.bool_))
    return pa.concat_tables([rows.append_column("deleted", pa.array(deleted)) for rows, deleted in marks])
