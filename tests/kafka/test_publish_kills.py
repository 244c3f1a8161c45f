"""A publisher that is killed between any two requests to a real broker: readers see every row once, in order."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples.broker import Broker
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.kafka.published import Seen, forwarded, published, run, seen
from tests.once_a_run import once_a_run
from tests.planted import LandedRecord
from tests.sampling import seed

pytestmark = pytest.mark.jvm

ROWS = [Seen(0, f"k{number % 3}".encode(), str(number).encode(), 1_000 + number) for number in range(7)]
"""Of three increments: 3, 1 and 3 rows; a transaction has two at most."""
INCREMENTS = (ROWS[:3], ROWS[3:4], ROWS[4:])
CALLS = 33
"""Requests of a publisher that lives: 8 before the position is there, 3 that begin it, and 22 of five transactions."""


class Killed(BaseException):
    """The process died here."""


class KilledAt:
    """Dies before request number ``place``, and makes none from then on."""

    def __init__(self, place: int) -> None:
        self.left, self.calls = place, list[str]()

    def __call__(self, call: str) -> None:
        if not self.left:
            raise Killed(call)
        self.left -= 1
        self.calls.append(call)


def _three_increments(folder: Path) -> None:
    warehouse = Warehouse(str(folder / "w"))
    for rows in INCREMENTS:
        run(warehouse, forwarded(), [LandedRecord(0, row.key, row.value, row.time_ms) for row in rows])


@pytest.fixture(scope="module")
def three_increments() -> Warehouse:
    return Warehouse(str(once_a_run("three-increments", _three_increments) / "w"))


def killed(broker: Broker, warehouse: Warehouse, topic: str, place: int) -> list[BaseException]:
    """What the publisher that dies leaves behind, whose client lives on as long as this is kept."""
    with pytest.raises(Killed) as death:
        published(broker, warehouse, forwarded(), topic, on_call=KilledAt(place), rows_per_transaction=2)
    return [death.value]


def test_a_publisher_that_lives_makes_so_many_requests(broker, three_increments):
    broker.create_topic("lives")
    alive = KilledAt(10_000)

    published(broker, three_increments, forwarded(), "lives", on_call=alive, rows_per_transaction=2)

    assert (len(alive.calls), seen(broker, "lives")) == (CALLS, ROWS)


@pytest.mark.sampled(share=40)
@pytest.mark.parametrize("place", range(CALLS))
def test_every_row_is_seen_once_wherever_a_publisher_was_killed(broker, three_increments, place):
    topic = f"killed-{place}"
    broker.create_topic(topic)

    left = killed(broker, three_increments, topic, place)
    assert seen(broker, topic, is_over=False) in [ROWS[:end] for end in (0, 2, 3, 4, 6, 7)]
    published(broker, three_increments, forwarded(), topic, rows_per_transaction=2)

    assert seen(broker, topic) == ROWS
    assert published(broker, three_increments, forwarded(), topic).is_nothing_new
    assert len(left) == 1


PLACES = [(first, second) for first in range(5, CALLS, 2) for second in range(3, 28, 2)]


@pytest.mark.sampled(share=80)
@pytest.mark.parametrize(("first", "second"), PLACES)
def test_nor_does_a_second_death_at_another_place_change_it(broker, three_increments, first, second):
    topic = f"killed-{first}-{second}"
    broker.create_topic(topic)

    left = killed(broker, three_increments, topic, first)
    again = KilledAt(second)
    try:
        published(broker, three_increments, forwarded(), topic, on_call=again, rows_per_transaction=3)
    except Killed as death:
        left.append(death)
    published(broker, three_increments, forwarded(), topic)

    assert seen(broker, topic) == ROWS
    assert len(left) <= 2


TOPOLOGY = """
from kstreams_replay import Consumed, Serde, StreamsBuilder

builder = StreamsBuilder()
builder.stream("in", Consumed(Serde.string(), Serde.string())).to("out")
topology = builder.build()
"""
MANY = [Seen(0, b"k", str(number).encode(), 1_000 + number) for number in range(600)]


@pytest.mark.nightly
def test_a_process_that_is_killed_at_any_time_is_continued_by_the_next_one(broker, tmp_path):
    """SIGKILL, ten times, at times that differ by seed; a transaction has one row."""
    warehouse = Warehouse(str(tmp_path / "w"))
    run(warehouse, forwarded(), [LandedRecord(0, row.key, row.value, row.time_ms) for row in MANY])
    (tmp_path / "topology.py").write_text(TOPOLOGY)
    broker.create_topic("sigkilled")
    command = [
        sys.executable, "-m", "kstreams_replay.orchestration.cli.main", "publish", "out",
        "--topology", f"{tmp_path}/topology.py:topology", "--warehouse", warehouse.root, "--pipeline", "p",
        "--kafka", broker.bootstrap_servers, "--topic", "sigkilled", "--rows-per-transaction", "1",
    ]  # fmt: skip
    chosen, deaths = random.Random(seed()), 0
    for _ in range(10):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(chosen.uniform(1.5, 6.0))
        except subprocess.TimeoutExpired:
            process.kill()
            deaths += process.wait() == -signal.SIGKILL
        so_far = seen(broker, "sigkilled", is_over=False)
        assert so_far == MANY[: len(so_far)]

    subprocess.run(command, check=True)

    assert deaths > 0
    assert seen(broker, "sigkilled") == MANY
