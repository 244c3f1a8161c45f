"""Ports of Java applications, judged by Kafka Streams' own tasks on landed records of several partitions."""

import json
import random
import struct
from pathlib import Path

import pyarrow as pa
import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor, PunctuationType, Record
from kstreams_replay.jobs.judge.chosen_records import ChosenRecords
from kstreams_replay.jobs.judge.judgement import Judgement, judge
from kstreams_replay.jobs.judge.kafka_tasks import JavaApplication
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.records.murmur2 import murmur2_partitions
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.jvm.streams import compiled
from tests.planted import LandedRecord, plant

pytestmark = [pytest.mark.jvm, pytest.mark.xdist_group("oracle")]

S, L = Serde.string(), Serde.long()
PORTS = Path(__file__).with_name("Ports.java")


@pytest.fixture(scope="module")
def classes() -> Path:
    """The folder of the compiled applications: it is on the class path as a jar would be."""
    with compiled(PORTS) as command:
        yield Path(command[command.index("-cp") + 1].split(":")[0])


def sessions() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(S, L)).group_by_key()
    windows = clicks.windowed_by(SessionWindows.with_inactivity_gap("10s", grace="20s"))
    windows.count().suppress(Suppressed.until_window_closes()).to("out")
    return builder.build()


def slides() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(S, L)).group_by_key()
    clicks.windowed_by(SlidingWindows.of_time_difference("10s", grace="5s")).count().to_stream().to("out")
    return builder.build()


def digits() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(S, L))
    clicks.to("copy")
    grouped = clicks.group_by(lambda key, value: str(value % 10), returns=S, name="digits")
    grouped.windowed_by(TimeWindows.of_size("10s", grace="5s")).count().to_stream().to("out")
    return builder.build()


def joins() -> Topology:
    builder = StreamsBuilder()
    users = builder.table("users", Consumed(S, S))
    groups = builder.table("groups", Consumed(S, S))
    clicks = builder.stream("clicks", Consumed(S, L)).select_key(lambda key, value: f"u{value % 7}", returns=S)
    joined = clicks.left_join(users, lambda click, user: f"{click} by {user or 'null'}", returns=S, name="by-user")
    joined.to("out")
    members = users.join(
        groups, lambda user, group: f"{user} in {group}", foreign_key=lambda user: f"g{len(user)}",
        foreign_key_returns=S, returns=S,
    )  # fmt: skip
    members.to_stream().to("members")
    return builder.build()


def globals_() -> Topology:
    builder = StreamsBuilder()
    users = builder.global_table("users", Consumed(S, S))
    groups = builder.global_table("groups", Consumed(S, S))
    clicks = builder.stream("clicks", Consumed(S, L))
    named = clicks.left_join(
        users, lambda click, user: f"{click} by {user or 'null'}", returns=S,
        selector=lambda key, value: f"u{value % 7}", selector_returns=S,
    )  # fmt: skip
    named.to("out")
    moved = clicks.select_key(lambda key, value: f"g{value % 7}", returns=S).repartition(name="by-group")
    moved.join(
        groups, lambda click, group: f"{click} in {group}", returns=S, selector=lambda key, value: key,
        selector_returns=S,
    ).to("members")  # fmt: skip
    return builder.build()


class Sums(Processor):
    def init(self, context):
        self.context, self.sums = context, context.store("sums")
        context.schedule("30s", PunctuationType.STREAM_TIME, self.write)

    def write(self, time_ms):
        for key, total in list(self.sums.all()):
            self.context.forward(Record(key, total, time_ms))
            self.sums.delete(key)

    def process(self, record):
        self.sums.put(record.key, record.value + (self.sums.get(record.key) or 0))


def sums() -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(KeyValues("sums", S, L))
    builder.stream("clicks", Consumed(S, L)).process(Sums, ["sums"], returns_key=S, returns=L).to("out")
    return builder.build()


def judged(
    folder: Path, classes: Path, topology: Topology, name: str, seed: int, *, max_records: int | None = None
) -> Judgement:
    warehouse = Warehouse(str(folder / "tables"))
    generator = random.Random(seed)
    topics = topology.source_topics()
    for topic, values in (("clicks", None), ("users", ["ann", "beth", None]), ("groups", ["red", "blue", None])):
        if topic in topics:
            plant(warehouse, topic, records(generator, topic, values), partitions=3)
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), max_records=max_records))
    return judge(warehouse, topology, JavaApplication([classes], f"Ports#{name}"), pipeline="p")


def records(generator: random.Random, topic: str, values: list[str | None] | None) -> list[LandedRecord]:
    """Of 3 partitions, up to 20 s out of order; each where Kafka's producer puts its key."""
    found, time_ms = [], 1_000_000
    for _ in range(200 if values is None else 60):
        time_ms += generator.choice([0, 10, 500, 3_000, 12_000])
        key = f"{topic[0]}{generator.randrange(7)}".encode()
        value = struct.pack(">q", generator.randrange(100)) if values is None else generator.choice(values)
        (partition,) = murmur2_partitions(pa.array([key], pa.binary()), 3).tolist()
        at_ms = time_ms - generator.choice([0, 0, 0, 1_000, 20_000])
        found.append(LandedRecord(partition, key, value.encode() if isinstance(value, str) else value, at_ms))
    return found


TWINS = {"sessions": sessions, "slides": slides, "digits": digits, "joins": joins, "globals": globals_, "sums": sums}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TWINS)
def test_a_right_port_has_all_rows_of_kafka_streams(name, seed, classes, tmp_path):
    found = judged(tmp_path, classes, TWINS[name](), name, seed, max_records=60 if seed else None)

    assert found.is_equal, found
    assert sum(each.rows[1] for each in found.outputs) > 50


CHOSEN = {
    "times": (ChosenRecords(since_ms=1_200_000, until_ms=1_500_000), 0),
    "a partition": (ChosenRecords(partitions=[1]), 0),
    "the first": (ChosenRecords(partitions=[0, 2], max_records=50), 50),
}


@pytest.mark.parametrize("kind", CHOSEN)
def test_a_part_of_the_records_is_judged_by_itself(kind, classes, tmp_path):
    """
    Kafka's tasks take the chosen ones alone, so equal rows mean that ours have read no others.
    """
    chosen, count = CHOSEN[kind]
    whole = judged(tmp_path, classes, digits(), "digits", 0)
    application = JavaApplication([classes], "Ports#digits")

    found = judge(Warehouse(str(tmp_path / "tables")), digits(), application, pipeline="p", chosen=chosen)

    copies = {each.output: each.rows[1] for each in found.outputs}["copy"]
    assert found.is_equal, found
    assert 0 < copies < whole.outputs[0].rows[1]
    assert copies == (count or copies)


def test_where_no_record_is_chosen_the_judge_says_so(classes, tmp_path):
    application = JavaApplication([classes], "Ports#digits")
    judged(tmp_path, classes, digits(), "digits", 0)

    with pytest.raises(ConfigError, match="none in these times"):
        judge(
            Warehouse(str(tmp_path / "tables")),
            digits(),
            application,
            pipeline="p",
            chosen=ChosenRecords(since_ms=9**15),
        )


def test_a_port_with_another_grace_is_told_apart_at_its_first_row(classes, tmp_path):
    found = judged(tmp_path, classes, sessions(), "otherGrace", 0)

    (out,) = found.outputs
    assert not found.is_equal
    assert set(out.verdicts) > {"equal"}
    assert out.first[0].theirs != out.first[0].ours


def test_a_topic_that_the_port_does_not_write_is_named(classes, tmp_path):
    builder = StreamsBuilder()
    builder.stream("clicks", Consumed(S, L)).to("out")

    found = judged(tmp_path, classes, builder.build(), "oneMore", 0)

    assert [each.verdicts for each in found.outputs] == [{"equal": 200}]
    assert (found.not_written, found.is_equal) == (("clicks-topic",), False)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("failing", "seventeen"),
        ("others", "a landed topic others"),
        ("nothing", "a static method nothing\\(\\) of Ports"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_the_reason(name, says, classes, tmp_path):
    with pytest.raises(ConfigError, match=says):
        judged(tmp_path, classes, sessions(), name, 0)


def test_the_command_says_what_was_judged_and_which_rows_differ(classes, tmp_path, capsys):
    judged(tmp_path, classes, sessions(), "sessions", 0)
    (tmp_path / "port.py").write_text(
        "from kstreams_replay import *\n\ndef topology():\n    builder = StreamsBuilder()\n"
        "    clicks = builder.stream('clicks', Consumed(Serde.string(), Serde.long())).group_by_key()\n"
        "    windows = clicks.windowed_by(SessionWindows.with_inactivity_gap('10s', grace='20s'))\n"
        "    windows.count().suppress(Suppressed.until_window_closes()).to('out')\n"
        "    return builder.build()\n"
    )
    command = [
        "judge", f"{tmp_path}/port.py:topology", "--jar", str(classes), "--warehouse", str(tmp_path / "tables"),
        "--pipeline", "p",
    ]  # fmt: skip

    assert main([*command, "--class", "Ports#sessions"]) == 0
    said = capsys.readouterr().out
    assert "200 records through Kafka Streams 4.3.0" in said
    assert "the pipeline does what the application does" in said

    assert main([*command, "--class", "Ports#otherGrace", "--json"]) == 4
    answer = json.loads(capsys.readouterr().out)
    assert not answer["is_equal"]
    assert answer["outputs"][0]["verdicts"]["missing"] + answer["outputs"][0]["verdicts"].get("extra", 0) > 0
