"""Lines of kcat -f and of Kafka's console consumer: no quotes, and the last cell is the rest of the line."""

import pytest

from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.file_source import FileSource
from kstreams_replay.jobs.landing.files import streams, text_lines
from kstreams_replay.state.errors import ConfigError, LandingError
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

    assert landed(warehouse, "t", "partition", "timestamp", "timestamp_type", "key", "value") == [
        (0, 1767258000001, "LogAppendTime", None, b'{"a":1,\t"b":1.10}'),
        (1, 1767258000000, "CreateTime", b"ann", b'"hello"'),
        (1, 1767258000002, "CreateTime", b"bob", None),
    ]


ALL = ("t", "p", "o", "h", "k", "v")


def test_offsets_and_headers_of_the_console_consumer(warehouse, tmp_path):
    """
    With print.offset, print.headers and all of the above: the order is that of Kafka's DefaultMessageFormatter.
    """
    rows = (
        "CreateTime:1\tPartition:0\tOffset:7\tNO_HEADERS\tk\tc\n"
        "LogAppendTime:2\tPartition:0\tOffset:5\ttrace:1:2,empty:,none:null\tk\ta\n"
        "CreateTime:3\tPartition:0\tOffset:6\t\tk\tOffset:6\n"
    )
    mapping = {"key": "k", "value": "v", "partition": "p", "offset": "o", "headers": "h", "nulls": ["null"]}

    land(warehouse, write(tmp_path / "in", {"dump.txt": rows}), format="lines", columns=ALL, **mapping)

    headers = [{"key": key, "value": value} for key, value in (("trace", b"1:2"), ("empty", b""), ("none", None))]
    assert landed(warehouse, "t", "offset", "timestamp", "timestamp_type", "headers", "value") == [
        (5, 2, "LogAppendTime", headers, b"a"),
        (6, 3, "CreateTime", [], b"Offset:6"),
        (7, 1, "CreateTime", [], b"c"),
    ]


def test_headers_of_kcat_are_names_and_values(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.txt": "1\ta=x:y,b=\tv\n2\t\tw\n"})

    land(warehouse, directory, format="lines", columns=["t", "h", "v"], headers="h", value="v", nulls=["NULL"])

    headers = [{"key": "a", "value": b"x:y"}, {"key": "b", "value": b""}]
    assert landed(warehouse, "t", "headers", "value") == [(headers, b"v"), ([], b"w")]


@pytest.mark.parametrize("cell", ["a:1,2", "a:1,b=2", "trace"])
def test_headers_that_may_mean_two_things_are_a_bad_row(warehouse, tmp_path, cell):
    directory = write(tmp_path / "in", {"a.txt": f"1\t{cell}\tv\n"})

    with pytest.raises(LandingError, match=f"expected headers: .*, got '{cell}' in column h"):
        land(warehouse, directory, format="lines", columns=["t", "h", "v"], headers="h", value="v")


def test_a_column_of_offsets_is_no_partition(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.txt": "CreateTime:1\tOffset:0\tPartition:0\tv\n"})

    with pytest.raises(LandingError, match=r"expected a partition in \[0, 1\), got 'Offset:0' in column p"):
        land(warehouse, directory, format="lines", columns=["t", "p", "o", "v"], partition="p", value="v")


def test_rows_are_ordered_by_the_number_behind_its_name(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.txt": "1\tOffset:10\tb\n2\tOffset:9\ta\n"})

    land(warehouse, directory, format="lines", columns=["t", "o", "v"], order_by=["o"], value="v")

    assert values(warehouse) == [b"a", b"b"]


def test_a_declared_timestamp_type_is_the_one_of_its_column(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.txt": "LogAppendTime:1\tcreate\tv\n"})

    land(warehouse, directory, format="lines", columns=["t", "y", "v"], timestamp_type="y", value="v")

    assert landed(warehouse, "t", "timestamp", "timestamp_type") == [(1, "CreateTime")]


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
