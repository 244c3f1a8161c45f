"""Files of keys and headers beside those of values, as Kafka Connect's S3 sink stores them: one record a row of all."""

import gzip
import io
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.file_source import FileSource
from kstreams_replay.jobs.landing.file_writing import WriteTask
from kstreams_replay.jobs.landing.files import counting, known_files
from kstreams_replay.jobs.landing.files.streams import FileBeside, FileSlice, digest_like
from kstreams_replay.state.errors import ConfigError, LandingError
from tests.landing.file_folders import land, write
from tests.landing.landed_rows import landed
from tests.landing.written_tables import SYNC, avro_text, zigzag

BOTH = {"path_pattern": "confluent", "beside": ["keys", "headers"]}
AT = "topics/t/partition=0/t+0+0000000007"
VALUES = '{"t":1,"v":"a"}\n{"t":2,"v":"b"}\n{"t":3,"v":"c"}\n'
KEYS = '"ann"\n42\n{"id":1.10}\n'
HEADERS = """{"headers":[{"key":"h","value":"x"},{"key":"h","value":"y"}]}
{"headers":[]}
{"headers":[{"key":"n","value":"1"}]}
"""
WANT = [
    (0, 7, b"ann", b'{"t":1,"v":"a"}', [("h", b"x"), ("h", b"y")]),
    (0, 8, b"42", b'{"t":2,"v":"b"}', []),
    (0, 9, b'{"id":1.10}', b'{"t":3,"v":"c"}', [("n", b"1")]),
]


def rows(warehouse) -> list[tuple]:
    found = landed(warehouse, "t", "partition", "offset", "key", "value", "headers")
    return [(*row, [(each["key"], each["value"]) for each in headers]) for *row, headers in found]


def avro(schema: object, *rows: bytes) -> bytes:
    """A container of rows with these bytes."""
    header = b"Obj\x01" + zigzag(1) + avro_text("avro.schema") + avro_text(json.dumps(schema)) + b"\0" + SYNC
    return header + zigzag(len(rows)) + avro_text(b"".join(rows)) + SYNC


def parquet(**columns: pa.Array) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def test_keys_and_headers_come_with_the_values(warehouse, directory):
    write(
        directory,
        {
            f"{AT}.json": VALUES,
            f"{AT}.keys.json": KEYS,
            f"{AT}.headers.json": HEADERS,
            "topics/t/partition=0/t+0+0000000010.json": '{"t":4}\n',
            "topics/t/partition=0/t+0+0000000010.keys.json": "null\n",
            "topics/t/partition=0/t+0+0000000010.headers.json": "[]\n",
        },
    )

    report = land(warehouse, directory, **BOTH)

    assert rows(warehouse) == [*WANT, (0, 10, None, b'{"t":4}', [])]
    assert report.records == 4
    assert land(warehouse, directory, **BOTH).records == 0


HEADER = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
PAIRS = [[{"key": "h", "value": "x"}, {"key": "h", "value": "y"}], [], [{"key": "n", "value": "1"}]]
ONE_HEADER = {"type": "record", "name": "H", "fields": [{"name": name, "type": "string"} for name in ("key", "value")]}
AVRO_HEADERS = avro(
    {"type": "array", "items": ONE_HEADER},
    zigzag(2) + avro_text("h") + avro_text("x") + avro_text("h") + avro_text("y") + b"\0",
    b"\0",
    zigzag(1) + avro_text("n") + avro_text("1") + b"\0",
)
TEXTS = avro_text("a"), avro_text("b"), avro_text("c")
RECORD_KEY = {"type": "record", "name": "RecordKey", "fields": [{"name": "key", "type": "string"}]}


@pytest.mark.parametrize(
    ("keys", "headers"),
    [
        pytest.param(("json.gz", gzip.compress(b'"a"\n"b"\n"c"\n')), ("json", HEADERS.encode()), id="gzip"),
        pytest.param(("avro", avro("string", *TEXTS)), ("avro", AVRO_HEADERS), id="avro"),
        pytest.param(
            ("avro", avro(RECORD_KEY, *TEXTS)), ("snappy.parquet", parquet(headers=pa.array(PAIRS, HEADER))), id="mixed"
        ),
        pytest.param(
            ("snappy.parquet", parquet(key=pa.array(["a", "b", "c"]))), ("avro", AVRO_HEADERS), id="parquet-keys"
        ),
    ],
)
def test_keys_and_headers_are_in_formats_of_their_own(warehouse, directory, keys, headers):
    write(directory, {f"{AT}.json": VALUES, f"{AT}.keys.{keys[0]}": keys[1], f"{AT}.headers.{headers[0]}": headers[1]})

    land(warehouse, directory, **BOTH)

    assert rows(warehouse) == [(p, at, k, v, h) for (p, at, _, v, h), k in zip(WANT, (b"a", b"b", b"c"), strict=True)]


def test_keys_that_are_records_are_json_objects(warehouse, directory):
    rows_of = {
        name: {"type": "record", "name": "R", "fields": [{"name": name, "type": "long"}]} for name in ("t", "key")
    }
    values, ids = (avro(rows_of[name], zigzag(1), zigzag(2)) for name in ("t", "key"))
    write(directory, {f"{AT}.avro": values, f"{AT}.keys.avro": ids})

    land(warehouse, directory, path_pattern="confluent", beside=["keys"])

    assert rows(warehouse) == [(0, 7, b'{"key":1}', b'{"t":1}', []), (0, 8, b'{"key":2}', b'{"t":2}', [])]


def test_a_key_is_written_as_its_serializer_does(warehouse, directory):
    write(directory, {"a.json": '{"t":1}\n', "a.keys.json": "42\n"})

    land(warehouse, directory, beside=["keys"], key_type="long")

    assert [key for _, _, key, _, _ in rows(warehouse)] == [(42).to_bytes(8, "big")]


SHORTER = r"07.keys.json: expected as many keys as topics/t/partition=0/t\+0\+0000000007.json has rows, got 1;"
NO_VALUES = r"t\+0\+1.keys.json: expected the file of values that it is beside, got none"
UNSAID = r"07.keys.json: expected files of records, got keys of the records in .*; take them \(--beside keys headers\)"


@pytest.mark.parametrize(
    ("files", "beside", "message"),
    [
        pytest.param({}, ["keys"], r"\+0000000007.json: expected one file of its keys beside it", id="missing"),
        pytest.param(
            {"keys.json": KEYS}, ["keys", "headers"], r"07.json: expected one file of its headers beside it", id="one"
        ),
        pytest.param({"keys.json": '"ann"\n'}, ["keys"], SHORTER, id="shorter"),
        pytest.param({"keys.json": f"{KEYS}1\n"}, ["keys"], r"07.keys.json: .* got more than 3;", id="longer"),
        pytest.param({"keys.json": '"ann"\n{\n3\n'}, ["keys"], r"07.keys.json, row 2: expected JSON", id="no-json"),
        pytest.param({"keys.bin": "ann\n"}, ["keys"], r"07.keys.bin: expected keys as JSON lines", id="format"),
        pytest.param({"keys.json": KEYS}, ["keys"], NO_VALUES, id="no-values"),
        pytest.param({"keys.json": KEYS}, [], UNSAID, id="unsaid"),
    ],
)
def test_a_file_beside_that_does_not_fit_is_named_and_nothing_lands(warehouse, directory, files, beside, message):
    orphan = {"t+0+1.keys.json": KEYS} if message == NO_VALUES else {}
    write(directory, {f"{AT}.json": VALUES, **{f"{AT}.{name}": of for name, of in files.items()}, **orphan})

    with pytest.raises(LandingError, match=message):
        land(warehouse, directory, path_pattern="confluent", beside=beside)

    assert not Path(warehouse.landed("t")).exists()


def test_a_row_without_a_time_takes_its_key_along_and_one_that_is_no_row_stops(warehouse, directory):
    write(directory, {"a.json": '{"t":1}\n{"t":"x"}\n{"t":3}\n', "a.keys.json": "1\n2\n3\n"})

    land(warehouse, directory, beside=["keys"], rules={"max_bad_share": 1})

    assert [key for _, _, key, _, _ in rows(warehouse)] == [b"1", b"3"]
    assert [letter["line"] for letter in landed_dead_letters(warehouse, "t").to_pylist()] == [2]
    write(directory, {"b.json": '{"t":1}\n[]\n{"t":3}\n', "b.keys.json": "1\n2\n3\n"})
    with pytest.raises(LandingError, match=r"b\.json: expected a record in each row, since keys or headers"):
        land(warehouse, directory, beside=["keys"], rules={"max_bad_share": 1})


def test_keys_that_change_after_the_plan_are_read_again(warehouse, directory, monkeypatch):
    write(directory, {"a.json": '{"t":1}\n', "a.keys.json": "1\n"})
    run = WriteTask.run

    def change(task):
        monkeypatch.setattr(WriteTask, "run", run)
        write(directory, {"a.keys.json": '"other"\n'})
        return run(task)

    monkeypatch.setattr(WriteTask, "run", change)
    report = land(warehouse, directory, beside=["keys"])

    assert [key for _, _, key, _, _ in rows(warehouse)] == [b"other"]
    assert "a.json changed while it was read" in " ".join(report.warnings)


@pytest.mark.parametrize("kind", ["keys", "headers"])
def test_a_file_beside_that_changed_after_it_landed_is_refused(warehouse, directory, kind):
    write(directory, {f"{AT}.json": VALUES, f"{AT}.keys.json": KEYS, f"{AT}.headers.json": HEADERS})
    land(warehouse, directory, **BOTH)

    write(directory, {f"{AT}.{kind}.json": {"keys": KEYS, "headers": HEADERS}[kind].replace("n", "m")})
    with pytest.raises(LandingError, match=rf"{kind}\.json: expected the file as it was when it was landed, got other"):
        land(warehouse, directory, **BOTH)

    write(directory, {f"{AT}.{kind}.json": "null\n"})
    with pytest.raises(LandingError, match=rf"{kind}\.json: expected the file as it was .*, got 5 bytes instead of "):
        land(warehouse, directory, **BOTH)


def test_files_beside_that_were_touched_or_moved_are_as_they_were_and_read_once(warehouse, tmp_path, monkeypatch):
    files = {f"{AT}.json": VALUES, f"{AT}.keys.json": KEYS, f"{AT}.headers.json": HEADERS}
    land(warehouse, write(tmp_path / "in", files), **BOTH)
    os.utime(tmp_path / f"in/{AT}.keys.json", ns=(1, 1))
    moved = write(tmp_path / "moved", files)
    read = list[str]()
    monkeypatch.setattr(
        known_files, "digest_like", lambda known, source, name: read.append(name) or digest_like(known, source, name)
    )

    for directory in (tmp_path / "in", tmp_path / "in", moved, moved):
        assert land(warehouse, directory, **BOTH).records == 0

    assert read == [f"{AT}.json", f"{AT}.keys.json", f"{AT}.json", f"{AT}.keys.json", f"{AT}.headers.json"]


def test_equal_values_with_other_keys_are_other_records(warehouse, directory):
    write(directory, {"a.json": '{"t":1}\n', "a.keys.json": "1\n", "b.json": '{"t":1}\n', "b.keys.json": "2\n"})
    land(warehouse, directory, beside=["keys"])
    write(directory, {"c.json": '{"t":1}\n', "c.keys.json": "3\n"})
    land(warehouse, directory, beside=["keys"])

    assert [key for _, _, key, _, _ in rows(warehouse)] == [b"1", b"2", b"3"]
    write(directory, {"d.json": '{"t":1}\n', "d.keys.json": "2\n"})
    with pytest.raises(
        LandingError, match=r"d\.json: expected records that have not landed, got the content of b\.json"
    ):
        land(warehouse, directory, beside=["keys"])


def test_a_ledger_of_before_says_nothing_of_files_beside(warehouse, directory, monkeypatch):
    write(directory, {"a.json": '{"t":1}\n', "a.keys.json": "1\n"})
    with monkeypatch.context() as patch:
        entry = counting.file_entry
        patch.setattr(counting, "file_entry", lambda *args: {**entry(*args[:3], {})})
        land(warehouse, directory, beside=["keys"])

    write(directory, {"a.keys.json": "2\n"})
    assert land(warehouse, directory, beside=["keys"]).records == 0
    write(directory, {"b.json": '{"t":1}\n', "b.keys.json": "3\n"})
    with pytest.raises(
        LandingError, match=r"b\.json: expected records that have not landed, got the content of a\.json"
    ):
        land(warehouse, directory, beside=["keys"])


def test_a_slice_comes_back_from_a_plan_and_from_one_that_knew_no_digests():
    beside = (FileBeside("keys", "a.keys.json", 3, 2),)
    whole = FileSlice("a.json", 0, None, 5, 5, 1, beside=beside)

    assert FileSlice.from_list(json.loads(json.dumps(whole.to_list()))) == whole
    assert FileSlice.from_list(["a.json", 0, None, 5, 5, 1]) == FileSlice("a.json", 0, None, 5, 5, 1)


def test_a_key_has_one_place(directory):
    with pytest.raises(ConfigError, match="expected nothing, since keys are beside the values, got 'k'"):
        FileSource(directory, timestamp="t", beside=["keys"], key="k")
