"""Rows of files: each is one record, or an error with file and line; never less, never more."""

import gzip
import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.files import json_lines
from kstreams_replay.jobs.landing.files.columns import BadValuesError, times_ms
from kstreams_replay.jobs.landing.landing import FileSource, LandingRules, land_files
from kstreams_replay.state.errors import ConfigError, LandingError
from kstreams_replay.state.tables.ledger import LandingLedger
from tests.landing.landed_rows import landed, values

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


def test_objects_one_after_the_other_on_a_line_are_rows_byte_for_byte(warehouse, directory):
    """As Firehose writes them: no line end between records, perhaps one behind the last."""
    (directory / "a.json").write_bytes(
        b'{"t":1,"k":"}{"}{"t":2, "k":{"n":1.10}} {"t":3,"k":"\xc3\xa9"}\t{"t":4}\n{"t":5}\n{"t":6}{"t":7}'
    )

    report = land_files(None, warehouse, "t", FileSource(directory, timestamp="t"))

    assert landed(warehouse, "t", "offset", "timestamp", "value") == [
        (0, 1, b'{"t":1,"k":"}{"}'),
        (1, 2, b'{"t":2, "k":{"n":1.10}}'),
        (2, 3, b'{"t":3,"k":"\xc3\xa9"}'),
        (3, 4, b'{"t":4}'),
        (4, 5, b'{"t":5}'),
        (5, 6, b'{"t":6}'),
        (6, 7, b'{"t":7}'),
    ]
    assert report.records == 7


def test_many_objects_on_a_line_land_block_by_block(warehouse, directory, monkeypatch):
    monkeypatch.setattr(json_lines, "BLOCK_ROWS", 3)
    (directory / "a.json.gz").write_bytes(gzip.compress(b"".join(b'{"t":%d}' % t for t in range(10))))

    land_files(None, warehouse, "t", FileSource(directory, timestamp="t"))

    assert landed(warehouse, "t", "offset", "timestamp") == [(t, t) for t in range(10)]


@pytest.mark.parametrize(
    ("line", "rows", "bad"),
    [
        (b'{"t":1}{"t":2}{"t":', 2, b'{"t":'),  # cut off
        (b'{"t":1}{"t":2}[3]{"t":4}', 2, b'[3]{"t":4}'),
        (b'{"t":1} x {"t":2}{"t":3}', 0, b'{"t":1} x {"t":2}{"t":3}'),  # no run of objects
        (b'{"t":1}]', 0, b'{"t":1}]'),
        (b'{"t":1,"k":"}{', 0, b'{"t":1,"k":"}{'),
        (b'{"t":1}{"t":2}\xff', 0, b'{"t":1}{"t":2}\xff'),
    ],
)
def test_what_is_no_object_behind_others_is_one_bad_row(warehouse, directory, line, rows, bad):
    (directory / "a.json").write_bytes(b'{"t":0}\n' + line)

    land_files(None, warehouse, "t", FileSource(directory, timestamp="t"), rules=LandingRules(max_bad_share=1))

    assert landed(warehouse, "t", "timestamp") == [(t,) for t in range(rows + 1)]
    letters = landed_dead_letters(warehouse, "t").to_pylist()
    assert [(letter["line"], letter["bytes"]) for letter in letters] == [(2, bad)]


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
    with pytest.raises(BadValuesError) as raised:
        times_ms([1 if unit != "iso" else "1970-01-01", given], unit)

    assert [(bad.row, bad.got) for bad in raised.value.values] == [(1, repr(given))]


def test_a_compressed_file_lands_like_a_plain_one(warehouse, directory):
    (directory / "a.jsonl.gz").write_bytes(gzip.compress(b'{"t":1}\n{"t":2}'))

    land_files(None, warehouse, "t", FileSource(directory, "jsonl", timestamp="t"))

    assert values(warehouse) == [b'{"t":1}', b'{"t":2}']


# Refusals


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
        ("a.jsonl.gz", gzip.compress(b'{"t":1}\n', mtime=0)[:-9], ": expected a file that can be read, got "),
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
        land_files(None, warehouse, "t", source, rules=LandingRules(max_bad_share=0))

    separator = "" if want.startswith(":") else ", "
    assert str(raised.value).startswith(f"{directory}/{name}{separator}{want}")
    assert LandingLedger(warehouse.landing_ledger("t")).rows() == []
    assert warehouse.topics() == []


def test_the_row_of_a_parquet_file_is_named_across_row_groups(warehouse, directory):
    table = pa.table({"t": pa.array([1] * 9 + [None])})
    pq.write_table(table, directory / "a.parquet", row_group_size=4)

    source = FileSource(directory, "parquet", timestamp="t")
    with pytest.raises(LandingError, match=r"a\.parquet, row 10: expected a timestamp \(ms\), got None"):
        land_files(None, warehouse, "t", source, rules=LandingRules(max_bad_share=0))


@pytest.mark.parametrize(
    ("arguments", "flag"), [({"zone": "Nowhere/X"}, "--zone"), ({"topic": "t"}, "--source-topic"),
                            ({"timestamp_unit": "h"}, "--timestamp-unit"), ({"types": {"a": "day"}}, "--types")],
)  # fmt: skip
def test_a_refused_setting_is_named_as_the_command_has_it(arguments, flag):
    with pytest.raises(ConfigError) as refused:
        FileSource(**{"path": "in", "format": "csv", "timestamp": "t", **arguments})

    assert refused.value.next_step == f"correct it in the declaration of the source, or {flag} of `replay land`"


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ({"format": "xml"}, "FileSource format: expected one of jsonl, parquet, csv, avro, lines, got 'xml'"),
        ({"timestamp_unit": "h"}, "FileSource timestamp_unit: expected one of ms, s, us, ns, iso, got 'h'"),
        ({"topic": "t"}, "FileSource topic: expected a topic_column that has it, got 't'"),
        ({"partitions": 0}, "FileSource partitions: expected a number of at least 1, got 0"),
        ({"value": []}, r"FileSource value: expected at least one column, got \(\)"),
        ({"format": "jsonl", "types": {"a": "long"}}, "FileSource types: expected nothing: they are for CSV"),
        (
            {"types": {"a": "day"}},
            r"FileSource types\['a'\]: expected one of string, int, long, double, boolean, json, got",
        ),
        ({"types": "a day"}, "expected a type .* at 2, got 'day'"),
        ({"timestamp": ""}, "FileSource timestamp: expected the column of the record time, got ''"),
        (
            {"key": "k", "key_type": "day"},
            "FileSource key_type: expected one of string, bytes, int, long, double, boolean",
        ),
        ({"value_type": "long"}, "FileSource value_type: expected nothing, or one column as value, got 'long'"),
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
        key_type="long",
    )

    assert FileSource.from_dict("in", json.loads(json.dumps(source.to_dict()))) == source
