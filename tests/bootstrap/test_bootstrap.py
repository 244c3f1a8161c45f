"""Pipelines that begin with what Kafka's own tasks left in their changelogs, and continue as those do."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kstreams_replay.jobs.bootstrap.application_state import ApplicationState, CommittedPosition
from kstreams_replay.jobs.bootstrap.bootstrapping import RESTARTED, UNINTERRUPTED, bootstrap
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


def written_by(
    generator: random.Random,
    topic: str,
    count: int,
    *,
    start_ms: int = 1_000_000,
    steps_ms: Sequence[int] = (0, 10, 500, 3_000, 9_000),
    late_ms: Sequence[int] = (0, 0, 0, 1_000, 20_000),
    keys: int = 8,
) -> list[LandedRecord]:
    """Each is a step after the one before, some late; each where Kafka's producer puts its key."""
    found, time_ms = [], start_ms
    for _ in range(count):
        time_ms += generator.choice(steps_ms)
        key = f"{'g' if topic == 'groups' else 'u'}{generator.randrange(4, 4 + keys)}"
        value = generator.choice(["a", "bb", "ccc", "dddd"])
        is_gone = topic in ("users", "groups") and generator.random() < 0.2
        (partition,) = murmur2_partitions(pa.array([key.encode()], pa.binary()), PARTITIONS).tolist()
        at_ms = time_ms - generator.choice(late_ms)
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
    def of(cls, topology: Topology, seed: int, *, late_ms: int = 20_000) -> "Life":
        generator = random.Random(seed)
        late = (0, 0, 0, 1_000, late_ms)
        topics = {topic: written_by(generator, topic, 150, late_ms=late) for topic in topology.source_topics()}
        return cls(topics, 1_000_000 + generator.randrange(100_000, 200_000))

    def ended(self) -> "Life":
        """With one more record of each partition, by whose time all windows have ended."""
        end_ms = 100_000 + max(record.timestamp_ms for records in self.topics.values() for record in records)
        last = [LandedRecord(partition, b"end", b"a", end_ms) for partition in range(PARTITIONS)]
        return replace(self, topics={topic: [*records, *last] for topic, records in self.topics.items()})

    def without_repetitions(self) -> "Life":
        """Of each topic one record of a key and time, the first."""
        first = {
            topic: {(one.key, one.timestamp_ms): one for one in reversed(records)}
            for topic, records in self.topics.items()
        }
        kept = {
            topic: [one for one in records if first[topic][one.key, one.timestamp_ms] is one]
            for topic, records in self.topics.items()
        }
        return replace(self, topics=kept)

    def taken(self, topic: str, partition: int, *, whole: bool) -> list[LandedRecord]:
        records = [record for record in self.topics[topic] if record.partition == partition]
        later = [number for number, record in enumerate(records) if record.timestamp_ms >= self.cut_ms]
        return records if whole or not later else records[: later[0]]

    def restarts(self) -> dict[str, dict[str, list[int]]]:
        """By topic and partition, the offset of the record with which each task's second run begins, of an application
        whose tasks read all topics.
        """
        found: dict[str, dict[str, list[int]]] = {topic: {} for topic in self.topics}
        for partition in range(PARTITIONS):
            heads = []
            for topic in self.topics:
                at = len(self.taken(topic, partition, whole=False))
                heads += [(topic, at, one) for one in self.taken(topic, partition, whole=True)[at : at + 1]]
            topic, at, _ = min(heads, key=lambda head: head[-1].timestamp_ms)  # of equal times the first topic's
            found[topic][str(partition)] = [at]
        return found

    def run(self, folder: Path, classes: Path, name: str, *, whole: bool, restarts: bool = False) -> KafkaRun:
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
        before = self.restarts() if restarts else None
        return run_kafka(JavaApplication([classes], f"Kept#{name}"), folder, given, before)

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
    folder: Path, classes: Path, twin, life: Life, *, times: str = UNINTERRUPTED, max_records: int | None = None
) -> tuple[Warehouse, KafkaRun]:
    topology, warehouse = twin(), Warehouse(str(folder / "tables"))
    for topic, records in life.topics.items():
        plant(warehouse, topic, records, partitions=PARTITIONS)
    before = life.run(folder / "before", classes, twin.__name__, whole=False)
    report = bootstrap(warehouse, topology, life.left(before), pipeline="p", times=times)
    assert sum(report.rows.values()) > 0
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), max_records=max_records, idle="proceed"))
    return warehouse, before


def written_since(before: KafkaRun, whole: KafkaRun, output: str) -> list[list[Row]]:
    """What a run has written behind the rows of another that had a part of its records."""
    first, all_of_it = kafkas_rows(before, output), kafkas_rows(whole, output)
    assert [rows[: len(known)] for known, rows in zip(first, all_of_it, strict=True)] == first
    return [rows[len(known) :] for known, rows in zip(first, all_of_it, strict=True)]


def in_any_order(partitions: list[list[Row]]) -> list[list[Row]]:
    return [sorted(rows, key=repr) for rows in partitions]


MOST = (None, 7, 40)
"""Records of an increment, by seed."""


@pytest.mark.sampled(share=30)
@pytest.mark.parametrize("seed", range(len(MOST)))
@pytest.mark.parametrize(
    "twin", [twin for twin in kept.TWINS if twin is not kept.streams], ids=lambda twin: twin.__name__
)
def test_a_pipeline_continues_where_kafkas_tasks_stopped(twin, seed, classes, tmp_path):
    topology = twin()
    life = Life.of(topology, seed + seed_of_run())
    warehouse, before = continued(tmp_path, classes, twin, life, max_records=MOST[seed])
    whole = life.run(tmp_path / "whole", classes, twin.__name__, whole=True)

    for sink in topology.sinks():
        rest = written_since(before, whole, sink.topic)
        assert our_rows(warehouse, topology, sink.topic) == rest, sink.topic
        assert any(rest)


@pytest.mark.parametrize("seed", range(len(MOST)))
def test_a_join_of_streams_continues_where_kafkas_tasks_stopped(seed, classes, tmp_path):
    """In any order, and without pairs of records that are later than the grace of 12 s. Kafka keeps nowhere when it
    looks next for records without a match (TimeTracker.minTime), and may look long after a window has closed. Until
    then a later record still finds its match waiting, which then never leaves alone. In the end all have left.
    """
    life = Life.of(kept.streams(), seed + seed_of_run(), late_ms=12_000).ended()
    warehouse, before = continued(tmp_path, classes, kept.streams, life, max_records=MOST[seed])
    rest = written_since(before, life.run(tmp_path / "whole", classes, "streams", whole=True), "out")

    assert in_any_order(our_rows(warehouse, kept.streams(), "out")) == in_any_order(rest)
    assert all(rest)


@pytest.mark.parametrize("seed", range(len(MOST)))
def test_a_join_of_streams_continues_as_kafkas_tasks_that_restart(seed, classes, tmp_path):
    """Row by row, with records later than the grace, since all of Kafka's times are known then. None is so late that it
    asks for what the stores have lost: those of the tasks here are still on the disk, and show such records again. No
    side has two records of one key and time. A window store that retains duplicates orders these by a number that
    begins again with the task (RocksDBWindowStore.seqnum), so those behind a restart may come first.
    """
    life = Life.of(kept.streams(), seed + seed_of_run(), late_ms=19_000).without_repetitions()
    warehouse, before = continued(tmp_path, classes, kept.streams, life, times=RESTARTED, max_records=MOST[seed])
    rest = written_since(before, life.run(tmp_path / "whole", classes, "streams", whole=True, restarts=True), "out")

    assert our_rows(warehouse, kept.streams(), "out") == rest
    assert all(rest)


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
    between = {topic: dict.fromkeys(range(PARTITIONS), 0) for topic in kafkas.internal if "-changelog" not in topic}
    assert {
        topic: {p: at.offset for p, at in found.items()} for topic, found in ours.positions.items()
    } == ends | between


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
