"""Tapes and topologies for the laws of changed code, and a replay of them in process."""

import random

from kstreams_replay.jobs.code_changes.state_migration import MigrationOptions
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions.folds.fold import Fold
from kstreams_replay.jobs.history.store_reader import read_store
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    Serde,
    StreamsBuilder,
    Topology,
)
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

STRING, PAGES = Serde.string(), Serde.json("page string, ms long")
PARTITIONS = 2


class Killed(Exception):
    """The process died here."""


def tape(seed: int, records: int, topic: str) -> list[LandedRecord]:
    generator, now = random.Random(f"{seed} {topic}"), 100
    rows = []
    for _ in range(records):
        now += generator.choice((0, 1, 3, 9, 20))
        key = generator.choice((b"ann", b"bob", b"cid", None))
        page = generator.choice(("home", "cart", "help")).encode()
        value = b'{"page": "%s", "ms": %d}' % (page, generator.randrange(50))
        rows.append(LandedRecord(generator.randrange(PARTITIONS), key, value, now - generator.choice((0, 0, 0, 4, 50))))
    return rows


def land(warehouse: Warehouse, seed: int, records: int) -> None:
    for topic in ("clicks", "orders", "noise"):
        plant(warehouse, topic, tape(seed, records, topic), partitions=PARTITIONS)


def run(
    warehouse: Warehouse, topology: Topology, pipeline: str = "p", *, wanted: MigrationOptions | None = None, **options
):
    return list(replay(warehouse, topology, pipeline=pipeline, runner=LocalRunner(), wanted=wanted, **options))


def totals(**folds: Fold) -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("in", Consumed(STRING, PAGES))
    clicks.group_by_key().aggregate(**folds, materialized=Materialized.as_("totals")).to("totals")
    return builder.build()


def click(key: bytes, ms: int, time_ms: int, page: bytes = b"p") -> LandedRecord:
    return LandedRecord(0, key, b'{"page": "%s", "ms": %d}' % (page, ms), time_ms)


def stored(warehouse: Warehouse, topology: Topology, store: str) -> dict[str, object]:
    rows = read_store(warehouse, "p", topology, store).to_pylist()
    return {row["key"]: row["value"] for row in rows}
