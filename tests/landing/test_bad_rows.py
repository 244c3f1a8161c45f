"""A row that does not fit is kept with file, line, bytes and reason, or stops the landing; too many always stop it."""

import gzip
import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.files import csv_files, streams, text_lines
from kstreams_replay.jobs.landing.landing import FileSource, LandingRules, land_files, preview_landing
from kstreams_replay.state.errors import ConfigError, LandingError
from kstreams_replay.state.tables.ledger import LandingLedger
from tests.landing.file_folders import NOON, dies, land, write
from tests.landing.landed_rows import landed

HALF: dict[str, Any] = {"max_bad_share": 0.5}


def letters(warehouse, topic: str = "t") -> list[tuple[Any, ...]]:
    """(increment, file, line, bytes, reason)."""
    rows = landed_dead_letters(warehouse, topic).to_pylist()
    return [tuple(row[name] for name in ("increment", "file", "line", "bytes", "reason")) for row in rows]


def lines(bad: int, of: int, bad_line: str = '{"t":"soon"}') -> str:
    return "".join([f"{bad_line}\n"] * bad + [f'{{"t":{n}}}\n' for n in range(of - bad)])


# What is kept


@pytest.mark.parametrize(
    ("name", "content", "want"),
    [
        (
            "a.jsonl",
            b'{"t":1,"k":"x"}\n\n{"t":"soon"}\r\n{"t":3}\n{"t":4\n[5]\n{"t":6,"k":"y"}',
            [
                (3, b'{"t":"soon"}', "expected a timestamp (ms), got 'soon' in column t"),
                (
                    5,
                    b'{"t":4',
                    "expected a JSON object, got b'{\"t\":4' (Expecting ',' delimiter: line 1 column 7 (char 6))",
                ),
                (6, b"[5]", "expected a JSON object, got b'[5]'"),
            ],
        ),
        (
            "a.csv",
            b't,k\n1,"x\n\ny"\n\n2,y,z\n3,\xff\n4,"x"y\n5\nsoon,"a\nb"\n6,z\n',
            [
                (6, b"2,y,z", "expected 2 fields, got 3 fields"),
                (7, b"3,\xff", "expected a CSV row in UTF-8, got bytes that are not UTF-8"),
                (8, b'4,"x"y', "expected a CSV row in UTF-8, got ',' expected after '\"'"),
                (9, b"5", "expected 2 fields, got 1 fields"),
                (10, b'soon,"a\nb"', "expected a timestamp (ms), got 'soon' in column t"),
            ],
        ),
        (
            "a.csv.gz",
            gzip.compress(b"t,k\n1,x\nsoon,y\n", mtime=0),
            [(3, b"soon,y", "expected a timestamp (ms), got 'soon' in column t")],
        ),
    ],
)
def test_rows_that_do_not_fit_are_kept_as_they_stand_and_the_others_land(warehouse, tmp_path, name, content, want):
    report = land(warehouse, write(tmp_path / "in", {name: content}), key="k", rules={"max_bad_share": 1})

    good = {"a.jsonl": [1, 3, 6], "a.csv": [1, 6], "a.csv.gz": [1]}[name]
    assert letters(warehouse) == [(1, name, *each) for each in want]
    assert landed(warehouse, "t", "offset", "timestamp") == list(enumerate(good))
    assert (report.records, report.dead_letters) == (len(good), len(want))


def test_a_parquet_row_is_kept_as_json_of_all_its_columns(warehouse, tmp_path):
    (tmp_path / "in").mkdir()
    table = pa.table({"t": [1, None, 3, None], "v": [b"a", b"b", b"\xff", None], "w": [1.0, 2.0, 3.0, float("nan")]})
    pq.write_table(table, tmp_path / "in" / "a.parquet", row_group_size=3)

    land(warehouse, tmp_path / "in", value="v", rules=HALF)

    reason = "expected a timestamp (ms), got None in column t"
    assert letters(warehouse) == [
        (1, "a.parquet", 2, b'{"t":null,"v":"Yg==","w":2.0}', reason),
        (1, "a.parquet", 4, b'{"t":null,"v":null,"w":null}', reason),
    ]


GOOD: dict[str, Any] = {"t": 2, "k": "1", "p": 0, "o": 1, "h": None, "kind": 0, "a": {"b": "1"}}


@pytest.mark.parametrize(
    ("bad", "mapping", "reason"),
    [
        ({"t": None}, {}, "expected a timestamp (ms), got None in column t"),
        ({"k": "x"}, {"key": "k", "key_type": "long"}, "expected a long, got 'x' in column k"),
        ({"p": 2}, {"partition": "p", "partitions": 2}, "expected a partition in [0, 2), got 2 in column p"),
        ({"o": -1}, {"partition": "p", "offset": "o"}, "expected an offset of 0 or more, got -1 in column o"),
        ({"o": None}, {"order_by": ["t", "o"]}, "expected a value to order by, and no null, got None in column o"),
        (
            {"h": "x"},
            {"headers": "h"},
            "expected headers: a list of {key, value}, a map, or names and values in turn, got 'x' in column h",
        ),
        (
            {"kind": 7},
            {"timestamp_type": "kind"},
            "expected a timestamp type (NoTimestampType, CreateTime, LogAppendTime), got 7 in column kind",
        ),
        ({"a": {"b": "x"}}, {"value": "a.b", "value_type": "double"}, "expected a double, got 'x' in column a.b"),
    ],
)
def test_a_reason_names_the_column(warehouse, tmp_path, bad, mapping, reason):
    rows = json.dumps({**GOOD, "t": 1, **bad}) + "\n" + json.dumps(GOOD) + "\n"

    report = land(warehouse, write(tmp_path / "in", {"a.jsonl": rows}), rules={"max_bad_share": 1}, **mapping)

    assert [(line, found) for _, _, line, _, found in letters(warehouse)] == [(1, reason)]
    assert report.records == 1


def test_a_reason_of_a_csv_cell_names_the_column_of_the_object(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.csv": "t,n,m\n1,2,x\n2,3,4\n"})

    land(warehouse, directory, types="n long, m long", rules={"max_bad_share": 1})

    assert [row[4] for row in letters(warehouse)] == ["expected a long, got 'x' in column m"]


def test_bad_rows_of_slices_have_the_lines_of_their_file(warehouse, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "SLICE_BYTES", 100)
    monkeypatch.setattr(text_lines, "BLOCK_ROWS", 3)
    rows = [json.dumps({"t": "bad" if n % 10 == 7 else n}) for n in range(60)]

    report = land(warehouse, write(tmp_path / "in", {"a.jsonl": "\n".join(rows)}), rules=HALF)

    assert [line for _, _, line, _, _ in letters(warehouse)] == [8, 18, 28, 38, 48, 58]
    assert (report.records, report.dead_letters) == (54, 6)
    assert [offset for (offset,) in landed(warehouse, "t", "offset")] == list(range(54))


def test_rows_before_the_first_that_cannot_be_read_are_read_once(warehouse, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_ROWS", 10)
    rows = "".join("\udcff,\n" if n in (1_055, 2_900) else f"{n},é\n" for n in range(3_000))

    land(warehouse, write(tmp_path / "in", {"a.csv": f"t,v\n{rows}".encode(errors="surrogateescape")}))

    assert [time for (time,) in landed(warehouse, "t", "timestamp")] == [
        n for n in range(3_000) if n not in (1_055, 2_900)
    ]
    assert [line for _, _, line, _, _ in letters(warehouse)] == [1_057, 2_902]


@pytest.mark.jvm
def test_spark_keeps_the_same_rows(spark, warehouse, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "SLICE_BYTES", 2_000)
    files = {f"{name}.csv": f"t\nbad {name}\n" + "\n".join(f"{n}" for n in range(300)) for name in "abcd"}
    source = FileSource(str(write(tmp_path / "in", files)), timestamp="t", pattern="*.csv")
    rules = LandingRules(allow_same_content=True)

    by_spark = land_files(spark, warehouse, "by_spark", source, rules=rules)
    land_files(None, warehouse, "here", source, rules=rules)

    assert letters(warehouse, "by_spark") == letters(warehouse, "here")
    assert [row[1:4] for row in letters(warehouse, "here")] == [(f"{n}.csv", 2, f"bad {n}".encode()) for n in "abcd"]
    assert (by_spark.records, by_spark.dead_letters) == (1_200, 4)


# How many are too many


@pytest.mark.parametrize(("bad", "of", "stops"), [(1, 100, False), (2, 100, True), (2, 99, True), (3, 300, False)])
def test_more_than_one_per_cent_of_a_files_rows_stop_the_landing(warehouse, tmp_path, bad, of, stops):
    directory = write(tmp_path / "in", {"a.jsonl": lines(bad, of)})
    if not stops:
        assert land(warehouse, directory).dead_letters == bad
        return

    with pytest.raises(LandingError) as raised:
        land(warehouse, directory)

    assert str(raised.value) == (
        f"{directory}/a.jsonl, line 1: expected a timestamp (ms), got 'soon' in column t; {bad} of {of} rows of the "
        f"file do not fit ({bad / of:.1%}), more than 1.0%: correct the file, or the mapping, and land again, or allow "
        "more (--max-bad-share)"
    )
    assert (warehouse.topics(), letters(warehouse)) == ([], [])
    assert LandingLedger(warehouse.landing_ledger("t")).rows() == []


def test_the_share_is_that_of_the_file_and_not_of_the_landing(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": lines(0, 1_000), "b.jsonl": lines(2, 50)})

    with pytest.raises(LandingError, match=r"b\.jsonl, line 1: .* 2 of 50 rows of the file do not fit"):
        land(warehouse, directory)


def test_one_bad_row_stops_a_landing_that_is_to_stop(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": lines(1, 1_000)})

    with pytest.raises(
        LandingError, match=r"line 1: expected a timestamp \(ms\), got 'soon' in column t; correct the file"
    ):
        land(warehouse, directory, rules={"on_bad_row": "stop"})

    assert warehouse.topics() == []


@pytest.mark.parametrize("on_bad_row", ["stop", "dead_letter"])
def test_a_quote_that_is_never_closed_always_stops(warehouse, tmp_path, on_bad_row):
    """
    Else the rest of the file would be one bad row.
    """
    directory = write(tmp_path / "in", {"a.csv": "t,v\n" + "1,x\n" * 500 + '1,"x\n' + "1,x\n" * 500})

    with pytest.raises(
        LandingError, match=r"a\.csv, line 502: expected a CSV row in UTF-8, got unexpected end of data"
    ):
        land(warehouse, directory, rules={"on_bad_row": on_bad_row})


def test_a_header_line_that_is_none_always_stops(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.csv": b"t,\xff\n" + b"1,x\n" * 500})

    with pytest.raises(LandingError, match=r"a\.csv, line 1: expected a CSV row in UTF-8"):
        land(warehouse, directory)


@pytest.mark.parametrize(
    ("setting", "want"),
    [
        ({"on_bad_row": "skip"}, 'LandingRules on_bad_row: expected "stop" or "dead_letter", got \'skip\''),
        ({"max_bad_share": 2}, "LandingRules max_bad_share: expected a share from 0 to 1, got 2"),
        ({"max_future": "soon"}, "max_future: expected"),
        ({"plausible_since": "soon"}, "plausible_since: expected a time"),
    ],
)
def test_settings_that_cannot_be_are_refused(setting, want):
    with pytest.raises(ConfigError, match=want):
        LandingRules(**setting)


# Once, whatever happens


@pytest.mark.parametrize("dies_in", ["before_the_commit", "between_commit_and_ledger"])
def test_a_killed_landing_keeps_each_bad_row_once(warehouse, tmp_path, monkeypatch, dies_in):
    directory = write(tmp_path / "in", {"a.jsonl": lines(1, 4)})
    with dies(monkeypatch, in_=dies_in):
        land(warehouse, directory, rules=HALF)
    assert letters(warehouse) == []  # not done yet

    report = land(warehouse, directory, rules={"on_bad_row": "stop"})  # by the rules of its plan

    assert [row[2] for row in letters(warehouse)] == [1]
    assert landed(warehouse, "t", "offset", "timestamp") == [(0, 0), (1, 1), (2, 2)]
    assert (report.records, report.dead_letters) == (3, 1)


def test_the_report_and_the_ledger_tell_how_many(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": lines(1, 4, "{}")})

    report = land(warehouse, directory, rules={**HALF, "plausible_since": "1970-01-01"})
    write(directory, {"b.jsonl": '{"t":9}\n' * 5})
    quiet = land(warehouse, directory, rules={"plausible_since": "1970-01-01"})

    kept = (
        f"t: 1 of 4 rows (25.0%) became no record; see `replay show landed_dead_letter/t --warehouse {warehouse.root}`"
    )
    assert (report.warnings, quiet.warnings) == ((kept,), ())
    done = LandingLedger(warehouse.landing_ledger("t")).done_rows()
    assert [(row.content.records, row.content.dead_letters) for row in done] == [(3, 1), (5, 0)]


# Times


def test_records_later_than_the_clock_and_more_become_dead_letters_when_that_is_asked_for(warehouse, tmp_path):
    hour, day = 3_600_000, 86_400_000
    times = [NOON, NOON + day, NOON + day + 1, NOON - hour]
    directory = write(tmp_path / "in", {"a.jsonl": "".join(f'{{"t":{time}}}\n' for time in times)})

    report = land(warehouse, directory, rules={**HALF, "max_future": "1d"})

    assert [time for (time,) in landed(warehouse, "t", "timestamp")] == [NOON, NOON + day, NOON - hour]
    reason = "expected a time up to 2026-01-02T12:00:00.000Z, got 2026-01-02T12:00:00.001Z in column t"
    assert letters(warehouse) == [(1, "a.jsonl", 3, f'{{"t":{NOON + day + 1}}}'.encode(), reason)]
    assert report.dead_letters == 1


def test_a_plan_is_finished_by_the_clock_that_it_was_made_by(warehouse, tmp_path, monkeypatch):
    directory = write(tmp_path / "in", {"a.jsonl": f'{{"t":{NOON}}}\n{{"t":{NOON + 2}}}\n'})
    source, rules = FileSource(str(directory), timestamp="t"), LandingRules(max_future="1ms", max_bad_share=0.5)
    with dies(monkeypatch, in_="before_the_commit"):
        land_files(None, warehouse, "t", source, rules=rules, clock_ms=lambda: NOON)

    land_files(None, warehouse, "t", source, rules=rules, clock_ms=lambda: NOON + 1_000)

    assert landed(warehouse, "t", "timestamp") == [(NOON,)]


@pytest.mark.parametrize(
    ("unit", "time", "told"),
    [
        ("ms", NOON // 1000, "1970-01-21T10:54:28.800Z"),  # seconds taken for milliseconds
        ("ms", NOON * 1000, "57972-07-09T00:00:00.000Z"),  # microseconds
        ("ms", NOON + 2 * 86_400_000, "2026-01-03T12:00:00.000Z"),
        ("s", NOON // 1000, None),
        ("ms", NOON + 3_600_000, None),
    ],
)
def test_times_that_can_hardly_be_meant_are_told_and_land(warehouse, tmp_path, unit, time, told):
    other = NOON if unit == "ms" else NOON // 1000
    directory = write(
        tmp_path / "in", {"a.jsonl": f'{{"t":{other}}}\n{{"t":{time}}}\n{{"t":{time}}}\n{{"t":{other}}}\n'}
    )

    source = FileSource(str(directory), timestamp="t", timestamp_unit=unit)
    preview = preview_landing(None, warehouse, "t", source, clock_ms=lambda: NOON)
    report = land(warehouse, directory, timestamp_unit=unit)

    assert preview is not None
    span = " to ".join(sorted(("2026-01-01T12:00:00.000Z", told or ""), key=lambda text: (len(text), text)))
    odd = f"t: times reach from {span}, which can hardly be meant; is the unit of the times right (--timestamp-unit)?"
    assert preview.warnings == (() if told is None else (odd,))
    want = (
        f"t: 2 of 4 records (50.0%) have times that can hardly be meant, the first at offset 1 of partition 0: {told}"
    )
    assert report.warnings == (() if told is None else (f"{want}; is the unit of the times right (--timestamp-unit)?",))
    assert report.records == 4


def test_what_is_plausible_is_a_setting(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": '{"t":-1000}\n'})

    assert len(land(warehouse, directory).warnings) == 1
    assert land(warehouse, directory, topic="u", rules={"plausible_since": "1969-01-01"}).warnings == ()


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ('[{"t":1},{"t":2}]', "an array; jq -c '.[]' makes a line of each of its objects"),
        ('[\n{"t":1},\n{"t":2}\n]\n', "an array; jq -c '.[]' makes a line of each of its objects"),
        ('{\n  "t": 1\n}\n', "an object of several lines; jq -c . makes one line of each"),
        ('{"t":1}\n'.encode("utf-16"), "text of UTF-16; iconv -t UTF-8 writes it in the encoding of JSON lines"),
        ('{"t":1}\n'.encode("utf-16-be"), "text of UTF-16-BE; iconv -t UTF-8 writes it in the encoding of JSON lines"),
    ],
)
def test_a_file_of_json_that_has_no_lines_is_refused_with_what_makes_them(warehouse, tmp_path, text, remedy):
    directory = write(tmp_path / "in", {"a.json": text})

    with pytest.raises(LandingError, match=re.escape(remedy)) as raised:
        land(warehouse, directory)

    assert raised.value.place.endswith("a.json, line 1")


# One of a few


@pytest.mark.parametrize(("bad", "of", "most", "lands"), [
    (1, 40, 0.01, True), (1, 2, 0.01, True), (2, 40, 0.01, False), (1, 1, 0.01, False), (1, 40, 0.0, False),
])  # fmt: skip
def test_one_bad_row_beside_good_ones_is_allowed_in_a_short_file(warehouse, tmp_path, bad, of, most, lands):
    write(tmp_path / "in", {"a.jsonl": lines(bad, of)})
    if lands:
        land(warehouse, tmp_path / "in", rules={"max_bad_share": most})
        assert len(letters(warehouse)) == bad
    else:
        with pytest.raises(LandingError, match=f"{bad} of {of} rows of the file do not fit"):
            land(warehouse, tmp_path / "in", rules={"max_bad_share": most})


@pytest.mark.parametrize(("bad", "of", "want"), [
    (101, 10_000, r"\(1\.01%\), more than 1\.00%"), (2, 40, r"\(5\.0%\), more than 1\.0%"),
])  # fmt: skip
def test_a_share_just_above_the_limit_is_said_with_the_digits_that_differ(warehouse, tmp_path, bad, of, want):
    write(tmp_path / "in", {"a.jsonl": lines(bad, of)})

    with pytest.raises(LandingError, match=want):
        land(warehouse, tmp_path / "in")
