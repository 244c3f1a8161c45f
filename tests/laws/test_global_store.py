"""Law 2 for global stores: their processor depends on the order of all records of the topic, across its partitions, and
two sub-topologies of several tasks read what it made.
"""

from pathlib import Path

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.joined import PARTITIONS, tapes
from tests.planted import LandedRecord, plant, tables_of

STRING = Serde.string()
TEXTS = Consumed(STRING, STRING)
RECORDS = 30


class Last(Processor):
    """All keys of the last four records, in their order, and the last value of each key."""

    def process(self, record):
        kept = self.context.store("kept")
        kept.put("last", f"{kept.get('last') or ''}{record.key}{record.value}"[-24:])
        if record.key is not None:
            kept.put(record.key, record.value)


class Look(Processor):
    def process(self, record):
        kept = self.context.store("kept")
        self.context.forward(record.with_value(f"{record.value} {kept.get('last')} {len(list(kept.all()))}"))


def looked_at(*, has_second: bool = True) -> Topology:
    builder = StreamsBuilder()
    builder.add_global_store(KeyValues("kept", STRING, STRING), "payments", TEXTS, Last)
    orders = builder.stream("orders", TEXTS)
    orders.process(Look, ["kept"], name="first").to("first")
    if has_second:
        rekeyed = orders.filter("value IS NOT NULL").select_key("value").repartition(name="by-value")
        rekeyed.process(Look, ["kept"], name="second").to("second")
    return builder.build()


def landed(path: Path, seed: int) -> Warehouse:
    warehouse, found = Warehouse(path), tapes(seed, 2 * RECORDS)
    for topic in ("orders", "payments"):
        plant(warehouse, topic, found[topic], partitions=PARTITIONS)
    return warehouse


def run(warehouse: Warehouse, pipeline: str, limits: list[int | None], topology: Topology | None = None) -> None:
    """One call a limit, the last with the end of history, so that nothing waits."""
    for limit in limits:
        idle = "proceed" if limit is None else "wait"
        topology = topology or looked_at()
        list(replay(warehouse, topology, pipeline=pipeline, runner=LocalRunner(), max_records=limit, idle=idle))


@pytest.mark.parametrize(("seed", "max_records"), [(1, 7), (2, 2)])
def test_increments_of_any_size_leave_the_tables_of_one_big_increment(tmp_path, seed, max_records):
    warehouse = landed(tmp_path, seed)

    run(warehouse, "whole", [None])
    run(warehouse, "cut", [max_records, None])

    whole = tables_of(warehouse, "whole", looked_at())
    assert tables_of(warehouse, "cut", looked_at()) == whole
    assert len({row["value"] for row in whole["outputs/second"]}) > 5, "the store changed while it was read"


def test_a_reader_that_is_new_finds_all_that_the_topic_had(tmp_path):
    """Other times than the others, so that the order of the topic's partitions does not depend on who reads it."""
    warehouse = Warehouse(tmp_path)
    topics = {"payments": (0, 2, 4), "orders": (1, 3, 5)}
    for topic, times in topics.items():
        plant(warehouse, topic, [LandedRecord(at % 2, b"a", b"v%d" % at, at) for at in times], partitions=2)
    run(warehouse, "p", [None], looked_at(has_second=False))
    plant(warehouse, "orders", [LandedRecord(0, b"b", b"new", 9)], partitions=2)
    run(warehouse, "p", [None])

    (row,) = tables_of(warehouse, "p", looked_at())["outputs/second"]
    assert row["value"] == "new av0av2av4 2"
