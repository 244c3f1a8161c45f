"""The JSON serde: its schema, what it takes, and the laws of taking it."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.serdes import Serde
from kstreams_replay.state.serdes.json_text import json_reader
from tests.state.serdes.clicks import CLICK, decode, unhurried

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
        (b'{"zz":1e99999999,"ms":7}', {"ms": 7}),
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
        (b'{"score":1e999}', "field score: expected a number that a double holds, got 1e999"),
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
    with pytest.raises(ConfigError, match=r"Serde.json: expected string, .*, got Arrow's duration\[us\]"):
        Serde.of_computed(pa.struct([("took", pa.duration("us"))]))


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


@pytest.mark.slow
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


@pytest.mark.slow
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


# --- JSON: what Python functions give

PLAIN = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "user": st.none() | st.text(st.characters(codec="utf-8"), max_size=3),
        "ms": st.none() | st.integers(-(2**63), 2**63 - 1),
        "score": st.none() | st.floats(allow_nan=False) | st.integers(-(2**53), 2**53),
        "ok": st.none() | st.booleans(),
        "tags": st.none() | st.lists(st.none() | st.sampled_from(["x", ""]), max_size=3),
        "place": st.none()
        | st.fixed_dictionaries({}, optional={"lat": st.none() | st.floats(-1, 1), "n": st.none() | st.integers(0, 9)}),
    },
)


def spelled_out(value: dict | None) -> dict | None:
    """With every field of CLICK."""
    if value is None:
        return None
    place = value.get("place")
    whole = {field.name: value.get(field.name) for field in CLICK.arrow_type}
    return whole | {"place": None if place is None else {name: place.get(name) for name in ("lat", "n")}}


@unhurried
@given(st.lists(PLAIN, max_size=6), st.sampled_from([{}, {"ms": np.int64(5)}, {"tags": ("x", None)}, {"ok": np.True_}]))
def test_what_a_function_gives_becomes_a_row_whatever_stands_beside_it(values, odd):
    values.append(odd)

    got = CLICK.from_python(values)

    got.validate(full=True)
    assert got.to_pylist() == [spelled_out(value) for value in [*values[:-1], {**odd, **listed(odd)}]]


def listed(odd: dict) -> dict:
    return {"tags": list(odd["tags"])} if "tags" in odd else {}


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"ms": 2**63}, "row 2, field ms: expected a number of 64 bits, got 9223372036854775808"),
        ({"ms": True}, "row 2, field ms: expected a long, got True"),
        ({"score": 2**53 + 1}, "row 2, field score: expected a double, got 9007199254740993"),
        ({"user": "\ud800"}, "row 2, field user: expected a str that UTF-8 can write"),
        ({"ok": 1}, "row 2, field ok: expected a bool, got 1"),
        ({"tags": ["x", 3]}, r"row 2, field tags\[1\]: expected a str, got 3"),
        ({"tags": "x"}, "row 2, field tags: expected a list, got 'x'"),
        ({"place": {"n": 1, "m": 2}}, "row 2, field place: expected only the fields lat, n, got the field 'm'"),
        ({"clicks": 1}, "row 2: expected only the fields .*, got the field 'clicks'"),
        (7, "row 2: expected a dict with the fields .*, got 7"),
    ],
)
def test_what_a_function_must_not_give_is_named_with_its_row(wrong, fault):
    with pytest.raises(ConfigError, match=f"Serde.json, {fault}"):
        CLICK.from_python([{"ms": 1, "user": "a"}, None, wrong])
