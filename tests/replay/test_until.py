"""`until`: an increment ends in each partition before its first record of a time or later (Kafka's offsetsForTimes)."""

from pathlib import Path

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.landing.recorded_time import record_time
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.replay.planner import Planner
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, Topology
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.ledger_rows import Cut, DoneRow
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop
from tests.laws.topologies import PARTITIONS, everything, tape
from tests.planted import LandedRecord, plant, tables_of

pytestmark = pytest.mark.sampled


def counts() -> Topology:
    """Records of all partitions go to one repartition topic."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(Serde.string(), Serde.string()))
    clicks.select_key("value", returns=Serde.string()).group_by_key().count(Materialized.as_("counts"))
    return builder.build()


def clicks(partition: int, *times: int) -> list[LandedRecord]:
    return [LandedRecord(partition, b"k", b"v", time_ms) for time_ms in times]


def ran(warehouse: Warehouse, **settings: object) -> None:
    list(replay(warehouse, counts(), pipeline="p", runner=LocalRunner(), **settings))


def cuts(warehouse: Warehouse) -> list[Cut]:
    return [row.content.cut_to for row in Ledger(warehouse.pipeline("p").ledger).done_rows()]


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """In partition 0 the record of 12 comes after one of 30."""
    planted = Warehouse(str(tmp_path))
    plant(planted, "clicks", clicks(0, 10, 20, 30, 12, 40) + clicks(1, 5, 29, 35), partitions=2)
    return planted


@pytest.mark.parametrize(
    ("until_ms", "cut"),
    [
        (29, {"0": 2, "1": 1}),
        (30, {"0": 2, "1": 2}),
        (31, {"0": 4, "1": 2}),
        (35, {"0": 4, "1": 2}),
        (36, {"0": 4, "1": 3}),
    ],
)
def test_each_partition_ends_before_its_first_record_of_the_time_or_later(warehouse, until_ms, cut):
    ran(warehouse, until_ms=until_ms, idle="proceed")

    assert cuts(warehouse) == [{"clicks": cut}]


def test_nothing_waits_for_a_partition_that_has_got_past_the_time(warehouse):
    ran(warehouse, until_ms=30)

    assert cuts(warehouse) == [{"clicks": {"0": 2, "1": 2}}]


def test_what_comes_late_belongs_to_the_next(warehouse):
    ran(warehouse, until_ms=30)
    ran(warehouse, until_ms=35)
    ran(warehouse, until_ms=35)

    assert cuts(warehouse) == [{"clicks": {"0": 2, "1": 2}}, {"clicks": {"0": 4, "1": 2}}]


def test_increments_of_a_size_end_there_too(warehouse):
    ran(warehouse, until_ms=30, max_records=3)

    assert cuts(warehouse) == [{"clicks": {"0": 2, "1": 1}}, {"clicks": {"0": 2, "1": 2}}]


def test_a_recorded_time_is_a_time_too(warehouse):
    record_time(warehouse, "clicks", 50)
    plant(warehouse, "clicks", clicks(1, 45), partitions=2)

    ran(warehouse, until_ms=50, idle="proceed")
    (row,) = Ledger(warehouse.pipeline("p").ledger).done_rows()
    assert (row.content.cut_to, row.content.recorded_to) == ({"clicks": {"0": 5, "1": 3}}, {"clicks": {"0": 0, "1": 0}})

    ran(warehouse, until_ms=52, idle="proceed")
    row = Ledger(warehouse.pipeline("p").ledger).done_rows()[-1]
    assert (row.content.cut_to, row.content.recorded_to) == ({"clicks": {"0": 5, "1": 4}}, {"clicks": {"0": 1, "1": 1}})


def test_partitions_that_have_nothing_of_the_time_are_named(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    plant(warehouse, "clicks", clicks(0, 10, 40) + clicks(1, 35), partitions=3)
    planner = Planner(warehouse, counts(), increment=1, previous=DoneRow(), idle="wait")

    assert planner.backlog().not_yet_at(35) == [("clicks", "2", None)]
    assert planner.backlog().not_yet_at(36) == [("clicks", "1", 35), ("clicks", "2", None)]


def test_day_by_day_leaves_the_tables_of_one_big_increment(tmp_path):
    records = tape(31, 50)
    times = sorted(record.timestamp_ms for record in records)
    warehouse = Warehouse(str(tmp_path))
    plant(warehouse, "clicks", records, partitions=PARTITIONS)

    for until_ms in (times[15], times[35], None):
        list(replay(warehouse, everything(), pipeline="days", runner=LocalRunner(), idle="proceed", until_ms=until_ms))
    list(replay(warehouse, everything(), pipeline="whole", runner=LocalRunner(), idle="proceed"))

    assert len(Ledger(warehouse.pipeline("days").ledger).done_rows()) == 3
    assert tables_of(warehouse, "days", everything()) == tables_of(warehouse, "whole", everything())


def test_what_it_cannot_go_with_is_refused(warehouse):
    with pytest.raises(ConfigError, match="expected no flush_at_end beside it"):
        ran(warehouse, until_ms=30, flush_at_end=True)
    with pytest.raises(ConfigError, match='expected order="time"'):
        ran(warehouse, until_ms=30, order="arrival")


def test_the_command_takes_a_time(tmp_path, capsys):
    from kstreams_replay.jobs.landing.landing import land_files

    warehouse = Warehouse(str(tmp_path / "warehouse"))
    shop.drop_files(tmp_path / "clicks", "1-morning", shop.MORNING)
    land_files(None, warehouse, "clicks", shop.source(tmp_path / "clicks"))
    arguments = ["--warehouse", warehouse.root, "--pipeline", "shop", "--local"]

    assert main(["run", "tests/dagster/shop.py:topology", *arguments, "--until", "1970-01-01T00:00:00.200Z"]) == 0

    assert "3 read" in capsys.readouterr().out
    (row,) = Ledger(warehouse.pipeline("shop").ledger).done_rows()
    assert row.content.cut_to == {"clicks": {"0": 3}}
