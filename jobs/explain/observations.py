"""What one node did with one row of a task's tape, as plain Python, for those who tell of it.

Owns the shapes. Rule: keys and values are as the node's serdes read them, times in milliseconds, window bounds as in
outputs.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.operators import Clocks
from jobs.topology.nodes import Node, SuppressNode
from state.buffers import only_chunk
from state.records.batches import Batch, Chunk
from state.serdes import Serde

Place = tuple[str, int, int]
"""Topic, partition and offset."""


@dataclass(frozen=True)
class Row:
    """One record between two nodes. ``value`` None: a tombstone; ``old``: what the change replaced, where that is
    sent; ``window``: None without windows; ``coordinates``: topic and offset that operators see, None for none.
    """

    key: Any
    value: Any
    record_time_ms: int
    window: tuple[int, int] | None = None
    old: Any = None
    coordinates: tuple[str, int] | None = None


class Change(NamedTuple):
    """A row of a store as its operator shows it, by column; None: it was not, or is not, there."""

    before: dict[str, Any] | None
    after: dict[str, Any] | None


class Wait(NamedTuple):
    """Something that waits in ``node`` until the operator's stream time reaches ``until_ms``; ``key``: as it is said.
    What is not None names it when it leaves: window, record time, coordinates.
    """

    node: str
    key: str
    key_bytes: bytes | None
    until_ms: int
    window: tuple[int, int] | None = None
    record_time_ms: int | None = None
    coordinates: tuple[str, int] | None = None

    def matches(self, batch: Batch, chunk: Chunk | None) -> np.ndarray:
        """Rows of what the node forwards, or of what a sink below it gets (``chunk`` None), that are this."""
        if len(batch) == 0:
            return np.zeros(0, np.bool_)
        found = np.asarray(pc.equal(batch.keys.take(batch.key), self.key_bytes).fill_null(self.key_bytes is None))
        if self.window is not None and batch.window_start_ms is not None and batch.window_end_ms is not None:
            found = found & (batch.window_start_ms == self.window[0]) & (batch.window_end_ms == self.window[1])
        if self.record_time_ms is not None:
            found = found & (batch.time_ms == self.record_time_ms)
        if self.coordinates is not None and chunk is not None:
            topic, offset = batch.coordinates(chunk)
            known = [number for number, name in enumerate(chunk.context_topics) if name == self.coordinates[0]]
            found = found & np.isin(topic, known) & (offset == self.coordinates[1])
        return found

    def is_in(self, store: pa.Table, node: Node) -> bool:
        """Whether it waits among the rows of ``node``'s store."""
        moment = Moment(node, [], [], key_bytes=[self.key_bytes])
        rows = moment.mine(store, node)
        if self.window is not None:
            rows = [row for row in rows if (row["window_start_ms"], row["window_end_ms"]) == self.window]
        if self.record_time_ms is not None:
            rows = [row for row in rows if row["record_time_ms"] == self.record_time_ms]
        if "kind" in store.column_names:
            rows = [row for row in rows if row["kind"].startswith("unmatched")]
        return any(is_held(node, row) for row in rows)


class Left(NamedTuple):
    """What waited and left because of a later record; ``written``: the outputs it reached, as (output, offset)."""

    wait: Wait
    row: Row
    because_of: Place
    stream_time_ms: int
    written: list[tuple[str, int]]


class Sent(NamedTuple):
    """A record sent on to a repartition table's ``partition`` under ``key``; no partition: to a later part of the same
    sub-topology."""

    name: str
    partition: int | None
    key: Any


@dataclass
class Moment:
    """What one node did. ``received``: by input, none at a source. ``first_offset``: of a sink, the offset of the first
    row of ``forwarded``. ``refusals``: rows as of the table `dropped`. ``clocks``: of a stateful operator, afterwards.
    """

    node: Node
    received: list[list[Row]]
    forwarded: list[Row]
    changes: list[Change] = field(default_factory=list)
    shown: list[dict[str, Any]] = field(default_factory=list)
    """Rows of its store beforehand, of the keys that came in or went out."""
    shows: list[dict[str, Any]] = field(default_factory=list)
    """The same, afterwards."""
    looked: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Rows of the tables that it looks into, of those keys, by the table's store."""
    clocks: Clocks = field(default_factory=dict)
    first_offset: int = 0
    refusals: list[dict[str, Any]] = field(default_factory=list)
    key_bytes: list[bytes | None] = field(default_factory=list)
    """Serialized keys that came in or went out."""
    ids: list[Any] = field(default_factory=list)
    """Of a deduplication by id: the id of each row that came in."""

    outcomes: dict[Wait, str] = field(default_factory=dict)
    """What became of those that wait, in words."""

    @property
    def rows(self) -> list[Row]:
        """All that came in."""
        return [row for rows in self.received for row in rows]

    def compare(self, before: pa.Table, after: pa.Table, row_key: tuple[str, ...]) -> None:
        """Note which rows of the store differ, of the keys that came in or went out."""
        self.shown, self.shows = (self.mine(table, self.node) for table in (before, after))
        names = [name for name in row_key if name in after.column_names]
        was, now = ({repr([row[name] for name in names]): row for row in rows} for rows in (self.shown, self.shows))
        self.changes = [
            Change(was.get(name), now.get(name)) for name in {**was, **now} if was.get(name) != now.get(name)
        ]

    def mine(self, table: pa.Table, owner: Node) -> list[dict[str, Any]]:
        """Rows of the store ``table`` of ``owner`` with our keys (or ids), as Python values."""
        key, value = owner.shape.key, owner.shape.value
        if "key" in table.column_names and table.schema.field("key").type == key.arrow_type:
            codes = key.encode(only_chunk(table, "key"))
            wanted = pa.array([code for code in self.key_bytes if code is not None], pa.binary())
            table = table.filter(pc.is_in(codes.cast(pa.binary()), wanted))
        elif "id" in table.column_names:
            serde = Serde.of(table.schema.field("id").type)
            wanted = serde.encode(serde.from_python([each for each in self.ids if each is not None]))
            codes = serde.encode(only_chunk(table, "id"))
            table = table.filter(pc.is_in(codes.cast(pa.binary()), wanted.cast(pa.binary())))
        columns = {}
        for name in table.column_names:
            column, of = only_chunk(table, name), {"key": key, "value": value}.get(name)
            is_plain = of is None or of.arrow_type != column.type
            columns[name] = column.to_pylist() if is_plain else of.to_python(column)  # type: ignore[union-attr]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@dataclass
class Taken:
    """One row of a task's tape that goes back to the record: what every node did with it, in order of the nodes.

    ``refusals``: by no node of ``moments``, so by its source.
    """

    task: str
    place: Place
    stream_time_ms: int
    moments: list[Moment]
    dead_letters: list[dict[str, Any]]
    refusals: list[dict[str, Any]]
    sent: list[Sent]


def is_held(node: Node, entry: dict[str, Any]) -> bool:
    """Whether a row that waits will go on: a deletion before its window closed leaves a suppress in silence."""
    return not isinstance(node, SuppressNode) or node.until != "window-closes" or entry["value"] is not None


def rows_of(batch: Batch, chunk: Chunk) -> list[Row]:
    """The records of a batch."""
    if len(batch) == 0:
        return []
    serde = batch.keys.serde
    keys = serde.to_python(batch.keys.typed(batch.key))
    bounds: list[tuple[int, int] | None] = [None] * len(batch)
    if batch.window_start_ms is not None and batch.window_end_ms is not None:
        bounds = list(zip(batch.window_start_ms.tolist(), batch.window_end_ms.tolist(), strict=True))
    olds = [None] * len(batch) if batch.old is None else batch.old.all().to_pylist()
    topic, offset = batch.coordinates(chunk)
    seen = [
        None if number < 0 else (chunk.context_topics[number], place)
        for number, place in zip(topic.tolist(), offset.tolist(), strict=True)
    ]
    columns = keys, batch.value.all().to_pylist(), batch.time_ms.tolist(), bounds, olds, seen
    return [Row(*row) for row in zip(*columns, strict=True)]
