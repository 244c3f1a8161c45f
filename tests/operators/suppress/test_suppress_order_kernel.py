"""The order in which entries leave together, against Python's sort of (buffer time, serialized key)."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.operators.suppress.suppress_order_kernel import room_to_sort, sort_leaving
from kstreams_replay.state.compilation.kernel_compilation import kernel
from tests.sampling import examples

WORDS = [
    b"",
    b"a",
    b"ab",
    b"ab\x00",
    b"ab\x00\x00\x00\x00\x00\x00\x00",
    b"user-1",
    b"user-10",
    b"user-100",
    b"user-\xff",
    b"\xff",
]


@kernel
def _sort(group, spare, keys, is_session, key, start, end, due):  # type: ignore[no-untyped-def]
    sort_leaving(group, spare, keys, is_session, key, start, end, due)


def in_order(words: list[bytes], entries: list[tuple[int, int, int, int]], is_session: bool) -> list[int]:
    """Numbers of ``entries`` (word, start, end, buffer time) as the kernel sorts them."""
    data = np.frombuffer(b"".join(words), np.uint8)
    offsets = np.cumsum([0, *map(len, words)])
    key, start, end, due = (np.array(column, np.int64) for column in zip(*entries, strict=True))
    order = np.arange(len(entries), dtype=np.int32)
    _sort(order, room_to_sort(len(entries)), (data, offsets), is_session, key, start, end, due)
    found: list[int] = order.tolist()
    return found


def serialized(words: list[bytes], entry: tuple[int, int, int, int], is_session: bool) -> tuple[int, bytes]:
    """Buffer time, then WindowKeySchema's key and start, or SessionKeySchema's key, end and start."""
    word, start, end, due = entry
    bounds = struct.pack(">qq", end, start) if is_session else struct.pack(">q", start)
    return due, words[word] + bounds


entry = st.tuples(
    st.integers(0, len(WORDS) - 1), st.integers(0, 2**40), st.integers(0, 2**40), st.sampled_from([0, 5, 7, 2**35])
)


@pytest.mark.slow
@pytest.mark.parametrize("is_session", [False, True])
@settings(deadline=None, max_examples=examples(100))  # the first call compiles
@given(entries=st.lists(entry, min_size=1, max_size=120, unique_by=lambda entry: (entry[0], entry[1], entry[2])))
def test_few_and_many_leave_as_python_sorts_them(is_session, entries):
    """
    Keys that begin with one another, alone and with the same end; groups on both sides of the numbers that are few.
    """
    expected = sorted(range(len(entries)), key=lambda number: serialized(WORDS, entries[number], is_session))
    found = in_order(WORDS, entries, is_session)
    keys = [serialized(WORDS, entries[number], is_session) for number in found]
    assert keys == [serialized(WORDS, entries[number], is_session) for number in expected]


def test_thousands_of_one_window_leave_by_key():
    """
    All keys begin alike, so that the first bytes decide nothing.
    """
    words = [b"customer-%d" % number for number in range(5000)]
    entries = [(number, 0, 60_000, 60_000) for number in np.random.default_rng(1).permutation(5000).tolist()]
    found = in_order(words, entries, False)
    assert [words[entries[number][0]] for number in found] == sorted(words)
