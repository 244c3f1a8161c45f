"""A tape through a task or an operator of its own, cut into chunks and into increments.

Rule: between increments all that is left is what would have been saved: durable rows, kept by the columns that name
them, and counters.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kstreams_replay.jobs.tape.task_input import TapeChunk
from kstreams_replay.jobs.task.task import Task
from kstreams_replay.jobs.testing.driver_inputs import encoded
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.state.records.batches import Chunk
from kstreams_replay.state.tables.warehouse import HEADERS
from tests.playing import InputRecord

PARTITION = 3
TEXTS = Consumed(Serde.string(), Serde.string())
Record = InputRecord | tuple[str, Any, Any, int]
Build = Callable[[StreamsBuilder], Any]


class Output(NamedTuple):
    """What reached the output because of record ``step``, from 0. A windowed key is (key, start, end)."""

    step: int
    key: Any
    value: Any
    time_ms: int


class Dropped(NamedTuple):
    step: int
    reason: str


@dataclass
class PlayedTask:
    """``origins``: of each output, the step in its headers. ``stores``: durable rows in the end, by store."""

    outputs: list[Output] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    stores: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    counts: tuple[int, int] = 0, 0
    """Records that were applied, and that were dropped."""


class Increments:
    """An operator or a task, ``running``, that ``start`` makes once more for each increment."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self.start, self.rows = start, dict[str, pa.Table]()
        self.running = self._resumed({})

    def save(self) -> None:
        """Write what changed to the durable rows."""
        self.rows = {name: merged(store, self.rows.get(name)) for name, store in stores_of(self.running).items()}

    def begin(self) -> None:
        """Another increment, whose operator knows nothing but what is durable. Rows may come in any order."""
        self.save()
        self.running = self._resumed(self.running.counters())

    def _resumed(self, counters: dict[str, int]) -> Any:
        running = self.start()
        stores = stores_of(running)
        rows = {name: self.rows.get(name, store.rows_schema().empty_table())[::-1] for name, store in stores.items()}
        running.resume(rows if isinstance(running, Task) else rows[""], counters)
        return running

    def chunks(
        self, records: int, chunks: Sequence[int] = (), cuts: Sequence[int] = ()
    ) -> Iterator[tuple[Any, int, int]]:
        """What is running with the bounds of each chunk. ``chunks``, ``cuts``: numbers of records before which a chunk,
        or an increment, begins; one beyond the end is at the end.
        """
        cuts = {min(cut, records) for cut in cuts}
        for begin, end in pairwise(sorted([0, *cuts, *(min(chunk, records) for chunk in chunks), records])):
            if begin in cuts:
                self.begin()
            yield self.running, begin, end


def stores_of(running: Any) -> dict[str, Any]:
    return running.stores if isinstance(running, Task) else {"": running}


def merged(operator: Any, rows: pa.Table | None) -> pa.Table:
    """Durable rows after an increment: those from before with its changes. They must be what the operator shows, except
    that forgotten rows may still be there.
    """
    schema = operator.rows_schema()
    names = [name for name in operator.row_key if name in schema.names]

    def identity(row: dict[str, Any]) -> str:
        return repr([row[name] for name in names])

    merged = {identity(row): row for row in ([] if rows is None else rows.to_pylist())}
    for row in operator.changes().to_pylist():
        if row.pop("deleted"):
            assert identity(row) in merged, "a row is deleted that was never written"
            del merged[identity(row)]
        else:
            merged[identity(row)] = row
    durable = pa.Table.from_pylist(list(merged.values()), schema=schema)
    is_forgotten = dict(zip(merged, operator.forgets(durable, operator.counters()).tolist(), strict=True))
    shown = {identity(row): row for row in operator.rows().to_pylist()}
    assert shown == {name: row for name, row in merged.items() if not is_forgotten[name]}
    return durable


def chunk_of(records: int) -> Chunk:
    """A chunk of that many records of one topic, at times and offsets 0, 1, ..."""
    numbers, topic = np.arange(records, dtype=np.int64), np.zeros(records, np.int16)
    return Chunk(
        topics=("in",),
        partition=PARTITION,
        source=topic,
        origin=topic,
        offset=numbers,
        context_offset=numbers,
        context_topics=("in",),
        context_source=topic,
        time_ms=numbers,
        stream_time_ms=numbers,
        tape_time_ms=numbers,
        applied=np.zeros(records, np.bool_),
        refused=np.zeros(records, np.bool_),
    )


def drops_of(chunk: Chunk) -> list[tuple[int, str]]:
    """(cause, reason) of every refusal, in order of causes."""
    return sorted((int(cause), drops.reason) for _, causes, drops in chunk.drops for cause in causes)


def topology_of(build: Build) -> Topology:
    """What ``build`` makes, to the output ``out``."""
    builder = StreamsBuilder()
    build(builder).to("out")
    return builder.build()


def play_task(
    build: Build | Topology,
    tape: Sequence[Record],
    *,
    chunks: Sequence[int] = (),
    cuts: Sequence[int] = (),
    is_observed: bool = False,
) -> PlayedTask:
    """``tape`` through a topology of one sub-topology. ``chunks``, ``cuts``: as of Increments. ``is_observed``: as of
    Task.
    """
    topology = build if isinstance(build, Topology) else topology_of(build)
    (sub_topology,) = topology.sub_topologies
    records, tasks, played = [InputRecord(*record) for record in tape], list[Task](), PlayedTask()

    def start() -> Task:
        tasks.append(Task(topology, sub_topology, is_observed=is_observed))
        return tasks[-1]

    increments = Increments(start)
    for task, begin, end in increments.chunks(len(records), chunks, cuts):
        result = task.process(_chunk(task, records, range(begin, end)))
        for row in result.outputs["out"].to_pylist():
            key = (row["key"], row["window_start_ms"], row["window_end_ms"]) if "window_start_ms" in row else row["key"]
            played.outputs.append(Output(begin + row["cause"], key, row["value"], row["record_time_ms"]))
            played.origins += [int(header["value"]) for header in row["headers"] or ()]
        played.dropped += sorted(Dropped(begin + row["cause"], row["reason"]) for row in result.dropped.to_pylist())
    increments.save()
    played.stores = {name: sorted(rows.to_pylist(), key=repr) for name, rows in increments.rows.items()}
    played.counts = sum(task.counts.applied for task in tasks), sum(task.counts.dropped for task in tasks)
    return played


def _chunk(task: Task, tape: Sequence[InputRecord], steps: range) -> TapeChunk:
    """Every record has its step as its offset and as a header."""
    topics, tables = [source.landed_topic for source in task.sources], []
    for source in task.sources:
        mine = [step for step in steps if tape[step].topic == source.landed_topic]
        columns = {
            "offset": pa.array(mine, pa.int64()),
            "timestamp": pa.array([tape[step].time_ms for step in mine], pa.int64()),
            "key": pa.array(encoded(source.shape.key, [tape[step].key for step in mine]), pa.binary()),
            "value": pa.array(encoded(source.shape.value, [tape[step].value for step in mine]), pa.binary()),
            "headers": pa.array([[{"key": "step", "value": b"%d" % step}] for step in mine], HEADERS),
        }
        tables.append(pa.table(columns))
    return TapeChunk(np.array([topics.index(tape[step].topic) for step in steps], np.int16), tuple(tables))
