"""The hash of a left value is Kafka's."""

import numpy as np
import pyarrow as pa
import pytest

from kstreams_replay.jobs.kernels.murmur3 import murmur3_128

KAFKA = {
    0: (-7122613646888064702, -8341524471658347240),
    1: (-4615602001469447222, -5947292478380757321),
    7: (-2107356240070746995, 8712494903821390563),
    8: (6014274030055629952, 3156945422024201036),
    9: (-5216073135972215217, 8252163989001585864),
    15: (-8844713386880038744, 1384717867784962967),
    16: (4259464231871220401, 71836089553343856),
    17: (1468295286396577991, 2369895096289180639),
    31: (1137369972227847586, -2626887154935382824),
    32: (2819191440991962733, 7634896192672878728),
    40: (-3101013225840406737, -413126683659923256),
}
"""Murmur3.hash128 of Kafka Streams 4.3.0, by length, of the bytes ``37 * i + 200``."""


@pytest.mark.parametrize("length", KAFKA)
def test_it_hashes_as_kafka_streams_does(length):
    data = bytes((37 * i + 200) % 256 for i in range(length))

    first, second = murmur3_128(pa.array([data]))

    assert (int(first[0]), int(second[0])) == KAFKA[length]


def test_it_is_murmur3_for_other_seeds_too():
    first, second = murmur3_128(pa.array([b"The quick brown fox jumps over the lazy dog"]), seed=0)

    assert (first.view(np.uint64)[0], second.view(np.uint64)[0]) == (0xE34BBC7BBC071B6C, 0x7A433CA9C49A9347)


def test_null_rows_have_0_and_slices_are_read_from_where_they_begin():
    values = pa.array([b"skipped", None, b""], pa.binary())[1:]

    first, second = murmur3_128(values)

    assert list(zip(first.tolist(), second.tolist(), strict=True)) == [(0, 0), KAFKA[0]]
