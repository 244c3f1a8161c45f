"""A pipeline that begins with a real application at a real broker, closed or killed, and continues as that does."""

import contextlib
import struct
import subprocess
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from examples.broker import Broker, running_broker
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.kafka_version import JUDGES
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.bootstrap import kept
from tests.bootstrap.test_bootstrap import APPLICATIONS, PARTITIONS, Life, Row, in_any_order, our_rows
from tests.jvm.streams import compiled, streams_of
from tests.planted import LandedRecord, plant
from tests.sampling import seed

pytestmark = [pytest.mark.jvm, pytest.mark.xdist_group("bootstrap")]

PROGRAM, WAIT_S, COMMIT_S = Path(__file__).with_name("Application.java"), 90.0, 0.2
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once_v2", "at_least_once"


@pytest.fixture(scope="module", params=JUDGES)
def version(request: pytest.FixtureRequest) -> str:
    """Of the broker and of Kafka Streams."""
    return str(request.param)


@pytest.fixture
def broker(tmp_path: Path, version: str) -> Iterator[Broker]:
    """One a test, since applications read topics of the same names. It compacts nothing: a commit marker of today
    behind records of 1970 closes a segment, and a changelog that is compacted then has lost all but the newest version.
    """
    (tmp_path / "broker").mkdir()
    with running_broker(tmp_path / "broker", version=version, compacts=False) as started:
        yield started


@pytest.fixture(scope="module")
def command(version: str) -> Iterator[list[str]]:
    """What runs an application: its own classes, Kafka Streams and a quiet log."""
    with compiled(PROGRAM, APPLICATIONS, packages=(streams_of(version),)) as words:
        yield words


@contextlib.contextmanager
def started(
    command: Sequence[str], broker: Broker, name: str, folder: Path, guarantee: str, application_id: str | None = None
) -> "Iterator[subprocess.Popen[bytes]]":
    """The application as a process, with its state in a folder of its own; killed at the end, whatever happens."""
    folder.mkdir(parents=True)
    application_id = application_id or f"app-{name}"
    with (folder / "said").open("wb") as said:
        running = subprocess.Popen(
            [*command, broker.bootstrap_servers, name, str(folder / "state"), guarantee, application_id],
            stdin=subprocess.PIPE, stdout=said, stderr=said,
        )  # fmt: skip
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def run_until_read(
    command: Sequence[str], broker: Broker, name: str, folder: Path, guarantee: str, application_id: str | None = None,
    *, sent: dict[str, list[int]],
) -> None:  # fmt: skip
    """Run the application until it has read what was ``sent``, and close it."""
    with started(command, broker, name, folder, guarantee, application_id) as running:
        wait_until_read(broker, application_id or f"app-{name}", sent)
        assert running.stdin is not None
        running.stdin.close()
        running.wait(WAIT_S)


def send(broker: Broker, records: dict[str, list[LandedRecord]]) -> None:
    producer = broker.producer()
    for topic, of_topic in records.items():
        for record in of_topic:
            producer.produce(
                topic, record.value, record.key, record.partition, timestamp=record.timestamp_ms,
                headers=list(record.headers),
            )  # fmt: skip
    assert producer.flush(WAIT_S) == 0


def ends(broker: Broker, topic: str) -> list[int]:
    """The offset behind the last record of each partition."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "looks", "log_level": 0})
    try:
        found = [consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=30)[1] for n in range(PARTITIONS)]
    finally:
        consumer.close()
    return found


def wait_until_read(broker: Broker, group: str, sent: dict[str, list[int]]) -> None:
    """Until the application has committed all that was ``sent``, and of the topics between its tasks. In these a marker
    is behind the last record of a transaction, which nobody reads: so nothing may change for longer than it takes to
    commit.
    """
    deadline, before = time.monotonic() + WAIT_S, None
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "log_level": 0})
    try:
        while time.monotonic() < deadline:
            topics = [topic for topic in broker.admin().list_topics(timeout=30).topics if topic.startswith(f"{group}-")]
            expected = sent | {topic: ends(broker, topic) for topic in topics if not topic.endswith("-changelog")}
            asked = [TopicPartition(topic, n) for topic, of_topic in expected.items() for n in range(len(of_topic))]
            with contextlib.suppress(KafkaException):  # the broker has only begun
                committed = {
                    (one.topic, one.partition): max(one.offset, 0) for one in consumer.committed(asked, timeout=30)
                }
                is_whole = all(at >= expected[topic][n] - (topic not in sent) for (topic, n), at in committed.items())
                if is_whole and before == (committed, expected):
                    return
                before = committed, expected
            time.sleep(4 * COMMIT_S)
    finally:
        consumer.close()
    raise AssertionError(f"{group} has not read {sent}")


def read(broker: Broker, topic: str) -> list[list[Row]]:
    """All committed rows, by partition."""
    return [
        [(message.key(), message.value(), message.timestamp()[1]) for message in of_partition]
        for of_partition in messages(broker, topic)
    ]


def messages(broker: Broker, topic: str) -> list[list[Message]]:
    """Those that are committed, by partition."""
    settings = {
        "bootstrap.servers": broker.bootstrap_servers, "group.id": "reads", "log_level": 0, "enable.auto.commit": False,
        "isolation.level": "read_committed", "enable.partition.eof": True, "auto.offset.reset": "earliest",
    }  # fmt: skip
    of_topic: list[list[Message]] = []
    for partition in range(PARTITIONS):
        consumer, taken, is_over = Consumer(settings), list[Message](), False
        consumer.assign([TopicPartition(topic, partition, 0)])
        while not is_over:
            message = consumer.poll(WAIT_S)
            is_over = message is None or message.error() is not None
            if not is_over:
                taken.append(message)
        consumer.close()
        of_topic.append(taken)
    return of_topic


OF_SEVERAL_TASKS = {("versions", "named"), ("tables", "out")}
"""Application and output: threads decide the order of what tasks send to one another, so values between may differ."""
KINDS = (
    kept.totals,
    kept.windows,
    kept.strict,
    kept.sessions,
    kept.versions,
    kept.streams,
    kept.tables,
    kept.processor,
)


@pytest.mark.nightly
@pytest.mark.parametrize("guarantee", [AT_LEAST_ONCE, EXACTLY_ONCE])
@pytest.mark.parametrize("end", ["closed", "killed"])
@pytest.mark.parametrize("twin", KINDS, ids=lambda twin: twin.__name__)
def test_a_pipeline_writes_what_the_application_writes_when_it_starts_again(
    twin, end, guarantee, broker, command, tmp_path
):
    writes_as_the_application(twin, end, guarantee, broker, command, tmp_path)


def writes_as_the_application(
    twin: Callable[[], Topology], end: str, guarantee: str, broker: Broker, command: Sequence[str], folder: Path
) -> None:
    """AssertionError: a pipeline that begins with the state of the application, closed or killed, writes other rows."""
    name, topology, warehouse = twin.__name__, twin(), Warehouse(str(folder / "tables"))
    life = with_headers(Life.of(topology, zlib.crc32(f"{name} {end} {guarantee}".encode()) + seed()))
    outputs = [sink.topic for sink in topology.sinks()]
    for topic in (*life.topics, *outputs):
        broker.create_topic(topic, PARTITIONS)
    first, rest = parts(life)
    send(broker, first)
    with started(command, broker, name, folder / "first", guarantee) as running:
        wait_until_read(broker, f"app-{name}", counted(first))
        if end == "closed":
            assert running.stdin is not None
            running.stdin.close()
        else:
            running.kill()
        running.wait(WAIT_S)
    wait_until_gone(broker, name)
    for topic, records in life.topics.items():
        plant(warehouse, topic, records, partitions=PARTITIONS)
    place = ["--warehouse", warehouse.root, "--pipeline", "p"]
    kafka = ["--kafka", broker.bootstrap_servers, "--application-id", f"app-{name}", "--traceback"]

    assert main(["bootstrap", f"{kept.__file__}:{name}", *kafka, *place]) == 0
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed"))
    before = {output: read(broker, output) for output in outputs}
    send(broker, rest)
    sent = {topic: ends(broker, topic) for topic in life.topics}
    run_until_read(command, broker, name, folder / "second", guarantee, sent=sent)
    for output in outputs:
        theirs = behind(before[output], read(broker, output))
        # Threads of an application take several topics as their fetches come, so rows may be in another order.
        compared = newest if (name, output) in OF_SEVERAL_TASKS else in_any_order
        assert compared(our_rows(warehouse, topology, output)) == compared(theirs), output
        assert any(theirs)


@pytest.mark.parametrize("guarantee", [AT_LEAST_ONCE, EXACTLY_ONCE])
@pytest.mark.parametrize(
    "twin",
    [
        kept.totals,
        kept.windows,
        kept.strict,
        kept.sessions,
        kept.closing,
        kept.regrouped,
        kept.streams,
        kept.processor,
    ],
    ids=lambda twin: twin.__name__,
)
def test_an_application_that_begins_with_a_pipelines_state_writes_what_the_first_one_does(
    twin, guarantee, broker, command, tmp_path, capsys
):
    writes_as_the_first(twin, guarantee, broker, command, tmp_path)
    assert "expected an application that has nothing yet" in capsys.readouterr().err


def writes_as_the_first(
    twin: Callable[[], Topology], guarantee: str, broker: Broker, command: Sequence[str], folder: Path
) -> None:
    """AssertionError: an application that begins with the state of a pipeline writes other rows than the one that had
    read all itself; or a second hand-over to it is not refused.
    """
    name, topology, warehouse = twin.__name__, twin(), Warehouse(str(folder / "tables"))
    life = with_headers(Life.of(topology, zlib.crc32(f"{name} {guarantee}".encode()) + seed()))
    outputs = [sink.topic for sink in topology.sinks()]
    for topic in (*life.topics, *outputs):
        broker.create_topic(topic, PARTITIONS)
    first, rest = parts(life)
    send(broker, first)
    run_until_read(command, broker, name, folder / "first", guarantee, sent=counted(first))
    for topic, records in first.items():
        plant(warehouse, topic, records, partitions=PARTITIONS)
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed"))
    place = ["--warehouse", warehouse.root, "--pipeline", "p"]
    kafka = ["--kafka", broker.bootstrap_servers, "--application-id", "second"]
    again = ["hand-over", f"{kept.__file__}:{name}", *kafka, *place]

    assert [main([*again, "--dry-run"]), main(again), main(again)] == [0, 0, 1]

    send(broker, rest)
    written, sent = [], {topic: ends(broker, topic) for topic in life.topics}
    for number, group in enumerate((f"app-{name}", "second")):
        before = {output: read(broker, output) for output in outputs}
        run_until_read(command, broker, name, folder / f"run-{number}", guarantee, group, sent=sent)
        after = {output: read(broker, output) for output in outputs}
        written.append({output: in_any_order(behind(before[output], after[output])) for output in outputs})
    assert begins(folder / "run-1", "clicks") == begins(folder / "run-0", "clicks") != []
    assert written[1] == written[0]
    assert all(any(rows) for rows in written[0].values())


def begins(folder: Path, topic: str) -> list[str]:
    """What Kafka Streams makes of the text beside each offset with which the application of ``folder`` began."""
    lines = (folder / "said").read_text().splitlines()
    return sorted(line for line in lines if line.startswith(f"begins {topic}-"))


def behind(before: list[list[Row]], after: list[list[Row]]) -> list[list[Row]]:
    """The rows of each partition that have come since."""
    return [rows[len(known) :] for known, rows in zip(before, after, strict=True)]


LATE = ["--from", "1060000", "--to", "1080000"]
"""In ms. Four clicks of u5 in this range come when stream time is 1,091,570, which 20 s of grace let in."""


def test_a_fix_reaches_the_readers_and_the_application(broker, command, tmp_path, capsys):
    """An application has dropped late clicks. The fix: other rows of history, corrections for the readers of its topic,
    and an application that continues with the corrected counts. No click is late by the rule of the fix, so each
    window has all of its clicks in the end. A range of the history shows the difference before all of it is made again.
    """
    life = Life.of(kept.windows(), seed=7)
    for topic in ("clicks", "updates", "out"):
        broker.create_topic(topic, PARTITIONS)
    first, rest = parts(life)
    send(broker, first)
    run_until_read(command, broker, "strict", tmp_path / "first", EXACTLY_ONCE, sent=counted(first))
    warehouse = Warehouse(str(tmp_path / "tables"))
    plant(warehouse, "clicks", first["clicks"], partitions=PARTITIONS)
    before, fixed = f"{kept.__file__}:strict", f"{kept.__file__}:windows"
    place, servers = ["--warehouse", warehouse.root], ["--kafka", broker.bootstrap_servers]
    to_readers = [*place, "--pipeline", "shop", *servers, "--topic", "updates"]
    steps = [
        ["run", before, *place, "--pipeline", "shop", "--local"],
        ["publish", "updates", "--topology", before, *to_readers, "--after", "1"],
        ["backfill", "shop", *place, *LATE, "--topology", fixed, "--as", "range", "--local"],
        ["diff", "shop", "range", *place],
        ["drop", "range", *place],
        ["fork", *place, "--pipeline", "shop", "--at", "0", "--as", "fixed"],
        ["run", fixed, *place, "--pipeline", "fixed", "--local"],
        ["diff", "shop", "fixed", *place],
        ["check", fixed, *place, "--pipeline", "fixed", "--engine", "plain"],
        ["promote", "fixed", *place],
        ["publish", "updates", "--topology", fixed, *to_readers, "--on-restated", "corrections"],
        ["hand-over", fixed, *place, "--pipeline", "shop", *servers, "--application-id", "second"],
    ]
    for step in steps:
        want = 4 if step[0] == "diff" else 0  # rows differ
        assert main(step) == want, (step, capsys.readouterr().err)
    send(broker, rest)
    run_until_read(
        command, broker, "windows", tmp_path / "second", EXACTLY_ONCE, "second", sent={"clicks": ends(broker, "clicks")}
    )

    assert newest(read(broker, "updates")) == all_clicks(life)


def all_clicks(life: Life) -> dict[bytes, bytes]:
    """By key and start of a window of 10 s, which begin every 5 s, how many clicks are in it."""
    found: Counter[bytes] = Counter()
    for record in life.topics["clicks"]:
        newest_start = record.timestamp_ms // 5_000 * 5_000
        for start in (newest_start, newest_start - 5_000):
            if start <= record.timestamp_ms < start + 10_000:
                found[record.key + struct.pack(">q", start)] += 1
    return {key: struct.pack(">q", count) for key, count in found.items()}


def parts(life: Life) -> tuple[dict[str, list[LandedRecord]], dict[str, list[LandedRecord]]]:
    """By topic, what the application gets before it ends and after that."""
    first, rest = dict[str, list[LandedRecord]](), dict[str, list[LandedRecord]]()
    for topic in life.topics:
        for partition in range(PARTITIONS):
            records = life.taken(topic, partition, whole=True)
            count = len(life.taken(topic, partition, whole=False))
            first.setdefault(topic, []).extend(records[:count])
            rest.setdefault(topic, []).extend(records[count:])
    return first, rest


def with_headers(life: Life) -> Life:
    """Each third record has one, with its key."""
    topics = {
        topic: [
            record if number % 3 else record._replace(headers=(("from", record.key or b""),))
            for number, record in enumerate(records)
        ]
        for topic, records in life.topics.items()
    }
    return replace(life, topics=topics)


def counted(records: dict[str, list[LandedRecord]]) -> dict[str, list[int]]:
    return {
        topic: [sum(record.partition == n for record in of_topic) for n in range(PARTITIONS)]
        for topic, of_topic in records.items()
    }


def newest(partitions: list[list[Row]]) -> dict[bytes | None, bytes | None]:
    """The last value of every key."""
    return {key: value for rows in partitions for key, value, _ in rows}


def wait_until_gone(broker: Broker, name: str) -> None:
    """Until the broker has missed the killed application."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        admin = broker.admin()  # lives until the answer is there
        (found,) = admin.describe_consumer_groups([f"app-{name}"]).values()
        if not found.result(30).members:
            return
        time.sleep(0.5)
