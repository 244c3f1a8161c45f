"""A cell of Parquet becomes JSON that the natural types of Serde.json read."""

import math
from datetime import date, datetime, time
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.files.known_files import find_files
from kstreams_replay.jobs.landing.first_record import first_record
from kstreams_replay.jobs.landing.landing import FileSource, LandingRules, land_files
from kstreams_replay.jobs.landing.serde_mapping import Serdes, refuse_undecodable, with_serdes
from kstreams_replay.state.errors import LandingError
from kstreams_replay.state.serdes import Serde
from tests.landing.file_folders import land
from tests.landing.landed_rows import values


def parquet(tmp_path, **columns):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "in" / "a.parquet")
    return tmp_path / "in"


@pytest.mark.parametrize(
    ("kind", "cell", "want"),
    [
        (pa.map_(pa.string(), pa.int64()), [("b", 1), ("a", None)], b'{"v":{"b":1,"a":null}}'),
        (pa.map_(pa.large_string(), pa.string()), [], b'{"v":{}}'),
        (pa.map_(pa.int64(), pa.string()), [(1, "x")], b'{"v":[[1,"x"]]}'),
        (
            pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.map_(pa.string(), pa.bool_())))])),
            [{"m": [("a", [("b", True)])]}, {"m": None}, None],
            b'{"v":[{"m":{"a":{"b":true}}},{"m":null},null]}',
        ),
        (pa.map_(pa.int64(), pa.map_(pa.string(), pa.int64())), [(1, [("a", 2)])], b'{"v":[[1,{"a":2}]]}'),
    ],
)
def test_a_map_whose_keys_are_text_is_an_object(warehouse, tmp_path, kind, cell, want):
    directory = parquet(tmp_path, t=[1, 2], v=pa.array([cell, None], kind))

    land(warehouse, directory, value=["v"])

    assert values(warehouse) == [want, b'{"v":null}']


def test_a_map_with_a_key_twice_is_a_bad_row(warehouse, tmp_path):
    column = pa.array([[("a", 1), ("a", 2)], [("a", 1)]], pa.map_(pa.string(), pa.int64()))

    land(warehouse, parquet(tmp_path, t=[1, 2], v=column), value=["v"], rules={"max_bad_share": 1.0})

    assert values(warehouse) == [b'{"v":{"a":1}}']
    [letter] = landed_dead_letters(warehouse, "t").to_pylist()
    assert letter["reason"] == "expected each key of a map once, got [('a', 1), ('a', 2)] in column v"


def read_back(warehouse, serde):
    decoded = serde.decode(pa.array(values(warehouse), pa.binary()))
    assert decoded.reasons == {}
    return decoded.values.to_pylist()


UTC = ZoneInfo("UTC")


@pytest.mark.parametrize(
    ("column", "words", "want"),
    [
        (pa.array([date(2026, 1, 2), date(1, 1, 1)]), "date", [date(2026, 1, 2), date(1, 1, 1)]),
        (
            pa.array([1_767_258_000_123_456, -1], pa.timestamp("us", "UTC")),
            "timestamp",
            [
                datetime(2026, 1, 1, 9, 0, 0, 123456, UTC),
                datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
            ],
        ),
        (
            pa.array([1_767_258_000_000_000_000, 1_000], pa.timestamp("ns", "Europe/Berlin")),
            "timestamp",
            [datetime(2026, 1, 1, 9, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 0, 1, UTC)],
        ),
        (
            pa.array([1_767_258_000_000, 0], pa.timestamp("ms")),
            "timestamp_ntz",
            [datetime(2026, 1, 1, 9), datetime(1970, 1, 1)],
        ),
        (pa.array([time(1, 2, 3, 4500), time(0)], pa.time64("us")), "time", [time(1, 2, 3, 4500), time(0)]),
        (pa.array([math.inf, -math.inf]), "double", [math.inf, -math.inf]),
        (pa.array([0.1, 3.0], pa.float32()), "float", [0.10000000149011612, 3.0]),
        (pa.array([7, 8], pa.int32()), "double", [7.0, 8.0]),
        (
            pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
            "map<string, long>",
            [[("a", 1)], []],
        ),
        (
            pa.array([[("a", date(2026, 1, 2))], []], pa.map_(pa.large_string(), pa.date32())),
            "map<string, date>",
            [[("a", date(2026, 1, 2))], []],
        ),
        (
            pa.array([{"x": 1.5, "on": [date(2026, 1, 2)]}, {"x": None, "on": None}]),
            "struct<x double, on array<date>>",
            [{"x": 1.5, "on": [date(2026, 1, 2)]}, {"x": None, "on": None}],
        ),
    ],
)
def test_what_the_serde_of_the_topology_reads_is_what_was_in_the_file(warehouse, tmp_path, column, words, want):
    serde = Serde.json(f"t long, v {words}")
    directory = parquet(tmp_path, t=[1, 2, 3], v=pa.concat_arrays([column, pa.nulls(1, column.type)]))
    source = with_serdes(FileSource(directory, "parquet", timestamp="t"), "t", Serdes(Serde.string(), serde))

    land_files(None, warehouse, "t", source)

    rows = [{"t": n, "v": value} for n, value in enumerate([*want, None], start=1)]
    assert read_back(warehouse, serde) == rows


def test_nan_is_nan(warehouse, tmp_path):
    serde = Serde.json("t long, v double")
    directory = parquet(tmp_path, t=[1], v=[math.nan])
    source = with_serdes(FileSource(directory, "parquet", timestamp="t"), "t", Serdes(Serde.string(), serde))

    land_files(None, warehouse, "t", source)

    assert values(warehouse) == [b'{"t":1,"v":NaN}']


def test_a_plain_value_is_the_text_that_its_serde_reads(warehouse, tmp_path):
    serde = Serde.json("date")
    directory = parquet(tmp_path, t=[1, 2], v=[date(2026, 1, 2), None])
    source = FileSource(directory, "parquet", timestamp="t", value="v")

    land_files(None, warehouse, "t", with_serdes(source, "t", Serdes(Serde.string(), serde)))

    assert values(warehouse) == [b'"2026-01-02"', None]


def test_a_naive_time_is_an_instant_of_the_zone_or_a_bad_row(warehouse, tmp_path):
    directory = parquet(tmp_path, t=[1, 2], v=pa.array([1_767_258_000_000_000, None], pa.timestamp("us")))
    serdes = Serdes(Serde.string(), Serde.json("v timestamp"))
    for topic, zone in (("zoned", "Europe/Berlin"), ("naive", None)):
        source = FileSource(directory, "parquet", timestamp="t", value=["v"], zone=zone)
        rules = LandingRules(max_bad_share=1.0)
        land_files(None, warehouse, topic, with_serdes(source, topic, serdes), rules=rules)

    assert values(warehouse, "zoned") == [b'{"v":"2026-01-01T08:00:00Z"}', b'{"v":null}']
    assert values(warehouse, "naive") == [b'{"v":null}']
    [letter] = landed_dead_letters(warehouse, "naive").to_pylist()
    assert letter["reason"] == "expected a value that is a timestamp, got a time without a zone (--zone) in column v"


def test_a_cell_that_the_type_cannot_hold_is_a_bad_row(warehouse, tmp_path):
    directory = parquet(tmp_path, t=[1, 2, 3], v=pa.array([1_500, 1_000, 2**62], pa.timestamp("ns", "UTC")))
    serdes = Serdes(Serde.string(), Serde.json("v timestamp"))
    source = FileSource(directory, "parquet", timestamp="t", value=["v"])

    land_files(None, warehouse, "t", with_serdes(source, "t", serdes), rules=LandingRules(max_bad_share=1.0))

    assert values(warehouse) == [b'{"v":"1970-01-01T00:00:00.000001Z"}']
    letters = landed_dead_letters(warehouse, "t").to_pylist()
    assert [letter["line"] for letter in letters] == [1, 3]


def refused(directory, serde, **mapping) -> str:
    serdes = Serdes(Serde.string(), serde)
    source = with_serdes(FileSource(directory, "parquet", timestamp="t", **mapping), "t", serdes)
    first = first_record(source, find_files(source, "t").files)
    assert first is not None
    with pytest.raises(LandingError) as raised:
        refuse_undecodable("t", source, first, serdes, most=0.01)
    return str(raised.value)


@pytest.mark.parametrize(
    ("column", "words", "reason"),
    [
        (pa.nulls(2, pa.int64()), "date", "field v: expected a date, got a number"),
        (pa.nulls(2, pa.float64()), "long", "expected a long, got 0.0"),
        (pa.nulls(2, pa.bool_()), "string", "field v: expected a string, got a boolean"),
        (pa.nulls(2, pa.decimal128(10, 2)), "long", "field v: expected a long, got a string"),
    ],
)
def test_a_type_that_the_serde_does_not_read_is_refused_though_all_of_the_first_rows_are_null(
    tmp_path, column, words, reason
):
    sentence = refused(parquet(tmp_path, t=[1, 2], v=column), Serde.json(f"t long, v {words}"))

    assert sentence.startswith(f"topic t, a.parquet, column v ({column.type}): expected a type that Serde.json(")
    assert f"reads, got {reason}; correct the type in the serde of the topology" in sentence


def test_a_share_of_undecodable_rows_is_refused_and_one_null_helps_not(tmp_path):
    cells = pa.array(["1", "x"] * 100 + [None] * 300)

    sentence = refused(parquet(tmp_path, t=list(range(500)), v=cells), Serde.json("v long"), value="v")

    assert "expected a value that Serde.json(" in sentence
    assert "(200 of the first 200)" in sentence


def test_few_undecodable_rows_are_no_reason_to_refuse(tmp_path):
    serdes = Serdes(Serde.string(), Serde.json("t long, v string"))
    directory = tmp_path / "in"
    directory.mkdir()
    rows = ['{"t":1,"v":"a"}'] * 199 + ['{"t":1,"v":7}']
    (directory / "a.jsonl").write_text("\n".join(rows))
    source = FileSource(directory, "jsonl", timestamp="t")
    first = first_record(source, find_files(source, "t").files)
    assert first is not None

    refuse_undecodable("t", source, first, serdes, most=0.01)

    with pytest.raises(LandingError, match=r"expected a string, got a number \(1 of the first 200\)"):
        refuse_undecodable("t", source, first, serdes, most=0.001)
