"""Landing from files: which are new, in which order, at which offsets; once, whatever happens."""

import json
import os
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.jobs.landing import file_writing, planned_writing
from kstreams_replay.jobs.landing.files import streams, text_lines
from kstreams_replay.jobs.landing.landing import FileSource, LandingRules, land_files
from kstreams_replay.state.errors import LandingError
from kstreams_replay.state.tables.data_files import read_files
from tests.landing.file_folders import dies
from tests.landing.landed_rows import landed, values

# Partitions and order


def test_keys_go_where_kafkas_producers_put_them_and_null_keys_to_partition_0(warehouse, directory):
    hashes = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536}  # Kafka's UtilsTest
    keys = [*hashes, None]
    (directory / "a.jsonl").write_text("".join(json.dumps({"t": 1, "k": key}) + "\n" for key in keys))

    land_files(None, warehouse, "t", FileSource(directory, "jsonl", timestamp="t", key="k", partitions=7))

    want = {key.encode(): (hashed & 0x7FFFFFFF) % 7 for key, hashed in hashes.items()} | {None: 0}
    assert {key: partition for partition, key in landed(warehouse, "t", "partition", "key")} == want
    assert len(set(want.values())) == 3


def test_a_declared_partition_wins_over_the_key(warehouse, directory):
    (directory / "a.csv").write_text("p,t,k\n1,1,same\n0,2,same\n1,3,\n")
    source = FileSource(directory, "csv", timestamp="t", key="k", value="t", partition="p", partitions=2)

    land_files(None, warehouse, "t", source)

    assert landed(warehouse, "t", "partition", "offset", "value") == [(0, 0, b"2"), (1, 0, b"1"), (1, 1, b"3")]


def test_files_land_in_the_order_of_their_names_with_those_of_subdirectories(warehouse, directory):
    for name in ("b.csv", "a.csv", "a/2.csv", "_tmp/x.csv", ".hidden.csv", "readme.txt"):
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(f"t,v\n1,{name}\n")

    land_files(None, warehouse, "t", FileSource(directory, "csv", timestamp="t", value="v", pattern="*.csv"))

    assert values(warehouse) == [b"a.csv", b"a/2.csv", b"b.csv"]


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("slice_bytes", [1, 37, 100, 101, 5_000])
def test_the_cut_into_slices_changes_neither_order_nor_offsets(warehouse, directory, monkeypatch, slice_bytes):
    dice = random.Random(slice_bytes)
    for name in "ab":
        lines = [json.dumps({"t": n, "k": dice.randrange(9), "x": "é" * dice.randrange(20)}) for n in range(60)]
        (directory / f"{name}.jsonl").write_text("\n".join(lines) + dice.choice(["", "\n"]))
    source = FileSource(directory, "jsonl", timestamp="t", key="k", partitions=3)
    land_files(None, warehouse, "whole", source)
    monkeypatch.setattr(streams, "SLICE_BYTES", slice_bytes)
    monkeypatch.setattr(text_lines, "BLOCK_ROWS", 7)
    monkeypatch.setattr(file_writing, "FILE_BYTES", 300)

    land_files(None, warehouse, "cut", source)

    assert len(read_files(warehouse.landed("cut"))) > len(read_files(warehouse.landed("whole"))) == 3
    columns = "partition", "offset", "timestamp", "key", "value"
    assert landed(warehouse, "cut", *columns) == landed(warehouse, "whole", *columns)


def test_parquet_is_cut_by_row_groups(warehouse, directory, monkeypatch):
    table = pa.table({"t": list(range(100)), "v": [str(n) for n in range(100)]})
    pq.write_table(table, directory / "a.parquet", row_group_size=7)
    monkeypatch.setattr(streams, "SLICE_BYTES", 500)

    land_files(None, warehouse, "t", FileSource(directory, "parquet", timestamp="t", value="v"))

    assert len(read_files(warehouse.landed("t"))) > 2
    assert landed(warehouse, "t", "offset", "value") == [(n, str(n).encode()) for n in range(100)]


@pytest.mark.jvm
def test_spark_lands_the_same_rows_at_the_same_offsets(spark, warehouse, directory, monkeypatch):
    for name in "abcdef":
        rows = "".join(f"{n},k{n % 7},{name}{n}\n" for n in range(100))
        (directory / f"{name}.csv").write_text("t,k,v\n" + rows)
    source = FileSource(directory, "csv", timestamp="t", key="k", partitions=3)

    by_spark = land_files(spark, warehouse, "by_spark", source)
    land_files(None, warehouse, "in_process", source)

    columns = "partition", "offset", "timestamp", "key", "value", "increment"
    assert landed(warehouse, "by_spark", *columns) == landed(warehouse, "in_process", *columns)
    assert by_spark.records == 600
    assert spark.read.format("delta").load(warehouse.landed("by_spark")).count() == 600


@pytest.mark.jvm
def test_a_bad_row_found_by_a_worker_of_spark_is_the_same_error(spark, warehouse, directory):
    (directory / "a.csv").write_text("t\n1\nx\n")

    with pytest.raises(LandingError, match=r"a\.csv, line 3: expected a timestamp \(ms\), got 'x'"):
        land_files(spark, warehouse, "t", FileSource(directory, "csv", timestamp="t"))


# Increments


def test_a_second_landing_takes_only_the_files_that_are_new(warehouse, directory):
    source = FileSource(directory, "jsonl", timestamp="t")
    (directory / "b.jsonl").write_text('{"t":1}\n{"t":2}\n')
    land_files(None, warehouse, "t", source)
    (directory / "a.jsonl").write_text('{"t":3}\n')

    second = land_files(None, warehouse, "t", source)
    third = land_files(None, warehouse, "t", source)

    assert landed(warehouse, "t", "offset", "timestamp", "increment") == [(0, 1, 1), (1, 2, 1), (2, 3, 2)]
    assert (second.increments, second.cut_from, second.cut_to) == ((2,), {0: 2}, {0: 3})
    assert (third.increments, third.records) == ((), 0)


def test_an_empty_directory_is_a_topic_without_records_and_says_so(warehouse, directory):
    report = land_files(None, warehouse, "t", FileSource(directory, "csv", timestamp="t", partitions=2))

    assert (report.increments, report.records, report.partitions) == ((1,), 0, 2)
    assert report.warnings == ("t: no file has landed yet, so no record; its number of partitions may still change",)
    assert (warehouse.topics(), values(warehouse)) == (["t"], [])


def test_a_topic_without_records_may_get_another_number_of_partitions(warehouse, directory):
    land_files(None, warehouse, "t", FileSource(directory, "csv", timestamp="t", partitions=3))
    (directory / "a.csv").write_text("t,p\n1,1\n")
    source = FileSource(directory, "csv", timestamp="t", value="t", partition="p", partitions=2)

    report = land_files(None, warehouse, "t", source, rules=LandingRules(new_mapping=True))

    assert (report.partitions, report.cut_from, report.cut_to) == (2, {0: 0, 1: 0}, {0: 0, 1: 1})
    assert landed(warehouse, "t", "partition", "offset", "value") == [(1, 0, b"1")]


def test_an_empty_file_is_landed_and_not_looked_at_again(warehouse, directory):
    (directory / "a.csv").touch()
    source = FileSource(directory, "csv", timestamp="t")

    reports = [land_files(None, warehouse, "t", source) for _ in range(2)]

    assert [report.increments for report in reports] == [(1,), ()]


@pytest.mark.parametrize("dies_in", ["before_the_commit", "between_commit_and_ledger"])
def test_a_killed_landing_run_again_lands_every_row_once(warehouse, directory, monkeypatch, dies_in):
    source = FileSource(directory, "jsonl", timestamp="t")
    (directory / "b.jsonl").write_text('{"t":1}\n{"t":2}\n')

    with dies(monkeypatch, in_=dies_in):
        land_files(None, warehouse, "t", source)
    (directory / "a.jsonl").write_text('{"t":0}\n')
    os.utime(directory / "b.jsonl", (5, 5))  # copied meanwhile: another time is not another content

    report = land_files(None, warehouse, "t", source)

    assert landed(warehouse, "t", "offset", "timestamp", "increment") == [(0, 1, 1), (1, 2, 1), (2, 0, 2)]
    assert (report.increments, report.records) == ((1, 2), 3)


def test_a_plan_is_finished_by_the_mapping_it_was_made_with(warehouse, directory, monkeypatch):
    (directory / "a.jsonl").write_text('{"t":1,"u":9}\n')
    with monkeypatch.context() as patch:
        patch.setattr(planned_writing, "commit_files", None)
        with pytest.raises(TypeError):
            land_files(None, warehouse, "t", FileSource(directory, "jsonl", timestamp="t"))
    (directory / "b.jsonl").write_text('{"t":2,"u":8}\n')

    source = FileSource(directory, "jsonl", timestamp="u")
    land_files(None, warehouse, "t", source, rules=LandingRules(new_mapping=True))

    assert landed(warehouse, "t", "timestamp", "increment") == [(1, 1), (8, 2)]


# Refusals


@pytest.mark.parametrize("content", ['{"t":1}\n{"t":7}\n', '{"t":3}\n'])
def test_a_landed_file_that_changed_is_refused(warehouse, directory, content):
    source = FileSource(directory, "jsonl", timestamp="t")
    file = directory / "a.jsonl"
    file.write_text('{"t":1}\n')
    land_files(None, warehouse, "t", source)
    file.write_text(content)
    os.utime(file, (1, 1))

    with pytest.raises(LandingError) as raised:
        land_files(None, warehouse, "t", source)

    got = "16 bytes instead of 8" if len(content) == 16 else "other bytes"
    assert str(raised.value) == (
        f"topic t, file {file}: expected the file as it was when it was landed, got {got}; "
        "put the old file back and land what is new under a new name"
    )


def test_another_number_of_partitions_is_refused_after_the_first_landing(warehouse, directory):
    (directory / "a.csv").write_text("t\n1\n")
    land_files(None, warehouse, "t", FileSource(directory, "csv", timestamp="t", partitions=2))

    with pytest.raises(LandingError, match="expected 2 partitions, as in its first landing, got 3"):
        land_files(None, warehouse, "t", FileSource(directory, "csv", timestamp="t", partitions=3))


def test_a_directory_that_is_not_there_is_refused(warehouse, tmp_path):
    with pytest.raises(LandingError, match=r"expected a directory of files, got .*absent; correct the path"):
        land_files(None, warehouse, "t", FileSource(tmp_path / "absent", "csv", timestamp="t"))
