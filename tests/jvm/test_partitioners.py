"""A record is sent to where Kafka's own RecordCollector sends it, of whatever a user's partitioner says: a partition of
its topic, several, none, or that of its key; what is no partition ends both.
"""

import random
import subprocess
from pathlib import Path

import pytest

from kstreams_replay import Consumed, LocalRunner, Serde, SessionWindows, StreamsBuilder, TimeWindows, replay
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.state.errors import TaskFailed
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.jvm.streams import compiled
from tests.planted import LandedRecord, plant
from tests.sampling import seed

pytestmark = pytest.mark.jvm

CASES = 200
PARTITIONS_MAX = 5
TEXT = Serde.string()


def by_kafka(cases):
    """Answers of Partitioners.java to cases of (partitions, key, answer of the partitioner)."""
    asked = "\n".join(";".join(map(str, case)) for case in cases)
    with compiled(Path(__file__).with_name("Partitioners.java")) as command:
        said = subprocess.run(command, input=asked, capture_output=True, text=True, encoding="utf-8", check=False)
    assert said.returncode == 0, said.stderr
    return [line.removeprefix("answer ") for line in said.stdout.splitlines() if line.startswith("answer ")]


def as_told(topic, key, value, partitions):
    if value is None or value == "-":
        return None
    return {int(one) for one in value.split(",") if one}


def sent_here(path, partitions, told):
    """Where records of (key, answer of the partitioner) go, as Partitioners.java says it."""
    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).to("out", partitioner=as_told, partitions=partitions)
    warehouse = Warehouse(path)
    plant(
        warehouse,
        "in",
        [LandedRecord(0, key.encode(), value.encode(), n) for n, (key, value) in enumerate(told)],
        partitions=1,
    )
    list(replay(warehouse, builder.build(), pipeline="p", runner=LocalRunner(), idle="proceed"))
    found = {}
    for row in read_table(warehouse, "p", "outputs/out").sort_by("partition").to_pylist():
        found.setdefault(row["record_time_ms"], []).append(str(row["partition"]))
    dropped = {row["record_time_ms"] for row in read_table(warehouse, "p", "dropped").to_pylist()}
    assert dropped.isdisjoint(found)
    assert dropped | found.keys() == set(range(len(told)))
    return [",".join(found.get(time, ["dropped"])) for time in range(len(told))]


@pytest.mark.every_run
def test_records_are_sent_to_where_kafka_sends_them(tmp_path):
    generator = random.Random(seed())
    cases = []
    for _ in range(CASES):
        partitions = generator.randrange(1, PARTITIONS_MAX + 1)
        several = sorted(generator.sample(range(partitions), generator.randrange(0, partitions + 1)))
        answer = generator.choice(["-", ",".join(map(str, several))])
        cases.append((partitions, f"key {generator.randrange(10**9)}", answer))
    want = by_kafka(cases)

    for partitions in range(1, PARTITIONS_MAX + 1):
        mine = [number for number, case in enumerate(cases) if case[0] == partitions]
        got = sent_here(tmp_path / str(partitions), partitions, [cases[number][1:] for number in mine])

        assert got == [want[number] for number in mine]
    assert {"dropped"} < set(want)


WINDOWS = {"time": TimeWindows.of_size(10), "session": SessionWindows.with_inactivity_gap(5)}


def windows_sent_here(path, kind, partitions, told, *, way="to"):
    """As ``sent_here``, of the windows of two records of each key, which are 3 ms apart."""
    builder = StreamsBuilder()
    windowed = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key().windowed_by(WINDOWS[kind])
    stream = windowed.reduce(lambda one, other: other).to_stream()
    partitioner = None if told[0][1] == "none" else as_told
    if way == "repartition":
        stream.repartition(partitioner=partitioner, partitions=partitions).to("out")
    else:
        stream.to("out", partitioner=partitioner, partitions=partitions)
    warehouse = Warehouse(path)
    records = [(10 * n + later, key, answer) for n, (key, answer) in enumerate(told) for later in (0, 3)]
    plant(
        warehouse, "in", [LandedRecord(0, key.encode(), answer.encode(), t) for t, key, answer in records], partitions=1
    )
    list(replay(warehouse, builder.build(), pipeline="p", runner=LocalRunner(), idle="proceed"))
    found = {}
    for row in read_table(warehouse, "p", "outputs/out").sort_by("partition").to_pylist():
        if row["record_time_ms"] % 10 == 3 and row["value"] is not None:
            found.setdefault(row["record_time_ms"] // 10, []).append(str(row["partition"]))
    return [",".join(found.get(number, ["dropped"])) for number in range(len(told))]


@pytest.mark.sampled("way")
@pytest.mark.parametrize("way", ["to", "repartition"])
@pytest.mark.parametrize("has_partitioner", [True, False])
@pytest.mark.parametrize("kind", WINDOWS)
def test_windowed_keys_are_sent_to_where_kafka_sends_them(tmp_path, kind, has_partitioner, way):
    """A repartition without a partitioner has none in Kafka, either: it goes by the serialized key."""
    generator, partitions = random.Random(seed()), 4
    answers = ["-", "-", "0", "1,3", ""] if has_partitioner else ["none"]
    told = [(f"key {generator.randrange(10**9)}", generator.choice(answers)) for _ in range(60)]
    behind = 10 if kind == "time" else 3
    asked = [(key, "-" if (way, answer) == ("repartition", "none") else answer) for key, answer in told]
    cases = [(partitions, *one, kind, 10 * number, 10 * number + behind) for number, one in enumerate(asked)]

    assert windows_sent_here(tmp_path, kind, partitions, told, way=way) == by_kafka(cases)


@pytest.mark.parametrize("answer", ["3", "-1", "0,3"])
def test_what_is_no_partition_ends_both(tmp_path, answer):
    assert by_kafka([(3, "a", answer)]) == ["IllegalArgumentException"]

    with pytest.raises(TaskFailed, match="expected a partition from 0 to 2, a set of them, or None"):
        sent_here(tmp_path, 3, [("a", answer)])
