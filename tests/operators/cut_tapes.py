"""A tape through a topology of one sub-topology, cut into chunks and into increments.

Rule: between increments all that is left of a task is what it would have saved: durable rows, kept by the columns that
name them, and counters. Keys and values are texts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kstreams_replay.jobs.tape.task_input import TapeChunk
from kstreams_replay.jobs.task.task import Task
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.state.tables.warehouse import HEADERS

TEXTS = Consumed(Serde.string(), Serde.string())
Record = tuple[str, str | None, str | None, int]
"""Topic, key, value, time."""


class Out(NamedTuple):
    """``step``: number of the record that caused it; ``origin``: the number in its header."""

    step: int
    key: str | None
    value: str | None
    time_ms: int
    origin: int


class Dropped(NamedTuple):
    step: int
    reason: str


@dataclass
class PlayedInCuts:
    outputs: list[Out] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    stores: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Durable rows of every store in the end."""


def topology_of(build: Callable[[StreamsBuilder], Any]) -> Topology:
    """``build`` gives what goes to the output "out"."""
    builder = StreamsBuilder()
    build(builder).to("out")
    topology = builder.build()
    assert len(topology.sub_topologies) == 1
    return topology


def play(
    topology: Topology,
    tape: Sequence[Record],
    *,
    chunks: Sequence[int] = (),
    cuts: Sequence[int] = (),
    is_observed: bool = False,
) -> PlayedInCuts:
    """``chunks``/``cuts``: numbers of records before which a chunk, or an increment, begins. ``is_observed``: as of
    Task.
    """
    played, rows, counters = PlayedInCuts(), {}, {}
    bounds = sorted({0, *cuts, len(tape)})
    for begin, end in pairwise(bounds):
        task = Task(topology, topology.sub_topologies[0], is_observed=is_observed)
        tables = {name: _table(task, name, rows.get(name, {})) for name in task.stores}
        task.resume(tables, counters)
        inner = sorted({begin, end, *(chunk for chunk in chunks if begin < chunk < end)})
        for first, last in pairwise(inner):
            _run(task, tape, range(first, last), played)
        rows = {name: _saved(operator, rows.get(name, {})) for name, operator in task.stores.items()}
        counters = task.counters()
        played.stores = {name: _sorted(list(found.values())) for name, found in rows.items()}
        for name, operator in task.stores.items():
            assert _sorted(operator.rows().to_pylist()) == played.stores[name], name
    played.dropped.sort()
    return played


def _run(task: Task, tape: Sequence[Record], steps: range, played: PlayedInCuts) -> None:
    topics = [source.topic for source in task.sources]
    source = np.array([topics.index(tape[step][0]) for step in steps], np.int16)
    tables = tuple(_records(tape, [step for step in steps if tape[step][0] == topic]) for topic in topics)
    result = task.process(TapeChunk(source, tables))
    for row in result.outputs["out"].to_pylist():
        origin = int(row["headers"][0]["value"])
        played.outputs.append(Out(steps[row["cause"]], row["key"], row["value"], row["record_time_ms"], origin))
    for row in result.dropped.to_pylist():
        played.dropped.append(Dropped(steps[row["cause"]], row["reason"]))


def _records(tape: Sequence[Record], steps: list[int]) -> pa.Table:
    def encoded(place: int) -> list[bytes | None]:
        return [None if tape[step][place] is None else tape[step][place].encode() for step in steps]

    return pa.table(
        {
            "offset": pa.array(steps, pa.int64()),
            "timestamp": pa.array([tape[step][3] for step in steps], pa.int64()),
            "key": pa.array(encoded(1), pa.binary()),
            "value": pa.array(encoded(2), pa.binary()),
            "headers": pa.array([[{"key": "step", "value": b"%d" % step}] for step in steps], HEADERS),
        }
    )


def _saved(operator: Any, before: dict[Any, dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    """Rows after the increment's changes."""
    rows = dict(before)
    for row in operator.changes().to_pylist():
        name = tuple(row[column] for column in operator.row_key if column in row)
        if row.pop("deleted"):
            assert name in rows, f"{name} was never saved"
            del rows[name]
        else:
            rows[name] = row
    return rows


def _table(task: Task, store: str, rows: dict[Any, dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows.values()), schema=task.stores[store].rows_schema())


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)
