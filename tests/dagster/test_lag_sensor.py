"""The sensor on lag asks for a run once enough is new, one at a time, and once for what is there."""

from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable, write_deltalake

from kstreams_replay.jobs.landing.landing import KafkaSource, LakeSource
from kstreams_replay.orchestration.automation import lag, lag_sensor
from kstreams_replay.orchestration.automation.lag_sensor import LagSensor
from kstreams_replay.orchestration.pipeline import Pipeline
from kstreams_replay.orchestration.resources import LocalEngine, SparkEngine
from tests.dagster import shop
from tests.landing.lake_tables import bronze, rows, spark_rows

HOUR_MS = 3_600_000


class Watched:
    """A small shop with a sensor, looked at tick by tick."""

    def __init__(self, made: Any, settings: LagSensor, **more: Any) -> None:
        self.shop = made
        self.definitions = shop.definitions(made.root, check_engine="plain", sensor=settings, **more)
        self.cursor: str | None = None

    def tick(self) -> tuple[list[dg.RunRequest], str]:
        """What is asked for, and why nothing is."""
        sensor = self.definitions.resolve_sensor_def("shop_lag_sensor")
        context = dg.build_sensor_context(
            instance=self.shop.instance, cursor=self.cursor, repository_def=self.definitions.get_repository_def()
        )
        found = sensor.evaluate_tick(context)
        self.cursor = found.cursor or self.cursor
        return list(found.run_requests or ()), found.skip_message or ""

    def asked(self) -> int:
        return len(self.tick()[0])


@pytest.fixture
def watched(small_shop):
    def watch(settings: LagSensor | None = None, **more: Any) -> Watched:
        return Watched(small_shop, settings or LagSensor(), **more)

    return watch


def test_a_new_file_starts_one_run_and_a_quiet_folder_none(watched):
    shop_ = watched()

    requests, _ = shop_.tick()
    assert [request.job_name for request in requests] == ["shop_replay"]
    assert requests[0].tags["replay/lag"] == "1 new files of clicks"
    assert shop_.tick() == ([], "1 new files of clicks: a run was started for it, and left it")
    assert shop_.shop.run().success
    assert shop_.tick() == ([], "nothing new")
    shop_.shop.drop("2-evening", shop.EVENING)
    assert shop_.asked() == 1


def test_new_files_of_a_table_are_a_lag_and_what_only_moved_is_none(small_shop, tmp_path):
    bronze(tmp_path / "bronze", rows(0, 4), rows(4, 8))
    source = LakeSource(delta=tmp_path / "bronze")
    pipeline = Pipeline("shop", shop.topology(), small_shop.warehouse, LocalEngine(), sources={"clicks": source})

    assert lag.lag_of(pipeline).files == {"clicks": 2}
    LocalEngine().land(small_shop.warehouse, "clicks", source)
    assert lag.lag_of(pipeline).files == {}
    DeltaTable(str(tmp_path / "bronze")).optimize.compact()
    assert lag.lag_of(pipeline).files == {}
    bronze(tmp_path / "bronze", rows(8, 10))
    assert lag.lag_of(pipeline).files == {"clicks": 1}


def lag_of_table(small_shop: Any, source: LakeSource) -> int:
    pipeline = Pipeline("shop", shop.topology(), small_shop.warehouse, LocalEngine(), sources={"clicks": source})
    return lag.lag_of(pipeline).files.get("clicks", 0)


def test_what_came_and_moved_before_it_was_landed_is_a_lag(small_shop, tmp_path):
    source = LakeSource(delta=tmp_path / "bronze")
    bronze(tmp_path / "bronze", rows(0, 6))
    LocalEngine().land(small_shop.warehouse, "clicks", source)
    bronze(tmp_path / "bronze", rows(6, 8), rows(8, 10)).optimize.compact()

    assert lag_of_table(small_shop, source) == 1
    assert LocalEngine().land(small_shop.warehouse, "clicks", source).records == 4
    assert lag_of_table(small_shop, source) == 0


def test_what_lies_in_place_and_moved_is_a_lag_until_it_is_registered(small_shop, tmp_path):
    source = LakeSource(delta=tmp_path / "bronze", in_place=True)
    bronze(tmp_path / "bronze", rows(0, 4), rows(4, 6))
    LocalEngine().land(small_shop.warehouse, "clicks", source)
    assert lag_of_table(small_shop, source) == 0
    DeltaTable(str(tmp_path / "bronze")).optimize.compact()

    assert lag_of_table(small_shop, source) == 1
    LocalEngine().land(small_shop.warehouse, "clicks", source)
    assert lag_of_table(small_shop, source) == 0
    bronze(tmp_path / "bronze", rows(6, 8))
    assert lag_of_table(small_shop, source) == 1


def test_a_table_whose_log_was_cleaned_up_is_a_lag_until_it_was_compared(small_shop, tmp_path):
    source = LakeSource(delta=tmp_path / "bronze")
    table = bronze(tmp_path / "bronze", rows(0, 4), rows(4, 6))
    LocalEngine().land(small_shop.warehouse, "clicks", source)
    table.optimize.compact()
    table.create_checkpoint()
    for number in range(2):
        (tmp_path / "bronze" / "_delta_log" / f"{number:020d}.json").unlink()

    assert lag_of_table(small_shop, source) == 1
    assert LocalEngine().land(small_shop.warehouse, "clicks", source).records == 0
    assert lag_of_table(small_shop, source) == 0


def test_files_of_other_topics_are_no_lag(small_shop, tmp_path):
    source = LakeSource(delta=tmp_path / "bronze")
    bronze(tmp_path / "bronze", rows(0, 6))
    LocalEngine().land(small_shop.warehouse, "clicks", source)
    write_deltalake(str(tmp_path / "bronze"), spark_rows(rows(0, 6), topic="views"), mode="append")

    assert lag_of_table(small_shop, source) == 0


def test_landed_records_that_were_not_replayed_are_a_lag(watched):
    shop_ = watched(LagSensor(min_records=6))
    landed = dg.AssetKey(["shop", "landed", "clicks"])
    assert shop_.shop.run(asset_selection=[landed]).success

    requests, _ = shop_.tick()

    assert requests[0].tags["replay/lag"] == "6 landed records of clicks to replay"


def test_too_little_waits_for_more_or_for_an_hour(watched, monkeypatch):
    at_ms = [1_000]
    monkeypatch.setattr(lag_sensor, "now_ms", lambda: at_ms[0])
    shop_ = watched(LagSensor(min_records=100, min_files=3))

    assert shop_.tick() == ([], "1 new files of clicks: too little for a run")
    at_ms[0] += HOUR_MS - 1
    assert shop_.asked() == 0
    at_ms[0] += 1
    assert shop_.asked() == 1


def test_enough_files_start_a_run_at_once(watched):
    shop_ = watched(LagSensor(min_records=100, min_files=2))
    assert shop_.asked() == 0

    shop_.shop.drop("2-evening", shop.EVENING)

    assert shop_.asked() == 1


def test_a_run_at_work_is_waited_for(watched):
    shop_ = watched()
    job = shop_.definitions.resolve_job_def("shop_replay")
    shop_.shop.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTING, tags=dict(job.run_tags))

    requests, why = shop_.tick()

    assert requests == []
    assert "is still at work" in why


def test_offsets_at_the_broker_are_a_lag_until_they_have_landed(watched, monkeypatch):
    ends = {0: 3, 1: 0}
    monkeypatch.setattr(lag, "broker_ends", lambda topic, source: ends)
    shop_ = watched(LagSensor(min_records=5), sources={"clicks": KafkaSource("broker:9092")}, engine=SparkEngine())
    assert shop_.tick() == ([], "3 offsets of clicks to land: too little for a run")

    ends[1] = 2

    requests, _ = shop_.tick()
    assert requests[0].tags["replay/lag"] == "5 offsets of clicks to land"


def test_with_partitions_it_lands_and_then_runs_the_partition_that_has_landed_whole(watched):
    days = dg.DailyPartitionsDefinition("1970-01-01", end_date="1970-01-03")
    shop_ = watched(partitions=days)
    assert [request.job_name for request in shop_.tick()[0]] == ["shop_land"]
    land = shop_.definitions.resolve_job_def("shop_land")
    assert land.execute_in_process(instance=shop_.shop.instance).success
    waits = (
        "6 landed records of clicks to replay: partition 1970-01-01 has not landed whole: clicks, partition 0, has "
        "come to 1970-01-01 00:00:00.210. What to do: nothing, if more of clicks comes: run it after the next landing; "
        'where nothing more comes, `replay advance clicks --to "1970-01-02 00:00:00" '
        f"--warehouse {shop_.shop.warehouse.root}` records that, and idle_after in the definitions does so from then on"
    )
    assert [shop_.tick(), shop_.tick()] == [([], waits)] * 2, "also when it looks again, with no run in between"

    shop_.shop.drop("2-next-day", [("ann", "home", 24 * HOUR_MS)])
    assert [request.job_name for request in shop_.tick()[0]] == ["shop_land"]
    assert land.execute_in_process(instance=shop_.shop.instance).success

    (request,) = shop_.tick()[0]
    assert (request.job_name, request.partition_key) == ("shop_replay", "1970-01-01")
