"""Every difference of a seeded life has its true cause: the life's script knows it, and `compare` does not."""

import random
import struct
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from kstreams_replay.jobs.compare import processing_order
from kstreams_replay.jobs.compare.comparison import Comparison, compare
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Suppressed, TimeWindows, Topology
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.compare.live_application import (
    AGAIN,
    LET_IN,
    SWALLOWED,
    TRUE,
    TWICE,
    Input,
    Life,
    Published,
    WindowCounts,
    forward,
    live,
    random_inputs,
)
from tests.planted import LandedRecord, plant
from tests.sampling import is_nightly, seed

pytestmark = pytest.mark.every_run

SIZE_MS, GRACE_MS, RECORDS = 10_000, 2_000, 120
LIVES, CRASHED = 6, 40 if is_nightly() else 6
"""So many lives of a kind are played side by side, and so many of those that crash and count twice."""


def counts() -> Topology:
    builder = StreamsBuilder()
    records = builder.stream("in", Consumed(Serde.string(), Serde.long()))
    windows = records.group_by_key().windowed_by(TimeWindows.of_size(SIZE_MS, grace=GRACE_MS))
    windows.count().to_stream().to("out")
    return builder.build()


def finals() -> Topology:
    builder = StreamsBuilder()
    records = builder.stream("in", Consumed(Serde.string(), Serde.long()))
    windows = records.group_by_key().windowed_by(TimeWindows.of_size(SIZE_MS, grace=GRACE_MS))
    windows.count().suppress(Suppressed.until_window_closes()).to_stream().to("out")
    return builder.build()


def forwarded() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.long())).to("out")
    return builder.build()


def places(rng: random.Random, count: int) -> frozenset[int]:
    return frozenset(rng.sample(range(5, RECORDS), count))


def crashed(rng: random.Random, records: list[Input]) -> list[Published]:
    """What a task publishes that crashes three times and counts at least once."""
    life = Life(crashes=places(rng, 3), commits=places(rng, 15))
    return live(records, WindowCounts(SIZE_MS, GRACE_MS), life).published


class Played:
    """Lives side by side, one a partition, and what `compare` says of them."""

    def __init__(
        self, warehouse: Warehouse, topology: Topology, played: Sequence[tuple[list[Input], list[Published]]], *,
        no_cache: bool = False,
    ) -> None:  # fmt: skip
        partitions = len(played)
        inputs = [
            LandedRecord(partition, record.key.encode(), struct.pack(">q", number), record.time_ms)
            for partition, (records, _) in enumerate(played)
            for number, record in enumerate(records)
        ]
        written = [
            LandedRecord(partition, _key(row), struct.pack(">q", row.value), row.time_ms)
            for partition, (_, published) in enumerate(played)
            for row in published
        ]
        plant(warehouse, "in", inputs, partitions=partitions)
        plant(warehouse, "live", written, partitions=partitions)
        list(replay(warehouse, topology, pipeline="p", runner=LocalRunner()))
        self.published = [published for _, published in played]
        self.found: Comparison = compare(
            warehouse, topology, "out", with_topic="live", pipeline="p", form="events", shown=1_000_000,
            no_cache=no_cache,
        )  # fmt: skip

    def causes(self) -> Counter[tuple[str, str]]:
        """Of every difference the cause that was found, and the one that the life's script knows."""
        pairs: Counter[tuple[str, str]] = Counter()
        for difference in self.found.first:
            truth = SWALLOWED
            if difference.theirs is not None:
                published = self.published[difference.theirs["partition"]]
                row = published[difference.theirs["offset"]]
                same = [each for each in published[: difference.theirs["offset"]] if each[:4] == row[:4]]
                truth = TWICE if row.why == AGAIN and same else row.why  # the store had lost the window meanwhile
            pairs[difference.cause, truth] += 1
        return pairs


def _key(row: Published) -> bytes:
    return row.key.encode() + (b"" if row.window_ms is None else struct.pack(">q", row.window_ms))


def lives(
    kind: str, publish: Callable[[random.Random, list[Input]], list[Published]], count: int = LIVES
) -> list[tuple[list[Input], list[Published]]]:
    """A key is in one life alone, as a partitioner would have it."""
    rng, found = random.Random(f"{kind} {seed()}"), []
    for number in range(count):
        keys = [f"{key}{number}" for key in "abc"]
        records = random_inputs(rng, RECORDS, keys, span_ms=rng.choice([100_000, 400_000]), late_share=0.3)
        found.append((records, publish(rng, records)))
    return found


def test_rows_that_clean_restarts_let_in_are_explained_by_the_restarts(warehouse):
    def publish(rng: random.Random, records: list[Input]) -> list[Published]:
        return live(records, WindowCounts(SIZE_MS, GRACE_MS), Life(restarts=places(rng, 20))).published

    played = Played(warehouse, counts(), lives("restarts", publish))

    let_in = sum(row.why == LET_IN for rows in played.published for row in rows)
    assert played.causes() == {("restart", LET_IN): let_in}
    assert let_in > LIVES


def test_final_results_that_a_restart_lets_out_again_are_explained_by_it(warehouse):
    def publish(rng: random.Random, records: list[Input]) -> list[Published]:
        return live(records, WindowCounts(SIZE_MS, GRACE_MS, is_final=True), Life(restarts=places(rng, 20))).published

    played = Played(warehouse, finals(), lives("finals", publish))

    let_in = sum(row.why == LET_IN for rows in played.published for row in rows)
    assert played.causes() == {("restart", LET_IN): let_in}
    assert let_in > LIVES


def test_updates_that_a_cache_holds_back_are_explained_by_the_cache(warehouse):
    swallowed = 0

    def publish(rng: random.Random, records: list[Input]) -> list[Published]:
        nonlocal swallowed
        task = live(records, WindowCounts(SIZE_MS, GRACE_MS, is_cached=True), Life(commits=places(rng, 12)))
        swallowed += len(task.swallowed)
        return task.published

    played = Played(warehouse, counts(), lives("cache", publish))

    assert played.causes() == {("record cache", SWALLOWED): swallowed}
    assert swallowed > LIVES


def test_restarts_of_a_task_with_a_cache_are_told_from_what_the_cache_holds_back(warehouse):
    def publish(rng: random.Random, records: list[Input]) -> list[Published]:
        life = Life(restarts=places(rng, 12), commits=places(rng, 12))
        return live(records, WindowCounts(SIZE_MS, GRACE_MS, is_cached=True), life).published

    played = Played(warehouse, counts(), lives("both", publish))

    assert set(played.causes()) == {("restart", LET_IN), ("record cache", SWALLOWED)}


def test_what_a_crash_publishes_twice_is_explained_by_it(warehouse):
    def publish(rng: random.Random, records: list[Input]) -> list[Published]:
        return forward(records, Life(crashes=places(rng, 3), commits=places(rng, 12)))

    played = Played(warehouse, forwarded(), lives("twice", publish))

    twice = sum(row.why == TWICE for rows in played.published for row in rows)
    assert played.causes() == {("published twice", TWICE): twice}
    assert twice > LIVES


def test_what_a_crash_counts_twice_is_told_from_what_it_lets_in(warehouse):
    played = Played(warehouse, counts(), lives("again", crashed, CRASHED))

    found = played.causes()
    assert set(found) <= {("restart", LET_IN), ("processed twice", AGAIN), ("published twice", TWICE)}
    assert found["processed twice", AGAIN] > CRASHED
    assert found["restart", LET_IN] > 0


def test_where_no_order_of_processing_is_found_a_row_in_doubt_has_a_cause_that_says_so(warehouse, monkeypatch):
    monkeypatch.setattr(processing_order, "STEPS_MAX", 0)

    played = Played(warehouse, counts(), lives("again", crashed, CRASHED))

    found = played.causes()
    in_doubt = {("crash", truth) for truth in (LET_IN, AGAIN, TWICE, TRUE)}
    assert set(found) <= {("restart", LET_IN), ("processed twice", AGAIN), ("published twice", TWICE)} | in_doubt
    assert found["processed twice", AGAIN] > CRASHED


@pytest.mark.parametrize("lost", [3, 40])
def test_a_row_that_production_lost_is_not_explained(warehouse, lost):
    def publish(rng: random.Random, records: list[Input]) -> list[Published]:
        rows = live(records, WindowCounts(SIZE_MS, GRACE_MS), Life()).published
        return [row for number, row in enumerate(rows) if number != lost]

    played = Played(warehouse, counts(), lives("lost", publish)[:1], no_cache=True)

    assert [each.cause for each in played.found.first] == ["not explained"]
    assert {row.why for row in played.published[0]} == {TRUE}
