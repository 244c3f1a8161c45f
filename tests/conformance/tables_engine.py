"""Scenarios through tables: landed, replayed by arrival in one increment or several, read back.

Rule: the records of all topics keep their order through the column ``arrival``; cuts are places between them. An
increment that fails is not committed, so of a scenario that fails at a record everything before that record is read
back, and its metrics are not known. Lateness is known where one task reads everything: in Kafka it is the task's.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql import SparkSession

from kstreams_replay.jobs.execution import task_stores
from kstreams_replay.jobs.execution.spark_runner import SparkRunner
from kstreams_replay.jobs.execution.spark_session import open_spark
from kstreams_replay.jobs.execution.task_description import Runner
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.landing.recorded_time import record_tick
from kstreams_replay.jobs.operators.suppress.suppress_node import SuppressNode
from kstreams_replay.jobs.replay.increment_report import IncrementReport
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.state.errors import ConfigError, TaskFailed
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.conformance.comparison import NOT_KNOWN
from tests.conformance.engines import Result, built, failed, kafka_metrics, refused
from tests.conformance.scenarios import Record, Scenario
from tests.conformance.translation import OUTPUT, WALL_CLOCK, topic_serdes

PIPELINE = "scenario"
After = Callable[[Warehouse, Topology, int], None]
"""What looks at the tables when so many increments are done."""

_NO_LATENESS = {"record-lateness-avg": NOT_KNOWN, "record-lateness-max": NOT_KNOWN}
"""Of several tasks; and Kafka's driver takes a record that is dropped for its time as one at -1."""


def increments(cuts: str, records: int) -> list[int]:
    """How many records each increment takes: "none", "every" or "random:SEED"."""
    if cuts == "none" or records == 0:
        return [records] if records else []
    if cuts == "every":
        return [1] * records
    dice = random.Random(cuts.removeprefix("random:"))
    places = sorted(dice.sample(range(1, records), min(records - 1, dice.randrange(1, 4)))) if records > 1 else []
    return [end - begin for begin, end in zip([0, *places], [*places, records], strict=True)]


def play_with_tables(
    scenario: Scenario, *, cuts: str = "none", runner: Runner | None = None, after: After | None = None
) -> Result:
    """The scenario through a warehouse of its own. ``after``: called with each increment until one fails."""
    try:
        topology = built(scenario)
    except ConfigError as error:
        return refused(error)
    sizes = increments(cuts, len(scenario.records))
    try:
        return _played(topology, scenario.records, sizes, runner, after)
    except _FailedIncrement as failure:
        error, done = failure.error, sizes[: failure.done]
    # Once more, record by record from there: what is read back is what was committed before the one that fails.
    single = [*done, *[1] * (len(scenario.records) - sum(done))]
    try:
        _played(topology, scenario.records, single, runner)
    except _FailedIncrement as failure:
        failed_at = sum(single[: failure.done])
        return failed(failure.result, failure.error, failed_at) | {"metrics": NOT_KNOWN}
    raise error


def play_with_spark(scenario: Scenario, *, cuts: str = "none", spark: SparkSession | None = None) -> Result:
    """As ``play_with_tables``, its tasks on Spark; one session serves all scenarios."""
    return play_with_tables(scenario, cuts=cuts, runner=SparkRunner(spark or _spark()))


@cache
def _spark() -> SparkSession:
    return open_spark("local[2]", app_name="conformance")


_LOCK, _PLAYING = Lock(), list[object]()
_LIMITS = patch.multiple(task_stores, ALL_BELOW_ROWS=0, ALL_BELOW_SHARE=0)


@contextmanager
def looking_up() -> Iterator[None]:
    """Inside, no row of state is loaded unless a task looks it up. Threads share it: with a patch each, the one that
    ends last would put back the limits of another, for every test behind it.
    """
    with _LOCK:
        if not _PLAYING:
            _LIMITS.start()
        _PLAYING.append(None)
    try:
        yield
    finally:
        with _LOCK:
            _PLAYING.pop()
            if not _PLAYING:
                _LIMITS.stop()


class _FailedIncrement(Exception):
    """``done`` increments were committed before ``error``; ``result``: what they left."""

    def __init__(self, error: TaskFailed, done: int, result: Result) -> None:
        super().__init__(error)
        self.error, self.done, self.result = error, done, result


def _played(
    topology: Topology,
    records: Sequence[Record],
    sizes: Sequence[int],
    runner: Runner | None,
    after: After | None = None,
) -> Result:
    """Without a ``runner`` every row of state that a task has is one that it looked up, in a warm copy. A scenario of
    one topic may have ticks: the first starts the clock, and is one row more to read.
    """
    sizes = [*sizes, 1] if any(record["topic"] == WALL_CLOCK for record in records) else sizes
    with TemporaryDirectory() as folder, looking_up():
        runner = runner or LocalRunner(f"{folder}/cache")
        warehouse = Warehouse(str(Path(folder)))
        _land(warehouse, topology, records)
        reports: list[IncrementReport] = []
        for size in sizes:
            try:
                new = _replayed(warehouse, topology, size, runner)
            except TaskFailed as error:
                result = _read_back(warehouse, topology, len(records)) if reports else _nothing(len(records))
                raise _FailedIncrement(error, len(reports), result) from error
            reports += new
            if new and after is not None:
                after(warehouse, topology, len(reports))
        found = _read_back(warehouse, topology, len(records)) if reports else _nothing(len(records))
        without_time = sum(report.books.dropped_by_reason.get("negative-timestamp", 0) for report in reports)
        lateness = _NO_LATENESS if without_time else _lateness(topology, reports)
        return found | {"metrics": _metrics(topology, reports, sum(found["dropped"]), lateness)}


def _replayed(warehouse: Warehouse, topology: Topology, size: int, runner: Runner) -> list[IncrementReport]:
    """The next increment, of ``size`` records."""
    one = replay(warehouse, topology, pipeline=PIPELINE, runner=runner, max_records=size, increments=1, order="arrival")
    return list(one)


def _land(warehouse: Warehouse, topology: Topology, records: Sequence[Record]) -> None:
    """The records of a scenario, by arrival."""
    serdes = topic_serdes(records)
    numbers: dict[str, int] = {}
    rows: dict[str, list[dict[str, Any]]] = {topic: [] for topic in topology.source_topics()}
    if any(record["topic"] == WALL_CLOCK for record in records):
        _land_rows(warehouse, rows, serdes)
        for topic in rows:
            record_tick(warehouse, topic, 0, arrival=0)
    for arrival, record in enumerate(records):
        topic = record["topic"]
        if topic == WALL_CLOCK:
            _land_rows(warehouse, rows, serdes)
            for landed in rows:
                rows[landed] = []
                record_tick(warehouse, landed, record["ts"], arrival=arrival)
            continue
        number = numbers.get(topic, 0)
        numbers[topic] = number + 1
        rows[topic].append(record | {"arrival": arrival, "offset": record.get("offset", number)})
    _land_rows(warehouse, rows, serdes)


def _land_rows(warehouse: Warehouse, rows: dict[str, list[dict[str, Any]]], serdes: dict[str, Any]) -> None:
    for topic, mine in rows.items():
        land_records(warehouse, topic, _table(mine, serdes.get(topic)))


def _table(rows: list[dict[str, Any]], serde: Any) -> pa.Table:
    values = [row["value"] for row in rows]
    encoded = serde.encode(serde.from_python(values)) if serde is not None else pa.nulls(0, pa.binary())
    return pa.table(
        {
            "partition": pa.array([0] * len(rows), pa.int32()),
            "timestamp": pa.array([row["ts"] for row in rows], pa.int64()),
            "key": pa.array([None if row["key"] is None else row["key"].encode() for row in rows], pa.binary()),
            "value": encoded.cast(pa.binary()),
            "arrival": pa.array([row["arrival"] for row in rows], pa.int64()),
            "context_offset": pa.array([row["offset"] for row in rows], pa.int64()),
        }
    )


# --- read back -----------------------------------------------------------------------------------------------


def _nothing(records: int) -> Result:
    return {"outputs": [[] for _ in range(records)], "dropped": [0] * records}


def _read_back(warehouse: Warehouse, topology: Topology, records: int) -> Result:
    found = _nothing(records)
    sink = next(sink for sink in topology.sinks() if sink.topic == OUTPUT)
    table = read_table(warehouse, PIPELINE, f"outputs/{OUTPUT}").sort_by("offset")
    values = sink.shape.value.to_python(table["value"].combine_chunks())
    for row, value in zip(table.drop_columns(["value"]).to_pylist(), values, strict=True):
        window = [row["window_start_ms"], row["window_end_ms"]] if sink.shape.window is not None else None
        output = {"key": row["key"], "window": window, "value": value, "ts": row["record_time_ms"]}
        found["outputs"][row["arrival"]].append(output)
    for arrival in read_table(warehouse, PIPELINE, "dropped")["arrival"].to_pylist():
        found["dropped"][arrival] += 1
    return found


def _metrics(topology: Topology, reports: Sequence[IncrementReport], dropped: int, lateness: Result) -> Result:
    """A buffer's size is measured only where it is limited."""
    suppress = {}
    for node in topology.graph.nodes.values():
        if isinstance(node, SuppressNode):
            unmeasured = {} if node.max_bytes is not None else {"bytes_current": NOT_KNOWN, "bytes_max": NOT_KNOWN}
            suppress[node.name] = _over_all([report.operators.get(node.name, {}) for report in reports]) | unmeasured
    metrics = {"dropped-records-total": dropped, "suppress": suppress} | lateness
    return kafka_metrics(metrics, topology)


def _over_all(increments: Sequence[Result]) -> Result:
    """Numbers of a buffer: what was emitted adds up, the largest was the largest once, and the last is the current."""
    numbers: Result = dict.fromkeys(("emitted", "count_current", "count_max", "bytes_current", "bytes_max"), 0)
    for found in filter(None, increments):
        numbers["emitted"] += found["emitted"]
        for name in ("count", "bytes"):
            numbers[f"{name}_current"] = found[f"{name}_current"]
            numbers[f"{name}_max"] = max(numbers[f"{name}_max"], found[f"{name}_max"])
    return numbers


def _lateness(topology: Topology, reports: Sequence[IncrementReport]) -> Result:
    """Of one task, that over all its increments."""
    if len(topology.sub_topologies) > 1:
        return _NO_LATENESS
    records = sum(report.books.read for report in reports)
    total = sum((report.lateness["avg"] or 0) * report.books.read for report in reports)
    largest = max((report.lateness["max"] or 0 for report in reports), default=None)
    return {"record-lateness-avg": round(total) / records if records else None, "record-lateness-max": largest}
