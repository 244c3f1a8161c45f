"""A tape through a topology, whole in the test driver and through tables in increments of a few records, in
the nightly tier of one.

Rule: the records of all topics, and ticks of the wall clock among them, keep their order, in the driver as they are
piped and in tables by the column ``arrival``. So both ways must leave the same rows.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from kstreams_replay import LocalRunner, TopologyTestDriver, replay
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.landing.recorded_time import record_tick
from kstreams_replay.jobs.testing.driver_inputs import encoded
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.state.tables.warehouse import HEADERS, Warehouse
from tests.sampling import is_nightly

PIPELINE = "application"
EACH = 1 if is_nightly() else 4
"""Records of an increment."""


class InputRecord(NamedTuple):
    """A record of an input topic. ``headers``: (key, bytes) pairs."""

    topic: str
    key: Any
    value: Any
    time_ms: int
    headers: tuple[tuple[str, bytes], ...] = ()


class Tick(NamedTuple):
    """The wall clock says ``time_ms``, from 0 at the start."""

    time_ms: int


class WrittenRecord(NamedTuple):
    """A record of an output. ``window``: (start, end) of a windowed key in ms."""

    key: Any
    value: Any
    time_ms: int
    window: tuple[int, int] | None = None


Tape = Sequence[InputRecord | Tick]
Outputs = dict[str, list[WrittenRecord]]


def play_whole(topology: Topology, tape: Tape) -> Outputs:
    """What each output gets of ``tape`` in the test driver, whose clock runs if there are ticks."""
    has_ticks = any(isinstance(one, Tick) for one in tape)
    with TopologyTestDriver(topology, initial_wall_clock_time=0 if has_ticks else None) as driver:
        return pipe(driver, tape)


def pipe(driver: TopologyTestDriver, tape: Tape) -> Outputs:
    """As ``play_whole``, in a driver whose stores can be looked at afterwards."""
    clock_ms = 0
    for one in tape:
        if isinstance(one, Tick):
            driver.advance_wall_clock_time(one.time_ms - clock_ms)
            clock_ms = one.time_ms
        else:
            driver.pipe_input(one.topic, one.key, one.value, timestamp_ms=one.time_ms, headers=one.headers)
    return {
        topic: [WrittenRecord(one.key, one.value, one.timestamp_ms, one.window) for one in driver.read_outputs(topic)]
        for topic in sorted(driver.produced_topic_names())
    }


def play_cut(topology: Topology, tape: Tape, folder: Path, *, records: int = EACH) -> Outputs:
    """What each output has after a replay of ``tape`` in increments of so many records, each a process of its own as
    far as its tasks know.
    """
    warehouse = Warehouse(str(folder))
    _land(warehouse, topology, tape)
    runner = LocalRunner(f"{folder}/cache")
    while list(
        replay(
            warehouse, topology, pipeline=PIPELINE, runner=runner, max_records=records, increments=1, order="arrival"
        )
    ):
        pass
    return {topic: found for topic in _output_topics(topology) if (found := _read_back(warehouse, topology, topic))}


def assert_plays(topology: Topology, tape: Tape, wanted: Mapping[str, Sequence[Any]], folder: Path) -> None:
    """``wanted``: of each output that the test looks at, its records as (key, value) or (key, value, time_ms). Played
    whole they are these, and cut every output has the same rows as whole.
    """
    whole = play_whole(topology, tape)
    for topic, records in wanted.items():
        got = [tuple(one)[: len(records[0]) if records else 2] for one in whole.get(topic, [])]
        want = [tuple(record) for record in records]

        assert (topic, got) == (topic, want)
    cut = play_cut(topology, tape, folder)

    assert cut == whole


# --- tables --------------------------------------------------------------------------------------------------


def _land(warehouse: Warehouse, topology: Topology, tape: Tape) -> None:
    """The records by arrival; what ticks divide lands before and after them. The first tick starts the clock at 0."""
    topics = [topic for topic in topology.source_topics() if topic not in topology.intermediate_topics()]
    waiting: dict[str, list[tuple[int, InputRecord]]] = {topic: [] for topic in topics}
    if any(isinstance(one, Tick) for one in tape):
        _land_waiting(warehouse, topology, waiting)
        for topic in topics:
            record_tick(warehouse, topic, 0, arrival=0)
    for arrival, one in enumerate(tape):
        if isinstance(one, InputRecord):
            waiting[one.topic].append((arrival, one))
            continue
        _land_waiting(warehouse, topology, waiting)
        for topic in topics:
            record_tick(warehouse, topic, one.time_ms, arrival=arrival)
    _land_waiting(warehouse, topology, waiting)


def _land_waiting(warehouse: Warehouse, topology: Topology, waiting: dict[str, list[tuple[int, InputRecord]]]) -> None:
    for topic, records in waiting.items():
        land_records(warehouse, topic, _table(topology, topic, records))
        waiting[topic] = []


def _table(topology: Topology, topic: str, records: list[tuple[int, InputRecord]]) -> pa.Table:
    shape = next(node.shape for node in topology.graph.nodes.values() if node.landed_topic == topic)
    headers = [[{"key": key, "value": value} for key, value in one.headers] for _, one in records]
    return pa.table(
        {
            "partition": pa.array([0] * len(records), pa.int32()),
            "timestamp": pa.array([one.time_ms for _, one in records], pa.int64()),
            "key": pa.array(encoded(shape.key, [one.key for _, one in records]), pa.binary()),
            "value": pa.array(encoded(shape.value, [one.value for _, one in records]), pa.binary()),
            "headers": pa.array(headers, HEADERS),
            "arrival": pa.array([arrival for arrival, _ in records], pa.int64()),
        }
    )


def _output_topics(topology: Topology) -> list[str]:
    return sorted({sink.topic for sink in topology.sinks()})


def _read_back(warehouse: Warehouse, topology: Topology, topic: str) -> list[WrittenRecord]:
    shape = next(sink.shape for sink in topology.sinks() if sink.topic == topic)
    table = read_table(warehouse, PIPELINE, f"outputs/{topic}").sort_by("offset")
    keys = shape.key.to_python(table["key"].cast(shape.key.arrow_type).combine_chunks())
    values = shape.value.to_python(table["value"].combine_chunks())
    times = table["record_time_ms"].to_pylist()
    windows: list[Any] = [None] * len(times)
    if shape.window is not None:
        windows = list(zip(*(table[name].to_pylist() for name in ("window_start_ms", "window_end_ms")), strict=True))
    return [WrittenRecord(*one) for one in zip(keys, values, times, windows, strict=True)]
