"""Which rows hold a key, or certain bytes."""

import pyarrow as pa
import pytest

from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.sought import Sought


def found(table: pa.Table, *keys: bytes, words: tuple[bytes, ...] = (), mentions: bool = False) -> list[int]:
    return [row for row, is_one in enumerate(Sought(keys, words).rows(table, mentions=mentions)) if is_one]


@pytest.mark.parametrize(
    ("kind", "values", "key", "rows"),
    [
        (pa.string(), ["ann", "Ann", None, "anna"], b"ann", [0]),
        (pa.binary(), [b"\x00\x01", b"\x00\x01\x02", b""], b"\x00\x01", [0]),
        (pa.int64(), [17, 18, None, -17], b"17", [0]),
        (pa.int64(), [17, 18, -17], (-17).to_bytes(8, "big", signed=True), [2]),
        (pa.int32(), [17, 18], (18).to_bytes(4, "big"), [1]),
        (pa.int32(), [17, 18], (18).to_bytes(8, "big"), []),
        (pa.float64(), [0.5, 1.5], bytes.fromhex("3ff8000000000000"), [1]),
        (pa.dictionary(pa.int32(), pa.string()), ["bob", "ann", "bob"], b"bob", [0, 2]),
        (
            pa.struct([("user", pa.string()), ("n", pa.int64())]),
            [{"user": "bob"}, {"user": "ann", "n": 1}],
            b"ann",
            [1],
        ),
        (pa.list_(pa.string()), [["bob"], [], None, ["cid", "ann"]], b"ann", [3]),
        (pa.map_(pa.string(), pa.string()), [[("a", "bob")], None, [], [("a", "ann")]], b"ann", [3]),
        (pa.bool_(), [True, False], b"ann", []),
    ],
)
def test_a_key_is_compared_whole_in_every_part_of_a_key_column(kind, values, key, rows):
    assert found(pa.table({"key": pa.array(values, kind)}), key) == rows


@pytest.mark.parametrize("column", ["key", "primary_key", "id", "value"])
def test_columns_that_name_a_row_have_keys_and_others_mention_them(column):
    table = pa.table({"n": [1, 2], column: ["ann.lee", "bob"]})

    assert found(table, b"ann.lee") == ([] if column == "value" else [0])
    assert found(table, b"ann.lee", mentions=True) == [0]


def test_the_key_of_a_windowed_record_stands_before_its_window():
    time = (1_700_000_000_000).to_bytes(8, "big")
    keys = [b"ann" + time, b"ann" + time * 2, b"ann" + b"12345678", b"ann" + time[:7], b"anna" + time]

    assert found(pa.table({"key": pa.array(keys, pa.binary())}), b"ann") == [0, 1]


def test_a_short_key_is_mentioned_in_quotes_and_a_long_one_anywhere():
    table = pa.table({"value": ["ann", '{"u": "ann"}', "anna", "x ann.lee y", None]})

    assert found(table, b"ann", mentions=True) == [0, 1]
    assert found(table, b"ann.lee", mentions=True) == [3]


def test_words_are_found_in_any_column_as_they_are_and_as_json_spells_them():
    table = pa.table(
        {"n": [1, 2, 3, 4], "headers": [["Zoë K"], [], [None], None], "x": ["", "Zo\\u00eb K", "Zoe", None]}
    )

    assert found(table, b"ann", words=("Zoë K".encode(),)) == [0, 1]


def test_pieces_of_a_column_keep_their_rows():
    column = pa.chunked_array([["bob"], ["ann", "bob"], ["ann"]])

    assert found(pa.table({"key": column}), b"ann") == [1, 3]


@pytest.mark.parametrize(("keys", "words"), [((), ()), ((b"",), ()), ((b"ann",), (b"abc",))])
def test_nothing_and_too_little_is_refused(keys, words):
    with pytest.raises(ConfigError):
        Sought(keys, words)
