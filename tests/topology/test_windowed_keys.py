"""Windowed keys as input: what Kafka Streams makes of topics that hold them (windowed_keys.txt), however it is cut."""

import copy
import pickle
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions import folds as fold
from kstreams_replay.jobs.functions.expressions import Windowed
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, TimeWindows, Topology
from kstreams_replay.state.errors import ConfigError, TopologyError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.jvm.streams import STREAMS, TEST_UTILS, compiled
from tests.planted import LandedRecord, plant, tables_of
from tests.state.serdes.clicks import decode

STRING = Serde.string()
PLAYED = Path(__file__).with_name("windowed_keys.txt")
KINDS = {
    "time": Serde.time_windowed(STRING, 10),
    "changelog": Serde.time_windowed(STRING, "10ms", changelog=True),
    "session": Serde.session_windowed(STRING),
}
IN_OUTPUTS = {"time": KINDS["time"], "changelog": KINDS["time"], "session": KINDS["session"]}
"""Kafka's serde for changelogs writes keys of outputs without the number."""


def windowed_keys(kind: str) -> Topology:
    builder, serde = StreamsBuilder(), KINDS[kind]
    stream = builder.stream(kind, Consumed(serde, STRING))
    table = builder.table(f"{kind}-table", Consumed(serde, STRING))
    stream.group_by_key().count().to(f"{kind}-counts")
    stream.to_table().filter("value <> 'no'").to_stream().to(f"{kind}-to-table")
    again = stream if kind == "changelog" else stream.repartition()
    again.group_by_key().reduce(lambda one, other: one + other).to(f"{kind}-reduced")
    stream.left_join(table, "left || '+' || COALESCE(right, 'null')").to(f"{kind}-joined")
    stream.select_key("record_key").group_by_key().count().to(f"{kind}-plain")
    return builder.build()


def played(what: str, kind: str) -> dict[str, list[tuple[bytes, str | None, int]]]:
    """Records of the tape, or of what Kafka Streams made of it: key, value and time, by topic."""
    found = defaultdict(list)
    for line in PLAYED.read_text().splitlines():
        direction, topic, key, value, time_ms = line.split(" ")
        if direction == what and topic.split("-")[0] == kind:
            found[topic].append((bytes.fromhex(key[2:]), None if value == "null" else value, int(time_ms)))
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk_records", [None, 1])
def test_a_topology_over_windowed_keys_gives_what_kafka_streams_gives(kind, chunk_records):
    driver = TopologyTestDriver(windowed_keys(kind), chunk_records=chunk_records)
    tape = [(time, topic, key, value) for topic, rows in played("in", kind).items() for key, value, time in rows]
    for time_ms, topic, key, value in sorted(tape):
        driver.pipe_bytes(topic, key, None if value is None else value.encode(), time_ms)

    for topic, want in played("out", kind).items():
        serde = STRING if topic.endswith("plain") else IN_OUTPUTS[kind]
        records = driver.read_outputs(topic)
        keys = serde.encode(serde.from_python([record.key for record in records])).to_pylist()
        got = [
            (key, None if record.value is None else str(record.value), record.timestamp_ms)
            for key, record in zip(keys, records, strict=True)
        ]
        assert got == want, topic
    assert [letter.reason for letter in driver.dead_letters] == [
        f"key: expected at least {len(played('in', kind)[kind][0][0]) - 1} bytes of a windowed key, got 3",
        f"key: expected a window that begins at 0 or later, got -1 to {5 if kind == 'session' else 9}",
    ]


@pytest.mark.jvm
def test_kafka_streams_still_gives_this():
    with compiled(Path(__file__).parents[1] / "jvm" / "WindowedKeys.java", packages=(STREAMS, TEST_UTILS)) as command:
        said = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True).stdout

    assert said == PLAYED.read_text()


@pytest.mark.slow
def test_tables_over_windowed_keys_are_the_same_wherever_the_tape_is_cut(tmp_path):
    warehouse, topology = Warehouse(tmp_path), windowed_keys("changelog")
    for topic, rows in played("in", "changelog").items():
        records = [LandedRecord(0, key, None if value is None else value.encode(), time) for key, value, time in rows]
        plant(warehouse, topic, records, partitions=1)

    for pipeline, limit in (("whole", None), ("cut", 3)):
        list(replay(warehouse, topology, pipeline=pipeline, runner=LocalRunner(), max_records=limit, idle="proceed"))

    whole = tables_of(warehouse, "whole", topology)
    assert tables_of(warehouse, "cut", topology) == whole
    assert [row["value"] for row in whole["outputs/changelog-counts"]] == [1, 2, 1, 1, 3]
    assert whole["outputs/changelog-counts"][2]["key"] == {"key": "a", "window_start_ms": 10, "window_end_ms": 20}


# --- what steps see


def test_steps_joiners_and_folds_see_the_key_and_its_window():
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(KINDS["time"], STRING))
    stream.filter("window_start_ms >= 5").map_values(k="record_key", end="window_end_ms", v="value").to("steps")
    stream.map_values(lambda key, value: f"{key.key}{key.window_start_ms}", returns=STRING).to("python")
    stream.group_by_key().aggregate(ends=fold.collect("window_end_ms"), key=fold.last("record_key")).to("folds")
    driver = TopologyTestDriver(builder.build())

    for start in (0, 5):
        driver.pipe_input("in", Windowed("a", start, start + 10), "x", timestamp_ms=start)

    assert [one.value for one in driver.read_outputs("steps")] == [{"k": "a", "end": 15, "v": "x"}]
    assert [one.value for one in driver.read_outputs("python")] == ["a0", "a5"]
    assert [(one.key, one.value) for one in driver.read_outputs("folds")] == [
        (Windowed("a", 0, 10), {"ends": [10], "key": "a"}),
        (Windowed("a", 5, 15), {"ends": [15], "key": "a"}),
    ]


def test_the_result_of_windows_meets_a_topic_of_windowed_keys():
    builder = StreamsBuilder()
    limits = builder.table("limits", Consumed(KINDS["time"], Serde.long()))
    counts = builder.stream("in", Consumed(STRING, STRING)).group_by_key().windowed_by(TimeWindows.of_size(10)).count()
    keyed = counts.to_stream().select_key(lambda key, value: key, returns=KINDS["time"])
    keyed.join(limits, "left - right").to("out")
    driver = TopologyTestDriver(builder.build())

    driver.pipe_input("limits", Windowed("a", 10, 20), 5, timestamp_ms=0)
    driver.pipe_input("in", "a", "x", timestamp_ms=1)
    driver.pipe_input("in", "a", "x", timestamp_ms=11)

    assert [(one.key, one.value) for one in driver.read_outputs("out")] == [(Windowed("a", 10, 20), -4)]


# --- what is refused

SESSION_OF_LONG = Serde.session_windowed(Serde.long())
NO_WINDOW = "expected a window that begins at 0 or later"


@pytest.mark.parametrize(
    ("serde", "data", "want"),
    [
        (KINDS["time"], b"a" + (2**63 - 6).to_bytes(8, "big"), Windowed("a", 2**63 - 6, 2**63 - 1)),  # as Kafka's
        (
            Serde.session_windowed(Serde.long()),
            bytes(7) + b"\7" + bytes(7) + b"\6" + bytes(7) + b"\5",
            Windowed(7, 5, 6),
        ),
        (KINDS["time"], b"\xff" + bytes(8), "key of the window: expected UTF-8, got byte 0xff at 0"),
        (KINDS["time"], b"", "expected at least 8 bytes of a windowed key, got 0"),
        (
            KINDS["session"],
            bytes(7) + b"\4" + bytes(7) + b"\5",
            "expected a window that begins at 0 or later, got 5 to 4",
        ),
    ],
)
def test_bytes_of_a_windowed_key(serde, data, want):
    assert decode(serde, None, data) == (([None, None], {1: want}) if isinstance(want, str) else ([None, want], {}))


@pytest.mark.parametrize(
    ("value", "refusal"),
    [
        ("a", "a Windowed"),
        (("a", 0), "a Windowed"),
        (Windowed(None, 0, 10), "a Windowed"),
        (Windowed("a", 0, 11), "a window of 10 ms"),
        (Windowed("a", -10, 0), "a window that begins at 0 or later"),
    ],
)
def test_what_is_no_window_is_not_written(value, refusal):
    with pytest.raises(ConfigError, match=refusal):
        KINDS["time"].from_python([value])


def test_a_size_and_an_inner_serde_are_checked():
    with pytest.raises(ConfigError, match="size: expected at least 1 ms, got 0"):
        Serde.time_windowed(STRING, 0)
    with pytest.raises(ConfigError, match="expected the serde of a key, got 10"):
        Serde.time_windowed(10, STRING)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="expected the serde of a key, got 'string'"):
        Serde.session_windowed("string")  # type: ignore[arg-type]


def test_a_topic_that_the_topology_reads_again_has_plain_keys():
    builder = StreamsBuilder()
    builder.stream("in", Consumed(KINDS["time"], STRING)).to("mid")
    builder.stream("mid", Consumed(KINDS["time"], STRING)).to("out")

    with pytest.raises(TopologyError, match="expected plain keys in a topic that the topology reads, got windowed"):
        builder.build()


def test_a_windowed_key_as_text_is_that_of_kafka():
    assert f"{Windowed('1', 0, 60_000)}" == "[1@0/60000]"


def test_kafkas_window_of_a_windowed_key_is_said_to_be_its_bounds():
    with pytest.raises(AttributeError, match="Windowed has no 'window'; write key, window_start_ms or window_end_ms"):
        Windowed("a", 0, 10).window().start()  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(Windowed("a", 0, 10))) == copy.deepcopy(Windowed("a", 0, 10))
