"""``python -m tests.bootstrap.lives``: seeded applications that are killed, replayed with a fix, and continue with it.

A life has 150 clicks, two partitions and exactly_once_v2. An application is killed by SIGKILL when as many of its rows
were seen as the seed says, committed or not. `land`, `bootstrap`, `run` and `publish` continue with the fix up to a
second point. From there a new application does, to which `hand-over` has given the state. The judge is the old
application: it starts with the fix from its own changelogs and offsets, and stops at that second point, too.
"""

import argparse
import contextlib
import random
import struct
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Consumer, TopicPartition

from examples.broker import Broker, running_broker
from kstreams_replay.orchestration.cli.main import main as run_command
from kstreams_replay.state.kafka_version import JUDGE, JUDGES
from tests.bootstrap import kept
from tests.bootstrap.test_bootstrap import APPLICATIONS, PARTITIONS, Life, Row
from tests.bootstrap.test_live import (
    EXACTLY_ONCE,
    PROGRAM,
    WAIT_S,
    behind,
    counted,
    ends,
    newest,
    read,
    run_until_read,
    send,
    started,
    wait_until_gone,
    wait_until_read,
)
from tests.jvm.streams import compiled, streams_of
from tests.planted import LandedRecord

FIX = ("strict", "windows")
KINDS = (FIX, ("totals", "totals"), ("sessions", "sessions"), ("processor", "processor"))
"""The application of Kept that is killed, and the one that continues. Without a fix, only the time of the kill is
tried. All read one topic, since what a task takes of two depends on their fetches.
"""
COMMITTED, LANDED = 20, 100
"""So many clicks are committed before the kill is near, and so many are there when the new application begins."""
PAUSE_S = 0.02
Rows = dict[str, list[list[Row]]]
"""By output and partition."""


class Readers:
    """Of an application's outputs, who see each committed row once."""

    def __init__(self, broker: Broker, outputs: Sequence[str]) -> None:
        self.broker, self.seen = broker, {output: [[]] * PARTITIONS for output in outputs}

    def news(self) -> Rows:
        """What was written since the last call."""
        before, self.seen = self.seen, {output: read(self.broker, output) for output in self.seen}
        return {output: behind(before[output], rows) for output, rows in self.seen.items()}


@dataclass(frozen=True)
class RoundTrip:
    """``sent``: clicks before the kill. ``committed``: what the killed application has taken of each partition, and
    ``first`` its rows. ``ours``: rows that were published, and those of the new application. ``theirs``: those of the
    old one with the fix, over the same clicks.
    """

    life: Life
    sent: int
    committed: list[int]
    first: Rows
    ours: list[Rows]
    theirs: list[Rows]

    def last_values(self, output: str) -> dict[bytes | None, bytes | None]:
        """Of every key and window, for whom reads all."""
        parts = [rows[output] for rows in (self.first, *self.ours)]
        return newest([[row for part in parts for row in part[n]] for n in range(PARTITIONS)])


def round_trip(command: Sequence[str], broker: Broker, folder: Path, kind: tuple[str, str], seed: int) -> RoundTrip:
    """One life, at a broker that has nothing yet. AssertionError: a command failed, or Kafka did not answer."""
    before, fixed = kind
    topology, old = getattr(kept, fixed)(), f"app-{before}"
    life, outputs = Life.of(topology, seed), [sink.topic for sink in topology.sinks()]
    for topic in ("clicks", *outputs):
        broker.create_topic(topic, PARTITIONS)
    readers, clicks = Readers(broker, outputs), life.topics["clicks"]

    def go_on(application_id: str) -> Rows:
        place = folder / f"{application_id}-{ends(broker, 'clicks')}"
        run_until_read(
            command, broker, fixed, place, EXACTLY_ONCE, application_id, sent={"clicks": ends(broker, "clicks")}
        )
        return readers.news()

    sent = kill(command, broker, before, folder / "killed", clicks, outputs[0], random.Random(seed))
    committed, first = offsets(broker, old), readers.news()
    send(broker, {"clicks": list(clicks[sent:LANDED])})
    code, place = f"{kept.__file__}:{fixed}", ["--warehouse", str(folder / "tables")]
    servers, pipeline = ["--kafka", broker.bootstrap_servers], [*place, "--pipeline", "p"]
    for step in (
        ["land", "clicks", *place, *servers],
        ["bootstrap", code, *pipeline, *servers, "--application-id", old],
        ["run", code, *pipeline, "--local"],
        *(
            ["publish", topic, "--topology", code, *pipeline, *servers, "--topic", topic, "--after", "1"]
            for topic in outputs
        ),
        ["hand-over", code, *pipeline, *servers, "--application-id", "second"],
    ):
        assert run_command([*step, "--traceback"]) == 0, step
    wait_until_ended(broker, outputs)
    ours, theirs = [readers.news()], [go_on(old)]
    send(broker, {"clicks": list(clicks[LANDED:])})
    ours.append(go_on("second"))
    theirs.append(go_on(old))
    return RoundTrip(life, sent, committed, first, ours, theirs)


def kill(
    command: Sequence[str], broker: Broker, name: str, folder: Path, clicks: Sequence[LandedRecord], output: str,
    dice: random.Random,
) -> int:  # fmt: skip
    """Run the application, send up to twelve clicks at a time, and kill it when it has written so many rows as the dice
    say, committed or not. Gives how many clicks were sent; the group has no member then, and its last transaction may
    be open.
    """
    first, seen, sent, rows = {"clicks": list(clicks[:COMMITTED])}, 0, COMMITTED, dice.randrange(1, 80)
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "looks",
        "isolation.level": "read_uncommitted",
    }
    with started(command, broker, name, folder, EXACTLY_ONCE) as running:
        send(broker, first)
        wait_until_read(broker, f"app-{name}", counted(first))
        with contextlib.closing(Consumer(settings)) as reader:
            reader.assign([TopicPartition(output, n, end) for n, end in enumerate(ends(broker, output))])
            while seen < rows and sent < LANDED:
                until = min(sent + dice.randrange(1, 13), LANDED)
                send(broker, {"clicks": list(clicks[sent:until])})
                sent = until
                while seen < rows and reader.poll(PAUSE_S) is not None:
                    seen += 1
            running.kill()
            running.wait(WAIT_S)
    wait_until_gone(broker, name)
    return sent


def offsets(broker: Broker, group: str) -> list[int]:
    """That the group has committed of the clicks."""
    with contextlib.closing(Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})) as consumer:
        asked = [TopicPartition("clicks", n) for n in range(PARTITIONS)]
        return [max(one.offset, 0) for one in consumer.committed(asked, timeout=WAIT_S)]


def wait_until_ended(broker: Broker, topics: Sequence[str]) -> None:
    """Until the broker has aborted what a killed application had begun: nobody reads behind it before."""
    asked = [TopicPartition(topic, n) for topic in topics for n in range(PARTITIONS)]
    deadline, found = time.monotonic() + WAIT_S, [[0], [1]]
    while found[0] != found[1]:
        assert time.monotonic() < deadline, f"a transaction is open in {topics}"
        found = []
        for isolation in ("read_committed", "read_uncommitted"):
            settings = {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "looks",
                "isolation.level": isolation,
            }
            with contextlib.closing(Consumer(settings)) as consumer:
                found.append([consumer.get_watermark_offsets(one, timeout=WAIT_S)[1] for one in asked])


def by_the_rules(clicks: Sequence[LandedRecord], committed: Sequence[int]) -> dict[bytes, bytes]:
    """By key and start of a window of 10 s, which begin every 5 s, how many clicks are in it. Of each partition those
    below the offset ``committed`` count unless their window has ended by stream time; those behind it count all.
    """
    found, taken, stream_ms = Counter[bytes](), [0] * PARTITIONS, [0] * PARTITIONS
    for click in clicks:
        at, time_ms = click.partition, click.timestamp_ms
        stream_ms[at] = max(stream_ms[at], time_ms)
        for start in (time_ms // 5_000 * 5_000, time_ms // 5_000 * 5_000 - 5_000):
            if taken[at] >= committed[at] or start + 10_000 > stream_ms[at]:
                found[click.key + struct.pack(">q", start)] += 1
        taken[at] += 1
    return {window: struct.pack(">q", count) for window, count in found.items()}


def difference(kind: tuple[str, str], trip: RoundTrip) -> str | None:
    """What is wrong with a life, None: nothing."""
    for part, ours, theirs in zip(("published", "new application"), trip.ours, trip.theirs, strict=True):
        for output in ours:
            if ours[output] != theirs[output]:
                return f"{output}, {part}: got {ours[output]}, want {theirs[output]}"
    if not all(map(any, trip.ours[-1].values())):
        return "the new application has written nothing"
    if kind == FIX:
        got, want = trip.last_values("updates"), by_the_rules(trip.life.topics["clicks"], trip.committed)
        return None if got == want else f"counts: got {got}, want {want}"
    return None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bootstrap.lives", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, metavar="N")
    parser.add_argument("--from", type=int, default=0, dest="begin", metavar="SEED", help="the first seed")
    parser.add_argument("--kafka-version", choices=JUDGES, default=JUDGE, help="of Kafka Streams and of the broker")
    chosen = parser.parse_args(arguments)
    failed = 0
    with compiled(PROGRAM, APPLICATIONS, packages=(streams_of(chosen.kafka_version),)) as command:
        for seed in range(chosen.begin, chosen.begin + chosen.seeds):
            kind = KINDS[seed % len(KINDS)]
            with (
                TemporaryDirectory() as folder,
                running_broker(Path(folder), version=chosen.kafka_version) as broker,
                contextlib.redirect_stdout(sys.stderr),  # what the commands say
            ):
                trip = round_trip(command, broker, Path(folder), kind, seed)
            wrong = difference(kind, trip)
            failed += wrong is not None
            print(
                f"{seed} {kind[1]}: {trip.sent} sent, {sum(trip.committed)} committed, {wrong or 'equal'}", flush=True
            )
    print(f"{chosen.seeds - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
