"""Plain values go straight into columns, and only where they are what the parser would read."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_replay.state.buffers import binary_view
from kstreams_replay.state.serdes.json_text.json_reader import read_json
from kstreams_replay.state.serdes.json_text.json_scan import scan_objects
from tests.state.serdes.clicks import unhurried

FIELDS = pa.struct([
    ("byte", pa.int8()), ("int", pa.int32()), ("long", pa.int64()), ("double", pa.float64()), ("text", pa.string()),
    ("flag", pa.bool_()),
])  # fmt: skip


def parsed_rows(*texts: str | None) -> list[int]:
    """Rows that the parser reads."""
    binary = pa.array([None if text is None else text.encode() for text in texts], pa.binary())
    view, skip = binary_view(binary), np.array([text is None for text in texts])
    return [int(row) for row in scan_objects(view.data, view.offsets, skip, FIELDS).rows]


def read(*texts: str | None) -> list[dict[str, object] | None]:
    return read_json(pa.array([None if text is None else text.encode() for text in texts]), FIELDS).values.to_pylist()


ABSENT = dict.fromkeys(FIELDS.names)


PLAIN = pytest.mark.parametrize(
    ("field", "value", "want"),
    [
        ("byte", "-128", -128), ("byte", "127", 127), ("int", "-2147483648", -(2**31)),
        ("int", "2147483647", 2**31 - 1), ("long", "999999999999999999", 10**18 - 1),
        ("long", "-999999999999999999", 1 - 10**18), ("long", "-0", 0),
        ("long", "null", None), ("flag", "true", True), ("flag", "false", False), ("text", '""', ""),
        ("text", '"ü 张"', "ü 张"), ("double", "12", 12.0), ("double", "0.1", 0.1), ("double", "-1.5E+2", -150.0),
        ("double", "123456789012345e22", 1.23456789012345e36), ("double", "1e-22", 1e-22), ("double", "0.000", 0.0),
    ],
)  # fmt: skip
OTHER = pytest.mark.parametrize(
    ("field", "value"),
    [
        ("byte", "128"), ("byte", "-129"), ("int", "2147483648"), ("int", "-2147483649"),
        ("long", "1000000000000000000"),
        ("long", "1.0"), ("long", "1e2"), ("long", '"1"'), ("long", "true"), ("text", "1"), ("text", r'"\n"'),
        ("text", r'"\u00e9"'), ("text", "[]"), ("flag", '"true"'), ("flag", "1"), ("double", "1234567890123456"),
        ("double", "1e23"), ("double", "1e-23"), ("double", "1e100"), ("double", "{}"), ("double", '"1"'),
    ],
)  # fmt: skip


@PLAIN
def test_a_plain_value_is_read_without_the_parser(field, value, want):
    text = f'{{"other":[{{"{field}":1}}],"{field}" : {value} }}'

    assert parsed_rows(text) == []
    assert read(text) == [{**ABSENT, field: want}]


@OTHER
def test_any_other_value_is_left_to_the_parser(field, value):
    assert parsed_rows(f'{{"{field}":{value}}}') == [0]


ANOTHER = {"byte": "7", "int": "7", "long": "-77", "double": "7.5", "text": '"seven"', "flag": "false"}
"""A plain value of each field."""


@PLAIN
def test_a_plain_value_behind_a_row_of_the_same_layout_is_read_without_the_parser(field, value, want):
    rows = [f'{{"other":[{{"{field}":1}}],"{field}" : {one} , "flog":2}}' for one in (ANOTHER[field], value, "null")]

    assert parsed_rows(*rows) == []
    assert read(*rows)[1:] == [{**ABSENT, field: want}, ABSENT]


@OTHER
def test_any_other_value_behind_a_row_of_the_same_layout_is_left_to_the_parser(field, value):
    rows = [f'{{"z":0,"{field}":{one},"y":[]}}' for one in (ANOTHER[field], value, ANOTHER[field])]

    assert parsed_rows(*rows) == [1]


def test_a_row_is_what_a_parser_reads_however_little_it_differs_from_the_one_before():
    row = '{"z":[0],"long":-12, "text":"ab","flag":true ,"double":1.5}'
    others = [row[:end] for end in range(len(row))]
    for at in range(len(row) + 1):
        others.extend(row[:at] + put + row[at + cut :] for put in '{}[]",:\\ 0-9eE.xü\x01\n' for cut in (0, 1))
    others.extend(row[:at] + row[at + 1 :] for at in range(len(row)))
    others.extend(row.replace("-12", number) for number in ("", "-"))

    # After several rows that are alike, the next one is looked at as if it were.
    texts = [text for other in others for text in (row, row, row, row, other)]

    got = list(zip(texts, read(*texts), strict=True))

    assert got == [(text, as_declared(text)) for text in texts]


def test_plain_rows_of_several_layouts_need_no_parser():
    layouts = '{"long":1,"text":"a"}', '{"text":"b","long":2}', '{"long":3,"flag":true}', '{"long":4}', "{}"
    rows = [layouts[number] for number in (0, 0, 1, 1, 1, 2, 2, 0, 3, 3, 4, 4, 0, 2, 1)]

    assert parsed_rows(*rows) == []
    assert read(*rows) == [{**ABSENT, **json.loads(row)} for row in rows]


def as_declared(text: str) -> dict[str, object] | None:
    """What Python's parser reads, where each field has a value of its type."""
    try:
        row = json.loads(text, parse_constant=lambda name: pytest.fail(name), object_pairs_hook=each_once)
    except ValueError:
        return None
    kinds = {"long": int, "text": str, "flag": bool, "double": (int, float)}
    declared = {name: row.get(name) for name in FIELDS.names} if isinstance(row, dict) else {}
    is_read = declared and all(declared[name] is None or isinstance(declared[name], kinds[name]) for name in kinds)
    return declared if is_read else None


def each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Raises ValueError where a declared name is there twice."""
    names = [name for name, _ in pairs if name in FIELDS.names]
    if len(set(names)) < len(names):
        raise ValueError
    return dict(pairs)


def test_a_field_that_is_there_twice_is_left_to_the_parser_even_as_null():
    for first, second in (("1", "2"), ("null", "1"), ("1", "null"), ("null", "null")):
        assert parsed_rows(f'{{"long":{first},"text":"a","long":{second}}}') == [0]


def test_rows_of_both_kinds_stay_in_their_order():
    texts = ['{"long":1,"text":"a"}', r'{"long":2,"text":"\t"}', None, '{"long":', '{"text":"c"}', '{"long":1.5}', "{}"]

    decoded = read_json(pa.array([None if text is None else text.encode() for text in texts]), FIELDS)

    assert parsed_rows(*texts) == [1, 5]
    assert decoded.values.to_pylist() == [
        {**ABSENT, "long": 1, "text": "a"}, {**ABSENT, "long": 2, "text": "\t"}, None, None, {**ABSENT, "text": "c"},
        None, ABSENT,
    ]  # fmt: skip
    assert decoded.bad.tolist() == [False, False, False, True, False, True, False]
    assert decoded.reasons == {
        3: "expected a whole JSON object, got one that is cut off",
        5: "expected a long, got 1.5",
    }


def test_after_rows_that_are_not_plain_a_plain_one_is_found_again():
    texts = [r'{"text":"\t"}'] * 100 + ['{"text":"a"}'] * 1_000

    left = parsed_rows(*texts)

    assert left[:100] == list(range(100))
    assert len(left) <= 100 + 64 + 1


numbers = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=6).map(lambda number: f"{number:f}"),
    st.tuples(st.integers(0, 10**17), st.integers(-40, 40)).map(lambda parts: f"{parts[0]}e{parts[1]}"),
)


@unhurried
@given(st.lists(numbers, min_size=1, max_size=30))
def test_a_double_is_the_nearest_one_whoever_reads_it(texts):
    got = read(*(f'{{"double":{text}}}' for text in texts))

    assert [None if row is None else repr(row["double"]) for row in got] == [repr(float(text)) for text in texts]


@unhurried
@given(st.lists(st.text(max_size=10), min_size=1, max_size=30), st.booleans())
def test_a_text_is_itself_whoever_reads_it(texts, in_ascii):
    texts = [text.encode("utf-8", "replace").decode() for text in texts]

    got = read(*(json.dumps({"z": 1, "text": text, "long": 7}, ensure_ascii=in_ascii) for text in texts))

    assert got == [{**ABSENT, "text": text, "long": 7} for text in texts]
