"""Avro object containers: rows of other writers' files, whole or refused, and the same records as from Parquet."""

import base64
import gzip
import json
import zlib
from datetime import date, datetime
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.state.errors import LandingError
from tests.landing.file_folders import land, write
from tests.landing.landed_rows import landed, values
from tests.landing.written_tables import avro_text, container, zigzag

ORDERS = json.loads(Path(__file__).with_name("fastavro_orders.json").read_text())
"""By codec: three orders, written by fastavro 1.13.1, as base64."""
LONGS = [{"name": "t", "type": "long"}, {"name": "v", "type": "string"}]


def long_row(t: int, v: str) -> bytes:
    return zigzag(t) + avro_text(v)


@pytest.mark.parametrize("codec", ORDERS)
def test_records_of_every_type(warehouse, tmp_path, codec):
    directory = write(tmp_path / "in", {"orders.avro": base64.b64decode(ORDERS[codec])})

    land(warehouse, directory, timestamp="at", key="id")

    same = '"day":20455,"tod":1000,"id":%s,"who":%s,"price":"123456789012345678.90","ids":[1,-2],"tags":{"a":"b"},'
    same += '"size":"L","raw":"AAE=","in":{"x":1.5,"s":"S"},"either":%s}'
    assert landed(warehouse, "t", "timestamp", "key", "value") == [
        (
            1767258000000,
            b"4611686018427387904",
            ('{"at":1767258000000,"us":1767258000001,' + same % (4611686018427387904, "null", "null")).encode(),
        ),
        (
            1767258001000,
            b"4611686018427387905",
            (
                '{"at":1767258001000,"us":null,' + same % (4611686018427387905, '"é"', '{"long":7,"string":null}')
            ).encode(),
        ),
        (
            1767258002000,
            b"4611686018427387906",
            (
                '{"at":1767258002000,"us":1767258000001,'
                + same % (4611686018427387906, '"é"', '{"long":null,"string":"x"}')
            ).encode(),
        ),
    ]


def test_rows_become_what_rows_of_parquet_become(warehouse, tmp_path):
    rows = pl.DataFrame(
        {
            "t": [datetime(2026, 1, 1, 9), datetime(1969, 12, 31, 23, 59, 59, 999_000), datetime(9999, 12, 31)],
            "k": [2**63 - 1, None, -(2**63)],
            "v": ["é", "", None],
            "b": [b"\0\xff", None, b""],
            "d": [date(2026, 1, 2), None, date(1, 1, 1)],
            "x": [1.1, None, -0.0],
            "l": [[1, None], [], None],
            "s": [{"a": "x", "n": 1}, {"a": None, "n": None}, None],
            "is": [True, False, None],
        }
    )
    (tmp_path / "a").mkdir()
    (tmp_path / "p").mkdir()
    rows.write_avro(tmp_path / "a" / "rows.avro", "snappy")
    rows.write_parquet(tmp_path / "p" / "rows.parquet")
    for topic in "ap":
        land(warehouse, tmp_path / topic, topic=topic, key="k")

    found = [landed(warehouse, topic, "timestamp", "key", "value") for topic in "ap"]

    assert found[0] == found[1]
    assert found[0][1][:2] == (-1, None)
    assert len(found[0]) == 3


def test_one_column_is_its_text_or_bytes(warehouse, tmp_path):
    fields = [*LONGS, {"name": "b", "type": ["null", "bytes"]}]
    rows = [long_row(1, "a") + zigzag(1) + avro_text(b"\0\1"), long_row(2, "b") + zigzag(0)]
    directory = write(tmp_path / "in", {"a.avro": container(fields, rows)})

    land(warehouse, directory, key="v", value="b")

    assert landed(warehouse, "t", "key", "value") == [(b"a", b"\0\1"), (b"b", None)]


def test_files_are_read_by_their_own_schemas_and_rows_keep_their_order(warehouse, tmp_path):
    other = [{"name": "v", "type": "string"}, {"name": "t", "type": "int"}, {"name": "more", "type": "float"}]
    files = {
        "a-2.avro": container(other, [avro_text("z") + zigzag(3) + b"\0\0\0\0"]),
        "a-1.avro": container(LONGS, [long_row(1, "x")], [], [long_row(2, "y")]),
        "a-3.avro.gz": gzip.compress(container(LONGS)),
    }

    report = land(warehouse, write(tmp_path / "in", files), value="v")

    assert (report.records, values(warehouse)) == (3, [b"x", b"y", b"z"])


def test_zstandard_blocks(warehouse, tmp_path):
    def pack(data: bytes) -> bytes:
        return pa.compress(data, "zstd", asbytes=True)

    content = container(LONGS, [long_row(1, "x" * 100)], [long_row(2, "y")], codec="zstandard", pack=pack)

    land(warehouse, write(tmp_path / "in", {"a.avro": content}), value="v")

    assert values(warehouse) == [b"x" * 100, b"y"]


def test_a_time_of_any_year_is_a_record_time_and_a_value(warehouse, tmp_path):
    fields = [
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "d", "type": {"type": "int", "logicalType": "date"}},
    ]
    content = container(fields, [zigzag(400_000_000_000_000_001) + zigzag(10_000_000), zigzag(-1) + zigzag(0)])

    land(warehouse, write(tmp_path / "in", {"a.avro": content}))

    assert landed(warehouse, "t", "timestamp", "value") == [
        (400_000_000_000_000, b'{"t":400000000000000,"d":10000000}'),
        (-1, b'{"t":-1,"d":0}'),
    ]


def test_a_record_that_cannot_be_read_is_a_bad_row_and_its_neighbours_land(warehouse, tmp_path):
    bad = zigzag(2) + zigzag(1) + b"\xff"
    content = container(LONGS, [long_row(1, "a")], [bad, long_row(3, "c"), zigzag(4) + zigzag(2) + b"\xc3\x28"])

    land(warehouse, write(tmp_path / "in", {"a.avro": content}), value="v", rules={"max_bad_share": 1.0})

    assert landed(warehouse, "t", "timestamp", "value") == [(1, b"a"), (3, b"c")]
    letters = landed_dead_letters(warehouse, "t").to_pylist()
    assert [(each["file"], each["line"], each["bytes"]) for each in letters] == [
        ("a.avro", 2, bad),
        ("a.avro", 4, b"\x08\x04\xc3\x28"),
    ]
    assert all(each["reason"].startswith("expected a record of the file's schema, got ") for each in letters)


def test_a_record_that_does_not_fit_the_mapping_is_a_bad_row_in_json(warehouse, tmp_path):
    fields = [{"name": "t", "type": ["null", "long"]}, {"name": "v", "type": "string"}]
    rows = [zigzag(1) + long_row(1, "a"), zigzag(0) + avro_text("b")]

    land(warehouse, write(tmp_path / "in", {"a.avro": container(fields, rows)}), rules={"max_bad_share": 1.0})

    [letter] = landed_dead_letters(warehouse, "t").to_pylist()
    assert (letter["line"], letter["bytes"]) == (2, b'{"t":null,"v":"b"}')
    assert letter["reason"] == "expected a timestamp (ms), got None in column t"


WHOLE = container(LONGS, [long_row(1, "a"), long_row(2, "b")])


def snappy(data: bytes) -> bytes:
    return pa.compress(data, "snappy", asbytes=True) + (zlib.crc32(data) ^ 1).to_bytes(4, "big")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"PAR1", r"byte 0: expected an Avro object container, which begins with Obj and 1, got b'PAR1'"),
        (WHOLE[:-1], r"expected 16 bytes, got the end of the file after 15"),
        (WHOLE[:-17], r"expected 6 bytes, got the end of the file after 5"),
        (WHOLE[:-1] + b"x", r"expected the file's marker behind each block, got other bytes"),
        (container(LONGS, [long_row(1, "a") + b"\7"]), r"expected a block of whole records, got 1 bytes"),
        (
            container(LONGS, [long_row(1, "a")[:-1]]),
            r"expected a block of whole records, got record 1 of",
        ),
        (container(LONGS, [long_row(1, "a")], codec="lzo"), r"expected blocks as one of null, .*, got lzo"),
        (container(LONGS, [long_row(1, "a")], codec="snappy", pack=snappy), r"got another CRC-32 than"),
        (
            container([*LONGS, {"name": "n", "type": "null"}], [long_row(1, "a")]),
            r"expected a type that has values",
        ),
    ],
)
def test_a_file_that_is_not_whole_is_refused_with_the_byte(warehouse, tmp_path, content, sentence):
    directory = write(tmp_path / "in", {"a.avro": content})

    with pytest.raises(LandingError, match=rf"a\.avro, .*{sentence}"):
        land(warehouse, directory)

    assert warehouse.topics() == []


def test_a_column_without_values_does_no_harm_where_others_are_chosen(warehouse, tmp_path):
    recursive = {"type": "record", "name": "Tree", "fields": [{"name": "next", "type": ["null", "Tree"]}]}
    fields = [*LONGS, {"name": "n", "type": "null"}, {"name": "tree", "type": recursive}]
    content = container(fields, [long_row(1, "a") + zigzag(1) + zigzag(1) + zigzag(0), long_row(2, "b") + zigzag(0)])

    land(warehouse, write(tmp_path / "in", {"a.avro": content}), value=["v"])

    assert values(warehouse) == [b'{"v":"a"}', b'{"v":"b"}']


def test_times_of_the_day_are_milliseconds(warehouse, tmp_path):
    fields = [{"name": "t", "type": "long"}, {"name": "at", "type": {"type": "long", "logicalType": "time-micros"}}]

    land(warehouse, write(tmp_path / "in", {"a.avro": container(fields, [zigzag(1) + zigzag(3_723_000_000)])}))

    assert values(warehouse) == [b'{"t":1,"at":3723000}']


def test_nanoseconds_are_a_record_time_and_milliseconds_of_a_value_as_other_units_are(warehouse, tmp_path):
    def time_of(unit: str) -> dict[str, str]:
        return {"type": "long", "logicalType": unit}

    zoned, local = time_of("timestamp-nanos"), time_of("local-timestamp-nanos")
    fields = [
        {"name": "t", "type": zoned},
        {"name": "n", "type": ["null", local]},
        {"name": "l", "type": {"type": "array", "items": zoned}},
        {"name": "us", "type": time_of("timestamp-micros")},
    ]
    ns = 1_767_258_000_123_456_789
    rows = [
        zigzag(ns) + zigzag(1) + zigzag(ns) + zigzag(1) + zigzag(ns) + zigzag(0) + zigzag(ns // 1_000),
        zigzag(-1) + zigzag(0) + zigzag(1) + zigzag(-1) + zigzag(0) + zigzag(-1),
    ]

    land(warehouse, write(tmp_path / "in", {"a.avro": container(fields, rows)}))

    assert landed(warehouse, "t", "timestamp", "value") == [
        (
            1_767_258_000_123,
            b'{"t":1767258000123,"n":1767258000123,"l":[1767258000123],"us":1767258000123}',
        ),
        (-1, b'{"t":-1,"n":null,"l":[-1],"us":-1}'),
    ]
