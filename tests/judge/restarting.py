"""Applications that keep stream times, as twins of those in Restarting.java, and random lives of their tasks."""

import random
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa

from kstreams_replay.jobs.judge.kafka_tasks import Record
from kstreams_replay.jobs.landing.recorded_restarts import record_restarts
from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    KStream,
    Materialized,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.state.records.murmur2 import murmur2_partitions
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant
from tests.sampling import is_nightly, seed

S = Serde.string()
APPLICATIONS = Path(__file__).with_name("Restarting.java")
LIVES, RECORDS, RESTARTS = 20 if is_nightly() else 4, 120, 12
"""Partitions, records of each in both topics, restarts of each."""

HOPPING = TimeWindows.of_size("10s", grace="2s").advance_by("5s")
SESSIONS = SessionWindows.with_inactivity_gap("10s", grace="5s")
SLIDING = SlidingWindows.of_time_difference("10s", grace="5s")
WIDE = JoinWindows.of_time_difference_and_grace("8s", "20s")
IN_MEMORY = Materialized(store="in_memory")


def streams() -> tuple[StreamsBuilder, KStream, KStream]:
    builder = StreamsBuilder()
    return builder, builder.stream("clicks", Consumed(S, S)), builder.stream("views", Consumed(S, S))


def clicks() -> tuple[StreamsBuilder, KStream]:
    builder = StreamsBuilder()
    return builder, builder.stream("clicks", Consumed(S, S))


def both(click: str | None, view: str | None) -> str:
    return f"{click or 'null'}/{view or 'null'}"


def windows(stores: Materialized | None = None) -> Topology:
    builder, records = clicks()
    records.group_by_key().windowed_by(HOPPING).count(materialized=stores).to_stream().to("out")
    return builder.build()


def finals() -> Topology:
    builder, records = clicks()
    table = records.group_by_key().windowed_by(HOPPING).count()
    table.suppress(Suppressed.until_window_closes()).to_stream().to("out")
    return builder.build()


def sliding() -> Topology:
    builder, records = clicks()
    records.group_by_key().windowed_by(SLIDING).count().to_stream().to("out")
    return builder.build()


def cogrouped() -> Topology:
    """Each stream with a time of its own, both with one store."""
    builder, records, views = streams()

    def add(key: str, value: str, so_far: str) -> str:
        return f"{so_far},{value}"

    both_streams = records.group_by_key().cogroup(add).cogroup(views.group_by_key(), add)
    table = both_streams.windowed_by(HOPPING).aggregate(lambda: "", returns=S)
    table.to_stream().to("out")
    return builder.build()


def emitted(windows: TimeWindows | SessionWindows | SlidingWindows) -> Topology:
    """Results when windows close, and none before."""
    builder, records = clicks()
    windowed = records.group_by_key().windowed_by(windows).emit_strategy("on_window_close")
    windowed.count().to_stream().to("out")
    return builder.build()


def sessions() -> Topology:
    builder, records = clicks()
    table = records.group_by_key().windowed_by(SESSIONS).count()
    table.suppress(Suppressed.until_window_closes()).to_stream().to("out")
    return builder.build()


def pairs() -> Topology:
    builder, records, views = streams()
    within = JoinWindows.of_time_difference_with_no_grace("10s")
    records.join(views, both, windows=within, returns=S).to("out")
    return builder.build()


def left() -> Topology:
    builder, records, views = streams()
    within = JoinWindows.of_time_difference_and_grace("10s", "3s").before("5s").after("15s")
    records.left_join(views, both, windows=within, returns=S).to("out")
    return builder.build()


def outer(stores: Materialized | None = None) -> Topology:
    builder, records, views = streams()
    records.outer_join(views, both, windows=WIDE, returns=S, materialized=stores).to("out")
    return builder.build()


def table() -> Topology:
    """It has no stream time, so a restart changes nothing: the table comes back."""
    builder = StreamsBuilder()
    views = builder.table("views", Consumed(S, S), materialized=IN_MEMORY)
    builder.stream("clicks", Consumed(S, S)).join(views, both, returns=S).to("out")
    return builder.build()


def counted() -> Topology:
    builder, records, views = streams()
    within = JoinWindows.of_time_difference_and_grace("10s", "10s")
    joined = records.join(views, both, windows=within, returns=S)
    joined.group_by_key().windowed_by(TimeWindows.of_size("10s")).count().to_stream().to("out")
    return builder.build()


TWINS = {
    "windows": windows, "windowsInMemory": lambda: windows(IN_MEMORY), "finals": finals, "sliding": sliding,
    "emitted": lambda: emitted(HOPPING), "emittedSliding": lambda: emitted(SLIDING),
    "emittedSessions": lambda: emitted(SESSIONS), "sessions": sessions, "cogrouped": cogrouped, "pairs": pairs,
    "left": left, "outer": outer, "outerInMemory": lambda: outer(IN_MEMORY), "counted": counted,
}  # fmt: skip


@cache
def keys_by_partition() -> list[list[bytes]]:
    """Three for each, where Kafka's producers put them."""
    names = [b"k%d" % number for number in range(50 * LIVES)]
    placed = murmur2_partitions(pa.array(names), LIVES).tolist()
    return [[name for name, at in zip(names, placed, strict=True) if at == p][:3] for p in range(LIVES)]


class Lives:
    """Random records of clicks and views, a life a partition, and restarts before some of them. ``number``: the seed,
    None for that of the run.
    """

    def __init__(self, topology: Topology, name: str, number: int | None = None) -> None:
        rng = random.Random(f"{name} {seed() if number is None else number}")
        self.records: dict[str, list[LandedRecord]] = {topic: [] for topic in topology.source_topics()}
        self.restarts: dict[str, list[tuple[int, int]]] = {topic: [] for topic in self.records}
        for partition in range(LIVES):
            self._live(rng, partition, span_ms=rng.choice([100_000, 400_000, 1_500_000]))

    def _live(self, rng: random.Random, partition: int, span_ms: int) -> None:
        places, now_ms, used = dict.fromkeys(self.records, 0), 1_000, set[int]()
        restarts = set(rng.sample(range(5, RECORDS), RESTARTS))
        for number in range(RECORDS):
            now_ms += rng.randrange(1, 2 * span_ms // RECORDS)
            is_late = rng.random() < 0.3
            time_ms = max(1, now_ms - rng.randrange(1, span_ms // 3)) if is_late else now_ms
            while time_ms in used:  # Kafka may overwrite one of its key and time from before the restart
                time_ms += 1
            used.add(time_ms)
            now_ms = max(now_ms, time_ms)
            topic = rng.choice([*self.records])
            key = rng.choice(keys_by_partition()[partition])
            self.records[topic].append(LandedRecord(partition, key, b"%d" % number, time_ms))
            if number in restarts:
                self.restarts[topic].append((partition, places[topic]))
            places[topic] += 1

    def land(self, warehouse: Warehouse, *, restarts: bool = True) -> None:
        for topic, records in self.records.items():
            plant(warehouse, topic, records, partitions=LIVES)
            if restarts:
                record_restarts(warehouse, topic, self.restarts[topic])

    def partitions(self) -> dict[str, list[Iterator[Record]]]:
        """As `run_kafka` takes them."""
        return {
            topic: [enumerated(one for one in records if one.partition == number) for number in range(LIVES)]
            for topic, records in self.records.items()
        }

    def restarts_by_partition(self) -> dict[str, dict[str, list[int]]]:
        found: dict[str, dict[str, list[int]]] = {}
        for topic, restarts in self.restarts.items():
            for partition, offset in restarts:
                found.setdefault(topic, {}).setdefault(str(partition), []).append(offset)
        return found


def enumerated(records: Iterable[LandedRecord]) -> Iterator[Record]:
    """Each with its offset."""
    return iter([(at, one.timestamp_ms, one.key, one.value, None) for at, one in enumerate(records)])
