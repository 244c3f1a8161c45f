"""Law 2 at equal times: repartitioned records and landed ones of one millisecond are merged in an order that no cut
changes.
"""

import random

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant, tables_of

STRING = Serde.string()
TEXTS = Consumed(STRING, STRING)
KEYS = (b"a", b"b")


def rekeyed_and_joined() -> Topology:
    """Below the repartition a task reads a landed topic and the repartition table."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", TEXTS).select_key("value").repartition(name="by-value")
    orders.left_join(builder.table("users", TEXTS), "left || ' ' || coalesce(right, '-')").to("out")
    return builder.build()


@pytest.mark.parametrize("max_records", [1, 3])
def test_a_cut_between_records_of_one_millisecond_changes_nothing(tmp_path, max_records):
    warehouse, dice = Warehouse(tmp_path), random.Random(0)
    for topic in ("orders", "users"):
        times = sorted(dice.randrange(6) for _ in range(14))
        rows = [LandedRecord(at % 2, dice.choice(KEYS), dice.choice(KEYS), time) for at, time in enumerate(times)]
        plant(warehouse, topic, rows, partitions=2)

    for pipeline, limit in (("whole", None), ("cut", max_records)):
        options = {"pipeline": pipeline, "runner": LocalRunner(), "idle": "proceed", "max_records": limit}
        list(replay(warehouse, rekeyed_and_joined(), **options))

    whole = tables_of(warehouse, "whole", rekeyed_and_joined())
    assert tables_of(warehouse, "cut", rekeyed_and_joined()) == whole
    assert len(whole["outputs/out"]) == 14
