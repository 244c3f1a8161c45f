"""Landing from files: every row one record, in input order, at the offset it gets for ever; or an error with its line."""

import gzip
import json
import os
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs import file_records, landing_files
from jobs.file_values import BadValueError, times_ms
from jobs.landing import FileSource, land_files
from state.errors import ConfigError, LandingError
from state.files import read_files, read_rows
from state.ledger import Ledger
from state.tables import LANDED_SCHEMA, Warehouse


class KilledError(Exception):
    """Stands for the death of the process."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.mkdir()
    return path


def landed(warehouse: Warehouse, topic: str, *columns: str) -> list[tuple[Any, ...]]:
    """Rows of the landed table in the order in which they lie in its files, files by partition and first offset."""
    path = warehouse.landed(topic)
    rows = read_rows(path, read_files(path), LANDED_SCHEMA).to_pylist()
    return [tuple(row[column] for column in columns) for row in rows]


def values(warehouse: Warehouse, topic: str = "t") -> list[bytes]:
    return [value for (value,) in landed(warehouse, topic, "value")]


# What a row becomes


def test_a_json_line_lands_byte_for_byte(warehouse, directory):
    (directory / "a.jsonl").write_bytes(
        b'{ "k": "\xc3\xa9",  "t":1 }\n\n{"t": 2, "k": null}\r\n{"t":3.9,"k":7,"z":1e5}'
    )

    report = land_files(None, warehouse, "t", FileSource(directory, "jsonl", timestamp="t", key="k"))

    assert landed(warehouse, "t", "offset", "timestamp", "timestamp_type", "key", "value", "headers", "increment") == [
        (0, 1, "CreateTime", b"\xc3\xa9", b'{ "k": "\xc3\xa9",  "t":1 }', [], 1),
        (1, 2, "CreateTime", None, b'{"t": 2, "k": null}', [], 1),
        (2, 3, "CreateTime", b"7", b'{"t":3.9,"k":7,"z":1e5}', [], 1),
    ]
    assert (report.increments, report.records, report.cut_from, report.cut_to) == ((1,), 3, {0: 0}, {0: 3})


def test_a_declared_value_column_is_the_value_and_its_null_a_tombstone(warehouse, directory):
    (directory / "a.jsonl").write_text('{"t":1,"v":"text"}\n{"t":1,"v":null}\n{"t":1}\n{"t":1,"v":{"a":[1,"é"]}}\n')

    land_files(None, warehouse, "t", FileSource(directory, "jsonl", timestamp="t", value="v"))

    assert values(warehouse) == [b"text", None, None, '{"a":[1,"é"]}'.encode()]


def test_csv_columns_become_a_json_object_of_the_declared_types(warehouse, directory):
    (directory / "a.csv").write_text('k,t,n,x,ok\na,1,5,1.5,true\n"b,\n""c""",2,,NaN,false\n\n,-3,NA,,\n', newline="")
    types = {"n": "long", "x": "double", "ok": "boolean"}
    source = FileSource(
        directory, "csv", timestamp="t", key="k", value=["k", "n", "x", "ok"], types=types, nulls=["", "NA"]
    )

    land_files(None, warehouse, "t", source)

    assert landed(warehouse, "t", "key", "timestamp", "value") == [
        (b"a", 1, b'{"k":"a","n":5,"x":1.5,"ok":true}'),
        (b'b,\n"c"', 2, b'{"k":"b,\\n\\"c\\"","n":null,"x":null,"ok":false}'),  # JSON has no NaN
        (None, -3, b'{"k":null,"n":null,"x":null,"ok":null}'),
    ]


def test_csv_without_a_header_line_has_its_columns_declared(warehouse, directory):
    (directory / "a.csv").write_text("1;x\n2;y\n")
    source = FileSource(directory, "csv", timestamp="t", value="v", columns=["t", "v"], delimiter=";")

    land_files(None, warehouse, "t", source)

    assert landed(warehouse, "t", "timestamp", "value") == [(1, b"x"), (2, b"y")]


def test_a_byte_order_mark_is_no_part_of_the_first_column(warehouse, directory):
    (directory / "a.csv").write_bytes(b"\xef\xbb\xbft,v\n1,x\n")

    land_files(None, warehouse, "t", FileSource(directory, "csv", timestamp="t", value="v"))

    assert values(warehouse) == [b"x"]


def test_parquet_rows_become_kafka_connects_json(warehouse, directory):
    moment = datetime(2013, 1, 1, 5, 0, 0, 1_999, tzinfo=UTC)
    table = pa.table(
        {
            "at": pa.array([moment, moment], pa.timestamp("us", "UTC")),
            "tail": pa.array(["N1", None]).dictionary_encode(),
            "day": pa.array([moment.date(), None], pa.date32()),
            "nested": pa.array([{"a": [1, 2], "b": b"\x00"}, {"a": None, "b": None}]),
            "x": pa.array([float("nan"), 0.1]),
        }
    )
    pq.write_table(table, directory / "a.parquet")

    land_files(None, warehouse, "t", FileSource(directory, "parquet", timestamp="at", key="tail"))

    assert landed(warehouse, "t", "timestamp", "key", "value") == [
        (
            1357016400001,
            b"N1",
            b'{"at":1357016400001,"tail":"N1","day":15706,"nested":{"a":[1,2],"b":"AA=="},"x":null}',
        ),
        (1357016400001, None, b'{"at":1357016400001,"tail":null,"day":null,"nested":{"a":null,"b":null},"x":0.1}'),
    ]


def test_parquet_bytes_land_unchanged(warehouse, directory):
    table = pa.table({"t": [1, 2], "k": pa.array([b"\xff", None]), "v": pa.array([b"\x00\x01", None], pa.binary())})
    pq.write_table(table, directory / "a.parquet")

    land_files(None, warehouse, "t", FileSource(directory, "parquet", timestamp="t", key="k", value="v"))

    assert landed(warehouse, "t", "key", "value") == [(b"\xff", b"\x00\x01"), (None, None)]


@pytest.mark.parametrize(
    ("given", "unit", "want"),
    [
        ([1, "2", -1], "ms", [1, 2, -1]),
        ([1, 1.5, "2.0005"], "s", [1_000, 1_500, 2_000]),
        ([1_999, -1], "us", [1, -1]),  # cut off downwards, so that order is kept
        ([1_999_999], "ns", [1]),
        (["1970-01-01T00:00:01.5Z", "1970-01-01 01:00:00+01:00", "1970-01-01"], "iso", [1_500, 0, 0]),
    ],
)
def test_timestamps_of_every_unit_become_milliseconds(given, unit, want):
    assert times_ms(given, unit).tolist() == want


@pytest.mark.parametrize(
    ("given", "unit"),
    [(None, "ms"), ("", "ms"), ("1_000", "ms"), ("x", "s"), (True, "ms"), ("nan", "ms"), (1 << 63, "ms"), (5, "iso")],
)
def test_what_is_no_timestamp_is_refused(given, unit):
    with pytest.raises(BadValueError) as raised:
        times_ms([1 if unit != "iso" else "1970-01-01", given], unit)

    assert (raised.value.row, raised.value.got) == (1, repr(given))


def test_a_compressed_file_lands_like_a_plain_one(warehouse, directory):
    (directory / "a.jsonl.gz").write_bytes(gzip.compress(b'{"t":1}\n{"t":2}'))

    land_files(None, warehouse, "t", FileSource(directory, "jsonl", timestamp="t"))

    assert values(warehouse) == [b'{"t":1}', b'{"t":2}']


# Partitions and order


def test_keys_go_where_kafkas_producers_put_them_and_null_keys_to_partition_0(warehouse, directory):
    """Of three partitions, Kafka's DefaultPartitioner puts "21" on 0, "foobar" on 1 and "a-little-bit-long-string" on 2."""
    keys = ["21", "foobar", "a-little-bit-long-string", None]
    (directory / "a.jsonl").write_text("".join(json.dumps({"t": 1, "k": key}) + "\n" for key in keys))

    land_files(None, warehouse, "t", FileSource(directory, "jsonl", timestamp="t", key="k", partitions=3))

    assert landed(warehouse, "t", "partition", "offset", "key") == WANT_BY_MURMUR2


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


@pytest.mark.parametrize("slice_bytes", [1, 37, 100, 101, 5_000])
def test_the_cut_into_slices_changes_neither_order_nor_offsets(warehouse, directory, monkeypatch, slice_bytes):
    dice = random.Random(slice_bytes)
    for name in "ab":
        lines = [json.dumps({"t": n, "k": dice.randrange(9), "x": "é" * dice.randrange(20)}) for n in range(60)]
        (directory / f"{name}.jsonl").write_text("\n".join(lines) + dice.choice(["", "\n"]))
    source = FileSource(directory, "jsonl", timestamp="t", key="k", partitions=3)
    land_files(None, warehouse, "whole", source)
    monkeypatch.setattr(file_records, "SLICE_BYTES", slice_bytes)
    monkeypatch.setattr(file_records, "BLOCK_ROWS", 7)
    monkeypatch.setattr(landing_files, "SLICE_BYTES", slice_bytes)
    monkeypatch.setattr(landing_files, "FILE_BYTES", 300)

    land_files(None, warehouse, "cut", source)

    assert len(read_files(warehouse.landed("cut"))) > len(read_files(warehouse.landed("whole"))) == 3
    columns = "partition", "offset", "timestamp", "key", "value"
    assert landed(warehouse, "cut", *columns) == landed(warehouse, "whole", *columns)


def test_parquet_is_cut_by_row_groups(warehouse, directory, monkeypatch):
    table = pa.table({"t": list(range(100)), "v": [str(n) for n in range(100)]})
    pq.write_table(table, directory / "a.parquet", row_group_size=7)
    monkeypatch.setattr(file_records, "SLICE_BYTES", 500)
    monkeypatch.setattr(landing_files, "SLICE_BYTES", 500)

    land_files(None, warehouse, "t", FileSource(directory, "parquet", timestamp="t", value="v"))

    assert len(read_files(warehouse.landed("t"))) > 2
    assert landed(warehouse, "t", "offset", "value") == [(n, str(n).encode()) for n in range(100)]


@pytest.mark.jvm
def test_spark_lands_the_same_rows_at_the_same_offsets(spark, warehouse, directory, monkeypatch):
    monkeypatch.setattr(landing_files, "SLICE_BYTES", 2_000)  # several tasks
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


def test_an_empty_directory_is_a_topic_without_records(warehouse, directory):
    report = land_files(None, warehouse, "t", FileSource(directory, "csv", timestamp="t", partitions=2))

    assert (report.increments, report.records, report.partitions) == ((1,), 0, 2)
    assert (warehouse.topics(), values(warehouse)) == (["t"], [])


def test_an_empty_file_is_landed_and_not_looked_at_again(warehouse, directory):
    (directory / "a.csv").touch()
    source = FileSource(directory, "csv", timestamp="t")

    reports = [land_files(None, warehouse, "t", source) for _ in range(2)]

    assert [report.increments for report in reports] == [(1,), ()]


@pytest.mark.parametrize("dies_in", ["before_the_commit", "between_commit_and_ledger"])
def test_a_killed_landing_run_again_lands_every_row_once(warehouse, directory, monkeypatch, dies_in):
    source = FileSource(directory, "jsonl", timestamp="t")
    (directory / "b.jsonl").write_text('{"t":1}\n{"t":2}\n')

    def die(*_: Any, **__: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        if dies_in == "before_the_commit":
            patch.setattr(landing_files, "commit_files", die)
        else:
            patch.setattr(Ledger, "done", die)
        with pytest.raises(KilledError):
            land_files(None, warehouse, "t", source)
    (directory / "a.jsonl").write_text('{"t":0}\n')
    os.utime(directory / "b.jsonl", (5, 5))  # copied meanwhile: another time is not another content

    report = land_files(None, warehouse, "t", source)

    assert landed(warehouse, "t", "offset", "timestamp", "increment") == [(0, 1, 1), (1, 2, 1), (2, 0, 2)]
    assert (report.increments, report.records) == ((1, 2), 3)


def test_a_plan_is_finished_by_the_mapping_it_was_made_with(warehouse, directory, monkeypatch):
    (directory / "a.jsonl").write_text('{"t":1,"u":9}\n')
    with monkeypatch.context() as patch:
        patch.setattr(landing_files, "commit_files", None)
        with pytest.raises(TypeError):
            land_files(None, warehouse, "t", FileSource(directory, "jsonl", timestamp="t"))
    (directory / "b.jsonl").write_text('{"t":2,"u":8}\n')

    land_files(None, warehouse, "t", FileSource(directory, "jsonl", timestamp="u"))

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
        f"topic t, file {file}: expected the file as it was when it was planned, got {got}; "
        "put the old file back and land what is new under a new name"
    )


def test_a_planned_file_that_is_gone_is_refused(warehouse, directory, monkeypatch):
    source = FileSource(directory, "jsonl", timestamp="t")
    (directory / "a.jsonl").write_text('{"t":1}\n')
    with monkeypatch.context() as patch:
        patch.setattr(landing_files, "commit_files", None)
        with pytest.raises(TypeError):
            land_files(None, warehouse, "t", source)
    (directory / "a.jsonl").unlink()

    with pytest.raises(LandingError, match=r"a\.jsonl: expected the file as it was when it was planned, got no file"):
        land_files(None, warehouse, "t", source)


@pytest.mark.parametrize(
    ("name", "content", "want"),
    [
        ("a.jsonl", b'{"t":1}\n\n{"t":"soon"}\n', "line 3: expected a timestamp (ms), got 'soon'"),
        ("a.jsonl", b'{"t":1}\n{"t":1\n', "line 2: expected a JSON object, got "),
        ("a.jsonl", b"[1]\n", "line 1: expected a JSON object, got b'[1]'"),
        ("a.jsonl", b'{"t":1}\n{"x":1}\n', "line 2: expected a timestamp (ms), got None"),
        ("a.jsonl", b'{"t":1,"p":0}\n{"t":1,"p":2}\n', "line 2: expected a partition in [0, 2), got 2"),
        ("a.jsonl", b'{"t":1,"v":"\\ud800"}\n', "line 1: expected a value that can be written as text, got '\\ud800'"),
        ("a.jsonl", b'{"t":1}\n{"t":1,"v":"\xff"}\n', "line 2: expected a JSON object, got "),
        ("a.csv", b"t,v\n1,x\n2,y,z\n", "line 3: expected 2 fields, got 3 fields"),
        ("a.csv", b't,v\n1,"x\n\ny"\n2\n', "line 5: expected 2 fields, got 1 fields"),
        ("a.csv", b't,v\n\n1,"x\n2,y\n', "line 3: expected a CSV row in UTF-8, got unexpected end of data"),
        ("a.csv", b't,v\n1,"x"y\n', "line 2: expected a CSV row in UTF-8, got ',' expected after '\"'"),
        ("a.csv", b"t,v\n1,x\n2,\xff\n", "line 3: expected a CSV row in UTF-8, got "),
        ("a.csv", b't,v\n"1\n",x\ny,z\n', "line 4: expected a timestamp (ms), got 'y'"),
        ("a.csv", b"u,v\n1,x\n", ": expected a column t, got columns u, v"),
        ("a.csv", b"t,t\n1,1\n", ": expected each column once, got columns t, t"),
        ("a.parquet", b"t,v\n1,x\n", ": expected a Parquet file, got "),
        ("a.jsonl.gz", gzip.compress(b'{"t":1}\n')[:-9], ": expected a file that can be read, got "),
    ],
)
def test_a_row_that_does_not_fit_is_named_and_leaves_nothing_behind(warehouse, directory, name, content, want):
    (directory / "0.good").write_bytes(b"")
    (directory / name).write_bytes(content)
    extension = name.removesuffix(".gz").rpartition(".")[2]
    partition = "p" if b'"p"' in content else None
    value = "v" if b'"v"' in content and extension == "jsonl" else None
    source = FileSource(
        directory, extension, timestamp="t", value=value, partition=partition, partitions=2, pattern="a.*"
    )

    with pytest.raises(LandingError) as raised:
        land_files(None, warehouse, "t", source)

    separator = "" if want.startswith(":") else ", "
    assert str(raised.value).startswith(f"{directory}/{name}{separator}{want}")
    assert Ledger(warehouse.landing_ledger("t")).rows() == []
    assert warehouse.topics() == []


def test_the_row_of_a_parquet_file_is_named_across_row_groups(warehouse, directory):
    table = pa.table({"t": pa.array([1] * 9 + [None])})
    pq.write_table(table, directory / "a.parquet", row_group_size=4)

    with pytest.raises(LandingError, match=r"a\.parquet, row 10: expected a timestamp \(ms\), got None"):
        land_files(None, warehouse, "t", FileSource(directory, "parquet", timestamp="t"))


def test_another_number_of_partitions_is_refused_after_the_first_landing(warehouse, directory):
    land_files(None, warehouse, "t", FileSource(directory, "csv", timestamp="t", partitions=2))

    with pytest.raises(LandingError, match="expected 2 partitions, as in its first landing, got 3"):
        land_files(None, warehouse, "t", FileSource(directory, "csv", timestamp="t", partitions=3))


def test_a_directory_that_is_not_there_is_refused(warehouse, tmp_path):
    with pytest.raises(LandingError, match="expected a directory of files, got .*absent; correct the path"):
        land_files(None, warehouse, "t", FileSource(tmp_path / "absent", "csv", timestamp="t"))


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ({"format": "xml"}, "FileSource format: expected one of jsonl, parquet, csv, got 'xml'"),
        ({"timestamp_unit": "h"}, "FileSource timestamp_unit: expected one of ms, s, us, ns, iso, got 'h'"),
        ({"partitions": 0}, "FileSource partitions: expected a number of at least 1, got 0"),
        ({"value": []}, r"FileSource value: expected at least one column, got \(\)"),
        ({"format": "jsonl", "types": {"a": "long"}}, "FileSource types: expected nothing: they are for CSV"),
        ({"types": {"a": "int"}}, r"FileSource types\['a'\]: expected one of string, long, double, boolean, got 'int'"),
    ],
)
def test_a_mapping_that_cannot_work_is_refused_when_it_is_declared(tmp_path, arguments, want):
    with pytest.raises(ConfigError, match=want):
        FileSource(tmp_path, **{"format": "csv", "timestamp": "t", **arguments})


def test_a_mapping_survives_the_ledger():
    source = FileSource(
        "in",
        "csv",
        timestamp="t",
        key="k",
        value=("a", "b"),
        partition="p",
        partitions=3,
        timestamp_unit="iso",
        pattern="*.csv",
        delimiter=";",
        columns=("t", "k", "p", "a", "b"),
        types={"a": "long"},
        nulls=("", "NA"),
    )

    assert FileSource.from_dict("in", json.loads(json.dumps(source.to_dict()))) == source
