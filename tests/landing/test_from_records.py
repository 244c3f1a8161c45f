"""Records handed over in this process: how they follow one another, and what a landing has to read."""

import pyarrow as pa
import pytest

from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.state.errors import LandingError
from kstreams_replay.state.tables.data_files import read_files, read_rows
from kstreams_replay.state.tables.warehouse import LANDED_SCHEMA, Warehouse
from tests.landing.landed_records import records
from tests.landing.landed_rows import landed


@pytest.fixture
def warehouse(tmp_path) -> Warehouse:
    return Warehouse(str(tmp_path))


def land(warehouse: Warehouse, *times: int) -> None:
    land_records(warehouse, "clicks", records(*((time % 2, time, b"k", b"v") for time in times)), partitions=2)


def test_records_go_on_behind_those_landed_before(warehouse):
    land(warehouse, 10, 11)
    land(warehouse, 12, 13, 14)

    path = warehouse.landed("clicks")
    rows = read_rows(path, read_files(path), LANDED_SCHEMA).to_pylist()
    found = sorted((row["partition"], row["offset"], row["timestamp"]) for row in rows)
    assert found == [(0, 0, 10), (0, 1, 12), (0, 2, 14), (1, 0, 11), (1, 1, 13)]


def test_other_partitions_than_before_are_refused(warehouse):
    land(warehouse, 10)

    with pytest.raises(LandingError, match="2 partitions, as landed before"):
        land_records(warehouse, "clicks", records((0, 11, b"k", b"v")), partitions=1)


def at(*offsets: int | None, partition: int = 0) -> pa.Table:
    """Records at these offsets."""
    given = records(*((partition, time, b"k", b"v") for time in range(len(offsets))))
    return given.append_column("offset", pa.array(offsets, pa.int64()))


@pytest.mark.parametrize(
    ("before", "offsets", "message"),
    [
        ([5], [3], "partition 0: expected an offset of 6 or more, got 3"),
        ([5], [5], "partition 0: expected an offset of 6 or more, got 5"),
        ([], [5, 5], "partition 0: expected an offset of 6 or more, got 5"),
        ([], [5, 9, 8], "partition 0: expected an offset of 10 or more, got 8"),
        ([], [-1], "partition 0: expected an offset of 0 or more, got -1"),
        ([], [2**63 - 1], r"expected an offset up to 9223372036854775806, got 9223372036854775807"),
        ([], [4, None], "column offset: expected a number in every record, got 1 without; "),
    ],
)
def test_an_offset_that_does_not_rise_is_refused_and_nothing_lands(warehouse, before, offsets, message):
    if before:
        land_records(warehouse, "clicks", at(*before, partition=0), partitions=2)

    with pytest.raises(LandingError, match=message):
        land_records(warehouse, "clicks", pa.concat_tables([at(7, partition=1), at(*offsets)]), partitions=2)

    assert [row[0] for row in landed(warehouse, "clicks", "offset")] == before if before else warehouse.topics() == []


def test_offsets_that_rise_in_each_partition_land_in_any_order_of_the_partitions(warehouse):
    tables = [at(5, partition=1), at(3), at(6, 9, partition=1), at(4)]

    land_records(warehouse, "clicks", pa.concat_tables(tables), partitions=2)
    report = land_records(warehouse, "clicks", at(10, partition=1), partitions=2)
    land_records(warehouse, "none", at(), partitions=2)

    assert landed(warehouse, "clicks", "partition", "offset") == [(0, 3), (0, 4), (1, 5), (1, 6), (1, 9), (1, 10)]
    assert report.cut_to == {0: 5, 1: 11}


DIES = {
    "before its commit": "kstreams_replay.jobs.landing.from_records.commit_files",
    "behind it": "kstreams_replay.jobs.landing.landing.find_implausible",
}


@pytest.mark.parametrize("offsets", [[5], None])
@pytest.mark.parametrize("death", DIES)
def test_records_whose_landing_died_are_finished_and_land_once(warehouse, offsets, death, monkeypatch):
    given = at(5) if offsets else at(5).drop_columns("offset")
    with monkeypatch.context() as patch:
        patch.setattr(DIES[death], None)
        with pytest.raises(TypeError):
            land_records(warehouse, "clicks", given)

    report = land_records(warehouse, "clicks", given)

    assert (report.increments, landed(warehouse, "clicks", "offset")) == ((1,), [(5,)] if offsets else [(0,)])


def test_other_records_than_those_of_a_landing_that_had_committed_land_behind_them(warehouse, monkeypatch):
    given = at(5).drop_columns("offset")
    with monkeypatch.context() as patch:
        patch.setattr(DIES["behind it"], None)
        with pytest.raises(TypeError):
            land_records(warehouse, "clicks", given)

    report = land_records(warehouse, "clicks", pa.concat_tables([given, given]))

    assert (report.increments, landed(warehouse, "clicks", "offset")) == ((1, 2), [(0,), (1,), (2,)])


ONE = {"partition": pa.array([0]), "timestamp": pa.array([1]), "key": [b"k"], "value": [b"v"]}


@pytest.mark.parametrize(
    ("column", "cells", "message"),
    [
        ("partition", pa.array([-1]), "expected partitions below 1, and 0 or more, got -1"),
        ("partition", pa.array([2**40]), "expected partitions below 1, and 0 or more, got 1099511627776"),
        ("partition", pa.nulls(1, pa.int32()), "column partition: expected a number in every record, got 1 without; "),
        ("timestamp", pa.nulls(1, pa.int64()), "column timestamp: expected a number in every record, got 1 without; "),
        (
            "timestamp",
            pa.array([1], pa.timestamp("us")),
            r"column timestamp: expected int64 \(ms\), got timestamp\[us\]",
        ),
        ("timestamp", pa.array([1.5]), r"column timestamp: expected int64 \(ms\), got double"),
        ("partition", pa.array(["0"]), "column partition: expected int32, got string"),
        ("offset", pa.array(["0"]), "column offset: expected int64, got string"),
    ],
)
def test_a_column_that_has_no_number_of_its_kind_is_refused_by_name(warehouse, column, cells, message):
    with pytest.raises(LandingError, match=message):
        land_records(warehouse, "clicks", pa.table(ONE | {column: cells}))

    assert warehouse.topics() == []


@pytest.mark.slow
def test_a_landing_reads_as_few_files_of_its_ledger_after_many_as_after_few(warehouse, monkeypatch):
    read: list[int] = []

    def spy(path, files, schema):
        read.append(len(files))
        return read_rows(path, files, schema)

    def files_read() -> int:
        read.clear()
        land(warehouse, 10)
        return sum(read)

    for _ in range(2):
        land(warehouse, 10)
    monkeypatch.setattr("kstreams_replay.state.tables.ledger.read_rows", spy)
    after_few = files_read()
    for _ in range(5):
        land(warehouse, 10)

    assert files_read() == after_few


def test_a_warning_of_odd_times_names_no_option_of_files(warehouse):
    report = land_records(warehouse, "clicks", records((0, -1000, b"k", b"v")))

    assert [warning.partition("; ")[2] for warning in report.warnings] == ["is the unit of the times right?"]
