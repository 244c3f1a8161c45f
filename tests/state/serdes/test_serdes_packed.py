"""Packed values: several fields of any serde, exact."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.serdes import Serde
from kstreams_replay.state.serdes.packed import packed
from tests.state.serdes.clicks import CLICK, clicks, decode, longs, texts, unhurried

PAIR = packed(key=Serde.bytes(), number=Serde.int())
MIXED = packed(key=Serde.bytes(), hash=Serde.long(), flag=Serde.boolean(), text=Serde.string(), click=CLICK)
mixed = st.fixed_dictionaries(
    {
        "key": st.none() | st.binary(max_size=12),
        "hash": st.none() | longs,
        "flag": st.none() | st.booleans(),
        "text": st.none() | texts,
        "click": st.none() | clicks,
    }
)


@pytest.mark.slow
@unhurried
@given(data=st.data())
def test_what_is_encoded_is_decoded_to_the_same(data):
    want = data.draw(st.lists(st.none() | mixed, max_size=8))
    cut = data.draw(st.integers(0, len(want)))

    column = MIXED.from_python(want)
    column.validate(full=True)
    got, reasons = decode(MIXED, *MIXED.encode(column[cut:]).to_pylist())

    assert MIXED.to_python(column) == want
    assert got == want[cut:]
    assert reasons == {}
    assert MIXED.sizes(column).tolist() == [len(data or b"") for data in MIXED.encode(column).to_pylist()]


def test_a_field_is_its_length_and_its_bytes():
    values = [{"key": b"ab", "number": 1}, {"key": None, "number": -1}, {"key": b"", "number": None}, None]

    written = PAIR.encode(PAIR.from_python(values)).to_pylist()

    assert written == [
        b"\x00\x00\x00\x02ab\x00\x00\x00\x04\x00\x00\x00\x01",
        b"\xff\xff\xff\xff\x00\x00\x00\x04\xff\xff\xff\xff",
        b"\x00\x00\x00\x00\xff\xff\xff\xff",
        None,
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "expected 2 fields"),
        (b"\x00\x00\x00", "expected 2 fields"),
        (b"\x00\x00\x00\x03ab", "expected 2 fields"),
        (b"\x00\x00\x00\x02ab", "expected 2 fields"),
        (b"\xff\xff\xff\xfe\xff\xff\xff\xff", "expected 2 fields"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff!", "expected 2 fields"),
        (b"\xff\xff\xff\xff\x00\x00\x00\x03abc", "number: expected 4 bytes of an int, got 3"),
    ],
)
def test_what_is_cut_off_or_too_long_is_bad_and_its_neighbours_are_not(data, reason):
    good = PAIR.encode(PAIR.from_python([{"key": b"k", "number": 7}]))[0].as_py()

    got, reasons = decode(PAIR, good, data, good)

    assert got == [{"key": b"k", "number": 7}, None, {"key": b"k", "number": 7}]
    assert reasons == {1: reason}


def test_a_value_without_a_field_is_refused():
    with pytest.raises(ConfigError, match=r"expected a dict of key, number, got \{'key': b'a'\}"):
        PAIR.from_python([{"key": b"a"}])


def test_two_are_equal_when_their_fields_are():
    assert packed(key=Serde.bytes(), number=Serde.int()) == PAIR
    assert str(PAIR) == "Serde.packed(key=Serde.bytes(), number=Serde.int())"
    assert PAIR.arrow_type == pa.struct([("key", pa.binary()), ("number", pa.int32())])
