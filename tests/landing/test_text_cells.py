"""What is declared about cells of text, and zones of times that name none."""

import struct
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.file_source import FileSource
from kstreams_replay.jobs.landing.files.known_files import find_files
from kstreams_replay.jobs.landing.first_record import first_record
from kstreams_replay.state.errors import ConfigError
from tests.landing.file_folders import land, write
from tests.landing.landed_rows import landed, values

HALF = {"max_bad_share": 1.0}


def test_words_for_null(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.csv": "t,k,v\n1,NA,\n2,a,\\N\n"})

    land(warehouse, directory, key="k", value="v", nulls=["NA", "\\N"])

    assert landed(warehouse, "t", "key", "value") == [(None, b""), (b"a", None)]


@pytest.mark.parametrize("name", ["cp1252", "windows-1252"])
def test_text_of_other_encodings_lands_as_utf_8(warehouse, tmp_path, name):
    directory = write(tmp_path / "in", {"a.csv": "t;k;v\n1;Köln;5 €\n".encode("cp1252")})

    land(warehouse, directory, key="k", encoding=name, delimiter=";")

    assert landed(warehouse, "t", "key", "value") == [("Köln".encode(), '{"t":"1","k":"Köln","v":"5 €"}'.encode())]


def test_bytes_that_the_encoding_has_not_are_a_bad_row(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.csv": b"t,v\n1,\x80\n2,\x81\n3,\xe9\n"})

    land(warehouse, directory, value="v", encoding="cp1252", rules=HALF)

    assert values(warehouse) == ["€".encode(), "é".encode()]
    [letter] = landed_dead_letters(warehouse, "t").to_pylist()
    assert (letter["line"], letter["bytes"]) == (3, b"2,\x81")
    assert letter["reason"] == "expected a CSV row in CP1252, got bytes that are not CP1252"


def test_a_decimal_comma_keeps_digits(warehouse, tmp_path):
    rows = "t;price;ratio;n;text\n1;1234567,123456789012345678;0,5;7;1,5\n2;-1,10;,5;8;1.5\n"
    directory = write(tmp_path / "in", {"a.csv": rows})

    land(
        warehouse,
        directory,
        delimiter=";",
        decimal_comma=True,
        types="price decimal(38,18), ratio double, n long",
    )

    assert values(warehouse) == [
        b'{"t":"1","price":1234567.123456789012345678,"ratio":0.5,"n":7,"text":"1,5"}',
        b'{"t":"2","price":-1.10,"ratio":0.5,"n":8,"text":"1.5"}',
    ]


def test_a_point_where_a_comma_is_declared_is_a_bad_row(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.csv": "t;v\n1;1.234,5\n2;1.234\n3;1234,5\n4;12\n"})

    land(warehouse, directory, delimiter=";", decimal_comma=True, value="v", value_type="double", rules=HALF)

    assert values(warehouse) == [struct.pack(">d", 1234.5), struct.pack(">d", 12.0)]
    letters = landed_dead_letters(warehouse, "t").to_pylist()
    assert [(each["line"], each["bytes"], each["reason"]) for each in letters] == [
        (2, b"1;1.234,5", "expected a number with a decimal comma, got '1.234,5' in column v"),
        (3, b"2;1.234", "expected a number with a decimal comma, got '1.234' in column v"),
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "t;topic;p\n1;t;1,5\n2;u;1.5\n3;t;2.5\n"),
        ("a.txt", "1;t;1,5\n2;u;1.5\n3;t;2.5\n"),
        ("topic=u/b.csv", "t;p\n2;1.5\n"),
    ],
)
def test_a_point_in_a_row_of_another_topic_is_no_bad_row(warehouse, tmp_path, name, text):
    files = {"topic=t/a.csv": "t;p\n1;1,5\n3;2.5\n", name: text} if "/" in name else {name: text}
    lines = {"format": "lines", "columns": ["t", "topic", "p"]} if name == "a.txt" else {}
    mapping = {"types": "p double", "value": "p", "topic_column": "topic", "delimiter": ";", "decimal_comma": True}

    land(warehouse, write(tmp_path / "in", files), rules=HALF, **mapping, **lines)

    assert values(warehouse) == [b"1.5"]
    [letter] = landed_dead_letters(warehouse, "t").to_pylist()
    assert letter["reason"] == "expected a number with a decimal comma, got '2.5' in column p"


def test_a_time_with_a_decimal_comma(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.csv": "t;v\n1767258000,25;x\n"})

    land(warehouse, directory, delimiter=";", decimal_comma=True, timestamp_unit="s", value="v")

    assert landed(warehouse, "t", "timestamp") == [(1_767_258_000_250,)]


BERLIN = [
    ("2026-01-01T12:00:00", 1_767_265_200_000),  # 11:00Z
    ("2026-07-01T12:00:00", 1_782_900_000_000),  # 10:00Z
    ("2026-10-25T02:30:00", 1_792_888_200_000),  # 00:30Z; it comes again at 01:30Z
]


def test_naive_times_are_of_the_zone(warehouse, tmp_path):
    rows = "".join(f"{time}\n" for time, _ in BERLIN)
    texts = write(tmp_path / "texts", {"a.csv": f"t\n{rows}2026-01-01T12:00:00Z\n2026-01-01T12:00:00-05:00\n"})
    (tmp_path / "columns").mkdir()
    times = pa.array([datetime.fromisoformat(time) for time, _ in BERLIN], pa.timestamp("us"))
    pq.write_table(pa.table({"t": times}), tmp_path / "columns" / "a.parquet")

    land(warehouse, texts, topic="texts", timestamp_unit="iso", zone="Europe/Berlin")
    land(warehouse, tmp_path / "columns", topic="columns", zone="Europe/Berlin")

    zoned = [(1_767_268_800_000,), (1_767_286_800_000,)]
    assert landed(warehouse, "texts", "timestamp") == [(ms,) for _, ms in BERLIN] + zoned
    assert landed(warehouse, "columns", "timestamp") == [(ms,) for _, ms in BERLIN]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_a_day_begins_in_the_zone_whatever_has_it(warehouse, tmp_path, kind):
    """23:00Z of the day before in winter, 22:00Z in summer."""
    days = ["2026-01-01", "2026-07-01"]
    texts = write(tmp_path / "texts", {"a.csv": "\n".join(["t", *days])})
    (tmp_path / "columns").mkdir()
    pq.write_table(pa.table({"t": pa.array(days).cast(pa.date32()).cast(kind)}), tmp_path / "columns" / "a.parquet")

    for name, zone in (("there", "Europe/Berlin"), ("utc", None)):
        land(warehouse, texts, topic=f"texts-{name}", timestamp_unit="iso", zone=zone)
        land(warehouse, tmp_path / "columns", topic=f"columns-{name}", zone=zone)

    there, utc = [(1_767_222_000_000,), (1_782_856_800_000,)], [(1_767_225_600_000,), (1_782_864_000_000,)]
    for name in ("texts", "columns"):
        assert landed(warehouse, f"{name}-there", "timestamp") == there
        assert landed(warehouse, f"{name}-utc", "timestamp") == utc


def test_a_day_whose_midnight_never_was_is_a_bad_row(warehouse, tmp_path):
    """
    Clocks in Beirut go from 00:00 to 01:00.
    """
    (tmp_path / "in").mkdir()
    days = pa.array(["2026-03-29", "2026-03-30"]).cast(pa.date32())
    pq.write_table(pa.table({"t": days}), tmp_path / "in" / "a.parquet")

    land(warehouse, tmp_path / "in", zone="Asia/Beirut", rules=HALF)

    assert landed(warehouse, "t", "timestamp") == [(1_774_818_000_000,)]
    [letter] = landed_dead_letters(warehouse, "t").to_pylist()
    assert letter["line"] == 1
    assert letter["reason"].startswith("expected a time in Asia/Beirut, got ")


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_the_first_record_says_that_a_day_is_of_no_zone(tmp_path, zone):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"t": pa.array(["2026-01-01"]).cast(pa.date32())}), tmp_path / "in" / "a.parquet")
    source = FileSource(tmp_path / "in", "parquet", timestamp="t", zone=zone)

    first = first_record(source, find_files(source, "t").files)

    assert first is not None
    assert first.is_naive == (zone is None)


def test_a_zone_changes_no_times_of_another(warehouse, tmp_path):
    (tmp_path / "in").mkdir()
    times = pa.array([1_767_268_800_000_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"t": times}), tmp_path / "in" / "a.parquet")

    land(warehouse, tmp_path / "in", zone="Europe/Berlin")

    assert landed(warehouse, "t", "timestamp") == [(1_767_268_800_000,)]


def test_a_time_that_never_was_there_is_a_bad_row(warehouse, tmp_path):
    """
    Clocks went from 02:00 to 03:00.
    """
    directory = write(tmp_path / "in", {"a.csv": "t\n2026-03-29T02:30:00\n2026-03-29T03:00:00\n"})

    land(warehouse, directory, timestamp_unit="iso", zone="Europe/Berlin", rules=HALF)

    assert landed(warehouse, "t", "timestamp") == [(1_774_746_000_000,)]
    [letter] = landed_dead_letters(warehouse, "t").to_pylist()
    assert letter["line"] == 2
    assert letter["reason"] == "expected a timestamp (iso), got '2026-03-29T02:30:00' in column t"


@pytest.mark.parametrize(
    ("row", "mapping", "is_told"),
    [
        ("2026-01-01T12:00:00", {"timestamp_unit": "iso"}, True),
        ("2026-01-01T12:00:00Z", {"timestamp_unit": "iso"}, False),
        ("2026-01-01T12:00:00", {"timestamp_unit": "iso", "zone": "UTC"}, False),
        ("1767268800000", {}, False),
    ],
)
def test_the_first_record_tells_of_a_time_without_a_zone(tmp_path, row, mapping, is_told):
    source = FileSource(write(tmp_path / "in", {"a.csv": f"t\n{row}\n"}), "csv", timestamp="t", **mapping)

    first = first_record(source, find_files(source, "t").files)

    assert first is not None
    word = ", of a time without a zone, taken as UTC (--zone)" if is_told else ""
    assert first.described()["time"] == f"2026-01-01T12:00:00.000Z (1767268800000){word}"


ZONED, NAIVE, DAY = "2026-01-01T12:00:00+01:00", "2026-01-01 12:00:00", "2026-01-01"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"a.csv": [ZONED, NAIVE, DAY]}, "2 of 3 times name no zone (the first in a.csv)"),
        ({"a.csv": [ZONED, ZONED], "b.csv": [NAIVE]}, "1 of 3 times name no zone (the first in b.csv)"),
        ({"a.csv": [NAIVE, "never", ZONED]}, "1 of 2 times name no zone (the first in a.csv)"),
        ({"a.csv": [NAIVE, DAY]}, None),  # the first record shows it
        ({"a.csv": [ZONED, "2026-01-01T12:00:00Z", "20260101T120000-0500"]}, None),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_times_without_a_zone_beside_others_are_counted(warehouse, tmp_path, files, told, suffix):
    lines = {
        name.replace(".csv", suffix): "t\n" + "\n".join(rows) + "\n"
        if suffix == ".csv"
        else "".join(f'{{"t":"{row}"}}\n' for row in rows)
        for name, rows in files.items()
    }

    report = land(warehouse, write(tmp_path / "in", lines), timestamp_unit="iso", rules=HALF)

    warnings = [each for each in report.warnings if "name no zone" in each]
    rest = " and are taken as UTC; the others name one; where they are of another zone, name it (--zone)"
    assert warnings == ([] if told is None else [f"t: {told.replace('.csv', suffix)}{rest}"])


def test_with_a_declared_zone_no_time_is_without_one(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.csv": f"t\n{ZONED}\n{NAIVE}\n"})

    assert land(warehouse, directory, timestamp_unit="iso", zone="UTC").warnings == ()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"encoding": "utf-16"}, "encoding: expected an encoding in which ASCII is itself, as in latin-1 or cp1252"),
        ({"encoding": "klingon"}, "encoding: expected an encoding in which ASCII is itself"),
        ({"zone": "Berlin"}, "zone: expected a time zone, as in Europe/Berlin, got 'Berlin'"),
        ({"format": "jsonl", "encoding": "cp1252"}, "encoding: expected utf-8: others are for CSV"),
        ({"format": "parquet", "decimal_comma": True}, "decimal_comma: expected none: it is for CSV"),
        ({"key": ()}, "key: expected at least one column"),
    ],
)
def test_what_cannot_be_is_refused(given, sentence):
    with pytest.raises(ConfigError, match=sentence):
        FileSource("in", timestamp="t", **given)


def test_a_key_of_several_columns_is_a_json_object(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": '{"t":1,"a":1.10,"b":"x","c":0}\n{"t":2,"b":null,"c":1}\n'})

    land(warehouse, directory, key=["b", "a"], value="c")

    assert landed(warehouse, "t", "key") == [(b'{"b":"x","a":1.10}',), (b'{"b":null,"a":null}',)]


def test_a_key_of_several_columns_of_csv_has_their_types(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.csv": "t,a,b\n1,7,x\n"})

    land(warehouse, directory, key=["a", "b"], value="t", types="a long")

    assert landed(warehouse, "t", "key") == [(b'{"a":7,"b":"x"}',)]
