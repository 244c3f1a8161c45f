"""Pipelines that begin with what Kafka's own tasks left in their changelogs, and continue as those do."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kstreams_replay.jobs.bootstrap.application_state import ApplicationState, CommittedPosition
from kstreams_replay.jobs.bootstrap.bootstrapping import BootstrapReport, bootstrap
from kstreams_replay.jobs.bootstrap.handing_over import state_of_pipeline
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_changelog
from kstreams_replay.jobs.judge.kafka_tasks import JavaApplication, KafkaRun, Record, run_kafka
from kstreams_replay.jobs.operators.base.changelogs import Changelog
from kstreams_replay.jobs.publish.published_output import PublishedOutput
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.state.records.murmur2 import murmur2_partitions
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.bootstrap import kept
from tests.jvm.streams import compiled
from tests.planted import LandedRecord, plant
from tests.sampling import seed as seed_of_run

pytestmark = [pytest.mark.jvm, pytest.mark.xdist_group("oracle")]

APPLICATIONS = Path(__file__).with_name("Kept.java")
PARTITIONS = 2
Row = tuple[bytes | None, bytes | None, int]


@pytest.fixture(scope="module")
def classes() -> Path:
    """The folder of the compiled applications."""
    with compiled(APPLICATIONS) as command:
        yield Path(command[command.index("-cp") + 1].split(":")[0])


def written_by(generator: random.Random, topic: str, count: int) -> list[LandedRecord]:
    """Up to 20 s out of order; each where Kafka's producer puts its key."""
    found, time_ms = [], 1_000_000
    for _ in range(count):
        time_ms += generator.choice([0, 10, 500, 3_000, 9_000])
        key = f"{'g' if topic == 'groups' else 'u'}{generator.randrange(4, 12)}"
        value = generator.choice(["a", "bb", "ccc", "dddd"])
        is_gone = topic in ("users", "groups") and generator.random() < 0.2
        (partition,) = murmur2_partitions(pa.array([key.encode()], pa.binary()), PARTITIONS).tolist()
        at_ms = time_ms - generator.choice([0, 0, 0, 1_000, 20_000])
        found.append(LandedRecord(partition, key.encode(), None if is_gone else value.encode(), at_ms))
    return found


@dataclass(frozen=True)
class Life:
    """Records of an application's topics. Its first run has taken of each partition those before the first one of the
    time ``cut_ms`` or later: a task takes the earliest head, so no order between topics depends on what came later.
    """

    topics: Mapping[str, Sequence[LandedRecord]]
    cut_ms: int

    @classmethod
    def of(cls, topology: Topology, seed: int) -> "Life":
        generator = random.Random(seed)
        topics = {topic: written_by(generator, topic, 150) for topic in topology.source_topics()}
        return cls(topics, 1_000_000 + generator.randrange(100_000, 200_000))

    def taken(self, topic: str, partition: int, *, whole: bool) -> list[LandedRecord]:
        records = [record for record in self.topics[topic] if record.partition == partition]
        later = [number for number, record in enumerate(records) if record.timestamp_ms >= self.cut_ms]
        return records if whole or not later else records[: later[0]]

    def run(self, folder: Path, classes: Path, name: str, *, whole: bool) -> KafkaRun:
        folder.mkdir(parents=True)
        topics: dict[str, list[list[Record]]] = {
            topic: [
                [
                    (offset, record.timestamp_ms, record.key, record.value, None)
                    for offset, record in enumerate(self.taken(topic, partition, whole=whole))
                ]
                for partition in range(PARTITIONS)
            ]
            for topic in self.topics
        }
        given = {topic: [iter(records) for records in partitions] for topic, partitions in topics.items()}
        return run_kafka(JavaApplication([classes], f"Kept#{name}"), folder, given)

    def left(self, run: KafkaRun) -> ApplicationState:
        """What the first run left, as a broker would have it."""
        positions = {
            topic: {
                partition: position_after(taken)
                for partition in range(PARTITIONS)
                if (taken := self.taken(topic, partition, whole=False))
            }
            for topic in self.topics
        }
        changelogs = {
            name.removesuffix("-changelog"): [changelog(name, rows, partition) for partition in range(PARTITIONS)]
            for name, rows in run.internal.items()
            if name.endswith("-changelog")
        }
        between = {
            name: [Changelog.empty(name)] * PARTITIONS for name in run.internal if not name.endswith("-changelog")
        }
        return ApplicationState("app", positions, changelogs, between)


def position_after(taken: list[LandedRecord]) -> CommittedPosition:
    """With the time at which the store "closed" has emitted windows last: the stream time without the grace of 10 s."""
    time_ms = max(record.timestamp_ms for record in taken)
    return CommittedPosition(len(taken), time_ms, {"closed": time_ms - 10_000})


def changelog(name: str, rows: pa.Table, partition: int) -> Changelog:
    own = rows.filter(pc.equal(rows["partition"], partition)).combine_chunks()
    columns = [own[column].combine_chunks() for column in ("key", "value", "timestamp", "headers")]
    columns = [column.chunk(0) if isinstance(column, pa.ChunkedArray) else column for column in columns]
    key, value, time_ms, headers = columns
    return Changelog(name, key, value, time_ms.to_numpy(), headers)


def kafkas_rows(run: KafkaRun, output: str) -> list[list[Row]]:
    rows = run.written.get(output)
    found: list[list[Row]] = [[] for _ in range(PARTITIONS)]
    for row in [] if rows is None else rows.to_pylist():
        found[row["partition"]].append((row["key"], row["value"], row["timestamp"]))
    return found


def our_rows(warehouse: Warehouse, topology: Topology, output: str) -> list[list[Row]]:
    """By task, serialized as the sink of Kafka Streams does."""
    published = PublishedOutput(topology, output)
    rows = read_changelog(warehouse, "p", output).select(published.schema.names)
    rows = rows.sort_by([("partition", "ascending"), ("offset", "ascending")])
    tasks = rows["partition"].to_pylist()
    found: list[list[Row]] = [[] for _ in range(PARTITIONS)]
    for task, (_, key, value, time_ms, _) in zip(tasks, published.outgoing(rows, PARTITIONS).records(), strict=True):
        found[task].append((key, value, time_ms))
    return found


def continued(
    folder: Path, classes: Path, twin, seed: int, *, max_records: int | None = None
) -> tuple[Life, Warehouse, Topology, BootstrapReport, KafkaRun]:
    topology = twin()
    life, warehouse = Life.of(topology, seed + seed_of_run()), Warehouse(str(folder / "tables"))
    for topic, records in life.topics.items():
        plant(warehouse, topic, records, partitions=PARTITIONS)
    before = life.run(folder / "before", classes, twin.__name__, whole=False)
    report = bootstrap(warehouse, topology, life.left(before), pipeline="p", times="uninterrupted")
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), max_records=max_records, idle="proceed"))
    return life, warehouse, topology, report, before


@pytest.mark.sampled(share=10)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("twin", kept.TWINS, ids=lambda twin: twin.__name__)
def test_a_pipeline_continues_where_kafkas_tasks_stopped(twin, seed, classes, tmp_path):
    most = [None, 7, 40][seed]
    life, warehouse, topology, report, before = continued(tmp_path, classes, twin, seed, max_records=most)
    whole = life.run(tmp_path / "whole", classes, twin.__name__, whole=True)

    assert sum(report.rows.values()) > 0
    for sink in topology.sinks():
        first, all_of_it = kafkas_rows(before, sink.topic), kafkas_rows(whole, sink.topic)
        rest = [rows[len(known) :] for known, rows in zip(first, all_of_it, strict=True)]
        assert [rows[: len(known)] for known, rows in zip(first, all_of_it, strict=True)] == first
        ours = our_rows(warehouse, topology, sink.topic)
        if twin is kept.streams:  # Kafka remembers nowhere when it looked last for records without a match
            ours, rest = ([sorted(rows, key=repr) for rows in each] for each in (ours, rest))
        assert ours == rest, sink.topic
        assert any(rest)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("twin", kept.TWINS, ids=lambda twin: twin.__name__)
def test_what_is_handed_over_is_what_kafkas_tasks_have_logged(twin, seed, classes, tmp_path):
    """Of a pipeline that has replayed all by itself. Kafka has more where stores forget, numbers records of joins by
    its own count, and keeps old values in a buffer below which no operator reads them.
    """
    topology = twin()
    life, warehouse = Life.of(topology, seed + seed_of_run()), Warehouse(str(tmp_path / "tables"))
    for topic, records in life.topics.items():
        plant(warehouse, topic, records, partitions=PARTITIONS)
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), max_records=[None, 40][seed], idle="proceed"))
    kafkas = life.run(tmp_path / "whole", classes, twin.__name__, whole=True)

    ours = state_of_pipeline(warehouse, topology, "p", application_id="app")

    logs = {name.removesuffix("-changelog"): rows for name, rows in kafkas.internal.items() if "-changelog" in name}
    assert ours.changelogs.keys() == logs.keys()
    for store, partitions in ours.changelogs.items():
        for partition, log in enumerate(partitions):
            theirs = last_records(changelog(store, logs[store], partition), twin, store)
            mine = last_records(log, twin, store)
            assert mine.items() <= theirs.items(), store
            assert (twin.__name__, store) in FORGETTING or mine == theirs, store
    ends = {topic: {p: len(life.taken(topic, p, whole=True)) for p in range(PARTITIONS)} for topic in life.topics}
    assert {topic: {p: at.offset for p, at in found.items()} for topic, found in ours.positions.items()} == ends


FORGETTING = {
    ("windows", "counts"), ("sessions", "counts"), ("closing", "sliding"), ("closing", "closed"),
    ("versions", "users-kept"), ("streams", "pairs-outer-this-join-store"), ("streams", "pairs-outer-other-join-store"),
    ("processor", "seen"), ("processor", "history"),
}  # fmt: skip
"""Application and store: such lose rows by time alone, and no record of a changelog says so."""


def last_records(log: Changelog, twin, store: str) -> dict[tuple[bytes, int | None], bytes | None]:
    """By key, and by time where a key has versions, the last value."""
    is_versioned = (twin.__name__, store) in {("versions", "users-kept"), ("processor", "history")}
    is_joined = store.endswith("-join-store") and "shared" not in store
    found: dict[tuple[bytes, int | None], bytes | None] = {}
    for key, value, time_ms in zip(log.key.to_pylist(), log.value.to_pylist(), log.time_ms.tolist(), strict=True):
        name = (key[:-4] if is_joined else key, time_ms if is_versioned else None)
        found[name] = without_old(value) if store == "buffer-store" and value is not None else value
    return {name: value for name, value in found.items() if value is not None or is_versioned}


def without_old(entry: bytes) -> bytes:
    """An entry of a buffer for which only the new value counts: without what its key had before. One without a new
    value leaves in silence: only its times count.
    """
    at = 16 + 4 + int.from_bytes(entry[16:20], "big") + 4 + 4
    for _ in ("prior", "old"):
        length = int.from_bytes(entry[at : at + 4], "big", signed=True)
        before, at = at, at + 4 + max(length, 0)
    is_silent = entry[at : at + 4] == b"\xff\xff\xff\xff"
    return entry[:8] + entry[-8:] if is_silent else entry[:before] + entry[at:]
