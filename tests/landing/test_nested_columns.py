"""Columns within columns, and rows in the envelopes of Kafka Connect and Debezium."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.file_source import FileSource
from kstreams_replay.state.errors import ConfigError, LandingError
from tests.landing.file_folders import land, write
from tests.landing.landed_rows import landed, values

BIG = "12345678901234567.890123456789"
ROW = f'{{"id":7,"price":{BIG},"who":"é"}}'
SOURCE = '{"ts_ms":900,"lsn":18446744073709551615}'


def change(op: str, before: str, after: str, ts_ms: int) -> str:
    return f'{{"before":{before},"after":{after},"source":{SOURCE},"op":"{op}","ts_ms":{ts_ms}}}'


def with_schema(payload: str) -> str:
    return f'{{"schema":{{"type":"struct"}},"payload":{payload}}}'


def lines(*rows: str) -> str:
    return "".join(f"{row}\n" for row in rows)


def test_a_dotted_name_is_a_field_of_an_object(warehouse, tmp_path):
    rows = lines(with_schema(change("c", "null", ROW, 1000)), with_schema(change("d", ROW, "null", 2000)))

    land(
        warehouse,
        write(tmp_path / "in", {"a.jsonl": rows}),
        timestamp="payload.ts_ms",
        key="payload.after.id",
        value="payload.after",
    )

    assert landed(warehouse, "t", "timestamp", "key", "value") == [(1000, b"7", ROW.encode()), (2000, None, None)]


def test_a_name_that_is_a_column_as_a_whole_counts_first(warehouse, tmp_path):
    rows = lines('{"t":1,"a.b":"whole","a":{"b":"field"}}', '{"t":2,"a":{"b":"field"}}', '{"t":3,"a":[1]}')

    land(warehouse, write(tmp_path / "in", {"a.jsonl": rows}), value="a.b")

    assert values(warehouse) == [b"whole", b"field", None]


def test_several_fields_keep_their_names(warehouse, tmp_path):
    rows = lines('{"t":1,"a":{"b":1.10,"c":{"d":null}}}')

    land(warehouse, write(tmp_path / "in", {"a.jsonl": rows}), value=["a.b", "a.c.d"])

    assert values(warehouse) == [b'{"a.b":1.10,"a.c.d":null}']


def test_fields_of_structs_of_parquet(warehouse, tmp_path):
    kind = pa.struct([("ts", pa.timestamp("us")), ("after", pa.struct([("id", pa.int64())]))])
    rows = pa.array([{"ts": 1_000_000, "after": {"id": 7}}, {"ts": 2_000_000, "after": None}], kind)
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"payload": rows, "x": ["a", "b"]}), tmp_path / "in" / "a.parquet")

    land(warehouse, tmp_path / "in", timestamp="payload.ts", key="payload.after.id", value="payload.after")

    assert landed(warehouse, "t", "timestamp", "key", "value") == [(1000, b"7", b'{"id":7}'), (2000, None, None)]


def test_a_whole_row_of_parquet_has_no_column_twice(warehouse, tmp_path):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"p": [{"t": 5}], "x": ["a"]}), tmp_path / "in" / "a.parquet")

    land(warehouse, tmp_path / "in", timestamp="p.t")

    assert landed(warehouse, "t", "timestamp", "value") == [(5, b'{"p":{"t":5},"x":"a"}')]


@pytest.mark.parametrize(("name", "content"), [("a.jsonl", '{"p":{"t":1}}\n{"p":{"t":2}}\n'), ("a.csv", "p\n1\n")])
def test_a_column_that_is_in_no_row_is_named(warehouse, tmp_path, name, content):
    with pytest.raises(LandingError, match=r"a\.(jsonl|csv): expected a column p\.ts, got columns p; "):
        land(warehouse, write(tmp_path / "in", {name: content}), timestamp="p.ts")

    assert warehouse.topics() == []


def test_debeziums_changes_are_rows_and_deletes_are_tombstones(warehouse, tmp_path):
    after = ROW.replace('"é"', "null")
    rows = lines(
        change("r", "null", ROW, 1000),
        with_schema(change("u", ROW, after, 2000)),
        change("d", after, "null", 3000),
    )

    land(
        warehouse,
        write(tmp_path / "in", {"a.jsonl": rows}),
        envelope="debezium",
        timestamp="__ts_ms",
        key="id",
    )

    want = [(1000, b"7", ROW.encode()), (2000, b"7", after.encode()), (3000, b"7", None)]
    assert landed(warehouse, "t", "timestamp", "key", "value") == want


def test_columns_of_a_deleted_row_are_a_tombstone_too(warehouse, tmp_path):
    rows = lines(change("c", "null", ROW, 1000), change("d", ROW, "null", 2000))
    directory = write(tmp_path / "in", {"a.jsonl": rows})
    for topic, value in (("one", "price"), ("some", ["id", "__op", "__source.lsn"])):
        land(warehouse, directory, topic=topic, envelope="debezium", timestamp="__ts_ms", key="id", value=value)

    assert values(warehouse, "one") == [BIG.encode(), None]
    assert values(warehouse, "some") == [b'{"id":7,"__op":"c","__source.lsn":18446744073709551615}', None]


def test_connects_payload_is_the_row(warehouse, tmp_path):
    rows = lines(with_schema(f'{{"t":1,"k":"a","n":{BIG}}}'), with_schema('{"t":2,"k":"b","n":1e400}'))

    land(warehouse, write(tmp_path / "in", {"a.json": rows}), envelope="connect", key="k")

    assert landed(warehouse, "t", "timestamp", "key", "value") == [
        (1, b"a", f'{{"t":1,"k":"a","n":{BIG}}}'.encode()),
        (2, b"b", b'{"t":2,"k":"b","n":1e400}'),
    ]


@pytest.mark.parametrize(
    ("envelope", "row", "reason"),
    [
        ("connect", '{"t":1}', "expected an object of a schema and a payload, which is an object or null"),
        ("connect", with_schema("[1]"), "expected an object of a schema and a payload, which is an object or null"),
        ("connect", with_schema("null"), "expected a timestamp (ms), got None"),
        ("debezium", '{"t":1}', "expected a change of Debezium, which has op, before and after"),
        ("debezium", change("t", "null", "null", 1), "expected the row after the change"),
        ("debezium", change("d", "null", "null", 1), "expected the row before it was deleted"),
        ("debezium", "null", "expected a JSON object, got b'null'"),
    ],
)
def test_what_is_in_no_envelope_is_a_bad_row(warehouse, tmp_path, envelope, row, reason):
    good = {"connect": with_schema('{"t":5}'), "debezium": change("c", "null", '{"t":5}', 1)}[envelope]
    directory = write(tmp_path / "in", {"a.jsonl": lines(good, row)})

    land(warehouse, directory, envelope=envelope, rules={"max_bad_share": 1.0})

    assert values(warehouse) == [b'{"t":5}']
    [letter] = landed_dead_letters(warehouse, "t").to_pylist()
    assert (letter["line"], letter["bytes"]) == (2, row.encode())
    assert letter["reason"].startswith(reason)


def test_a_line_null_deletes_the_key_before_it_where_that_is_asked_for(warehouse, tmp_path, monkeypatch):
    """
    Debezium writes such a record behind every delete.
    """
    rows = [
        "null",
        change("c", "null", ROW, 1),
        change("d", ROW, "null", 2),
        "null",
        "oops",
        "null",
        '{"op":"c"}',
        "null",
    ]
    directory = write(tmp_path / "in", {"a.jsonl": lines(*rows)})

    land(
        warehouse,
        directory,
        envelope="debezium",
        null_lines="tombstone",
        timestamp="__ts_ms",
        key="id",
        rules={"max_bad_share": 1.0},
    )

    want = [(1, b"7", ROW.encode()), (2, b"7", None), (2, b"7", None)]
    assert landed(warehouse, "t", "timestamp", "key", "value") == want
    letters = landed_dead_letters(warehouse, "t").to_pylist()
    assert [letter["line"] for letter in letters] == [1, 5, 6, 7, 8]
    assert letters[0]["reason"] == "expected a row before the line null, whose key it deletes, got b'null'"


def test_a_line_null_knows_its_key_across_blocks_and_slices(warehouse, tmp_path, monkeypatch):
    monkeypatch.setattr("kstreams_replay.jobs.landing.files.streams.SLICE_BYTES", 10)
    monkeypatch.setattr("kstreams_replay.jobs.landing.files.text_lines.BLOCK_ROWS", 1)
    directory = write(tmp_path / "in", {"a.jsonl": lines('{"t":1,"k":"a"}', "null", '{"t":2,"k":"b"}', "null")})

    land(warehouse, directory, null_lines="tombstone", key="k")

    assert landed(warehouse, "t", "timestamp", "key", "value") == [
        (1, b"a", b'{"t":1,"k":"a"}'),
        (1, b"a", None),
        (2, b"b", b'{"t":2,"k":"b"}'),
        (2, b"b", None),
    ]


def test_a_line_null_is_a_bad_row_else(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": lines('{"t":1}', "null")})

    land(warehouse, directory, rules={"max_bad_share": 1.0})

    [letter] = landed_dead_letters(warehouse, "t").to_pylist()
    assert (letter["line"], letter["reason"]) == (2, "expected a JSON object, got b'null'")


@pytest.mark.parametrize("given", [{"envelope": "connect"}, {"null_lines": "tombstone"}])
def test_envelopes_of_other_formats_are_refused(given):
    with pytest.raises(ConfigError, match=f"{next(iter(given))}: expected .* for JSON lines"):
        FileSource("in", "csv", timestamp="t", **given)


def test_names_that_are_none_are_refused():
    for given in ({"envelope": "avro"}, {"null_lines": "skip"}):
        with pytest.raises(ConfigError, match="expected one of "):
            FileSource("in", timestamp="t", **given)


def test_the_mapping_comes_back_from_a_plan():
    source = FileSource("in", "jsonl", timestamp="t", envelope="debezium", null_lines="tombstone")

    assert FileSource.from_dict("in", json.loads(json.dumps(source.to_dict()))) == source
