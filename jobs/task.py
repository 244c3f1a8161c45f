"""A task: one sub-topology × one partition, run over its tape chunk by chunk (Kafka's StreamTask, PartitionGroup's
clock).

Owns the running operators, the task's stream time and the verdict on every record. Rule: a record is undecodable (dead
letter), dropped (every operator that got it refused it) or applied; stream time is the largest time of the decodable
records taken so far. Pure: chunks of Arrow columns in, Arrow tables out; where they come from and go to is the caller's
affair.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from jobs.kernels.murmur2 import murmur2_partitions
from jobs.operators import OPERATORS, Clocks, Operator, Place, StatefulOperator
from jobs.topology.nodes import Node, RepartitionNode, SinkNode, SourceNode, SuppressNode
from jobs.topology.topology import SubTopology, Topology
from state.buffers import is_valid
from state.keys import Keys
from state.records import Batch, Chunk, Drops, Values
from state.serdes import Serde
from state.tables import DROPPED_SCHEMA
from state.times import NO_TIMESTAMP_MS

CHUNK_RECORDS = 131_072
"""Measured: a chunk's rows and slots then fit the cache; twice or half as many cost 5 to 8 % more."""
INPUT_COLUMNS = {"offset": pa.int64(), "timestamp": pa.int64(), "key": pa.binary(), "value": pa.binary()}
"""Columns that a task reads of a landed or repartition table."""


@dataclass(slots=True)
class Lateness:
    """Of records behind the task's stream time when they were taken: milliseconds behind, summed and largest."""

    total_ms: int = 0
    max_ms: int = 0
    records: int = 0
    """Records taken, those with lateness 0 included."""


@dataclass(slots=True)
class Counts:
    """Verdicts: read = applied + dropped + undecodable."""

    read: int = 0
    applied: int = 0
    dropped: int = 0
    undecodable: int = 0
    dropped_by_reason: dict[str, int] = field(default_factory=dict)
    windows_refused: int = 0
    """Windows that refused a record which others took."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one chunk caused. Tables in order; ``cause_offset`` is the offset of the input record.

    ``outputs`` by sink topic: cause_offset, key, [window_start_ms, window_end_ms], value, record_time_ms,
    stream_time_ms. ``repartitions`` by topic: cause_offset, cause_time_ms (largest time of the tape up to it), target
    (partition), timestamp, key, value. ``dropped``, ``dead_letters``: columns of the tables of those names, but for
    partition, increment and sub-topology.
    """

    outputs: dict[str, pa.Table]
    repartitions: dict[str, pa.Table]
    dropped: pa.Table
    dead_letters: pa.Table


class Task:
    """``counts_bytes``: suppress buffers measure their bytes even without a byte limit (slower)."""

    def __init__(
        self,
        topology: Topology,
        sub_topology: SubTopology,
        partition: int = 0,
        *,
        repartition_counts: dict[str, int] | None = None,
        counts_bytes: bool = False,
    ) -> None:
        self.graph, self.sub_topology, self.partition = topology.graph, sub_topology, partition
        self.repartition_counts = repartition_counts or {}
        self.counts_bytes = counts_bytes
        self.stream_time_ms = NO_TIMESTAMP_MS
        self.tape_time_ms = NO_TIMESTAMP_MS
        self.lateness, self.counts = Lateness(), Counts()
        self.unfinished: Result | None = None
        """What the chunk caused on which the task failed, right up to the record that filled a buffer."""
        self.operators: dict[str, Operator] = {}
        self._children = {node.name: self.graph.children(node.name) for node in sub_topology.nodes}
        self._keys = {sub_topology.source.name: Keys(sub_topology.source.shape.key)}
        self._bad_keys: dict[int, str] = {}
        self._dispatch = {node.name: self._build(node) for node in sub_topology.nodes}
        self.chunk_records = max(1, CHUNK_RECORDS // self._amplification())

    def _build(self, node: Node) -> Operator | None:
        if type(node) not in OPERATORS:
            if node.inputs and node.name not in self._keys:
                self._keys[node.name] = self._keys[node.inputs[0]]
            return None
        before = self.graph.parent(node)
        operator = OPERATORS[type(node)](node, self._place(node, before))
        self._keys[node.name] = getattr(operator, "keys", self._keys[before.name])
        self.operators[node.name] = operator
        return operator

    def _place(self, node: Node, before: Node) -> Place:
        children = self._children[node.name]
        suppresses = [child for child in children if isinstance(child, SuppressNode)]
        wants_old = any(self.counts_bytes or child.max_bytes is not None for child in suppresses)
        return Place(
            node.name,
            before.shape,
            self._keys[before.name],
            wants_old=wants_old,
            is_lazy=len(children) == len(suppresses) == 1,
            counts_bytes=self.counts_bytes,
        )

    def _amplification(self) -> int:
        return max([1, *(getattr(operator, "updates_per_record", 1) for operator in self.operators.values())])

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def stores(self) -> dict[str, StatefulOperator]:
        """Stateful operators by the name of their store."""
        found = {}
        for node in self.sub_topology.stores:
            operator = self.operators[node.name]
            assert isinstance(operator, StatefulOperator)
            found[node.store] = operator
        return found

    def resume(
        self,
        rows: dict[str, pa.Table],
        clocks: dict[str, Clocks],
        *,
        stream_time_ms: int = NO_TIMESTAMP_MS,
        tape_time_ms: int = NO_TIMESTAMP_MS,
    ) -> None:
        """Go on where the increment before ended: live rows and clocks by store. Call once, before ``process``."""
        self.stream_time_ms, self.tape_time_ms = stream_time_ms, tape_time_ms
        for store, operator in self.stores.items():
            table = rows.get(store)
            operator.resume(operator.rows_schema().empty_table() if table is None else table, clocks.get(store, {}))

    def clocks(self) -> dict[str, Clocks]:
        return {store: operator.clocks() for store, operator in self.stores.items()}

    def metrics(self) -> dict[str, dict[str, int]]:
        """Numbers of the operators that have any, by node."""
        return {operator.place.node: found for operator in self.stores.values() if (found := operator.metrics())}

    # --- records ---------------------------------------------------------------------------------------------

    def process(self, records: pa.Table) -> Result:
        """Run one chunk: columns offset int64, timestamp int64 (ms), key and value binary; in offset order.

        Raises BufferFull when a strict suppress buffer is full; ``unfinished`` then has what came before.
        """
        records = records.combine_chunks()
        # Copies: a kernel compiled for Arrow's read-only memory would be another one than for our own.
        offset, time_ms = (records[name].to_numpy().copy() for name in ("offset", "timestamp"))
        codes, bad_key = self._intern(_column(records, "key"))
        decoded = self.sub_topology.source.shape.value.decode(_column(records, "value"))
        readable = ~(bad_key | decoded.bad)
        takes = readable & (time_ms >= 0)
        before, stream_time = self._advance(time_ms, takes)
        tape_time = np.maximum.accumulate(np.concatenate([[self.tape_time_ms], time_ms]))
        self.tape_time_ms = int(tape_time[-1])
        self._measure(before, time_ms, takes)
        n = len(records)
        source = self.sub_topology.source
        verdicts = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        chunk = Chunk(source.topic, self.partition, offset, time_ms, stream_time, tape_time[1:], *verdicts)
        self._refuse_negative(chunk, readable & ~takes)
        outputs, repartitions = _Collected(), _Collected()
        batch = Batch(
            cause=np.arange(n, dtype=np.int32),
            key=codes,
            keys=self._keys[source.name],
            time_ms=time_ms,
            valid=is_valid(decoded.values),
            value=Values(decoded.values),
        ).where(takes)
        self._forward(source, batch, chunk, outputs, repartitions)
        unread = np.flatnonzero(~readable).tolist()
        reasons = {row: self._reason(row, int(codes[row]), decoded.reasons) for row in unread}
        self._count(chunk, int((~readable).sum()))
        result = Result(
            outputs.tables(), repartitions.tables(), _dropped(chunk), _dead_letters(records, source, reasons)
        )
        if chunk.failure is not None:
            self.unfinished = result
            raise chunk.failure
        return result

    def _intern(self, key: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Codes of serialized keys, and which rows have an undecodable one. A key is decoded once."""
        keys = self._keys[self.sub_topology.source.name]
        known = len(keys)
        codes = keys.intern(key)
        self._bad_keys |= keys.undecodable(known)
        return codes, np.isin(codes, list(self._bad_keys)) if self._bad_keys else np.zeros(len(codes), np.bool_)

    def _reason(self, row: int, code: int, reasons: dict[int, str]) -> str:
        return f"key: {self._bad_keys[code]}" if code in self._bad_keys else f"value: {reasons[row]}"

    def _advance(self, time_ms: np.ndarray, takes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Stream time before and after every record; the task's own moves on."""
        seen = np.where(takes, time_ms, NO_TIMESTAMP_MS)
        running = np.maximum.accumulate(np.concatenate([[self.stream_time_ms], seen]))
        self.stream_time_ms = int(running[-1])
        return running[:-1], running[1:]

    def _measure(self, before: np.ndarray, time_ms: np.ndarray, takes: np.ndarray) -> None:
        behind = np.maximum(before - time_ms, 0)[takes]
        if len(behind):
            self.lateness.total_ms += int(behind.sum())
            self.lateness.max_ms = max(self.lateness.max_ms, int(behind.max()))
            self.lateness.records += len(behind)

    def _refuse_negative(self, chunk: Chunk, negative: np.ndarray) -> None:
        rows = np.flatnonzero(negative).astype(np.int32)
        if len(rows):
            chunk.refused[rows] = True
            drops = Drops("negative-timestamp", rows, np.ones(len(rows), np.bool_), chunk.stream_time_ms[rows])
            chunk.drops.append((self.sub_topology.source.name, rows, drops))

    def _forward(
        self, node: Node, batch: Batch, chunk: Chunk, outputs: "_Collected", repartitions: "_Collected"
    ) -> None:
        """Hand ``batch`` to the children of ``node``, depth first, in the order they were added."""
        children = self._children[node.name]
        if not children:
            chunk.applied[batch.cause] = True
        for child in children:
            if isinstance(child, SinkNode):
                chunk.applied[batch.cause] = True
                outputs.add(child.topic, _output(batch, chunk))
            elif isinstance(child, RepartitionNode):
                chunk.applied[batch.cause] = True
                repartitions.add(child.topic, self._repartition(child, batch, chunk))
            else:
                operator = self._dispatch[child.name]
                forwarded = batch if operator is None else operator.process(batch, chunk)
                self._forward(child, forwarded, chunk, outputs, repartitions)

    def _repartition(self, node: RepartitionNode, batch: Batch, chunk: Chunk) -> pa.Table:
        """Serialized records with their target partitions. Null keys are filtered, as Kafka does."""
        kept = batch.where(batch.key >= 0)
        key = kept.keys.take(kept.key)
        return pa.table(
            {
                "cause_offset": chunk.offset[kept.cause],
                "cause_time_ms": chunk.tape_time_ms[kept.cause],
                "target": murmur2_partitions(key, self.repartition_counts.get(node.topic, 1)),
                "timestamp": kept.time_ms,
                "key": key.cast(pa.binary()),
                "value": node.shape.value.encode(kept.value.all()),
            }
        )

    def _count(self, chunk: Chunk, undecodable: int) -> None:
        counts = self.counts
        dropped = chunk.refused & ~chunk.applied
        counts.read += len(chunk.offset)
        counts.undecodable += undecodable
        counts.applied += int(chunk.applied.sum())
        counts.dropped += int(dropped.sum())
        booked = np.zeros(len(chunk.offset), np.bool_)
        for _, cause, drops in chunk.drops:
            whole = np.unique(cause[drops.is_record & dropped[cause] & ~booked[cause]])
            booked[whole] = True
            if len(whole):
                counts.dropped_by_reason[drops.reason] = counts.dropped_by_reason.get(drops.reason, 0) + len(whole)
            counts.windows_refused += int((~drops.is_record).sum())


def compile_kernels(topology: Topology) -> None:
    """Compile, or load from Numba's cache on disk, every kernel that ``topology`` runs, by running it over no
    records.
    """
    nothing = pa.table({name: pa.array([], kind) for name, kind in INPUT_COLUMNS.items()})
    Keys(Serde.string()).intern(pa.array([b"key"]))
    for sub_topology in topology.sub_topologies:
        task = Task(topology, sub_topology)
        task.resume({}, {})
        task.process(nothing)
        for operator in task.stores.values():
            operator.changes()


class _Collected:
    """Tables by name, in the order they came."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[pa.Table]] = {}

    def add(self, name: str, table: pa.Table) -> None:
        self._pieces.setdefault(name, []).append(table)

    def tables(self) -> dict[str, pa.Table]:
        return {name: pa.concat_tables(pieces) for name, pieces in self._pieces.items()}


def _column(records: pa.Table, name: str) -> pa.Array:
    column = records[name]
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _output(batch: Batch, chunk: Chunk) -> pa.Table:
    stream_time = chunk.stream_time_ms[batch.cause] if batch.stream_time_ms is None else batch.stream_time_ms
    window = {}
    if batch.window_start_ms is not None:
        window = {"window_start_ms": batch.window_start_ms, "window_end_ms": batch.window_end_ms}
    return pa.table(
        {
            "cause_offset": chunk.offset[batch.cause],
            "key": batch.keys.typed(batch.key),
            **window,
            "value": batch.value.all(),
            "record_time_ms": batch.time_ms,
            "stream_time_ms": stream_time,
        }
    )


_DROPPED = pa.schema([c for c in DROPPED_SCHEMA if c.name not in ("partition", "increment", "sub_topology")])


def _dropped(chunk: Chunk) -> pa.Table:
    dropped = chunk.refused & ~chunk.applied
    pieces = [_DROPPED.empty_table()]
    for node, cause, drops in chunk.drops:
        n = len(cause)
        numbers = (drops.limit_ms, drops.window_start_ms, drops.window_end_ms)
        stream_time = chunk.stream_time_ms[cause] if drops.stream_time_ms is None else drops.stream_time_ms
        columns = [
            pa.array([node] * n, pa.string()),
            pa.array([drops.reason] * n, pa.string()),
            pa.array([chunk.topic] * n, pa.string()),
            pa.array(chunk.offset[cause]),
            pa.array(chunk.time_ms[cause]),
            pa.array(stream_time),
            *(pa.nulls(n, pa.int64()) if column is None else pa.array(column) for column in numbers),
            pa.array(drops.is_record & dropped[cause]),
        ]
        pieces.append(pa.table(columns, schema=_DROPPED))
    return pa.concat_tables(pieces)


def _dead_letters(records: pa.Table, source: SourceNode | RepartitionNode, reasons: dict[int, str]) -> pa.Table:
    rows = records.take(pa.array(list(reasons), pa.int64()))
    n = len(reasons)
    return pa.table(
        {
            "node": pa.array([source.name] * n, pa.string()),
            "reason": pa.array(list(reasons.values()), pa.string()),
            "topic": pa.array([source.topic] * n, pa.string()),
            "offset": rows["offset"],
            "record_time_ms": rows["timestamp"],
            "key": rows["key"].cast(pa.binary()),
            "value": rows["value"].cast(pa.binary()),
        }
    )
