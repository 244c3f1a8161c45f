"""What one node did with one row of a task's tape, as plain Python, for those who explain it.

Owns the shapes. Rule: keys and values are as the node's serdes read them, times in milliseconds, window bounds as in
outputs.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...state.buffers import only_chunk
from ...state.records.batches import Batch, Chunk
from ...state.serdes import Serde
from ..graph.graph import Node
from ..graph.observations import Observation, Row, RowChange, Wait
from ..operators.base.operator import StatefulOperator, StoreContents
from .readable_values import readable

Rows = list[dict[str, Any]]
ROW_OF_A_PROCESSOR = ("store", "key", "window_start_ms", "window_end_ms")

Position = tuple[str, int, int]
"""Topic, partition and offset."""


class ReleasedRow(NamedTuple):
    """What waited and left because of a later record; ``written``: the outputs it reached, as (output, offset)."""

    wait: Wait
    row: Row
    because_of: Position
    stream_time_ms: int
    written: list[tuple[str, int]]


class Sent(NamedTuple):
    """A record sent on to a repartition table's ``partition`` under ``key``; no partition: to a later part of the same
    sub-topology."""

    name: str
    partition: int | None
    key: Any


@dataclass
class NodeObservation(Observation):
    """What ``node`` did."""

    node: Node = field(kw_only=True)

    def compare(self, before: pa.Table, after: pa.Table, row_key: tuple[str, ...]) -> None:
        """Note which rows of the store differ, of the keys that came in or went out."""
        names = tuple(name for name in row_key if name in after.column_names)
        self.compare_rows(self.mine(before, self.node), self.mine(after, self.node), names)

    def compare_rows(self, before: Rows, after: Rows, names: tuple[str, ...]) -> None:
        """``names``: of the columns that name a row, which may be missing; equal ones are counted. Of a node with rows
        in several tables it is called for each.
        """
        self.shown, self.shows = [*self.shown, *before], [*self.shows, *after]
        was, now = (_by_name(rows, names) for rows in (before, after))
        self.changes += [
            RowChange(was.get(name), now.get(name)) for name in {**was, **now} if was.get(name) != now.get(name)
        ]

    def mine(self, table: pa.Table, owner: Node) -> Rows:
        """Rows of the store ``table`` of ``owner`` with our keys (or ids), as Python values."""
        key, value = owner.shape.key, owner.shape.value
        if "key" in table.column_names and table.schema.field("key").type == key.arrow_type:
            codes = key.encode(only_chunk(table, "key"))
            wanted = pa.array(self.key_bytes, pa.binary())  # a null among them: records without a key can wait, too
            table = table.filter(pc.is_in(codes.cast(pa.binary()), wanted))
        elif "id" in table.column_names:
            serde = Serde.of_type(table.schema.field("id").type)
            wanted = serde.encode(serde.from_python([each for each in self.ids if each is not None]))
            codes = serde.encode(only_chunk(table, "id"))
            table = table.filter(pc.is_in(codes.cast(pa.binary()), wanted.cast(pa.binary())))
        columns = {}
        for name in table.column_names:
            column, of = only_chunk(table, name), {"key": key, "value": value}.get(name)
            is_plain = of is None or of.arrow_type != column.type
            columns[name] = readable(column, None if is_plain else of)
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def shown_by(operator: StatefulOperator) -> Rows:
    """What a processor's own stores show; nothing of other operators."""
    inner = ((name, store.contents()) for name, store in operator.inner_stores().items())
    return [
        {"store": name, "window": contents.window, **row}
        for name, contents in inner
        for row in _readable_rows(contents)
    ]


def _readable_rows(contents: StoreContents) -> Rows:
    serdes = {"key": contents.key, "value": contents.value}
    columns = [
        readable(only_chunk(contents.rows, name), serdes.get(name)) if len(contents.rows) else []
        for name in contents.rows.column_names
    ]
    return [dict(zip(contents.rows.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _by_name(rows: Rows, names: tuple[str, ...]) -> dict[tuple[str, int], dict[str, Any]]:
    """By the name of the row, and how many of that name came before."""
    by_name: dict[tuple[str, int], dict[str, Any]] = {}
    seen: Counter[str] = Counter()
    for row in rows:
        name = repr([row.get(one) for one in names])
        by_name[name, seen[name]] = row
        seen[name] += 1
    return by_name


@dataclass
class Taken:
    """One row of a task's tape that goes back to the record: what every node did with it, in order of the nodes.

    ``refusals``: by no node of ``observations``, so by its source. ``landed_ms``: the time that it landed
    with, where an extractor gave it another. ``next_offsets``: of the tables that the task writes, behind what the row
    wrote.
    """

    task: str
    record: Position
    stream_time_ms: int
    observations: list[NodeObservation]
    dead_letters: list[dict[str, Any]]
    refusals: list[dict[str, Any]]
    sent: list[Sent]
    landed_ms: int | None = None
    next_offsets: dict[str, int] = field(default_factory=dict)


def is_in(wait: Wait, store: pa.Table, node: Node) -> bool:
    """Whether something waits among the rows of ``node``'s store."""
    observation = NodeObservation([], [], node=node, key_bytes=[wait.key_bytes])
    rows = observation.mine(store, node)
    if wait.window is not None:
        rows = [row for row in rows if (row["window_start_ms"], row["window_end_ms"]) == wait.window]
    if wait.record_time_ms is not None:
        rows = [row for row in rows if row["record_time_ms"] == wait.record_time_ms]
    if "kind" in store.column_names:
        rows = [row for row in rows if row["kind"].startswith("unmatched")]
    return any(node.is_held(row) for row in rows)


def rows_of(batch: Batch, chunk: Chunk) -> list[Row]:
    """The records of a batch."""
    if len(batch) == 0:
        return []
    serde = batch.keys.serde
    keys = readable(batch.keys.typed(batch.key), serde)
    bounds: list[tuple[int, int] | None] = [None] * len(batch)
    if batch.window_start_ms is not None and batch.window_end_ms is not None:
        bounds = list(zip(batch.window_start_ms.tolist(), batch.window_end_ms.tolist(), strict=True))
    olds = [None] * len(batch) if batch.old is None else readable(batch.old.all())
    topic, offset = batch.coordinates(chunk)
    seen = [
        None if number < 0 else (chunk.context_topics[number], at)
        for number, at in zip(topic.tolist(), offset.tolist(), strict=True)
    ]
    columns = keys, readable(batch.value.all()), batch.time_ms.tolist(), bounds, olds, seen
    return [Row(*row) for row in zip(*columns, strict=True)]
