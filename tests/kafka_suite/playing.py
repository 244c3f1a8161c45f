"""Plays a tape through our ``TopologyTestDriver``, and reports the first difference from what Kafka Streams did.

Rule: for each record that was piped, all records of every channel are compared (key, window, value, time, headers). So
are the number of dropped records, rows of all stores that both sides name, and where the run ended if it did.
"""

import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, KStream, KTable, Serde, StreamsBuilder, Topology
from kstreams_replay.state.errors import TaskFailed
from tests.kafka_suite.tapes import Event, RecordedStep, RecordedTape

STRING, INT, LONG, DOUBLE, BYTES = Serde.string(), Serde.int(), Serde.long(), Serde.double(), Serde.bytes()
STRINGS, STRING_INT, STRING_LONG = Consumed(STRING, STRING), Consumed(STRING, INT), Consumed(STRING, LONG)
INT_STRING = Consumed(INT, STRING)

APPLICATION = "dummy-topology-test-driver-app-id-"
"""What the name of an application begins with that a test does not name."""


class Stage:
    """What a topology is written on: a builder, the tape, and the channels that are watched.

    ``is_order_kept``: whether the records that one record causes are in an order that Kafka's own stores give.
    ``window_ms``: size of windows whose outputs the test never reads.
    """

    def __init__(self, tape: RecordedTape) -> None:
        self.tape, self.builder = tape, StreamsBuilder()
        self.topology: Topology | None = None
        self.watched: dict[str, str] = {}
        self.is_order_kept = True
        self.window_ms = 0
        self._waiting = tape.channels()

    def stream(self, topic: str, consumed: Consumed = STRINGS, **options: Any) -> KStream:
        return self.builder.stream(topic, consumed, **options)

    def table(self, topic: str, consumed: Consumed = STRINGS, **options: Any) -> KTable:
        return self.builder.table(topic, consumed, **options)

    def watch(
        self, what: KStream | KTable, channel: str | None = None, say: Callable[[Any], Any] | None = None
    ) -> None:
        """The records that reach ``what`` are those that the processor ``channel`` received: the next one of the tape
        by default.
        """
        if channel is None:
            channel = self._waiting.pop(0)
        elif channel in self._waiting:
            self._waiting.remove(channel)
        output = f"watched-{len(self.watched)}"
        self.watched[channel] = output
        what.to(output)

    def by_processors(self) -> Topology:
        """A topology by the Processor API alone, instead of the builder's."""
        self.topology = Topology()
        return self.topology

    def sees(self, topic: str) -> None:
        """An output of the tape, or an internal topic, which the application's name begins there."""
        channels = {channel for step in self.tape.steps() for channel in step.caused}
        internal = [channel for channel in channels if channel.startswith(APPLICATION) and channel.endswith(topic)]
        self.watched[internal[0] if internal else topic] = topic

    def to(self, what: KStream | KTable, topic: str) -> None:
        """An output topic of the tape."""
        self.watched[topic] = topic
        what.to(topic)


Play = Callable[[Stage], None]


def description(tape: RecordedTape, write: Play) -> str:
    """What our topology of the tape prints."""
    stage = Stage(tape)
    write(stage)
    return _topology(stage).describe()


def _topology(stage: Stage) -> Topology:
    return stage.builder.build() if stage.topology is None else stage.topology


def difference(tape: RecordedTape, write: Play) -> str | None:
    """The first thing that differs, or None. What building or playing raises is raised."""
    stage = Stage(tape)
    write(stage)
    steps = tape.steps()
    unseen = {channel for step in steps for channel in step.caused if _is_seen(channel)} - set(stage.watched)
    if unseen:
        return f"not watched: {sorted(unseen)}"
    topology = _topology(stage)
    shapes = {sink.topic: sink.shape for sink in topology.sinks()}
    driver = TopologyTestDriver(topology, counts_bytes=True)
    failed_at = _pipe(driver, steps)
    got = _caused(driver, stage)
    for number, step in enumerate(steps):
        for channel in stage.watched:
            shape = shapes[stage.watched[channel]]
            want = [_decoded(_said(event), shape, stage.window_ms) for event in step.caused.get(channel, [])]
            have = got.get((number, channel), [])
            if not stage.is_order_kept:
                want, have = sorted(want, key=repr), sorted(have, key=repr)
            if have != want:
                return f"record {number} {_said(step.piped)}, {channel}:\n  want {want}\n  got  {have}"
    ends_at = next((number for number, step in enumerate(steps) if step.thrown is not None), None)
    if failed_at != ends_at:
        return f"ended at record: want {ends_at} ({steps[ends_at or 0].thrown}), got {failed_at}"
    if ends_at is None:
        if len(driver.dropped) != tape.line["dropped"]:
            return f"dropped: want {tape.line['dropped']}, got {len(driver.dropped)}: {driver.dropped}"
        return _store_difference(tape, topology, driver)
    return None


def _is_seen(channel: str) -> bool:
    """Tables and steps that nothing follows receive what their stores show."""
    return not channel.startswith("KTABLE-") and not (channel.startswith("KSTREAM-") and "PROCESSOR" not in channel)


def _pipe(driver: TopologyTestDriver, steps: list[RecordedStep]) -> int | None:
    """The number of the record that ended the run, or None."""
    shapes = {node.landed_topic: node.shape for node in driver.topology.graph.nodes.values()}
    for step in steps:
        event = step.piped
        shape = shapes[event["in"]]
        headers = [(name, plain(content)) for name, content in event.get("headers", ())]
        key, value = (_value(plain(event[part]), serde) for part, serde in (("key", shape.key), ("value", shape.value)))
        driver.pipe_input(event["in"], key, value, event["ts"], headers=headers)
    try:
        driver.run()
    except TaskFailed as failure:
        return failure.arrival
    return None


def _caused(driver: TopologyTestDriver, stage: Stage) -> dict[tuple[int, str], list[Any]]:
    found: dict[tuple[int, str], list[Any]] = {}
    for channel, output in stage.watched.items():
        for record in driver.read_outputs(output):
            row = (record.key, record.window, record.value, record.timestamp_ms, list(record.headers))
            found.setdefault((record.arrival, channel), []).append(row)
    return found


def _said(event: Event) -> tuple[Any, ...]:
    """(key, window, value, time, headers); of a change, its new value."""
    key, window, value = event["key"], None, event["value"]
    if isinstance(key, dict) and "window" in key:
        key, window = key["key"], tuple(key["window"])
    if isinstance(value, dict) and value.keys() == {"new", "old"}:
        value = value["new"]
    headers = [(name, plain(content)) for name, content in event.get("headers", ())]
    return plain(key), window, plain(value), event["ts"], headers


def _decoded(row: tuple[Any, ...], shape: Shape, window_ms: int) -> tuple[Any, ...]:
    """Bytes of an output that the test never read, as values. A windowed key ends with its start, that of a session
    with its end and its start (WindowKeySchema, SessionKeySchema).
    """
    key, window, value, *more = row
    if isinstance(key, bytes) and shape.window is not None:
        (start,) = struct.unpack(">q", key[-8:])
        if shape.window == "session":
            window, key = (start, *struct.unpack(">q", key[-16:-8])), key[:-16]
        else:
            window, key = (start, start + window_ms), key[:-8]
    return (_value(key, shape.key), window, _value(value, shape.value), *more)


def _value(content: Any, serde: Serde) -> Any:
    if not isinstance(content, bytes) or serde == BYTES:
        return content
    return serde.to_python(serde.decode(pa.array([content])).values)[0]


def plain(value: Any) -> Any:
    """Bytes as bytes, lists of plain values as lists, a value that has a time without it."""
    if isinstance(value, dict) and value.keys() == {"bytes"}:
        return bytes.fromhex(value["bytes"])
    if isinstance(value, dict) and value.keys() == {"value", "ts"}:
        return plain(value["value"])
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value


def _store_difference(tape: RecordedTape, topology: Topology, driver: TopologyTestDriver) -> str | None:
    tables = {name for name, node in topology.stores().items() if node.is_table}
    for name in sorted(tables | set(driver.get_all_state_stores())):
        if name in tape.stores:
            want = sorted((_row(*row) for row in tape.stores[name]), key=repr)
            got = sorted(driver.store(name).all(), key=repr)
            if got != want:
                return f"store {name}:\n  want {want}\n  got  {got}"
    return None


def _row(key: Any, value: Any) -> tuple[Any, ...]:
    return _said({"key": key, "value": value, "ts": None})[:3]
