"""Files that say Kafka's partitions, offsets and headers: records land at them, sorted, each offset once."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.jobs.branches.erasure import erase
from kstreams_replay.jobs.landing import file_writing
from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.files import streams, text_lines
from kstreams_replay.jobs.landing.landing import FileSource, land_files
from kstreams_replay.state.errors import LandingError
from kstreams_replay.state.tables.ledger import LandingLedger
from kstreams_replay.state.tables.sought import Sought
from tests.landing.file_folders import NOON, dies, land, write
from tests.landing.landed_rows import landed

T0 = 1_767_258_000_000
"""2026-01-01T09:00:00Z."""
PLACE = ("partition", "offset", "value")
OFFSETS = {"partition": "p", "offset": "o", "partitions": 2, "value": "v"}
SPARKS_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

Row = tuple[int, int, str]
"""(partition, offset, value)."""


def lines(*rows: Row, **more: Any) -> str:
    return "".join(json.dumps({"t": T0 + o, "p": p, "o": o, "v": v, **more}) + "\n" for p, o, v in rows)


def spark_file(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """As Spark's Kafka source writes a batch as Parquet."""
    schema = pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("timestampType", pa.int32()),
            ("headers", SPARKS_HEADERS),
        ]
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema), path)


def spark_row(partition: int, offset: int, **more: Any) -> dict[str, Any]:
    fields = {"key": b"k", "value": f"{partition}:{offset}".encode(), "topic": "t", "timestampType": 0}
    return {**fields, "partition": partition, "offset": offset, "timestamp": (T0 + offset) * 1000, **more}


SPARKS_COLUMNS = {
    "timestamp": "timestamp",
    "key": "key",
    "value": "value",
    "partition": "partition",
    "offset": "offset",
    "headers": "headers",
    "timestamp_type": "timestampType",
    "partitions": 2,
}


def test_batches_of_sparks_kafka_source_land_in_the_order_of_offsets_whatever_their_names(warehouse, tmp_path):
    headers = [{"key": "trace", "value": b"\x00\xff"}, {"key": "trace", "value": None}]
    logged = spark_row(0, 2, headers=headers, timestampType=1)
    spark_file(tmp_path / "in/part-00000-f1.parquet", [spark_row(1, 7), logged, spark_row(0, 3)])
    spark_file(tmp_path / "in/part-00000-a9.parquet", [spark_row(0, 4), spark_row(1, 9, key=None, value=None)])
    spark_file(tmp_path / "in/part-00000-c3.parquet", [spark_row(0, 1), spark_row(1, 6)])

    report = land(warehouse, tmp_path / "in", **SPARKS_COLUMNS)

    assert landed(warehouse, "t", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers") == [
        (0, 1, T0 + 1, "CreateTime", b"k", b"0:1", []),
        (0, 2, T0 + 2, "LogAppendTime", b"k", b"0:2", headers),
        (0, 3, T0 + 3, "CreateTime", b"k", b"0:3", []),
        (0, 4, T0 + 4, "CreateTime", b"k", b"0:4", []),
        (1, 6, T0 + 6, "CreateTime", b"k", b"1:6", []),
        (1, 7, T0 + 7, "CreateTime", b"k", b"1:7", []),
        (1, 9, T0 + 9, "CreateTime", None, None, []),
    ]
    assert (report.cut_from, report.cut_to, report.gaps, report.warnings) == ({0: 1, 1: 6}, {0: 5, 1: 10}, {}, ())


def test_the_same_rows_land_the_same_from_parquet_json_and_csv(warehouse, tmp_path):
    rows = [(1, 5, "x", 1), (0, 3, "y", 0), (0, 2, "z", 0)]
    header = {"h": [{"key": "a", "value": "é"}, {"key": "b", "value": None}]}
    text = json.dumps(header["h"], ensure_ascii=False)
    pq_rows = [
        {"t": T0, "p": p, "o": o, "v": v, "k": k, "h": [("a", "é".encode()), ("b", None)]} for p, o, v, k in rows
    ]
    schema = pa.schema(
        [("t", pa.int64()), ("p", pa.int8()), ("o", pa.uint64()), ("v", pa.string()), ("k", pa.int32()),
         ("h", pa.map_(pa.string(), pa.binary()))]
    )  # fmt: skip
    (tmp_path / "parquet").mkdir()
    pq.write_table(pa.Table.from_pylist(pq_rows, schema), tmp_path / "parquet/a.parquet")
    write(
        tmp_path,
        {
            "json/a.json": "".join(
                json.dumps({"t": T0, "p": p, "o": o, "v": v, "k": k, **header}) + "\n" for p, o, v, k in rows
            ),
            "object/a.json": "".join(
                json.dumps({"t": T0, "p": str(p), "o": str(o), "v": v, "k": k, "h": {"a": "é", "b": None}}) + "\n"
                for p, o, v, k in rows
            ),
            "kcat/a.json": "".join(
                json.dumps(
                    {"t": T0, "p": p, "o": o, "v": v, "k": ["create", "logappend"][k], "h": ["a", "é", "b", None]}
                )
                + "\n"
                for p, o, v, k in rows
            ),
            "csv/a.csv": "t,p,o,v,k,h\n"
            + "".join(f'{T0},{p},{o},{v},{k},"{text.replace(chr(34), chr(34) * 2)}"\n' for p, o, v, k in rows),
        },
    )

    for folder in ("parquet", "json", "object", "kcat", "csv"):
        land(warehouse, tmp_path / folder, topic=folder, headers="h", timestamp_type="k", **OFFSETS)

        headers = [{"key": "a", "value": "é".encode()}, {"key": "b", "value": None}]
        assert landed(warehouse, folder, "partition", "offset", "timestamp_type", "value", "headers") == [
            (0, 2, "CreateTime", b"z", headers),
            (0, 3, "CreateTime", b"y", headers),
            (1, 5, "LogAppendTime", b"x", headers),
        ], folder


@pytest.mark.parametrize("headers", ["[1]", '"h"', '["a"]', '[{"key": "a"}]', '[{"key": 1, "value": "x"}]'])
def test_headers_that_are_none_are_a_bad_row(warehouse, tmp_path, headers):
    text = f'{{"t":1,"p":0,"o":0,"v":"x","h":{headers}}}\n' + lines((0, 1, "y"))
    directory = write(tmp_path / "in", {"a.json": text})

    land(warehouse, directory, rules={"max_bad_share": 1}, headers="h", **OFFSETS)

    assert landed(warehouse, "t", *PLACE) == [(0, 1, b"y")]
    [reason] = landed_dead_letters(warehouse, "t")["reason"].to_pylist()
    assert reason.startswith("expected headers: a list of {key, value}, a map, or names and values in turn, got ")


@pytest.mark.parametrize("form", ["object", "text", "csv"])
def test_headers_of_json_keep_their_digits_and_every_header_of_a_name(warehouse, tmp_path, form):
    headers = '{"p":1.10,"q":1e400,"trace":"a","n":12345678901234567890123,"trace":"b"}'
    cell = json.dumps(headers)
    files = {
        "object": {"a.jsonl": f'{{"t":1,"p":0,"o":0,"v":"x","h":{headers}}}\n'},
        "text": {"a.jsonl": f'{{"t":1,"p":0,"o":0,"v":"x","h":{cell}}}\n'},
        "csv": {"a.csv": 't,p,o,v,h\n1,0,0,x,"' + headers.replace('"', '""') + '"\n'},
    }

    land(warehouse, write(tmp_path / "in", files[form]), headers="h", **OFFSETS)

    [(kept,)] = landed(warehouse, "t", "headers")
    assert [(each["key"], each["value"]) for each in kept] == [
        ("p", b"1.10"),
        ("q", b"1e400"),
        ("trace", b"a"),
        ("n", b"12345678901234567890123"),
        ("trace", b"b"),
    ]


def test_a_header_of_spark_without_a_name_and_an_unknown_timestamp_type_are_bad_rows(warehouse, tmp_path):
    nameless = spark_row(0, 1, headers=[{"key": None, "value": b"x"}])
    spark_file(tmp_path / "in/a.parquet", [nameless, spark_row(0, 2, timestampType=7), spark_row(0, 3)])

    land(warehouse, tmp_path / "in", rules={"max_bad_share": 1}, **SPARKS_COLUMNS)

    assert landed(warehouse, "t", "offset", "timestamp_type") == [(3, "CreateTime")]
    words = "expected a timestamp type (NoTimestampType, CreateTime, LogAppendTime), got 7 in column timestampType"
    reasons = landed_dead_letters(warehouse, "t")["reason"].to_pylist()
    assert (reasons[0].startswith("expected headers: "), reasons[1]) == (True, words)


def test_a_timestamp_type_that_is_null_is_create_time(warehouse, tmp_path):
    spark_file(
        tmp_path / "numbers/a.parquet", [spark_row(0, n, timestampType=kind) for n, kind in enumerate([None, 1])]
    )
    text = "".join(
        f'{{"t":1,"p":0,"o":{n},"v":"x","k":{kind}}}\n' for n, kind in enumerate(["null", '"LogAppendTime"'])
    )

    land(warehouse, tmp_path / "numbers", topic="numbers", **SPARKS_COLUMNS)
    land(warehouse, write(tmp_path / "words", {"a.json": text}), topic="words", timestamp_type="k", **OFFSETS)

    for topic in ("numbers", "words"):
        assert landed(warehouse, topic, "offset", "timestamp_type") == [(0, "CreateTime"), (1, "LogAppendTime")]


@pytest.mark.parametrize("offset", ["-1", "1.5", '"x"', "null", "true", "9223372036854775807"])
def test_an_offset_that_is_none_is_a_bad_row(warehouse, tmp_path, offset):
    directory = write(tmp_path / "in", {"a.json": f'{{"t":1,"p":0,"o":{offset},"v":"x"}}\n' + lines((0, 1, "y"))})

    report = land(warehouse, directory, rules={"max_bad_share": 1}, **OFFSETS)

    assert (report.records, report.dead_letters) == (1, 1)


# Offsets that come again


def test_dumps_that_overlap_land_every_offset_once_and_say_so(warehouse, tmp_path):
    first, second = lines((0, 4, "d"), (0, 1, "a"), (0, 2, "b")), lines((0, 2, "b"), (0, 3, "c"), (0, 4, "d"))
    directory = write(tmp_path / "in", {"one.json": first, "two.json": second, "again.json": second})

    report = land(warehouse, directory, **OFFSETS)

    assert landed(warehouse, "t", *PLACE) == [(0, 1, b"a"), (0, 2, b"b"), (0, 3, b"c"), (0, 4, b"d")]
    assert report.records == 4
    assert "t: 5 rows have the offset and the bytes of another one, and each of these lands once" in report.warnings
    [plan] = [row for row in LandingLedger(warehouse.landing_ledger("t")).rows() if row.phase == "planned"]
    assert plan.content.repeated == {"twice": 5, "landed": 0}


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        ({"v": "B"}, "value"), ({"v": None}, "value"), ({"t": 1}, "time"), ({"k": "K"}, "key"),
        ({"h": {"x": "y"}}, "headers"),
    ],
)  # fmt: skip
def test_an_offset_with_other_bytes_is_refused_with_both_files(warehouse, tmp_path, other, differs):
    row = {"t": T0, "p": 0, "o": 2, "v": "b", "k": None, "h": None}
    files = {"one.json": json.dumps(row) + "\n" + lines((0, 3, "c")), "two.json": json.dumps({**row, **other}) + "\n"}
    directory = write(tmp_path / "in", files)

    with pytest.raises(LandingError) as error:
        land(warehouse, directory, key="k", headers="h", **OFFSETS)

    assert error.value.place.endswith("/two.json")
    assert error.value.expected == "offset 2 of partition 0 once, or again with the same bytes"
    assert error.value.got == f"another {differs} than in one.json"
    assert warehouse.topics() == []


def test_a_later_landing_takes_what_is_new_of_a_dump_that_overlaps_and_books_the_gap(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"one.json": lines((0, 0, "a"), (0, 2, "b"))})
    land(warehouse, directory, **OFFSETS)
    write(directory, {"two.json": lines((0, 7, "e"), (0, 2, "b"), (0, 5, "d"), (1, 3, "x"))})

    report = land(warehouse, directory, **OFFSETS)

    assert landed(warehouse, "t", *PLACE) == [(0, 0, b"a"), (0, 2, b"b"), (0, 5, b"d"), (0, 7, b"e"), (1, 3, b"x")]
    assert (report.records, report.gaps, report.cut_to) == (3, {0: (3, 5), 1: (0, 3)}, {0: 8, 1: 4})
    assert report.warnings[0] == "t: 1 row has the offset and the bytes of a record that has landed before"
    assert LandingLedger(warehouse.landing_ledger("t")).last_done().content.gaps == {"0": [3, 5], "1": [0, 3]}


def test_a_dump_of_nothing_but_repetitions_lands_no_record_and_is_known(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"one.json": lines((0, 0, "a"), (0, 1, "b"))})
    land(warehouse, directory, **OFFSETS)
    write(directory, {"two.json": lines((0, 1, "b"))})

    report = land(warehouse, directory, **OFFSETS)

    assert (report.increments, report.records, report.gaps, report.cut_to) == ((2,), 0, {}, {0: 2, 1: 0})
    assert land(warehouse, directory, **OFFSETS).increments == ()


@pytest.mark.parametrize(
    ("row", "expected", "got"),
    [
        ((0, 2, "B"), "the record of offset 2 of partition 0 that has landed", "another value"),
        (
            (0, 1, "x"),
            "offsets of partition 0 from 3 on, or records that have landed",
            "offset 1, with which no record ",
        ),
    ],
)
def test_below_what_has_landed_only_the_same_bytes_are_taken(warehouse, tmp_path, row, expected, got):
    directory = write(tmp_path / "in", {"one.json": lines((0, 0, "a"), (0, 2, "b"))})
    land(warehouse, directory, **OFFSETS)
    write(directory, {"two.json": lines((0, 3, "c"), row)})

    with pytest.raises(LandingError) as error:
        land(warehouse, directory, **OFFSETS)

    assert (error.value.expected, error.value.got.startswith(got)) == (expected, True)
    assert landed(warehouse, "t", *PLACE) == [(0, 0, b"a"), (0, 2, b"b")]


def test_a_record_that_was_erased_is_not_landed_again_by_a_file_that_has_it(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"one.json": lines((0, 0, "a"), u="ann") + lines((0, 1, "b"), u="bob")})
    land(warehouse, directory, key="u", **OFFSETS)
    erase(warehouse, ["t"], Sought((b"ann",)), "a request", by="me", delete=True)
    again = lines((0, 0, "a"), u="ann") + lines((0, 1, "b"), (0, 2, "c"), u="bob")
    write(directory, {"two.json": again})

    report = land(warehouse, directory, key="u", **OFFSETS)

    assert report.records == 1
    assert landed(warehouse, "t", "offset", "key", "value") == [(0, None, None), (1, b"bob", b"b"), (2, b"bob", b"c")]


# Any cut


@pytest.mark.parametrize("seed", range(12))
def test_any_spread_of_offsets_over_files_lands_sorted_with_little_memory(warehouse, tmp_path, monkeypatch, seed):
    """Rows of files that overlap, in any order, with room for a few rows at a time."""
    dice = random.Random(seed)
    records = [(p, o, f"{p}-{o}") for p in (0, 1) for o in sorted(dice.sample(range(200), 60))]
    files: dict[str, list[Row]] = {f"{number}": [] for number in range(6)}
    width = dice.choice([1, 20, 120])
    for place, record in enumerate(sorted(records, key=lambda row: row[1] + dice.randrange(width))):
        files[str(place * 6 // len(records))].append(record)
    for name in files:
        again = dice.sample(records, 2)
        files[name] += again
        if dice.random() < 0.5:
            dice.shuffle(files[name])
    names = [f"{dice.randrange(1000)}-{name}.json" for name in files]
    directory = write(tmp_path / "in", {name: lines(*rows) for name, rows in zip(names, files.values(), strict=True)})
    monkeypatch.setattr(streams, "SLICE_BYTES", dice.choice([200, 1_000, 32 << 20]))
    monkeypatch.setattr(text_lines, "BLOCK_ROWS", 7)
    monkeypatch.setattr(file_writing, "FILE_BYTES", dice.choice([300, 1_000, 128 << 20]))

    report = land(warehouse, directory, **OFFSETS)

    assert landed(warehouse, "t", *PLACE) == [(p, o, v.encode()) for p, o, v in records]
    assert report.records == 120
    assert "t: 12 rows have the offset and the bytes of another one, and each of these lands once" in report.warnings


@pytest.mark.parametrize("in_", ["before_the_commit", "between_commit_and_ledger"])
def test_a_landing_with_offsets_that_died_is_finished_by_its_plan(warehouse, tmp_path, monkeypatch, in_):
    directory = write(tmp_path / "in", {"one.json": lines((0, 5, "b"), (0, 4, "a"))})
    land(warehouse, directory, **OFFSETS)
    write(directory, {"two.json": lines((0, 9, "d"), (0, 5, "b"), (0, 7, "c"))})
    with dies(monkeypatch, in_=in_):
        land(warehouse, directory, **OFFSETS)

    report = land(warehouse, directory, **OFFSETS)

    assert landed(warehouse, "t", *PLACE) == [(0, 4, b"a"), (0, 5, b"b"), (0, 7, b"c"), (0, 9, b"d")]
    assert (report.increments, report.gaps) == ((2,), {0: (6, 7)})


def test_bad_rows_of_files_that_several_tasks_or_none_read_are_kept_once(warehouse, tmp_path, monkeypatch):
    rows = [(0, offset, "x" * 50) for offset in range(40)]
    random.Random(3).shuffle(rows)
    files = {"a.json": lines(*rows[20:]) + "no\n", "aa.json": "no\n", "b.json": "no\n" + lines(*rows[:20])}
    directory = write(tmp_path / "in", files)
    monkeypatch.setattr(file_writing, "FILE_BYTES", 500)

    report = land(warehouse, directory, rules={"max_bad_share": 1}, **OFFSETS)

    assert (report.records, report.dead_letters) == (40, 3)
    assert landed_dead_letters(warehouse, "t")["file"].to_pylist() == ["a.json", "aa.json", "b.json"]
    assert [offset for (offset,) in landed(warehouse, "t", "offset")] == list(range(40))


# Topics


def test_rows_of_other_topics_are_left_out_and_counted(warehouse, tmp_path):
    text = lines((0, 0, "a"), topic="t") + lines((0, 0, "b"), topic="u") + lines((0, 1, "c"), topic="t")
    directory = write(tmp_path / "in", {"a.json": text})

    report = land(warehouse, directory, topic_column="topic", **OFFSETS)
    mine = FileSource(directory, timestamp="t", topic_column="topic", topic="u", **OFFSETS)
    land_files(None, warehouse, "mine", mine, clock_ms=lambda: NOON)

    assert landed(warehouse, "t", *PLACE) == [(0, 0, b"a"), (0, 1, b"c")]
    assert landed(warehouse, "mine", *PLACE) == [(0, 0, b"b")]
    assert report.warnings == ("t: 1 of 3 rows are of other topics than t and left out",)


# Coordinates that nobody named

IN_ROWS = ["t: the rows have columns partition and offset; name them (--partition partition --offset offset)"]
IN_PATHS = ["t: t+0+5.json says partition and offset; take them from the path (--path-pattern confluent)"]


@pytest.mark.parametrize(
    ("name", "mapping", "want"),
    [
        ("a.json", {}, IN_ROWS),
        ("t+0+5.json", {}, IN_PATHS),
        ("a.json", {"partition": "partition", "offset": "offset"}, []),
        ("a.json", {"order_by": ["offset"]}, []),
        ("t+0+5.json", {"path_pattern": "confluent"}, []),
    ],
)  # fmt: skip
def test_offsets_that_no_option_names_are_pointed_at(warehouse, tmp_path, name, mapping, want):
    more = {} if "+" in name else {"partition": 0, "offset": 5}

    report = land(warehouse, write(tmp_path / "in", {name: json.dumps({"t": T0, **more}) + "\n"}), **mapping)

    assert report.warnings == tuple(
        f"{line}, so that records land in the order that they had in Kafka" for line in want
    )
