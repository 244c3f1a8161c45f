"""A topology of tables in a test: records of several topics in one order, cut into increments wherever one likes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kstreams_replay.jobs.graph.nodes import SourceNode
from kstreams_replay.jobs.tape.task_input import INPUT_COLUMNS, TapeChunk
from kstreams_replay.jobs.task.task import Task
from kstreams_replay.jobs.topology import KStream, KTable, StreamsBuilder, Topology

Build = Callable[[StreamsBuilder], KTable | KStream]


class TopicRecord(NamedTuple):
    """``key`` and ``value`` as Python values of the topic's serdes."""

    topic: str
    key: Any
    value: Any
    time_ms: int


class Output(NamedTuple):
    """What reached the output because of record ``step`` (from 0)."""

    step: int
    key: Any
    value: Any
    time_ms: int


@dataclass
class PlayedTables:
    """``drops``: (step, reason). ``stores``: durable rows by store. ``applied``, ``dropped``: counts of records."""

    outputs: list[Output] = field(default_factory=list)
    drops: list[tuple[int, str]] = field(default_factory=list)
    stores: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    applied: int = 0
    dropped: int = 0


def topology_of(build: Build) -> Topology:
    """What ``build`` makes, to the output ``out``."""
    builder = StreamsBuilder()
    build(builder).to("out")
    return builder.build()


def play(
    build: Build | Topology, records: Sequence[TopicRecord], cuts: Sequence[int] = (), breaks: Sequence[int] = ()
) -> PlayedTables:
    """Run ``records`` through a topology of one sub-topology, a chunk up to each of ``cuts`` and ``breaks``; at a cut
    all that is kept is what is durable.
    """
    topology = build if isinstance(build, Topology) else topology_of(build)
    (sub_topology,) = topology.sub_topologies
    played, rows, counters = PlayedTables(), {}, {}
    begin = 0
    for end in (*sorted(cuts), len(records)):
        task = Task(topology, sub_topology)
        task.resume(rows, counters)
        for until in (*sorted(at for at in breaks if begin < at < end), end):
            result = task.process(_input(task, records[begin:until]))
            _note(played, result.outputs["out"], result.dropped, begin)
            begin = until
        rows = {store: merged(operator, rows.get(store)) for store, operator in task.stores.items()}
        counters = task.counters()
        played.applied, played.dropped = played.applied + task.counts.applied, played.dropped + task.counts.dropped
    played.stores = {store: table.to_pylist() for store, table in rows.items()}
    return played


def _note(played: PlayedTables, outputs: pa.Table, dropped: pa.Table, first: int) -> None:
    for row in outputs.to_pylist():
        key = (row["key"], row["window_start_ms"], row["window_end_ms"]) if "window_start_ms" in row else row["key"]
        played.outputs.append(Output(first + row["cause"], key, row["value"], row["record_time_ms"]))
    played.drops += sorted((first + row["cause"], row["reason"]) for row in dropped.to_pylist())


def _input(task: Task, records: Sequence[TopicRecord]) -> TapeChunk:
    sources = [source for source in task.sources if isinstance(source, SourceNode)]
    tables = []
    for source in sources:
        mine = [record for record in records if record.topic == source.topic]
        encoded = [
            serde.encode(serde.from_python([getattr(record, name) for record in mine]))
            for serde, name in ((source.shape.key, "key"), (source.shape.value, "value"))
        ]
        times = np.array([record.time_ms for record in mine], np.int64)
        columns = dict(zip(INPUT_COLUMNS, [np.arange(len(mine)), times, *encoded], strict=True))
        tables.append(pa.table(columns))
    topics = [source.topic for source in sources]
    return TapeChunk(np.array([topics.index(record.topic) for record in records], np.int16), tuple(tables))


def merged(operator: Any, rows: pa.Table | None) -> pa.Table:
    """Durable rows after an increment: those from before with its changes. They must be what the operator shows, except
    that rows of forgotten windows may still be there.
    """
    schema = operator.rows_schema()
    names = [name for name in operator.row_key if name in schema.names]

    def identity(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in names)

    merged = {identity(row): row for row in ([] if rows is None else rows.to_pylist())}
    for row in operator.changes().to_pylist():
        if row.pop("deleted"):
            assert identity(row) in merged, "a row is deleted that was never written"
            del merged[identity(row)]
        else:
            merged[identity(row)] = row
    shown = {identity(row): row for row in operator.rows().to_pylist()}
    assert shown == {name: row for name, row in merged.items() if name in shown or "window_start_ms" not in names}
    return pa.Table.from_pylist(list(merged.values()), schema=schema)
