"""Serdes: bytes of Kafka clients are read back; bytes that no client writes are an error."""

import math
import pickle
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.serdes import Serde
from kstreams_replay.state.serdes.codec import LEFT_TO_COLUMNS
from tests.state.serdes.clicks import CLICK, clicks, decode, longs, texts, unhurried

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


# --- every serde


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_a_variant_that_is_read_can_be_written():
    """The first long below those that begin with 0xff has the same first byte and is none."""
    serde, edges = Serde.variant(), [(one).to_bytes(8, signed=True) for one in (1 - 2**56, 2**56 - 1)]
    none = (-(2**56)).to_bytes(8, signed=True)

    got = serde.decode(pa.array([*edges, none], pa.binary()))

    assert serde.encode(got.values).to_pylist() == [*edges, None]
    assert got.reasons == {2: "expected a long above -2^56, got -72057594037927936"}
    with pytest.raises(LEFT_TO_COLUMNS):
        serde.codec.value_reader()(none)


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
        (CLICK, {"usr": "a"}, "row 1: expected only the fields user, ms, score, ok, tags, place, got the field 'usr'"),
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
