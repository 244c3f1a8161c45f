"""The interner of keys, and the order of serialized keys."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.state.compilation.kernel_compilation import interpreted
from kstreams_replay.state.records.key_interning import compare_serialized, compare_serialized_sessions
from kstreams_replay.state.records.keys import NULL_CODE, Keys
from kstreams_replay.state.serdes import Serde

unhurried = settings(deadline=None)  # the first example loads a kernel, or compiles it

# Short alphabets make equal keys and prefixes likely; lengths go beyond the eight bytes of one hash step.
key_bytes = st.binary(max_size=3) | st.text("ab\0\xff", max_size=20).map(lambda text: text.encode("latin-1"))
chunks = st.lists(st.lists(st.none() | key_bytes, max_size=12), max_size=4)


def codes_by_dict(rows: list[bytes | None], met: dict[bytes, int]) -> list[int]:
    return [NULL_CODE if row is None else met.setdefault(row, len(met)) for row in rows]


@unhurried
@given(chunks)
def test_codes_count_from_0_in_order_of_first_appearance_across_calls(chunks):
    keys, met = Keys(Serde.bytes()), {}

    for rows in chunks:
        got = keys.intern(pa.array([b"before", *rows], pa.binary())[1:])
        assert got.dtype == np.int32
        assert got.tolist() == codes_by_dict(rows, met)

    assert len(keys) == len(met)
    assert keys.take(np.arange(len(keys))).to_pylist() == list(met)
    assert bytes(keys.data) == b"".join(met)
    assert np.diff(keys.offsets).tolist() == [len(key) for key in met]


@unhurried
@given(chunks, st.sampled_from([pa.int8(), pa.uint16(), pa.int32(), pa.int64()]), st.booleans())
def test_a_dictionary_column_gives_the_codes_of_its_rows(chunks, index_type, large):
    keys, met = Keys(Serde.bytes()), {}
    words_type = pa.large_binary() if large else pa.binary()

    for rows in chunks:
        column = pa.array([b"not a row", *rows], words_type).dictionary_encode()
        column = pa.DictionaryArray.from_arrays(column.indices.cast(index_type), column.dictionary)[1:]
        assert keys.intern(column).tolist() == codes_by_dict(rows, met)

    assert keys.lookup(b"not a row") == -1
    assert len(keys) == len(met)


@unhurried
@given(chunks, st.booleans())
def test_a_dictionary_that_comes_again_gives_the_codes_of_its_rows(chunks, is_copied):
    """
    Another comes in between.
    """
    keys, met = Keys(Serde.bytes()), {}
    words = [b"not a row", *dict.fromkeys(key for rows in chunks for key in rows if key is not None)]

    for rows in chunks:
        numbers = pa.array([None if key is None else words.index(key) for key in rows], pa.int32())
        column = pa.DictionaryArray.from_arrays(numbers, pa.array(words, pa.binary()))
        assert keys.intern(column).tolist() == codes_by_dict(rows, met)
        if is_copied:
            other = pa.array([None, *rows, b"other"], pa.binary())
            assert keys.intern(other.dictionary_encode()).tolist() == codes_by_dict([None, *rows, b"other"], met)

    assert keys.lookup(b"not a row") == -1
    assert len(keys) == len(met)


def test_a_dictionary_may_repeat_a_word_and_hold_null():
    column = pa.DictionaryArray.from_arrays(
        pa.array([3, 2, 1, 0, None, 3], pa.int32()), pa.array([b"a", None, b"a", b"b"])
    )

    assert Keys(Serde.bytes()).intern(column).tolist() == [0, 1, -1, 1, -1, 0]


@unhurried
@given(st.lists(key_bytes), st.lists(key_bytes))
def test_lookup_knows_the_keys_that_were_interned_and_no_other(interned, asked):
    keys, met = Keys(Serde.bytes()), {}
    keys.intern(pa.array(interned, pa.binary()))
    codes_by_dict(interned, met)

    for key in interned + asked:
        assert keys.lookup(key) == met.get(key, -1)


def test_the_interner_grows_far_beyond_its_first_room():
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 150_000, 300_000)
    column = pa.array(rows).cast(pa.string()).cast(pa.binary())
    keys = Keys(Serde.string())

    codes = keys.intern(column)
    again = keys.intern(column)

    assert len(keys) == len(np.unique(rows))
    assert np.array_equal(codes, again)
    assert keys.take(codes).equals(column)
    first_rows = np.unique(codes, return_index=True)[1]
    assert (np.diff(first_rows) > 0).all()


@pytest.mark.parametrize("size", [16 * 1024, 16 * 1024 + 1, 40 * 1024])
def test_an_empty_key_behind_bytes_that_fill_the_room_is_looked_up_within_it(size):
    keys = Keys(Serde.bytes())

    with interpreted():
        codes = [keys.intern(pa.array([key], pa.binary())).tolist() for key in (b"a" * size, b"", b"", b"b", b"")]

    assert codes == [[0], [1], [1], [2], [1]]


def test_texts_are_the_same_before_and_after_all_were_found_readable_and_bad_ones_are_null():
    keys = Keys(Serde.string())
    codes = keys.intern(pa.array(["a", "é", "", None], pa.string()).cast(pa.binary()))

    for _ in range(2):
        typed = keys.typed(codes)
        typed.validate(full=True)
        assert (typed.type, typed.to_pylist()) == (pa.string(), ["a", "é", "", None])
        assert keys.undecodable() == {}
    bad = keys.intern(pa.array([b"b", b"\xff"]))
    for _ in range(2):
        assert keys.typed(bad).to_pylist() == ["b", None]
        assert list(keys.undecodable(3)) == [4]


def test_words_are_all_keys_met_so_far_and_each_dictionary_begins_with_those_of_before():
    keys = Keys(Serde.string())
    few = keys.as_dictionary(keys.intern(pa.array([b"b", None, b"a", b"b"])))
    more = keys.as_dictionary(keys.intern(pa.array([b"c", b"\xff", b"a"])))

    for words, rows in ((few, ["b", None, "a", "b"]), (more, ["c", None, "a"])):
        assert words.type == pa.dictionary(pa.int32(), pa.large_string())
        assert words.to_pylist() == rows
    assert few.dictionary.to_pylist() == ["b", "a"]
    assert more.dictionary.slice(0, 3).to_pylist() == ["b", "a", "c"]
    many = keys.intern(pa.array([f"{number:04d}" for number in range(5_000)]).cast(pa.binary()))
    assert few.to_pylist() == ["b", None, "a", "b"], "what is met later changes nothing"
    assert keys.as_dictionary(many).to_pylist() == keys.typed(many).to_pylist()


def test_words_of_what_is_no_text_are_plain():
    keys = Keys(Serde.long())
    codes = keys.intern(Serde.long().encode(pa.array([7, None, -7])))

    assert keys.as_dictionary(codes).equals(keys.typed(codes))


def test_taken_and_typed_keys_are_null_for_code_minus_1():
    keys = Keys(Serde.long())
    codes = keys.intern(Serde.long().encode(pa.array([7, None, -7, 7])))

    for wanted in codes, codes[:1], codes[:0], np.full(2, NULL_CODE, np.int32):
        assert keys.typed(wanted).equals(Serde.long().decode(keys.take(wanted)).values)
    assert keys.typed(codes).to_pylist() == [7, None, -7, 7]
    assert keys.typed(codes).type == pa.int64()
    assert keys.take(codes).type == pa.binary()


def test_keys_that_the_serde_cannot_decode_are_told_once():
    keys = Keys(Serde.long())
    keys.intern(pa.array([b"abc", (1).to_bytes(8)]))
    assert keys.undecodable() == {0: "expected 8 bytes of a long, got 3"}

    first = len(keys)
    codes = keys.intern(pa.array([b"abc", (1).to_bytes(8), b"", None]))

    assert codes.tolist() == [0, 1, 2, -1]
    assert keys.undecodable(first) == {2: "expected 8 bytes of a long, got 0"}
    assert keys.undecodable(len(keys)) == {}
    assert keys.typed(codes).to_pylist() == [None, 1, None, None]


def test_a_key_is_tried_once_however_often_it_is_asked_for(monkeypatch):
    tried, decode = [], Serde.decode
    monkeypatch.setattr(Serde, "decode", lambda serde, array: tried.append(len(array)) or decode(serde, array))
    keys = Keys(Serde.string())

    for words in ([b"a", b"\xff"], [b"a", b"b"], [b"b"]):
        codes = keys.intern(pa.array(words))
        keys.typed(codes)
        keys.as_dictionary(codes)
        keys.undecodable()

    assert tried == [2, 1]


def be64(number: int) -> bytes:
    return number.to_bytes(8, signed=True)


def order(a: bytes, b: bytes) -> int:
    return (a > b) - (a < b)


# Suffixes whose bytes look like keys, so that a longer key's bytes meet a shorter one's suffix and tie.
lookalikes = st.sampled_from([0x6161616161616161, 0x6162000000000000])
suffixes = st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1) | lookalikes


@unhurried
@given(st.lists(key_bytes, min_size=2, max_size=2), suffixes, suffixes, suffixes, suffixes)
def test_serialized_windowed_keys_are_ordered_as_their_bytes(pair, first_a, first_b, second_a, second_b):
    keys = Keys(Serde.bytes())
    code_a, code_b = keys.intern(pa.array(pair)).tolist()
    a, b = pair

    got = compare_serialized(keys.data, keys.offsets, code_a, first_a, code_b, first_b)
    sessions = compare_serialized_sessions(
        keys.data, keys.offsets, code_a, first_a, second_a, code_b, first_b, second_b
    )

    assert got == order(a + be64(first_a), b + be64(first_b))
    assert sessions == order(a + be64(first_a) + be64(second_a), b + be64(first_b) + be64(second_b))


@pytest.mark.parametrize(
    ("a", "suffix_a", "b", "suffix_b", "want"),
    [
        (b"a", 5, b"a", 5, 0),
        (b"a", -1, b"a", 0, 1),  # be64(-1) begins with 0xff
        (b"\x80", 0, b"\x7f", 9, 1),  # unsigned
        (b"a", 0, b"a\0", 0, -1),  # a prefix of the other in all its nine bytes: the shorter first
        (b"a", 0x6200000000000000, b"ab", 0, -1),  # here too
        (b"a", 0x6300000000000000, b"ab", 0, 1),  # the suffix's first byte against the longer key's second
    ],
)
def test_a_suffix_is_compared_with_the_longer_keys_own_bytes(a, suffix_a, b, suffix_b, want):
    keys = Keys(Serde.bytes())
    code_a, code_b = keys.intern(pa.array([a, b])).tolist()

    assert compare_serialized(keys.data, keys.offsets, code_a, suffix_a, code_b, suffix_b) == want
    assert compare_serialized(keys.data, keys.offsets, code_b, suffix_b, code_a, suffix_a) == -want


PLAIN_PYTHON = """
import pyarrow as pa
from kstreams_replay.state.records.murmur2 import murmur2_partitions
from kstreams_replay.state.records.key_interning import compare_serialized
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde

keys = Keys(Serde.string())
column = pa.array([b"a", None, b"bb", b"", b"a" * 30, b"a"] + [b"%d" % n for n in range(3000)])
print(keys.intern(column)[:6].tolist(), len(keys), keys.lookup(b"bb"), keys.lookup(b"2999"), keys.lookup(b"x"))
print(keys.intern(column.dictionary_encode())[-1], compare_serialized(keys.data, keys.offsets, 0, -1, 0, 1))
print(compare_serialized(keys.data, keys.offsets, 0, 0, 3, 0), murmur2_partitions(column, 7)[:6].tolist())
print(Serde.json("ms long").decode(pa.array([b'{"ms":1,"x":"}"}', b"{", None])).values.to_pylist())
"""


@pytest.mark.nightly
def test_the_kernels_say_the_same_without_jit():
    def said(**settings):
        environment = os.environ | {"NUMBA_DISABLE_JIT": "0"} | settings
        run = [sys.executable, "-W", "error::RuntimeWarning", "-c", PLAIN_PYTHON]
        return subprocess.run(run, env=environment, check=True, capture_output=True, text=True).stdout

    assert said(NUMBA_DISABLE_JIT="1") == said()
