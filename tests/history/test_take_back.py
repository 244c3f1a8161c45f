"""`take_back`: a table that others committed to becomes what its ledger names; fsck finds it."""

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_changelog
from kstreams_replay.jobs.history.fsck import fsck
from kstreams_replay.jobs.history.take_back import take_back
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.landing.recorded_time import record_idle, record_time, recorded_times
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder
from kstreams_replay.state.errors import ConfigError, TouchedTable
from kstreams_replay.state.tables.warehouse import Warehouse

ROWS = {"partition": pa.array([0, 0], pa.int32()), "timestamp": [1, 2], "key": [b"a", b"b"], "value": [b"x", b"y"]}


@pytest.fixture
def warehouse(tmp_path) -> Warehouse:
    """Two landings of two records, two increments."""
    warehouse = Warehouse(str(tmp_path))
    for _ in range(2):
        land(warehouse)
        run(warehouse)
    return warehouse


def land(warehouse: Warehouse, *, abandon: bool = False) -> None:
    land_records(warehouse, "in", pa.table(ROWS), partitions=1, abandon=abandon)


def run(warehouse: Warehouse, pipeline: str = "p") -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.string())).to("out")
    list(replay(warehouse, builder.build(), pipeline=pipeline, runner=LocalRunner(), idle="proceed"))


def append(path: str) -> None:
    write_deltalake(path, DeltaTable(path).to_pyarrow_table().slice(0, 1), mode="append")


def found(warehouse: Warehouse) -> list[str]:
    """Places below the warehouse."""
    return [finding.place.removeprefix(f"{warehouse.root}/") for finding in fsck(warehouse).findings]


def test_an_output_that_somebody_appended_to_is_refused_found_and_taken_back(warehouse):
    append(warehouse.pipeline("p").output("out"))

    with pytest.raises(TouchedTable, match="WRITE of version 3 by"):
        read_changelog(warehouse, "p", "out")
    with pytest.raises(TouchedTable, match="WRITE of version 3 by"):
        run(warehouse)
    assert found(warehouse) == ["p/outputs/out"]

    assert "1 row more" in take_back(warehouse, "p/outputs/out").said()
    assert found(warehouse) == []
    land(warehouse)
    run(warehouse)
    assert read_changelog(warehouse, "p", "out")["offset"].to_pylist() == [0, 1, 2, 3, 4, 5]


def test_a_topic_that_somebody_appended_to_is_refused_though_nothing_new_has_landed(warehouse):
    append(warehouse.landed("in"))

    for use in (land, run, lambda warehouse: record_idle(warehouse, "in", 0)):
        with pytest.raises(TouchedTable, match=r"landed/in: .*WRITE of version 3 by"):
            use(warehouse)
    assert found(warehouse) == ["landed/in"]
    take_back(warehouse, "landed/in")
    land(warehouse)
    assert found(warehouse) == []


def test_a_topic_that_somebody_restored_is_refused_by_all_until_it_is_taken_back_and_has_no_gap(warehouse):
    DeltaTable(warehouse.landed("in")).restore(1)

    said = r"landed/in: .*RESTORE of version 3 by .*2 rows fewer.*`replay take-back landed/in --warehouse "
    abandoned = partial(land, abandon=True)
    for use in (land, abandoned, land, run, partial(run, pipeline="another")):
        with pytest.raises(TouchedTable, match=said):
            use(warehouse)
    assert "landed/in" in found(warehouse)
    assert "2 rows fewer" in take_back(warehouse, "landed/in").said()

    land(warehouse)
    for pipeline in ("p", "another"):
        run(warehouse, pipeline)
        assert read_changelog(warehouse, pipeline, "out")["offset"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert found(warehouse) == []


def test_recorded_times_that_somebody_repeated_are_refused(warehouse):
    record_time(warehouse, "in", 5)
    record_time(warehouse, "in", 7)
    assert [each.time_ms for each in recorded_times(warehouse, "in", increment=9)["0"]] == [5, 7]
    append(warehouse.recorded_time("in"))

    with pytest.raises(TouchedTable, match="landing/in/recorded_time: expected no commit of others"):
        recorded_times(warehouse, "in", increment=9)
    assert found(warehouse) == ["landing/in/recorded_time"]
    take_back(warehouse, "landing/in/recorded_time")
    assert [each.time_ms for each in recorded_times(warehouse, "in", increment=9)["0"]] == [5, 7]


def test_a_table_that_is_not_there_is_refused(warehouse):
    with pytest.raises(ConfigError, match="expected a table of the warehouse"):
        take_back(warehouse, "landed/inn")


def test_where_nobody_has_committed_nothing_is_taken_back(warehouse):
    assert take_back(warehouse, "landed/in") is None
    assert take_back(warehouse, "p/outputs/out") is None


@pytest.mark.parametrize("is_clustered", [False, True])
def test_a_topic_whose_files_were_rearranged_and_deleted_goes_on(warehouse, is_clustered):
    """
    OPTIMIZE or Z-ORDER, then a VACUUM of all that is not live: readers sort by offset, and the landing continues.
    """
    path = warehouse.landed("in")
    optimize = DeltaTable(path).optimize
    optimize.z_order(["key"]) if is_clustered else optimize.compact()
    DeltaTable(path).vacuum(0, enforce_retention_duration=False, dry_run=False)
    assert found(warehouse) == []

    for _ in range(2):
        land(warehouse)
        run(warehouse)
    run(warehouse, "another")

    assert found(warehouse) == []
    for pipeline in ("p", "another"):
        rows = read_changelog(warehouse, pipeline, "out")
        assert rows["offset"].to_pylist() == list(range(8))
        assert rows["key"].to_pylist() == ["a", "b"] * 4


def test_a_feature_that_stops_runs_alone_is_found_too(warehouse):
    table = DeltaTable(warehouse.pipeline("p").output("out"))
    table.alter.add_feature(TableFeatures.DomainMetadata, allow_protocol_versions_increase=True)

    assert found(warehouse) == ["p/outputs/out"]
    with pytest.raises(TouchedTable, match=r"DomainMetadata.*take it back with the engine that committed it"):
        take_back(warehouse, "p/outputs/out")


@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.parametrize("table", ["landed/in", "p/outputs/out"])
def test_what_the_log_has_lost_is_not_guessed_and_nothing_is_written(warehouse, table, lost):
    """Behind the ledger's version a checkpoint is left, as of a table whose old entries another engine deletes."""
    path = f"{warehouse.root}/{table}"
    DeltaTable(path).alter.set_table_properties({"delta.logRetentionDuration": "interval 1 days"})
    append(path)
    DeltaTable(path).create_checkpoint()
    for version in range(3 + lost):
        Path(path, "_delta_log", f"{version:020}.json").unlink()

    said = rf"its log has lost {lost} of the versions since\); put it back from a copy of the warehouse"
    with pytest.raises(TouchedTable, match=said):
        take_back(warehouse, table)
    assert DeltaTable(path).version() == 4
    with pytest.raises(TouchedTable, match=said):
        land(warehouse) if table == "landed/in" else run(warehouse)
