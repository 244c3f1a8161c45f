"""Fields that nobody declared are left out of what the JSON parser reads, and only where it would take them."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_replay.state.serdes.json_text.json_scan import MORE, scan_objects
from tests.state.serdes.clicks import unhurried

NAMES = ["ms", "ü", "user"]


def lines(*texts: bytes) -> list[tuple[bytes, int]]:
    """The line that the parser sees of each text, and the fault that kept it from that (0: none)."""
    ends = np.cumsum([0, *map(len, texts)])
    data = np.array(list(b"".join(texts)), np.uint8)
    # Of lists no value is plain, so all rows have a line.
    fields = pa.struct([(name, pa.list_(pa.int64())) for name in NAMES])
    scan = scan_objects(data, ends, np.zeros(len(texts), np.bool_), fields)
    cut = zip(scan.starts[:-1].tolist(), scan.starts[1:].tolist(), scan.faults.tolist(), strict=True)
    return [(scan.text[begin : end - 1].tobytes(), fault) for begin, end, fault in cut]


@pytest.mark.parametrize(
    "value",
    [
        '""', '"a b"', r'"\"\\\/\b\f\n\r\t"', r'"\u00e9\u0000"', r'"\ud83d\ude00\uD83D\uDE00"', '"张"', '"ms"',
        "0", "-0", "12", "-7.25", "1e5", "1E+5", "0.5e-3", "1e99999", "9" * 400, "true", "false", "null",
        "[]", "{}", "[ ]", "{ }", "[1,[2,{}],null]", '{"ms":1,"a":{"ms":[]}}', '{"a" : [ 1 , 2 ] }',
        "[" * 50 + "]" * 50,
    ],
)  # fmt: skip
def test_a_field_that_nobody_declared_is_left_out(value):
    before, between, behind = (
        f'{{"zz":{value},"ms":7}}',
        f'{{"ms":7,"zz" : {value} ,"ü":8}}',
        f'{{"ms":7, "zz":{value}}}',
    )

    got = lines(before.encode(), between.encode(), behind.encode(), f'{{"zz":{value}}}'.encode())

    assert got == [(b'{"ms":7}', 0), ('{"ms":7,"ü":8}'.encode(), 0), (b'{"ms":7}', 0), (b"{}", 0)]


@pytest.mark.parametrize(
    "text",
    [
        '{"zz":01,"ms":7}', '{"zz":1.,"ms":7}', '{"zz":.5,"ms":7}', '{"zz":+1,"ms":7}', '{"zz":1e,"ms":7}',
        '{"zz":-,"ms":7}', '{"zz":tru,"ms":7}', '{"zz":nulll,"ms":7}', '{"zz":NaN,"ms":7}', '{"zz":-Infinity,"ms":7}',
        r'{"zz":"\x","ms":7}', r'{"zz":"\u12g4","ms":7}', r'{"zz":"\ud83d","ms":7}', r'{"zz":"\ude00","ms":7}',
        r'{"zz":"\ud83d x","ms":7}', r'{"zz":"\ud83d\n","ms":7}', r'{"z\u007a":1,"ms":7}',
        '{"zz":[1,],"ms":7}', '{"zz":[1 2],"ms":7}', '{"zz":{"a"},"ms":7}', '{"zz":{1:2},"ms":7}',
        '{"zz":{"a":1,},"ms":7}', r'{"zz":"\ud83d x\ude00","ms":7}', '{"zz":1:"ms":7}', '{"zz":1,}', '{"zz"1,"ms":7}',
        '{"zz":,"ms":7}', '{"zz":1 "ms":7}', '{,"ms":7}', '{"zz":' + "[" * 60 + "]" * 60 + ',"ms":7}',
    ],
)  # fmt: skip
def test_a_text_with_anything_that_is_in_doubt_is_left_to_the_parser_as_it_is(text):
    assert lines(text.encode()) == [(text.encode(), 0)]


@pytest.mark.parametrize("text", ['{"ms":7}{"zz":1}', '{"zz":{"a":1}}}', '{"ms":7},'])
def test_what_follows_an_object_is_a_fault(text):
    assert lines(text.encode()) == [(b"{}", MORE)]


def test_names_are_compared_whole():
    text = b'{"m":1,"mss":2,"user ":3,"Ms":4,"us":5,"":6,"ms":7,"user":"a"}'

    assert lines(text) == [(b'{"ms":7,"user":"a"}', 0)]


def test_a_declared_value_is_copied_as_it_is_but_for_the_ends_of_lines():
    assert lines(b'{ "zz":1, "user" :\n[ 1,\r\n {"zz": 2} ]\t}') == [(b'{"user" : [ 1,   {"zz": 2} ]}', 0)]


def test_rows_without_anything_to_leave_out_are_copied_and_looked_at_again():
    whole, other = b'{"ms":12345678,"user":"abcdefghij"}', b'{"zz":"' + b"z" * 90 + b'","ms":1}'

    got = lines(*[whole] * 100, *[other] * 200)

    assert got[:100] == [(whole, 0)] * 100
    assert got[-64:] == [(b'{"ms":1}', 0)] * 64
    assert {line for line, _ in got[100:]} == {other, b'{"ms":1}'}


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
objects = st.lists(st.tuples(st.sampled_from([*NAMES, "zz", "m", 'q"', "é"]) | st.text(max_size=3), values), max_size=5)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """A JSON object, one in two with a few bytes exchanged, taken away or doubled."""
    in_ascii, blank = draw(st.booleans()), draw(st.sampled_from(["", " ", "\n", "\r\n\t"]))
    fields = [
        f"{json.dumps(name, ensure_ascii=in_ascii)}{blank}:{json.dumps(value, ensure_ascii=in_ascii)}"
        for name, value in draw(objects)
    ]
    text = f"{{{blank}{f'{blank},{blank}'.join(fields)}{blank}}}"
    if draw(st.booleans()):
        for _ in range(draw(st.integers(1, 3))):
            at = draw(st.integers(0, len(text)))
            put = draw(st.sampled_from(["", *'{}[]",:\\0-.eu \n', "\\u00", "null", text[at : at + 1] * 2]))
            text = text[:at] + put + text[at + draw(st.integers(0, 2)) :]
    return text.encode("utf-8", "surrogatepass")


def declared(text: bytes) -> list[tuple[str, Any]] | None:
    """The declared fields of a text by Python's parser, in order; None: it is no object."""
    try:
        pairs = json.loads(text.decode("utf-8", "surrogatepass"), object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        return None
    return [(name, repr(value)) for name, value in pairs if name in NAMES] if isinstance(pairs, tuple) else None


@unhurried
@given(st.lists(texts(), min_size=1, max_size=4))
def test_the_parser_sees_the_declared_fields_of_every_text_and_every_fault(many):
    for text, (line, fault) in zip(many, lines(*many), strict=True):
        want = declared(text)
        assert (None if fault else declared(line)) == want, (text, line)
        assert b"\n" not in line
