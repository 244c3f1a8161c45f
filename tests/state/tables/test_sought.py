"""Which rows hold a key, or certain bytes."""

from decimal import Decimal

import numpy as np
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


HEAD = b"\0\0\0\0\7"
"""Of a schema registry: the byte 0 and an id."""
ANN_ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
ANN_BYTES = bytes.fromhex("0f8fad5bd9cb469fa16570867728950e")
WINDOW = (1_700_000_000_000).to_bytes(8, "big")


@pytest.mark.parametrize(
    ("key", "forms"),
    [
        (b"ann", [b'"ann"', b"\x06ann", HEAD + b"\x06ann", HEAD + b'"ann"', b"\x0a\x03ann", HEAD + b"\0\x0a\x03ann"]),
        (b"ann", [b'"ann"' + WINDOW, HEAD + b"\x06ann" + WINDOW * 2, b"ann" + WINDOW + bytes(4), b'{ "u" : ["ann"] }']),
        (b'"ann"', [b"ann", b"\x06ann", b'"\\u0061nn"']),
        (b"\x06ann", [b"ann", b'"ann"', HEAD + b"\x06ann"]),
        (HEAD + b"\x0eannabel", [b"annabel", b'"annabel"', b"\0\0\0\0\x09\x0eannabel"]),
        (HEAD + b'"ann.lee"', [b"ann.lee"]),
        (HEAD + b"\0\x0a\x07ann.lee", [b"ann.lee", b"\x0a\x07ann.lee"]),
        ("Zoë".encode(), [b'"Zo\\u00eb"', '"Zoë"'.encode(), b"\x08" + "Zoë".encode()]),
        (
            ANN_ID.encode(),
            [ANN_ID.upper().encode(), ANN_BYTES, b'"' + ANN_ID.upper().encode() + b'"', HEAD + ANN_BYTES],
        ),
        (ANN_ID.upper().encode(), [ANN_ID.encode(), ANN_BYTES]),
        (ANN_BYTES, [ANN_ID.encode(), ANN_ID.upper().encode(), b"\x48" + ANN_ID.encode()]),
        (b"4711", [(4711).to_bytes(8, "big"), (4711).to_bytes(4, "big"), (4711).to_bytes(2, "big"), b'"4711"']),
        (b"4711", [b"\xce\x49", HEAD + b"\xce\x49", HEAD + b"4711", b'{"id": 4711}']),
        (b"-1", [b"\xff" * 8, b"\x01"]),
        (b"1.5", [bytes.fromhex("3ff8000000000000"), bytes.fromhex("3fc00000"), b'{"id": 1.50}']),
        (b'{"u":"ann","n":1}', [b'{ "n": 1, "u": "ann" }', HEAD + b'{"n":1,"u":"ann"}']),
        (HEAD + b'{"n":1,"u":"ann"}', [b'{"u":"ann","n":1}']),
    ],
)
def test_a_key_is_found_in_each_form_that_serdes_give_its_value(key, forms):
    others = [b"anna", b"x", HEAD + b"\x08anna", (4712).to_bytes(8, "big"), b'{"u":"anna","n":1}']

    assert found(pa.table({"key": pa.array([*forms, *others], pa.binary())}), key) == list(range(len(forms)))


@pytest.mark.parametrize(
    ("key", "kind", "values", "rows"),
    [
        (b'{"u":"ann","n":1}', pa.struct([("u", pa.string()), ("n", pa.int64())]), [("ann", 1), ("ann", 2), None], [0]),
        (b'{"u":"ann","n":1}', pa.struct([("u", pa.string())]), [("ann",), ("bob",), (None,)], [0]),
        (b'["ann", 1]', pa.struct([("u", pa.string())]), [("bob",), None], []),
        (b'["a", "b"]', pa.list_(pa.string()), [["a", "b"], ["a"], ["b", "a"], None], [0]),
        (b'{"a": 1}', pa.map_(pa.string(), pa.int64()), [[("a", 1)], [("a", 2)], [("a", 1), ("b", 1)], None], [0]),
        (HEAD + b"\x0eannabel", pa.string(), ["annabel", "ann", None], [0]),
        (b'"4711"', pa.int64(), [4711, 4712, None], [0]),
        (b"17.5", pa.decimal128(10, 2), ["17.50", "17.51", None], [0]),
        (b"17", pa.float64(), [17.0, 17.5, None], [0]),
        (b"300", pa.int8(), [44, 0, None], []),
        (b"007", pa.int64(), [7, 0, None], []),
        (b"1.5", pa.float16(), [np.float16(1.5), np.float16(2), None], [0]),
        (ANN_ID.upper().encode(), pa.uuid(), [ANN_BYTES, bytes(16), None], [0]),
        (b"ann", pa.string_view(), ["ann", "anna", None], [0]),
    ],
)
def test_a_key_that_was_landed_as_bytes_is_found_as_a_value(key, kind, values, rows):
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        values = [None if row is None else dict(zip(names, row, strict=True)) for row in values]
    elif pa.types.is_decimal(kind):
        values = [None if text is None else Decimal(text) for text in values]
    column = (
        pa.array(values, kind)
        if kind != pa.uuid()
        else pa.ExtensionArray.from_storage(kind, pa.array(values, pa.binary(16)))
    )

    assert found(pa.table({"key": column}), key) == rows


LONG_OR_AVRO = b"\0\0\0\0\7\x04AB"
"""The long 0x0000000007044142, or "AB" as Avro behind the head of a registry."""


@pytest.mark.parametrize(
    ("key", "column"),
    [
        (LONG_OR_AVRO, pa.array(["AB"])),
        (b"AB", pa.array([LONG_OR_AVRO])),
        (b"AB", pa.array([LONG_OR_AVRO + WINDOW])),
        (LONG_OR_AVRO, pa.array([str(int.from_bytes(LONG_OR_AVRO, "big"))])),
        (str(int.from_bytes(b"amid", "big")).encode(), pa.array([b"amid"])),
        (HEAD + b"\xce\x49", pa.array([4711])),
        (b'{"u":"ann","n":1}', pa.array([b'{"u":"ann","n":1,"more":2}'])),
        (b'{"u":"ann","n":1}', pa.array([b'{"u":"ann"}'])),
    ],
)
def test_what_may_be_the_key_by_chance_is_reported_and_not_erased(key, column):
    assert found(pa.table({"key": column}), key) == []
    assert found(pa.table({"key": column}), key, mentions=True) == [0]
    assert found(pa.table({"value": column}), key, mentions=True) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"al", b"\0\0\0\2al\0\0\0\1"),
        (b"4711", b"..\0\0\0\x08" + (4711).to_bytes(8, "big")),
        (b"ann", b"..\x06ann.."),
        (b"ann", b"..\x0a\x03ann.."),
        (ANN_ID.upper().encode(), b".." + ANN_BYTES + b".."),
        (ANN_ID.encode(), b".." + ANN_ID.upper().encode() + b".."),
        (b"\x0eannabel", b"..annabel.."),
        (b"a\tb c\nd", b'"a\\tb c\\nd"'),
    ],
)
def test_a_value_mentions_a_key_in_its_other_forms_too(key, value):
    table = pa.table({"value": [value, b"anna"]})

    assert found(table, key, mentions=True) == [0]
    assert found(table, key) == []


def test_longs_that_end_alike_are_not_one_key_behind_two_schema_ids():
    longs = [
        bytes.fromhex(digits) for digits in ("0000000000000011", "0000000001000011", "00000000000000110000018bcfe56800")
    ]
    table = pa.table({"key": pa.array(longs)})

    assert found(table, longs[0], mentions=True) == [0, 2]
    assert found(table, b"17", mentions=True) == [0, 2]


@pytest.mark.parametrize(
    ("keys", "words", "unread"),
    [
        ((b"\x06ann\x02",), (), [b"\x06ann\x02"]),
        ((HEAD + b"\x06ann\x02",), (), [HEAD + b"\x06ann\x02"]),
        ((b"\x06ann\x02", b"ann"), (), []),
        ((b"\x0eannabel\x02",), (b"annabel",), []),
        ((b"\x06ann\x02", b"bob"), (), [b"\x06ann\x02"]),
        ((b"\x9a\x11\x22\x33",), (), [b"\x9a\x11\x22\x33"]),
        ((b"\x9a\x11\x22\x33", str(int.from_bytes(b"\x9a\x11\x22\x33", "big", signed=True)).encode()), (), []),
        ((b"\xce\x49", b"ann"), (), [b"\xce\x49"]),
        ((b"\x0aalice\x0a",), (), [b"\x0aalice\x0a"]),
        ((b"a\tb", b"a\nb"), (), []),
        ((b"\xce\x49", HEAD + b"\xce\x49", b"4711"), (), []),
        ((b"ann", ANN_BYTES, (17).to_bytes(8, "big"), bytes.fromhex("3ff8000000000000"), b"\x06ann"), (), []),
    ],
)
def test_bytes_that_nobody_can_read_are_known_unless_another_key_says_what_is_in_them(keys, words, unread):
    assert Sought(keys, words).unread == unread


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
