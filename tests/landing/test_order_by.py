"""Rows of files that are ordered by columns, instead of by the names of the files."""

import datetime as dt
import itertools
import json
import random
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.jobs.landing import file_writing
from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.files import streams, text_lines
from kstreams_replay.jobs.landing.files.columns import JsonNumber
from kstreams_replay.jobs.landing.files.order_keys import order_keys
from kstreams_replay.jobs.landing.landing import FileSource
from kstreams_replay.state.errors import ConfigError, LandingError
from tests.landing.file_folders import dies, land, write
from tests.landing.landed_rows import landed, values

T0 = 1_767_258_000_000
"""2026-01-01T09:00:00Z."""


def lines(*rows: tuple[int, str], **more: object) -> str:
    return "".join(json.dumps({"t": T0 + time, "v": value, **more}) + "\n" for time, value in rows)


def test_rows_are_sorted_over_all_files_and_equal_ones_stay_in_the_order_of_names(warehouse, tmp_path):
    files = {"dump-10.json": lines((3, "c2"), (1, "a")), "dump-2.json": lines((3, "c"), (2, "b"), (3, "c1"))}

    report = land(warehouse, write(tmp_path / "in", files), value="v", order_by=["t"])

    assert landed(warehouse, "t", "offset", "value") == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"c1"), (4, b"c2")]
    assert report.warnings == ()


def test_several_columns_order_rows_the_first_of_them_most(warehouse, tmp_path):
    text = "day,n,t,v\n2026-01-02,9,1,d\n2026-01-01,10,1,b\n2026-01-01,9,1,a\n2026-01-02,10,1,e\n2026-01-01,x,1,c\n"

    land(warehouse, write(tmp_path / "in", {"a.csv": text}), value="v", order_by=["day", "n"])

    assert values(warehouse) == [b"a", b"b", b"c", b"d", b"e"]


def test_a_later_landing_is_ordered_by_itself_and_comes_after_the_first(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.json": lines((5, "e"), (4, "d"))})
    land(warehouse, directory, value="v", order_by=["t"])
    write(directory, {"b.json": lines((3, "c"), (2, "b"))})

    land(warehouse, directory, value="v", order_by=["t"])

    assert landed(warehouse, "t", "offset", "value") == [(0, b"d"), (1, b"e"), (2, b"b"), (3, b"c")]


def test_a_row_without_a_value_to_order_by_is_a_bad_row(warehouse, tmp_path):
    files = {"a.json": lines((1, "a"), n=1) + lines((2, "b")) + lines((3, "c"), n=0)}

    land(warehouse, write(tmp_path / "in", files), value="v", order_by=["n"], rules={"max_bad_share": 1})

    assert values(warehouse) == [b"c", b"a"]
    [reason] = landed_dead_letters(warehouse, "t")["reason"].to_pylist()
    assert reason == "expected a value to order by, and no null, got None in column n"


@pytest.mark.parametrize("seed", range(8))
def test_any_spread_over_files_lands_sorted_with_little_memory(warehouse, tmp_path, monkeypatch, seed):
    dice = random.Random(seed)
    files = {f"{number}.json": [(dice.randrange(40), dice.randrange(2)) for _ in range(20)] for number in range(5)}
    rows = [(t, p, f"{name}-{place}") for name, of in files.items() for place, (t, p) in enumerate(of)]
    for name in files:
        text = "".join(json.dumps({"t": t, "p": p, "v": v}) + "\n" for t, p, v in rows if v.startswith(f"{name}-"))
        write(tmp_path / "in", {name: text})
    monkeypatch.setattr(streams, "SLICE_BYTES", dice.choice([200, 32 << 20]))
    monkeypatch.setattr(text_lines, "BLOCK_ROWS", 7)
    monkeypatch.setattr(file_writing, "FILE_BYTES", dice.choice([200, 1_000]))

    land(warehouse, tmp_path / "in", value="v", partition="p", partitions=2, order_by=["t"])

    want = []
    for partition in (0, 1):
        ordered = sorted((row for row in rows if row[1] == partition), key=lambda row: row[0])
        want += [(partition, offset, value.encode()) for offset, (_, _, value) in enumerate(ordered)]
    assert landed(warehouse, "t", "partition", "offset", "value") == want


@pytest.mark.parametrize("in_", ["before_the_commit", "between_commit_and_ledger"])
def test_an_ordered_landing_that_died_is_finished_by_its_plan(warehouse, tmp_path, monkeypatch, in_):
    directory = write(tmp_path / "in", {"a.json": lines((2, "b"), (1, "a"))})
    with dies(monkeypatch, in_=in_):
        land(warehouse, directory, value="v", order_by=["t"])

    land(warehouse, directory, value="v", order_by=["t"])

    assert landed(warehouse, "t", "offset", "value") == [(0, b"a"), (1, b"b")]


def test_times_of_parquet_are_ordered_by_every_nanosecond(warehouse, tmp_path):
    (tmp_path / "in").mkdir()
    for name, of in {"a": [3, 1], "b": [2, 0]}.items():
        times = pa.array([T0 * 1_000_000 + n for n in of], pa.timestamp("ns"))
        pq.write_table(pa.table({"t": times, "v": list(map(str, of))}), tmp_path / f"in/{name}.parquet")

    land(warehouse, tmp_path / "in", value="v", order_by=["t"])

    assert values(warehouse) == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("files", "mapping"),
    [
        ({"a.csv": "t,v\n9.5,b\n10.5,d\n10,c\n9,a\n"}, {"timestamp_unit": "s"}),
        ({"a.csv": "t,v\n9.5,b\n10.5,d\n10,c\n9,a\n"}, {"types": "t double"}),
        ({"a.csv": "t;v\n9,5;b\n10,5;d\n10;c\n9;a\n"}, {"decimal_comma": True}),
        ({"a.csv": "n;v;t\n9,5;b;1\n10,5;d;1\n10;c;1\n9;a;1\n"}, {"decimal_comma": True, "order_by": ["n"]}),
        ({"a.jsonl": '{"t":"2026-01-01T00:00:00.500Z","v":"c"}\n{"t":"2026-01-01T00:00:01Z","v":"d"}\n'
                     '{"t":"2026-01-01T02:00:00+02:00","v":"a"}\n{"t":"2026-01-01T00:00:00.000000001Z","v":"b"}\n'},
         {"timestamp_unit": "iso"}),
        ({"a.csv": "at,v,t\n2026-06-01T02:00:00,b,1\n2026-06-01T00:00:00.5Z,c,1\n2026-06-02,d,1\n1,a,1\n"},
         {"order_by": ["at"], "zone": "Europe/Berlin"}),
    ],
)  # fmt: skip
def test_numbers_and_times_of_text_are_ordered_by_their_value(warehouse, tmp_path, files, mapping):
    directory = write(tmp_path / "in", files)
    delimiter = ";" if mapping.get("decimal_comma") else ","

    land(warehouse, directory, **{"value": "v", "order_by": ["t"], "delimiter": delimiter, **mapping})

    assert values(warehouse) == [b"a", b"b", b"c", b"d"]


def test_a_record_time_is_ordered_by_its_instant_whatever_its_files_write(warehouse, tmp_path):
    (tmp_path / "in").mkdir()
    columns = {
        "1": pa.array([T0 + 4]).cast(pa.timestamp("ms")),
        "2": pa.array([T0 + 2]),
        "3": pa.array([T0 + 3.5]),
        "4": pa.array([str(T0 + 1)]),
        "5": pa.array([(T0 + 2) * 1_000_000 + 1]).cast(pa.timestamp("ns", "UTC")),
    }
    for name, column in columns.items():
        pq.write_table(pa.table({"t": column, "v": [name]}), tmp_path / f"in/{name}.parquet")

    land(warehouse, tmp_path / "in", value="v", order_by=["t"])

    assert values(warehouse) == [b"4", b"2", b"5", b"3", b"1"]


def test_a_time_without_a_zone_is_ordered_by_its_instant_in_the_declared_zone(warehouse, tmp_path):
    """In Berlin, 10:00 is 09:00Z."""
    (tmp_path / "in").mkdir()
    local, utc = pa.array([T0 + 3_600_000]).cast(pa.timestamp("ms")), pa.array([T0 + 1]).cast(pa.timestamp("ms", "UTC"))
    pq.write_table(pa.table({"t": utc, "v": ["b"]}), tmp_path / "in/1.parquet")
    pq.write_table(pa.table({"t": local, "v": ["a"]}), tmp_path / "in/2.parquet")

    land(warehouse, tmp_path / "in", value="v", order_by=["t"], zone="Europe/Berlin")

    assert values(warehouse) == [b"a", b"b"]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_a_day_is_ordered_by_its_begin_in_the_declared_zone(warehouse, tmp_path, kind):
    """In Berlin, the first of January begins at 23:00Z of the day before."""
    (tmp_path / "in").mkdir()
    began = 1_767_222_000_000
    utc, day = pa.array([began + 1, began - 1]).cast(pa.timestamp("ms", "UTC")), pa.array(["2026-01-01"])
    pq.write_table(pa.table({"t": utc, "v": ["c", "a"]}), tmp_path / "in/1.parquet")
    pq.write_table(pa.table({"t": day.cast(pa.date32()).cast(kind), "v": ["b"]}), tmp_path / "in/2.parquet")

    land(warehouse, tmp_path / "in", value="v", order_by=["t"], zone="Europe/Berlin")

    assert values(warehouse) == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("cell", "mapping", "reason"),
    [
        ("1.234,5", {"decimal_comma": True}, "a number with a decimal comma, got '1.234,5' in column n"),
        ("2026-01-01T25:00:00Z", {}, "a value to order by, and no null, got '2026-01-01T25:00:00Z' in column n"),
    ],
)
def test_a_cell_that_may_be_a_number_or_a_time_and_is_none_is_a_bad_row(warehouse, tmp_path, cell, mapping, reason):
    directory = write(tmp_path / "in", {"a.csv": f"t;n\n1;{cell}\n2;5\n"})

    land(warehouse, directory, order_by=["n"], delimiter=";", rules={"max_bad_share": 1}, **mapping)

    assert landed_dead_letters(warehouse, "t")["reason"].to_pylist() == [f"expected {reason}"]


def test_a_later_landing_with_earlier_times_is_named_and_refused_where_that_was_asked(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"b.json": lines((7_200_000, "c"), (7_100_000, "b"))})
    assert land(warehouse, directory, value="v", order_by=["t"]).warnings == ()
    write(directory, {"a.json": lines((7_300_000, "d"), (0, "a"))})

    with pytest.raises(
        LandingError, match=r"go back by 2 h from b.json \(landed before\) to a.json; land all files in"
    ):
        land(warehouse, directory, value="v", order_by=["t"], rules={"on_disorder": "stop"})
    rules = {"on_disorder": "stop", "max_late_share": 0.4}
    with pytest.raises(LandingError, match=r"which makes 1 of 2 records late"):
        land(warehouse, directory, value="v", order_by=["t"], rules=rules)
    assert len(values(warehouse)) == 2
    [warning] = land(warehouse, directory, value="v", order_by=["t"]).warnings

    assert warning.startswith("t: times go back by 2 h from b.json (landed before) to a.json (partition 0)")
    assert "--order-by orders each landing by itself" in warning
    write(directory, {"c.json": lines((7_300_000, "e"))})
    assert land(warehouse, directory, value="v", order_by=["t"], rules={"on_disorder": "stop"}).warnings == ()


def test_keys_have_the_order_of_their_values():
    """Each list rises; keys of all pairs do, too."""
    whole = [-(10**30), -(2**63), -2, -1, 0, 1, 9, 10, 2**63, 10**30]
    mixed = [
        Decimal("-1.5"),
        Decimal("-1.25"),
        -1,
        -0.5,
        0,
        Decimal("1e-5"),
        0.1,
        0.5,
        1,
        Decimal("1.10"),
        1.5,
        "2",
        2.5,
    ]
    texts = ["-3", "1.5", 7, "10", "", "a", "a\x00", "a\x00b", "ab", "b", "é"]
    numbers = ["-1e99999999", "-1e20", -12, "-1.25", "-.5", "-1e-99999999", 0, "1e-99999999", "+0.05", "5e-1", " 9.5 "]
    numbers += [10, "1e1000", JsonNumber("1e99999999"), "1.1e99999999"]
    times = ["0001-01-01", "1969-12-31T23:59:59.9Z", "1970-01-01", "1970-01-01T00:00:00.0000000001Z", 1]
    times += ["2026-01-01T00:00:00Z", "2026-01-01 02:00:00.000000001+02:00", "2026-01-01T00:00:00.5"]
    data = [b"", b"\x00", b"\x00\x00", b"\x00\x01", b"\x01"]
    for rising in (whole, mixed, texts, data, numbers, times):
        keys = order_keys([rising]).to_pylist()
        assert keys == sorted(keys)
        assert len(set(keys)) == len(keys)
    pairs = list(itertools.product(["a", "a\x00", "ab", "b"], [1, 2, "x"]))
    keys = order_keys([[first for first, _ in pairs], [second for _, second in pairs]]).to_pylist()
    assert keys == sorted(keys)
    days = pa.array([dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)])
    keys = order_keys([days]).to_pylist()
    assert keys == sorted(keys)
    assert (
        order_keys([["1", 1, 1.0, Decimal("1.00"), "+10.0e-1"]]).unique().to_pylist() == order_keys([[1]]).to_pylist()
    )


@pytest.mark.parametrize("mapping", [{"order_by": []}, {"order_by": ["t"], "offset": "o"}])
def test_an_order_beside_offsets_is_refused(mapping):
    with pytest.raises(ConfigError, match="FileSource order_by"):
        FileSource("in", timestamp="t", **mapping)
