"""``python -m tests.compare.lives``: seeded lives of live applications, and whether `compare` names every true cause.

A life has 120 records, one partition, and up to 20 restarts, or three crashes, or a cache, or its topics in another
order, or two versions of its code. All lives of a kind are played side by side, and one comparison names the causes of
their differences.
"""

import argparse
import random
import struct
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from kstreams_replay import (
    Consumed,
    Materialized,
    Processor,
    PunctuationType,
    Record,
    Serde,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.jobs.compare.comparison import Comparison, compare
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.records.murmur2 import murmur2_partitions
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.compare.live_application import (
    AGAIN,
    INTERLEAVED,
    LET_IN,
    NO_UPDATE,
    SWALLOWED,
    TICK,
    TWICE,
    UPDATES,
    VERSION,
    Input,
    Life,
    Published,
    WindowCounts,
    called_by_the_clock,
    forward,
    join,
    live,
    random_inputs,
)
from tests.planted import LandedRecord, plant

SIZE_MS, GRACE_MS, RECORDS = 10_000, 2_000, 120

Publish = Callable[[random.Random, list[Input]], list[Published]]
RIGHT = {("restart", LET_IN), ("processed twice", AGAIN), ("published twice", TWICE), ("record cache", SWALLOWED)}
RIGHT |= {("interleaving", INTERLEAVED), ("code version", VERSION), ("wall clock", TICK)}


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


def steps(step: int = 1) -> Topology:
    """Windows of which each record counts for ``step``: 2 in the version before."""
    builder = StreamsBuilder()
    records = builder.stream("in", Consumed(Serde.string(), Serde.long()))
    windows = records.group_by_key().windowed_by(TimeWindows.of_size(SIZE_MS, grace=GRACE_MS))
    sums = windows.aggregate(
        int, lambda key, value, total, step=step: total + step, returns=Serde.long(), materialized=Materialized("sums")
    )
    sums.to_stream().to("out")
    return builder.build()


DEPLOYED_MS = 50_000


def deployed(rng: random.Random, records: list[Input], restarts: int) -> list[Published]:
    """What a task publishes that runs with the version before up to the first record of the time DEPLOYED_MS."""
    place = next((number for number, record in enumerate(records) if record.time_ms >= DEPLOYED_MS), len(records))
    task = WindowCounts(SIZE_MS, GRACE_MS, step=2)
    return live(records, task, Life(places(rng, restarts), deployed=place)).published


def forwarded() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.long())).to("out")
    return builder.build()


class Counted(Processor):
    def init(self, context):
        self.context, self.counts = context, context.store("counts")
        context.schedule("10s", PunctuationType.WALL_CLOCK_TIME, self.tick)

    def process(self, record):
        self.counts.put("total", (self.counts.get("total") or 0) + 1)
        self.context.forward(record)

    def tick(self, time_ms):
        self.context.forward(Record("a", -(self.counts.get("total") or 0), time_ms))


def called() -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(
        Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), Serde.string(), Serde.long())
    )
    records = builder.stream("in", Consumed(Serde.string(), Serde.long()))
    records.process(Counted, ["counts"], returns_key=Serde.string(), returns=Serde.long()).to("out")
    return builder.build()


def joins(*, is_inner: bool = False, is_sum: bool = False) -> Topology:
    builder = StreamsBuilder()
    records, updates = builder.stream("in", LONGS), builder.table(UPDATES, LONGS)
    join_with: Any = records.join if is_inner else records.left_join
    joined = join_with(updates, _value, returns=Serde.long())
    if is_sum:
        sums = joined.group_by_key().aggregate(int, lambda key, value, total: total + value, returns=Serde.long())
        joined = sums.to_stream()
    joined.to("out")
    return builder.build()


LONGS = Consumed(Serde.string(), Serde.long())


def _value(number: int, update: int | None) -> int:
    return number * 1_000 + (NO_UPDATE if update is None else update % 5)


def places(rng: random.Random, count: int) -> frozenset[int]:
    return frozenset(rng.sample(range(5, RECORDS), count))


def crashed(rng: random.Random, records: list[Input]) -> list[Published]:
    """What a task publishes that crashes three times and counts at least once."""
    life = Life(crashes=places(rng, 3), commits=places(rng, 15))
    return live(records, WindowCounts(SIZE_MS, GRACE_MS), life).published


def _counted(life: Life, records: list[Input], *, cached: bool = False, final: bool = False) -> list[Published]:
    return live(records, WindowCounts(SIZE_MS, GRACE_MS, is_cached=cached, is_final=final), life).published


KINDS: dict[str, tuple[Callable[[], Topology], Publish]] = {
    "restarts": (counts, lambda rng, records: _counted(Life(restarts=places(rng, 20)), records)),
    "finals": (finals, lambda rng, records: _counted(Life(restarts=places(rng, 20)), records, final=True)),
    "cache": (counts, lambda rng, records: _counted(Life(commits=places(rng, 12)), records, cached=True)),
    "cache and restarts": (
        counts,
        lambda rng, records: _counted(Life(places(rng, 12), commits=places(rng, 12)), records, cached=True),
    ),
    "forwarded twice": (
        forwarded,
        lambda rng, records: forward(records, Life(crashes=places(rng, 3), commits=places(rng, 12))),
    ),
    "called by the clock": (called, lambda rng, records: called_by_the_clock(records, places(rng, 8))),
    "counted twice": (counts, crashed),
    "versions": (steps, lambda rng, records: deployed(rng, records, restarts=0)),
    "versions and restarts": (steps, lambda rng, records: deployed(rng, records, restarts=12)),
    "join": (joins, lambda rng, records: join(records, dry(rng))),
    "inner join": (lambda: joins(is_inner=True), lambda rng, records: join(records, dry(rng), is_inner=True)),
    "sums of a join": (lambda: joins(is_sum=True), lambda rng, records: join(records, dry(rng), is_sum=True)),
}


def dry(rng: random.Random) -> dict[int, tuple[str, int]]:
    """Four times nothing of a topic has come for a while, mostly of the table's."""
    return {place: (rng.choice(["in", UPDATES, UPDATES]), rng.randrange(1, 16)) for place in places(rng, 4)}


def lives(
    kind: str, count: int, seed: int, publish: Publish | None = None
) -> list[tuple[list[Input], list[Published]]]:
    """``count`` lives of a kind, or with what ``publish`` gives. A key is in one life alone, as a partitioner would
    have it.
    """
    rng, found, publish = random.Random(f"{kind} {seed}"), [], publish or KINDS[kind][1]
    for number in range(count):
        keys = [key_of(letter, number, count) for letter in "abc"]
        records = random_inputs(rng, RECORDS, keys, span_ms=rng.choice([100_000, 400_000]), late_share=0.3)
        if "join" in kind:
            records = [record._replace(topic=rng.choice(["in", "in", UPDATES])) for record in records]
        found.append((records, publish(rng, records)))
    return found


def key_of(letter: str, partition: int, partitions: int) -> str:
    """One that Kafka's producer puts into the partition."""
    names = (f"{letter}{partition}-{number}" for number in range(100 * partitions))
    return next(name for name in names if murmur2_partitions(pa.array([name.encode()]), partitions)[0] == partition)


class Played:
    """Lives side by side, one a partition, and what `compare` says of them."""

    def __init__(
        self, warehouse: Warehouse, topology: Topology, played: Sequence[tuple[list[Input], list[Published]]], *,
        no_cache: bool = False, before: Topology | None = None,
    ) -> None:  # fmt: skip
        """``before``: an earlier version of ``topology``, which production ran up to DEPLOYED_MS."""
        partitions = len(played)
        written = [
            LandedRecord(partition, _key(row), struct.pack(">q", row.value), row.time_ms)
            for partition, (_, published) in enumerate(played)
            for row in published
        ]
        self.topics = sorted({record.topic for records, _ in played for record in records})
        for topic in self.topics:
            inputs = [
                LandedRecord(partition, record.key.encode(), struct.pack(">q", number), record.time_ms)
                for partition, (records, _) in enumerate(played)
                for number, record in enumerate(records)
                if record.topic == topic
            ]
            plant(warehouse, topic, inputs, partitions=partitions)
        plant(warehouse, "live", written, partitions=partitions)
        list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed"))
        if before is not None:
            list(replay(warehouse, before, pipeline="deployed", runner=LocalRunner(), until_ms=DEPLOYED_MS))
            list(replay(warehouse, topology, pipeline="deployed", runner=LocalRunner()))
        self.published = [published for _, published in played]
        self.found: Comparison = compare(
            warehouse, topology, "out", with_topic="live", pipeline="p", form="events", shown=1_000_000,
            no_cache=no_cache, deployed=None if before is None else "deployed",
        )  # fmt: skip

    def causes(self) -> Counter[tuple[str, str]]:
        """Of every difference the cause that was found, and the one that the life's script knows."""
        pairs: Counter[tuple[str, str]] = Counter()
        for difference in self.found.first:
            truth = INTERLEAVED if UPDATES in self.topics else SWALLOWED
            if difference.theirs is not None:
                published = self.published[difference.theirs["partition"]]
                row = published[difference.theirs["offset"]]
                same = [each for each in published[: difference.theirs["offset"]] if each[:4] == row[:4]]
                truth = TWICE if row.why == AGAIN and same else row.why  # the store had lost the window meanwhile
            pairs[difference.cause, truth] += 1
        return pairs


def _key(row: Published) -> bytes:
    return row.key.encode() + (b"" if row.window_ms is None else struct.pack(">q", row.window_ms))


def causes(kind: str, count: int, seed: int) -> Counter[tuple[str, str]]:
    """Of all differences the cause that was found and the true one."""
    with TemporaryDirectory() as folder:
        before = steps(2) if "versions" in kind else None
        return Played(Warehouse(str(Path(folder))), KINDS[kind][0](), lives(kind, count, seed), before=before).causes()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compare.lives", description=__doc__)
    parser.add_argument("--lives", type=int, default=1_000, metavar="N", help="of all kinds together")
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    chosen = parser.parse_args(arguments)
    print(f"seed {chosen.seed}", flush=True)
    unexplained = false = 0
    for number, kind in enumerate(KINDS):
        count = chosen.lives * (number + 1) // len(KINDS) - chosen.lives * number // len(KINDS)
        found = causes(kind, count, chosen.seed)
        none = sum(many for (cause, _), many in found.items() if cause == "not explained")
        wrong = sum(many for pair, many in found.items() if pair not in RIGHT) - none
        unexplained, false = unexplained + none, false + wrong
        total = sum(found.values())
        print(f"{kind}: {count} lives, {total} differences, {none} unexplained, {wrong} false", flush=True)
        for pair, many in found.items():
            if pair not in RIGHT:
                print(f"  {many} are {pair[1]}, said to be {pair[0]}")
    print(f"{unexplained} unexplained, {false} falsely explained")
    return 1 if unexplained or false else 0


if __name__ == "__main__":
    sys.exit(main())
