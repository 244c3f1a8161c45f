"""Lines of kcat -f and of Kafka's console consumer: no quotes, and the last cell is the rest of the line."""

import pytest

from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.file_source import FileSource
from kstreams_replay.jobs.landing.files import streams, text_lines
from kstreams_replay.state.errors import ConfigError
from tests.landing.file_folders import land, write
from tests.landing.landed_rows import landed, values

COLUMNS = ("t", "k", "v")


def test_lines_of_the_console_consumer(warehouse, tmp_path):
    """
    --property print.timestamp=true --property print.partition=true --property print.key=true
    """
    rows = (
        'CreateTime:1767258000000\tPartition:1\tann\t"hello"\n'
        'LogAppendTime:1767258000001\tPartition:0\tnull\t{"a":1,\t"b":1.10}\n'
        "CreateTime:1767258000002\tPartition:1\tbob\tnull\n"
    )

    land(
        warehouse,
        write(tmp_path / "in", {"dump.txt": rows}),
        format="lines",
        columns=["t", "p", "k", "v"],
        key="k",
        value="v",
        partition="p",
        partitions=2,
        nulls=["null"],
    )

    assert landed(warehouse, "t", "partition", "timestamp", "key", "value") == [
        (0, 1767258000001, None, b'{"a":1,\t"b":1.10}'),
        (1, 1767258000000, b"ann", b'"hello"'),
        (1, 1767258000002, b"bob", None),
    ]


def test_any_text_may_separate(warehouse, tmp_path):
    rows = "1|||a|||x|||y\r\n2|||b|||\n"

    land(
        warehouse,
        write(tmp_path / "in", {"a.kcat": rows}),
        format="lines",
        columns=COLUMNS,
        delimiter="|||",
        key="k",
        value="v",
    )

    assert landed(warehouse, "t", "key", "value") == [(b"a", b"x|||y"), (b"b", None)]


def test_a_line_of_nothing_but_separators_is_a_row(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.txt": "1\ta\tx\n\n\t\t\n"})

    land(warehouse, directory, format="lines", columns=COLUMNS, value="v", rules={"max_bad_share": 1.0})

    [letter] = landed_dead_letters(warehouse, "t").to_pylist()
    assert (letter["line"], letter["bytes"]) == (3, b"\t\t")
    assert letter["reason"] == "expected a timestamp (ms), got None in column t"


def test_a_whole_row_is_a_json_object_of_typed_columns(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.txt": "1\ta\t7\n"})

    land(warehouse, directory, format="lines", columns=COLUMNS, types="v long")

    assert values(warehouse) == [b'{"t":"1","k":"a","v":7}']


def test_rows_are_the_same_however_a_file_is_cut(warehouse, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "SLICE_BYTES", 7)
    monkeypatch.setattr(text_lines, "BLOCK_ROWS", 2)
    rows = "".join(f"{n}\tk{n}\tv{n}\n" for n in range(9))
    directory = write(tmp_path / "in", {"a.txt": f"{rows}soon\tk\tv\n9\tk\n10\tk\t\xff\n".encode("latin-1")})

    land(warehouse, directory, format="lines", columns=COLUMNS, value="v", rules={"max_bad_share": 1.0})

    assert values(warehouse) == [f"v{n}".encode() for n in range(9)]
    letters = landed_dead_letters(warehouse, "t").to_pylist()
    assert [(each["line"], each["bytes"], each["reason"]) for each in letters] == [
        (10, b"soon\tk\tv", "expected a timestamp (ms), got 'soon' in column t"),
        (11, b"9\tk", "expected 3 fields, got 2 fields"),
        (12, b"10\tk\t\xff", "expected a line in utf-8, got b'10\\tk\\t\\xff' (invalid start byte)"),
    ]


def test_lines_need_names_of_columns():
    with pytest.raises(ConfigError, match="columns: expected the names of the columns of a line, got None"):
        FileSource("in", "lines", timestamp="t")


def test_a_tab_may_be_written_as_two_characters():
    assert FileSource("in", "csv", timestamp="t", delimiter="\\t").delimiter == "\t"
