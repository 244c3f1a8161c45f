"""Serdes: what Kafka clients write, read back; what they could not have meant, told."""

import json
import math
import pickle
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.errors import ConfigError
from state.serdes import Serde, json_reader

unhurried = settings(deadline=None)  # the first example loads a kernel, or compiles it

CLICK = Serde.json(
    "user string, ms long, score double, ok boolean, tags array<string>, place struct<lat double, n int>"
)

texts = st.text(st.characters(codec="utf-8"), max_size=12)
longs = st.integers(-(2**63), 2**63 - 1)
clicks = st.fixed_dictionaries(
    {
        "user": st.none() | texts,
        "ms": st.none() | longs,
        "score": st.none() | st.floats(allow_nan=False),
        "ok": st.none() | st.booleans(),
        "tags": st.none() | st.lists(st.none() | texts, max_size=3),
        "place": st.none()
        | st.fixed_dictionaries(
            {"lat": st.none() | st.floats(allow_nan=False), "n": st.none() | st.integers(-(2**31), 2**31 - 1)}
        ),
    }
)
VALUES = [
    pytest.param(Serde.string(), texts, id="string"),
    pytest.param(Serde.bytes(), st.binary(max_size=12), id="bytes"),
    pytest.param(Serde.int(), st.integers(-(2**31), 2**31 - 1), id="int"),
    pytest.param(Serde.long(), longs, id="long"),
    pytest.param(Serde.double(), st.floats(allow_nan=False), id="double"),
    pytest.param(Serde.boolean(), st.booleans(), id="boolean"),
    pytest.param(CLICK, clicks, id="json"),
    pytest.param(
        Serde.variant(),
        st.integers(-(2**56) + 1, 2**56 - 1) | texts.filter(lambda text: not text.startswith("\0")),
        id="variant",
    ),
]
SERDES = [pytest.param(value.values[0], id=value.id) for value in VALUES]


def decode(serde: Serde, *binary: bytes | None) -> tuple[list, dict[int, str]]:
    """(Python values, reasons) of rows; checks what holds for every decoding on the way."""
    decoded = serde.decode(pa.array(binary, pa.binary()))
    decoded.values.validate(full=True)
    assert decoded.values.type == serde.arrow_type
    assert decoded.bad.dtype == np.bool_
    assert np.flatnonzero(decoded.bad).tolist() == list(decoded.reasons)
    got = serde.to_python(decoded.values)
    assert all(value is None for value, bad in zip(got, decoded.bad, strict=True) if bad)
    return got, decoded.reasons


# --- every serde


@pytest.mark.parametrize(("serde", "values"), VALUES)
@unhurried
@given(data=st.data())
def test_what_is_encoded_is_decoded_to_the_same(serde, values, data):
    want = data.draw(st.lists(st.none() | values, max_size=8))
    cut = data.draw(st.integers(0, len(want)))

    column = serde.from_python(want)
    column.validate(full=True)
    got, reasons = decode(serde, *serde.encode(column[cut:]).to_pylist())

    assert serde.to_python(column) == want
    assert got == want[cut:]
    assert reasons == {}


@pytest.mark.parametrize(("serde", "values"), VALUES)
@unhurried
@given(data=st.data())
def test_a_slice_of_a_column_and_a_wide_one_are_read_like_a_whole_one(serde, values, data):
    want = data.draw(st.lists(st.none() | values, max_size=8))
    cut = data.draw(st.integers(0, len(want)))
    binary = serde.encode(serde.from_python(want))

    assert serde.to_python(serde.decode(binary[cut:]).values) == want[cut:]
    assert serde.to_python(serde.decode(binary[:cut]).values) == want[:cut]
    assert serde.to_python(serde.decode(binary.cast(pa.large_binary())[cut:]).values) == want[cut:]


@pytest.mark.parametrize(("serde", "values"), VALUES)
@unhurried
@given(data=st.data())
def test_sizes_are_the_lengths_of_the_serialized_bytes_and_zero_for_null(serde, values, data):
    column = serde.from_python(data.draw(st.lists(st.none() | values, max_size=8)))[1:]

    sizes = serde.sizes(column)

    assert sizes.dtype == np.int64
    assert sizes.tolist() == [0 if one is None else len(one) for one in serde.encode(column).to_pylist()]


@pytest.mark.parametrize("serde", SERDES)
@pytest.mark.parametrize("rows", [0, 3])
def test_no_rows_and_only_nulls_are_fine(serde, rows):
    for nothing in pa.nulls(rows, pa.binary()), pa.nulls(rows, pa.large_binary()), pa.nulls(rows):
        decoded = serde.decode(nothing)
        assert decoded.values.equals(pa.nulls(rows, serde.arrow_type))
        assert not decoded.bad.any()
    assert serde.encode(pa.nulls(rows, serde.arrow_type)).equals(pa.nulls(rows, pa.binary()))
    assert serde.encode(pa.nulls(rows)).equals(pa.nulls(rows, pa.binary()))
    assert serde.sizes(pa.nulls(rows, serde.arrow_type)).tolist() == [0] * rows


@pytest.mark.parametrize("serde", SERDES)
def test_a_serde_survives_pickling_and_equals_only_its_like(serde):
    again = pickle.loads(pickle.dumps(serde))

    assert again == serde
    assert hash(again) == hash(serde)
    assert eval(repr(serde), {"Serde": Serde}) == serde
    assert [other.values[0] == serde for other in SERDES].count(True) == 1


def test_a_column_of_another_type_is_refused_with_the_next_step():
    with pytest.raises(ConfigError, match=r"Serde\.long\(\)\.encode: expected an array of int64, got one of int32"):
        Serde.long().encode(pa.array([1], pa.int32()))
    with pytest.raises(ConfigError, match=r"Serde\.long\(\)\.decode: expected a binary array, got one of string"):
        Serde.long().decode(pa.array(["1"]))


# --- numbers


def test_numbers_stand_as_kafkas_serializers_write_them():
    assert Serde.int().encode(pa.array([1, -2], pa.int32())).to_pylist() == [b"\0\0\0\1", b"\xff\xff\xff\xfe"]
    assert Serde.long().encode(pa.array([258, -1])).to_pylist() == [b"\0\0\0\0\0\0\1\2", b"\xff" * 8]
    assert Serde.double().encode(pa.array([1.5])).to_pylist() == [struct.pack(">d", 1.5)]


def test_a_number_of_another_length_is_bad_and_its_neighbours_are_not():
    got = decode(Serde.long(), b"abc", (7).to_bytes(8), b"", None, b"123456789", (-7).to_bytes(8, signed=True))

    want = [None, 7, None, None, None, -7]
    assert got == (want, {row: f"expected 8 bytes of a long, got {length}" for row, length in ((0, 3), (2, 0), (4, 9))})
    assert decode(Serde.int(), b"12345678") == ([None], {0: "expected 4 bytes of an int, got 8"})
    assert decode(Serde.double(), b"1234") == ([None], {0: "expected 8 bytes of a double, got 4"})


def test_wrong_lengths_that_add_up_to_right_ones_are_still_bad():
    got, reasons = decode(Serde.long(), b"1234", b"123456789012", (7).to_bytes(8))

    assert got == [None, None, 7]
    assert list(reasons) == [0, 1]


def test_bytes_behind_a_null_are_not_read():
    binary = pa.Array.from_buffers(
        pa.binary(),
        3,
        [
            pa.py_buffer(b"\x05"),  # rows 0 and 2 are valid
            pa.py_buffer(np.array([0, 8, 16, 24], np.int32)),
            pa.py_buffer((1).to_bytes(8) + b"\xff" * 8 + (3).to_bytes(8)),
        ],
    )

    assert Serde.long().decode(binary).values.to_pylist() == [1, None, 3]


def test_nan_and_infinity_are_doubles():
    got, reasons = decode(Serde.double(), *(struct.pack(">d", value) for value in (math.nan, math.inf, -math.inf)))

    assert math.isnan(got[0])
    assert got[1:] == [math.inf, -math.inf]
    assert reasons == {}


# --- strings


def test_bytes_that_are_no_utf8_are_bad_and_told():
    got = decode(Serde.string(), b"a", b"b\xff", None, b"\xed\xa0\x80", "é".encode(), b"")

    want = ["a", None, None, None, "é", ""]
    assert got == (want, {1: "expected UTF-8, got byte 0xff at 1", 3: "expected UTF-8, got byte 0xed at 0"})


@unhurried
@given(st.lists(st.none() | st.binary(max_size=5), max_size=5))
def test_python_and_arrow_agree_which_rows_are_utf8(rows):
    def is_utf8(row):
        try:
            return row is None or row.decode() is not None
        except UnicodeDecodeError:
            return False

    _, reasons = decode(Serde.string(), *rows)

    assert list(reasons) == [place for place, row in enumerate(rows) if not is_utf8(row)]


# --- variants


def test_the_first_byte_tells_a_long_from_a_string():
    got, reasons = decode(Serde.variant(), (5).to_bytes(8), b"\xff" * 8, b"12345678", b"", b"x", None)

    assert got == [5, -1, "12345678", "", "x", None]
    assert reasons == {}


def test_a_variant_that_begins_like_a_long_and_is_none_is_bad():
    got, reasons = decode(Serde.variant(), b"\0abc", b"\xff", b"a\xff", (1).to_bytes(8))

    assert got == [None, None, None, 1]
    assert reasons == {
        0: "expected 8 bytes of a long, got 4",
        1: "expected 8 bytes of a long, got 1",
        2: "expected UTF-8, got byte 0xff at 1",
    }


@pytest.mark.parametrize(
    ("long", "string"), [(None, None), (1, "a"), (2**56, None), (-(2**56), None), (None, "\0a"), (2**63 - 1, None)]
)
def test_a_variant_that_could_not_be_told_apart_is_never_written(long, string):
    column = pa.array([None, {"long": long, "string": string}], Serde.variant().arrow_type)

    with pytest.raises(ConfigError, match=r"Serde.variant\(\), row 1: expected either a long"):
        Serde.variant().encode(column)
    with pytest.raises(ConfigError, match="row 1"):
        Serde.variant().sizes(column)


# --- Python values


@pytest.mark.parametrize(
    ("serde", "wrong", "place"),
    [
        (Serde.string(), 1, r"Serde.string\(\), row 1: expected a str, got 1 \(int\)"),
        (Serde.string(), b"x", "expected a str, got b'x'"),
        (Serde.string(), "\ud800", "expected a str that UTF-8 can write"),
        (Serde.bytes(), "x", r"Serde.bytes\(\), row 1: expected bytes, got 'x' \(str\)"),
        (Serde.int(), 2**31, "expected a number of 32 bits, got 2147483648"),
        (Serde.int(), True, "expected an int, got True"),
        (Serde.long(), 1.0, "expected a long, got 1.0"),
        (Serde.long(), "1", "expected a long, got '1'"),
        (Serde.long(), 2**63, "expected a number of 64 bits"),
        (Serde.double(), True, "expected a double, got True"),
        (Serde.double(), 2**53 + 1, "expected a double, got 9007199254740993"),
        (Serde.variant(), 2**56, r"expected an int with \|n\| < 2\^56"),
        (Serde.variant(), "\0", "a str that does not begin with U"),
        (Serde.variant(), True, "got True"),
        (CLICK, [], "row 1: expected a dict with the fields user, ms, score, ok, tags, place, got"),
        (CLICK, {"usr": "a"}, "row 1: expected only the fields user, ms, score, ok, tags, place, got 'usr'"),
        (CLICK, {"ms": 1.5}, "row 1, field ms: expected a long, got 1.5"),
        (CLICK, {"ok": 1}, "field ok: expected a bool, got 1"),
        (CLICK, {"tags": "ab"}, "field tags: expected a list, got 'ab'"),
        (CLICK, {"tags": ["a", 1]}, r"field tags\[1\]: expected a str, got 1"),
        (CLICK, {"place": {"n": 2**31}}, "field place, field n: expected a number of 32 bits"),
        (CLICK, {"user": "\udc00"}, "field user: expected a str that UTF-8 can write"),
    ],
)
def test_a_python_value_of_another_type_is_refused_by_name(serde, wrong, place):
    with pytest.raises(ConfigError, match=place):
        serde.from_python([None, wrong])


def test_numpy_numbers_and_whole_numbers_for_doubles_are_taken():
    assert Serde.long().from_python([np.int64(3), None, np.int8(-1)]).to_pylist() == [3, None, -1]
    assert Serde.double().from_python([np.float64(0.5), 2, np.float32(0.5), None]).to_pylist() == [0.5, 2.0, 0.5, None]


# --- JSON: the schema


def test_a_schema_is_read_in_sparks_words():
    got = Serde.json("a: STRING, b bigint,c integer, `d e` array<struct<x: double, y array<boolean>>>").arrow_type

    inner = pa.struct([("x", pa.float64()), ("y", pa.list_(pa.bool_()))])
    assert got == pa.struct([("a", pa.string()), ("b", pa.int64()), ("c", pa.int32()), ("d e", pa.list_(inner))])


def test_two_spellings_of_a_schema_are_one_serde():
    assert Serde.json("a: bigint, p: struct<x: INT>") == Serde.json("a long,p struct<x int>")
    assert repr(Serde.json("a: bigint, `b``c` string")) == 'Serde.json("a long, `b``c` string")'


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ("", "expected the name of a field at 0, got the end"),
        ("a", "expected a type .* at 1, got the end"),
        ("a text", "expected a type .* at 2, got 'text'"),
        ("a long,", "expected the name of a field at 7, got the end"),
        ("a long b long", "expected a comma or the end at 7, got 'b long'"),
        ("a long, a string", "expected each field once at 8, got 'a string'"),
        ("a array<long", "expected '>' at 12, got the end"),
        ("a array", "expected '<' at 7, got the end"),
        ("a struct<>", "expected the name of a field at 9, got '>'"),
        ("a long?", r"expected a comma or the end at 6, got '\?'"),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused_where_it_breaks(schema, fault):
    with pytest.raises(ConfigError, match=f"Serde.json: {fault}"):
        Serde.json(schema)


# --- JSON: what is taken


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (b"{}", {}),
        (b' \t\r\n{"ms" :\n 5 } \n', {"ms": 5}),
        (b'{"ms":null,"place":null,"tags":null}', {}),
        (b'{"ms":-9223372036854775808}', {"ms": -(2**63)}),
        (b'{"ms":-0}', {"ms": 0}),
        (b'{"score":1,"ok":true}', {"score": 1.0, "ok": True}),
        (b'{"score":1E2}', {"score": 100.0}),
        (b'{"score":9007199254740993}', {"score": 9007199254740992.0}),  # the nearest double
        (b'{"score":-Infinity}', {"score": -math.inf}),
        (b'{"tags":["a",null],"place":{}}', {"tags": ["a", None], "place": {"lat": None, "n": None}}),
        (b'{"place":{"n":1,"zz":[{"n":"x"}]}}', {"place": {"lat": None, "n": 1}}),
        (b'{"zz":1,"zz":[1,{"ms":"}{"}],"ms":7}', {"ms": 7}),  # not declared: ignored, even twice
        (b'{"user":"a\\"}{\\\\","\\u006ds":1}', {"user": 'a"}{\\', "ms": 1}),
        (b'{"user":"\\ud83d\\ude00\\u0000\\/"}', {"user": "😀\0/"}),
        (b'{"user":"2020-01-01T00:00:00Z"}', {"user": "2020-01-01T00:00:00Z"}),
    ],
)
def test_json_that_fits_the_schema_is_taken(text, want):
    got, reasons = decode(CLICK, text)

    assert reasons == {}
    assert got == [{"user": None, "ms": None, "score": None, "ok": None, "tags": None, "place": None} | want]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"user":1}', "field user: expected a string, got a number"),
        (b'{"user":true}', "field user: expected a string, got a boolean"),
        (b'{"user":{}}', "field user: expected a string, got an object"),
        (b'{"ms":"5"}', "field ms: expected a long, got a string"),
        (b'{"ms":1.5}', "expected a long, got 1.5"),
        (b'{"ms":1.0}', "expected a long, got 1.0"),
        (b'{"ms":1e3}', "expected a long, got 1e3"),
        (b'{"ms":true}', "field ms: expected a long, got a boolean"),
        (b'{"ms":9223372036854775808}', "expected a long, got 9223372036854775808"),
        (b'{"ms":NaN}', "expected a long, got NaN"),
        (b'{"score":"1"}', "field score: expected a double, got a string"),
        (b'{"score":1e999}', "expected JSON, got a fault: number too big to be stored in double"),
        (b'{"score":01}', "expected JSON, got a fault: missing a comma or '}' after an object member"),
        (b'{"ok":0}', "field ok: expected a boolean, got a number"),
        (b'{"tags":"a"}', "field tags: expected an array, got a string"),
        (b'{"tags":["a",1]}', "field tags[]: expected a string, got a number"),
        (b'{"place":[]}', "field place: expected an object, got an array"),
        (b'{"place":{"lat":"x"}}', "field place.lat: expected a double, got a string"),
        (b'{"place":{"n":2147483648}}', "expected an int, got 2147483648"),
        (b'{"ms":1,"ms":2}', "field ms: expected once, got twice"),
        (b'{"ms":null,"ms":2}', "field ms: expected once, got twice"),
        (b'{"place":{"n":1,"n":1}}', "field place.n: expected once, got twice"),
        (b'{"ms":1', "expected a whole JSON object, got one that is cut off"),
        (b'{"user":"a', "expected a whole JSON object, got one that is cut off"),
        (b'{"user":"a\\', "expected a whole JSON object, got one that is cut off"),
        (b"[1]", "expected a JSON object, got text that does not begin with {"),
        (b"null", "expected a JSON object, got text that does not begin with {"),
        (b'\xef\xbb\xbf{"ms":1}', "expected a JSON object, got text that does not begin with {"),
        (b"", "expected a JSON object, got nothing"),
        (b" \n", "expected a JSON object, got nothing"),
        (b'{"ms":1}{"ms":2}', "expected one JSON object, got more after its end"),
        (b'{"ms":1}\n{"ms":2}', "expected one JSON object, got more after its end"),
        (b"{} null {}", "expected one JSON object, got more after its end"),
        (b'{"ms":1}}', "expected one JSON object, got more after its end"),
        (b'{"user":"a\nb"}', "expected JSON, got a raw control character inside a string"),
        (b'{"zz":"a\tb"}', "expected JSON, got a raw control character inside a string"),
        (b'{"user":"a\\\nb"}', "expected JSON, got a raw control character inside a string"),
        (b'{"user":"\xff"}', "expected UTF-8, got byte 0xff at 9"),
        (b'{"\xff":1}', "expected UTF-8, got byte 0xff at 2"),
        (b'{"user":"\\ud800"}', "expected JSON, got a fault: the surrogate pair in string is invalid"),
        (b'{"ms":1,}', "expected JSON, got a fault: missing a name for object member"),
        (b"{'ms':1}", "expected JSON, got a fault: missing a name for object member"),
        (b'{"ms":1//x\n}', "expected JSON, got a fault: missing a comma or '}' after an object member"),
        (b'{"ms"\x00:1}', "expected JSON, got a fault: missing a colon after a name of object member"),
    ],
)
def test_json_that_does_not_fit_is_bad_alone_and_among_good_rows(text, reason):
    good = b'{"ms":7}'

    assert decode(CLICK, text) == ([None], {0: reason})
    got, reasons = decode(CLICK, good, text, None, good, text)
    assert [None if value is None else value["ms"] for value in got] == [7, None, None, 7, None]
    assert reasons == {1: reason, 4: reason}


def test_no_two_rows_can_make_up_each_others_objects():
    got, reasons = decode(CLICK, b'{"ms":1}{', b'"ms":2}', b'{"place":{', b'"n":1}}', b'{"ms":3}')

    assert [None if value is None else value["ms"] for value in got] == [None, None, None, None, 3]
    assert list(reasons) == [0, 1, 2, 3]


@pytest.mark.parametrize("depth", [1_000, 200_000])
def test_deep_nesting_in_an_ignored_field_breaks_nothing(depth):
    got, reasons = decode(CLICK, b'{"zz":' + b"[" * depth + b"]" * depth + b',"ms":1}')

    assert got[0]["ms"] == 1
    assert reasons == {}


def test_each_bad_row_is_found_wherever_it_stands_in_a_long_column():
    faults = [b'{"ms":"x"}', b'{"ms":1.5}', b'{"ms"', b'{"ms":1,}', b"\xff", b'{"place":{"n":4294967296}}']
    rng = np.random.default_rng(7)
    rows = [b'{"ms":%d,"user":"u"}' % row for row in range(2_000)]
    bad = sorted(rng.choice(len(rows), 60, replace=False).tolist())
    for place, row in enumerate(bad):
        rows[row] = faults[place % len(faults)]

    got, reasons = decode(CLICK, *rows)

    assert list(reasons) == bad
    assert [value and value["ms"] for value in got] == [None if row in reasons else row for row in range(len(rows))]


def test_a_struct_with_a_type_that_json_has_no_word_for_is_refused():
    with pytest.raises(ConfigError, match=r"Serde.json: expected string, .*, got Arrow's date32\[day\]"):
        Serde.of(pa.struct([("day", pa.date32())]))


def test_a_column_is_read_piece_by_piece_when_it_is_large(monkeypatch):
    monkeypatch.setattr(json_reader, "_PIECE_BYTES", 100)
    rows = [b'{"ms":%d,"user":"%s"}' % (row, b"u" * (row % 150)) for row in range(300)]
    rows[77] = b'{"ms":""}'

    got, reasons = decode(CLICK, *rows)

    assert [value and value["ms"] for value in got] == [*range(77), None, *range(78, 300)]
    assert list(reasons) == [77]


# --- JSON: laws

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", '"', "\\", "}{", "é", "\n", "null"])
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["lat", "n", "zz"]), inner, max_size=3),
    max_leaves=4,
)
objects = st.dictionaries(st.sampled_from([field.name for field in CLICK.arrow_type] + ["zz"]), anything, max_size=4)
written = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode(),
    objects,
    st.booleans(),
    st.sampled_from([None, 1]),
)


def fits(value: object, arrow_type: pa.DataType) -> bool:
    """The declared rule, said a second time."""
    if value is None:
        return True
    if pa.types.is_struct(arrow_type):
        return isinstance(value, dict) and all(fits(value.get(field.name), field.type) for field in arrow_type)
    if pa.types.is_list(arrow_type):
        return isinstance(value, list) and all(fits(one, arrow_type.value_type) for one in value)
    if pa.types.is_boolean(arrow_type):
        return isinstance(value, bool)
    if pa.types.is_string(arrow_type):
        return isinstance(value, str)
    if pa.types.is_floating(arrow_type):
        return isinstance(value, int | float) and not isinstance(value, bool)
    bits = arrow_type.bit_width
    return isinstance(value, int) and not isinstance(value, bool) and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)


def only_declared(value: object, arrow_type: pa.DataType) -> object:
    if value is not None and pa.types.is_struct(arrow_type):
        return {field.name: only_declared(value.get(field.name), field.type) for field in arrow_type}
    if value is not None and pa.types.is_list(arrow_type):
        return [only_declared(one, arrow_type.value_type) for one in value]
    return float(value) if value is not None and pa.types.is_floating(arrow_type) else value


@unhurried
@given(st.lists(written, max_size=6))
def test_the_decoder_keeps_the_declared_rule(rows):
    values = [json.loads(row) for row in rows]

    got, reasons = decode(CLICK, *rows)

    good = [fits(value, CLICK.arrow_type) for value in values]
    assert got == [only_declared(v, CLICK.arrow_type) if ok else None for v, ok in zip(values, good, strict=True)]
    assert list(reasons) == [row for row, ok in enumerate(good) if not ok]


@st.composite
def spoiled(draw):
    """A JSON text, perhaps cut, doubled, or with some bytes changed."""
    text = draw(written)
    begin = draw(st.integers(0, len(text)))
    end = draw(st.integers(begin, min(len(text), begin + 3)))
    patch = draw(st.sampled_from([b"", b"{", b"}", b'"', b"\\", b"null", b"\n", b",", b"]", b"1"]))
    return text[:begin] + patch + text[end:]


@unhurried
@given(st.lists(st.none() | spoiled() | written, max_size=8))
def test_a_row_is_judged_by_itself_whatever_stands_beside_it(rows):
    together, reasons = decode(CLICK, *rows)

    alone = [decode(CLICK, row) for row in rows]
    assert together == [values[0] for values, _ in alone]
    assert reasons == {row: why[0] for row, (_, why) in enumerate(alone) if why}


@unhurried
@given(spoiled())
def test_what_the_decoder_takes_is_json_and_what_is_no_json_it_refuses(text):
    _, reasons = decode(CLICK, text)

    try:
        is_object = isinstance(json.loads(text.decode()), dict)
    except ValueError:
        is_object = False
    assert is_object or reasons


def test_json_is_written_compact_in_the_order_of_the_schema():
    value = {"place": {"lat": 2.0}, "user": 'a"\\\n\x01/é', "tags": [None, "x"], "ok": False, "score": 1e22, "ms": 1}

    got = CLICK.encode(CLICK.from_python([value, {"tags": [], "score": math.nan}])).to_pylist()

    want = [
        r'{"user":"a\"\\\n\u0001/é","ms":1,"score":1e+22,"ok":false,"tags":[null,"x"],"place":{"lat":2.0,"n":null}}',
        '{"user":null,"ms":null,"score":NaN,"ok":null,"tags":[],"place":null}',
    ]
    assert [text.decode() for text in got] == want
