"""Engines that play a scenario and answer in the words of a golden's ``result``.

Rule: an engine answers with outputs and dropped counts for each input record, and the metrics at the end; a refused or
failing topology answers with phase, error (Kafka's class) and failed_at.
"""

from collections.abc import Callable
from typing import Any

from jobs.test_driver import TopologyTestDriver
from state.errors import BufferFull, ConfigError, TopologyError
from tests.conformance.scenarios import Scenario
from tests.conformance.translation import OUTPUT, translate

Result = dict[str, Any]

_SUPPRESS = {
    "suppression-emit-total": "emitted",
    "suppression-buffer-count-current": "count_current",
    "suppression-buffer-count-max": "count_max",
    "suppression-buffer-size-current": "bytes_current",
    "suppression-buffer-size-max": "bytes_max",
}


def play_with_driver(scenario: Scenario, **options: Any) -> Result:
    """All records in one batch through TopologyTestDriver; ``options`` are the driver's."""
    try:
        topology = translate(scenario.topology, scenario.records)
    except ConfigError as error:
        return {"phase": "build", "error": kafka_error(error), "message": str(error)}
    records, options = scenario.records, {"counts_bytes": True} | options
    try:
        return _played(TopologyTestDriver(topology, **options), records)
    except BufferFull as error:
        # Once more, up to that record: what the batch did beyond it did not happen.
        return _played_until_full(TopologyTestDriver(topology, **options), records[: error.arrival + 1])


def _played(driver: TopologyTestDriver, records: list[dict[str, Any]]) -> Result:
    _pipe(driver, records)
    return _result(driver, len(records))


def _played_until_full(driver: TopologyTestDriver, records: list[dict[str, Any]]) -> Result:
    _pipe(driver, records)
    try:
        driver.run()
    except BufferFull as error:
        result = _result(driver, len(records))
        failure = {"phase": "record", "error": kafka_error(error), "failed_at": error.arrival, "message": str(error)}
        return result | failure | {"dropped": result["dropped"][: error.arrival]}
    raise AssertionError("the buffer was full the first time")


def _pipe(driver: TopologyTestDriver, records: list[dict[str, Any]]) -> None:
    for record in records:
        driver.pipe_input(record["topic"], record["key"], record["value"], record["ts"])


def _result(driver: TopologyTestDriver, records: int) -> Result:
    outputs: list[list[dict[str, Any]]] = [[] for _ in range(records)]
    for record in driver.read_outputs(OUTPUT):
        window = None if record.window is None else list(record.window)
        row = {"key": record.key, "window": window, "value": record.value, "ts": record.timestamp_ms}
        outputs[record.arrival].append(row)
    dropped = [0] * records
    for refusal in driver.dropped:
        dropped[refusal.arrival] += 1
    metrics = driver.metrics()
    suppress = metrics["suppress"].items()
    metrics["suppress"] = {node: {kafka: found[ours] for kafka, ours in _SUPPRESS.items()} for node, found in suppress}
    return {"outputs": outputs, "dropped": dropped, "metrics": metrics}


def kafka_error(error: ConfigError | BufferFull) -> str:
    """Kafka's class of exception for one of ours."""
    if isinstance(error, BufferFull):
        return "org.apache.kafka.streams.errors.StreamsException"
    if isinstance(error, TopologyError):
        return "org.apache.kafka.streams.errors.TopologyException"
    return "java.lang.IllegalArgumentException"


ENGINES: dict[str, Callable[..., Result]] = {"driver": play_with_driver}
