"""Engines that play a scenario and answer in the words of a golden's ``result``.

Rule: an engine answers with outputs and dropped counts for each input record, and the metrics at the end; a refused or
failing topology answers with phase, error (Kafka's class) and failed_at. What else an engine raises is a failure.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from kstreams_replay.jobs.operators.deduplicate_node import DeduplicateNode
from kstreams_replay.jobs.operators.suppress.suppress_node import SuppressNode
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Serde, Topology
from kstreams_replay.state.errors import BufferFull, ConfigError, InvalidTimestamp, NullKey, TaskFailed, TopologyError
from tests.conformance.comparison import NOT_KNOWN
from tests.conformance.scenarios import Record, Scenario
from tests.conformance.translation import OUTPUT, WALL_CLOCK, topic_serdes, translate

Result = dict[str, Any]

_METRICS = ("dropped-records-total", "record-lateness-avg", "record-lateness-max")
_EMITTED = "suppression-emit-total"
_SUPPRESS = {
    _EMITTED: "emitted",
    "suppression-buffer-count-current": "count_current",
    "suppression-buffer-count-max": "count_max",
    "suppression-buffer-size-current": "bytes_current",
    "suppression-buffer-size-max": "bytes_max",
}

_KAFKA_ERRORS: dict[type[Exception], str] = {
    BufferFull: "org.apache.kafka.streams.errors.StreamsException",
    NullKey: "java.lang.NullPointerException",
    InvalidTimestamp: "org.apache.kafka.streams.errors.StreamsException",
    TopologyError: "org.apache.kafka.streams.errors.TopologyException",
    ConfigError: "java.lang.IllegalArgumentException",
    TaskFailed: "java.lang.IllegalArgumentException",
}


def kafka_error(error: Exception) -> str:
    """Kafka's class of exception for one of ours."""
    return next(kafka for ours, kafka in _KAFKA_ERRORS.items() if isinstance(error, ours))


def built(scenario: Scenario) -> Topology:
    """The scenario's topology, built once for all tapes whose topics hold the same kinds of values."""
    return _built(json.dumps(scenario.topology), frozenset(topic_serdes(scenario.records).items()))


@lru_cache(maxsize=256)
def _built(topology: str, serdes: frozenset[tuple[str, Serde]]) -> Topology:
    return translate(json.loads(topology), dict(serdes))


def refused(error: ConfigError) -> Result:
    return {"phase": "build", "error": kafka_error(error), "message": str(error)}


def failed(result: Result, error: TaskFailed, failed_at: int) -> Result:
    """``result``, of what was before ``error``, with how it ended."""
    failure = {"phase": "record", "error": kafka_error(error), "failed_at": failed_at, "message": str(error)}
    outputs, dropped = result["outputs"][: failed_at + 1], result["dropped"][:failed_at]
    return result | failure | {"outputs": outputs, "dropped": dropped}


# --- the test driver -----------------------------------------------------------------------------------------


def play_with_driver(scenario: Scenario, **options: Any) -> Result:
    """All records in one batch through TopologyTestDriver; ``options`` are the driver's."""
    try:
        topology = built(scenario)
    except ConfigError as error:
        return refused(error)
    options = {"counts_bytes": True} | options
    try:
        return _played(TopologyTestDriver(topology, **options), scenario.records)
    except TaskFailed as error:
        if not 0 <= error.arrival < len(scenario.records):
            raise
        # Once more, up to that record: what the batch did beyond it did not happen.
        again, before = (TopologyTestDriver(topology, **options) for _ in range(2))
        return _played_until(again, before, scenario.records, error.arrival)


def _played(driver: TopologyTestDriver, records: Sequence[Record]) -> Result:
    _pipe(driver, records)
    return _result(driver, len(records))


def _played_until(
    driver: TopologyTestDriver, before: TopologyTestDriver, records: Sequence[Record], last: int
) -> Result:
    _pipe(driver, records[: last + 1])
    try:
        driver.run()
    except TaskFailed as error:
        result = failed(_result(driver, len(records)), error, error.arrival)
        return _without_half_emitted(result, _played(before, records[:last]), error)
    raise AssertionError(f"record {last} ended the run the first time, and not again")


def _without_half_emitted(result: Result, before: Result, error: TaskFailed) -> Result:
    """Kafka does not count the emission on which a node below fails; the driver says that it counts the whole record.
    Kafka counts the lateness of a record that fails; the driver says that it does not, but of one that fills a buffer.
    ``before``: as it was before that record.
    """
    if not isinstance(error, BufferFull):
        result["metrics"] |= {"record-lateness-avg": NOT_KNOWN, "record-lateness-max": NOT_KNOWN}
    suppress = result["metrics"]["suppress"]
    for node, numbers in suppress.items():
        is_above = numbers[_EMITTED] != before["metrics"]["suppress"][node][_EMITTED]
        if is_above and not error.place.startswith(f"{node},"):
            suppress[node] = numbers | {name: NOT_KNOWN for name in numbers if not name.endswith("max")}
    return result


def _pipe(driver: TopologyTestDriver, records: Sequence[Record]) -> None:
    """Values are encoded a topic at a time. Only a deduplicate looks at offsets, so only a deduplicate gets them."""
    deduplicates = any(isinstance(node, DeduplicateNode) for node in driver.topology.graph.nodes.values())
    encoded = {}
    for topic, serde in topic_serdes(records).items():
        values = [record["value"] for record in records if record["topic"] == topic]
        encoded[topic] = iter(serde.encode(serde.from_python(values)).to_pylist())
    wall_clock_ms = 0
    for record in records:
        topic, key = record["topic"], record["key"]
        if topic == WALL_CLOCK:
            driver.advance_wall_clock_time(record["ts"] - wall_clock_ms)
            wall_clock_ms = record["ts"]
            continue
        offset = {"offset": record["offset"]} if deduplicates and "offset" in record else {}
        key_bytes = None if key is None else key.encode()
        driver.pipe_bytes(topic, key_bytes, next(encoded[topic]), record["ts"], **offset)


def _result(driver: TopologyTestDriver, records: int) -> Result:
    outputs: list[list[Result]] = [[] for _ in range(records)]
    for record in driver.read_outputs(OUTPUT):
        window = None if record.window is None else list(record.window)
        row = {"key": record.key, "window": window, "value": record.value, "ts": record.timestamp_ms}
        outputs[record.arrival].append(row)
    dropped = [0] * records
    for refusal in driver.dropped:
        dropped[refusal.arrival] += 1
    return {"outputs": outputs, "dropped": dropped, "metrics": kafka_metrics(driver.metrics(), driver.topology)}


def kafka_metrics(metrics: Result, topology: Topology) -> Result:
    """Those of ``metrics`` that Kafka has, under its names."""
    suppress = {
        node.name: {kafka: metrics["suppress"][node.name][ours] for kafka, ours in _SUPPRESS.items()}
        for node in topology.graph.nodes.values()
        if isinstance(node, SuppressNode)
    }
    return {name: metrics[name] for name in _METRICS} | {"suppress": suppress}
