"""Records handed over in this process: how they follow one another, and what a landing has to read."""

import pytest

from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.state.errors import LandingError
from kstreams_replay.state.tables.data_files import read_files, read_rows
from kstreams_replay.state.tables.warehouse import LANDED_SCHEMA, Warehouse
from tests.landing.landed_records import records


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
