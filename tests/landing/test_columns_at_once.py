"""Lines that become columns at once land as they do when they are read one by one, whatever is between them."""

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.landing.file_source import FileSource
from kstreams_replay.jobs.landing.files import csv_files, json_columns, side_by_side, text_lines
from kstreams_replay.jobs.landing.files.columns import json_objects, simple_json
from kstreams_replay.jobs.landing.files.json_columns import JsonColumns
from kstreams_replay.jobs.landing.files.reading import SliceReading
from kstreams_replay.jobs.landing.files.records import read_slice, slices_of
from kstreams_replay.jobs.landing.files.streams import FoundFile
from kstreams_replay.jobs.landing.landing_rules import RowRules
from kstreams_replay.state.errors import LandingError
from tests.sampling import examples

TIME_MS = 1_767_258_000_000


def read(source: FileSource, data: bytes) -> tuple[list[tuple[Any, ...]], list[tuple[int, str, str]], list[Any]]:
    """Records, bad rows with their places, and what the pass says of the file."""
    folder = Path(source.path)
    name = f"a.{source.format}"
    (folder / name).write_bytes(data)
    (piece,) = slices_of(source, FoundFile(name, len(data), 0))
    reading = SliceReading(source, piece, RowRules(keeps_bad=True), takes_digests=True, keeps=None)
    found: list[tuple[Any, ...]] = []
    for block in read_slice(reading):
        headers = [None] * len(block.key) if block.headers is None else block.headers.to_pylist()
        columns = (block.key.to_pylist(), block.value.to_pylist(), block.time_ms.tolist(), block.partition.tolist())
        found += list(zip(*columns, headers, strict=True))
    bad = [(row.location, row.expected, row.got) for row in reading.bad]
    return found, bad, [reading.rows, sorted(reading.seen), list(reading.columns), reading.kinds, reading.summary()]


class Reader:
    """Reads bytes as a file of ``format`` with the mapping."""

    def __init__(self, format: str, **mapping: Any) -> None:
        self.format, self.mapping = format, {"timestamp": "ms", "key": "k", "partitions": 3, **mapping}

    def at_once(self, data: bytes) -> Any:
        with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_columns, "_LOOKED_AT", 1)  # so that the others are found by what Arrow says
            return read(FileSource(folder, self.format, **self.mapping), data)

    def one_by_one(self, data: bytes) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(JsonColumns, "of_chunk", lambda *_: None)
            patch.setattr(csv_files, "csv_columns", lambda *_: None)
            return self.at_once(data)


@pytest.fixture
def chunks(monkeypatch) -> list[bool]:
    """Of each chunk that was read, whether it became columns at once."""
    said: list[bool] = []
    of_json, of_csv = JsonColumns.of_chunk, csv_files.csv_columns

    def json_block(self, place, chunk):
        found = of_json(self, place, chunk)
        said.append(found is not None)
        return found

    def csv_block(source, chunk, width):
        found = of_csv(source, chunk, width)
        said.append(found is not None)
        return found

    monkeypatch.setattr(JsonColumns, "of_chunk", json_block)
    monkeypatch.setattr(side_by_side, "THREADS", 1)
    monkeypatch.setattr(csv_files, "csv_columns", csv_block)
    return said


def row(key: object, ms: object = TIME_MS, **others: object) -> bytes:
    return json.dumps({"k": key, "ms": ms, **others}, ensure_ascii=False).encode()


def test_json_lines_become_columns_at_once(chunks):
    lines = [row("a", x=1.50), row("b", x=[{"y": None}]), row("ü 日本 \u0000 \n", z="{"), b'{"ms": 7, "k": null}']

    found, bad, said = Reader("jsonl").at_once(b"\n".join(lines) + b"\n")

    assert chunks == [True]
    assert [(key, value, time_ms) for key, value, time_ms, _, _ in found] == [
        (b"a", lines[0], TIME_MS),
        (b"b", lines[1], TIME_MS),
        ("ü 日本 \u0000 \n".encode(), lines[2], TIME_MS),
        (None, lines[3], 7),
    ]
    assert bad == []
    assert said[0] == 4
    assert said[3] == {}  # JSON has no types of Arrow's


def test_a_number_as_key_has_its_digits(chunks):
    found, _, _ = Reader("jsonl").at_once(row(9_007_199_254_740_993) + b"\n" + row(-5) + b"\n")

    assert chunks == [True]
    assert [each[0] for each in found] == [b"9007199254740993", b"-5"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"k": "a", "ms": 1} {"k": "b", "ms": 2}',
        b'{"k": "a", "ms": 1}{"k": "b", "ms": 2}',
        b'{"k": "a", "ms": 1}{"k": "b", "ms": 2}\n{"k": "c", "ms": 3, "x":\n{"y": 1}}',
        b'{"k": "a", "ms": 1}{"k": "b", "ms": 2}\n{"k": "c", "ms": 3,\n"x": 1}',
        b'{"k": "a", "ms": 1}}',
        b'{"k": "a", "ms": ',
        b'{"k": "a", "ms": 1, "k": "b"}',
        b'{"k": 1.50, "ms": 1}',
        b'{"k": "a", "ms": 1.0}',
        b'{"k": "a", "ms": "1"}',
        b'{"k": 99999999999999999999, "ms": 1}',
        b'{"k": true, "ms": 1}',
        b'{"k": ["a"], "ms": 1}',
        b'{"k": "a"}',
        b'{"k": "\\ud800", "ms": 1}',
        b'{"k": "a", "ms": 1, "x": "\\udc00"}',
        b'{"k": "\xff", "ms": 1}',
        b'{"k": "a", "ms": 1, "x": "\xc3\x28"}',
        b'{"k": "a", "ms": 1, "x": NaN}',
        b'{"k": "a", "ms": 1, "x": 1e400}',
        b'{"k": "a", "ms": 1, "x": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"k": "a", "ms": 1, "x": ' + b"[" * 700 + b"]" * 700 + b"}",
        b'{"k": "a", "ms": 1},',
        b'{"k": "a", "ms": 1} ',
        b' {"k": "a", "ms": 1}',
        b'{"k": "a", "ms": 1}\r',
        b"null",
        b"[1]",
        b"",
        b" ",
        b"{}",
        b'\xef\xbb\xbf{"k": "a", "ms": 1}',
        b'{"k": "a", "ms": 1, "x": "\x00"}',
        b'{"k": "a", "ms": 1, "x": "\x01"}',
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_json_line_of_any_kind_lands_as_it_does_alone(line, place):
    lines = [row("x"), row("y", x=1)]
    data = b"\n".join([*lines[:place], line, *lines[place:]])

    for end in (b"", b"\n"):
        assert_same(Reader("jsonl"), data + end)


def assert_same(reader: Reader, data: bytes) -> None:
    assert _said(reader.at_once, data) == _said(reader.one_by_one, data)


def _said(read: Callable[[bytes], Any], data: bytes) -> Any:
    """What is read, or the error, without the folder's name."""
    try:
        return read(data)
    except LandingError as error:
        return str(error).partition("/a.")[2]


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=4), st.just({"a": [1, {}]})
)
JSON_ROWS = st.fixed_dictionaries(
    {"ms": st.one_of(st.integers(0, 2**41), st.sampled_from([None, "12", 1.5, -1]))},
    optional={"k": st.one_of(st.text(max_size=3), st.integers(-9, 9), VALUES), "x": VALUES},
)


@settings(max_examples=examples(600), deadline=None)
@given(
    rows=st.lists(JSON_ROWS, min_size=1, max_size=6),
    ascii=st.booleans(),
    end=st.sampled_from([b"", b"\n", b"\r\n", b"\n\n"]),
    mapping=st.sampled_from([{}, {"value": "x"}, {"value": ["x", "k"]}, {"key_type": "long"}, {"partition": "k"}]),
)
def test_random_json_lines_land_as_they_do_one_by_one(rows, ascii, end, mapping):
    try:
        lines = [json.dumps(each, ensure_ascii=ascii).encode() for each in rows]
    except UnicodeEncodeError:
        lines = [json.dumps(each).encode() for each in rows]

    assert_same(Reader("jsonl", **mapping), b"\n".join(lines) + end)


def test_lines_are_cut_into_chunks_at_line_ends(monkeypatch, chunks):
    monkeypatch.setattr(text_lines, "CHUNK_BYTES", 100)
    lines = [row(f"k{number}", x="y" * (number % 90)) for number in range(200)]
    lines[50] = b"no JSON"

    found, bad, said = Reader("jsonl").at_once(b"\n".join(lines))

    assert [each[1] for each in found] == [*lines[:50], *lines[51:]]
    assert [place for place, _, _ in bad] == [sum(len(line) + 1 for line in lines[:50])]
    assert said[0] == 200
    assert len(chunks) > 100
    assert chunks.count(False) == 1


# --- CSV -----------------------------------------------------------------------------------------------------


def test_csv_becomes_columns_at_once(chunks):
    data = 'k,ms,x\na,5,"b,""c"""\r\n"",6,ü\n"d",7,\n'.encode()

    found, bad, said = Reader("csv", types={"ms": "long"}).at_once(data)

    assert chunks == [True]
    assert [(key, value, time_ms) for key, value, time_ms, _, _ in found] == [
        (b"a", rb'{"k":"a","ms":5,"x":"b,\"c\""}', 5),
        (None, '{"k":null,"ms":6,"x":"ü"}'.encode(), 6),  # a cell without text is null where nothing else is said
        (b"d", b'{"k":"d","ms":7,"x":null}', 7),
    ]
    assert bad == []
    assert said[3] == {}


def test_words_for_null_are_null(chunks):
    found, _, _ = Reader("csv", nulls=["", "NULL"]).at_once(b"k,ms,x\nNULL,5,\na,6,b\n")

    assert chunks == [True]
    assert [each[:2] for each in found] == [
        (None, b'{"k":null,"ms":"5","x":null}'),
        (b"a", b'{"k":"a","ms":"6","x":"b"}'),
    ]


@pytest.mark.sampled(share=4)
@pytest.mark.parametrize(
    "line",
    [
        'a,5,"b"c',
        'a,5,"b" ',
        'a,5, "b"',
        'a,5,b"c"',
        'a,5,"b""c"',
        'a,5,"b"""',
        'a,5,""""',
        'a,5,""',
        'a,5,"b\nc"',
        'a,5,"b\r\nc"',
        'a,5,"b\rc"',
        'a,5,"b',
        'a,5,b"',
        'a,5,"b,c"',
        '"a"",5,"b"',
        "a,5,b\rc,6,d",
        "a,5,b\r",
        "a,5",
        "a,5,b,c",
        "a,x,b",
        "",
        "\r",
        " ",
        ",,",
        "a,5,\0",
        "a,5,\\",
        "a,5,ü",
        "a,5,\ufeff",
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_csv_line_of_any_kind_lands_as_it_does_alone(line, place):
    lines = ["x,1,y", '"z",2,"y,""y"""']
    data = "\n".join(["k,ms,x", *lines[:place], line, *lines[place:]]).encode()

    for mapping in ({}, {"value": "x"}, {"types": {"ms": "long"}}):
        for end in (b"", b"\n", b"\r\n"):
            assert_same(Reader("csv", **mapping), data + end)
    assert_same(Reader("csv"), data.replace(b"b", b"\xff"))


def test_a_csv_file_of_one_column_has_no_blank_rows(chunks):
    found, _, _ = Reader("csv", key=None, timestamp="ms").at_once(b"ms\n1\n\n2\n")

    assert chunks == [False]
    assert [each[2] for each in found] == [1, 2]


CELLS = st.sampled_from(
    ["a", "ü", "5", "-7", " 5", "1.50", "", '"a"', '""', '"a""b"', '"a,b"', '"a\nb"', 'a"b', '"a"b', '"', "a\r", "\t",
     '"é"', "9" * 20, "\\"]
)  # fmt: skip


@settings(max_examples=examples(800), deadline=None)
@given(
    rows=st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=5),
    header=st.sampled_from(["k,ms,x", '"k",ms,x', "\ufeffk,ms,x", "k,ms"]),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
    last=st.booleans(),
    mapping=st.sampled_from([{}, {"types": {"x": "long"}}, {"value": "x"}, {"nulls": ["", "a"]}, {"key_type": "long"}]),
)
def test_random_csv_lands_as_it_does_row_by_row(rows, header, line_end, last, mapping):
    lines = [header, *(",".join([cells[0], "5", *cells[2:]]) for cells in rows)]
    data = (line_end.join(lines) + line_end * last).encode()

    assert_same(Reader("csv", **mapping), data)


def test_rows_behind_an_irregular_one_are_read_on(monkeypatch, chunks):
    monkeypatch.setattr(text_lines, "CHUNK_BYTES", 60)
    cells = [f"k{number},{number},x" for number in range(40)]
    cells[20] = 'k20,20,"two\nlines"'

    found, bad, said = Reader("csv", value="x").at_once("\n".join(["k,ms,x", *cells]).encode())

    assert [(each[0], each[2]) for each in found] == [(f"k{number}".encode(), number) for number in range(40)]
    assert found[20][1] == b"two\nlines"
    assert bad == []
    assert said[0] == 40
    assert chunks.count(False) == 1  # from there on, Python's reader takes the rest


def test_json_text_of_columns_is_made_at_once_of_integers_and_plain_text():
    assert simple_json(pa.array([1, None, -5]), "string").to_pylist() == ["1", "null", "-5"]
    assert simple_json(pa.array(["1", None]), "long").to_pylist() == ["1", "null"]
    assert simple_json(pa.array(['a"', None]), "string") is None
    assert simple_json(pa.array(["a", None, "b"])[1:], "string").to_pylist() == ["null", '"b"']
    assert simple_json(pa.array(["8", "10", "9"])[1:], "long").to_pylist() == ["10", "9"]


@pytest.mark.parametrize("text", ["007", "-0", "-5", "00"])
def test_a_whole_number_is_written_as_numbers_are_whatever_its_text(text):
    number = pa.array([text]).cast(pa.int64())[0].as_py()
    assert simple_json(pa.array(["10", text, "1"]), "long").to_pylist() == ["10", str(number), "1"]


@pytest.mark.parametrize("neighbour", ["5", "+5"])
@pytest.mark.parametrize("text", ["0x10", "0X1f", "0xffffffffffffffff"])
@pytest.mark.parametrize("mapping", [{"types": {"x": "long"}}, {"value": "x", "value_type": "long"}])
def test_hexadecimal_text_is_no_number_whatever_is_beside_it(text, neighbour, mapping):
    found, bad, _ = Reader("csv", **mapping).at_once(f"k,ms,x\na,{text},1\nb,7,{text}\nc,8,{neighbour}\n".encode())

    assert [(key, time_ms) for key, _, time_ms, _, _ in found] == [(b"c", 8)]
    assert sorted(bad) == [
        (1, "a timestamp (ms)", f"{text!r} in column ms"),
        (2, "a long", f"{text!r} in column x"),
    ]


def test_plain_texts_go_between_quotes_at_every_place_of_an_object():
    plain = simple_json(pa.array(["a", "", "é"]), "string")
    texts = pa.array(["1", "null", "3"])
    objects = json_objects(["x", "y", "z"], [plain, texts, plain]).to_pylist()
    assert [value.decode() for value in objects] == [
        '{"x":"a","y":1,"z":"a"}',
        '{"x":"","y":null,"z":""}',
        '{"x":"é","y":3,"z":"é"}',
    ]
