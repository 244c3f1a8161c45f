"""Partitions of keys, as Kafka's clients choose them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.state.records.murmur2 import murmur2, murmur2_partitions

unhurried = settings(deadline=None)  # the first example loads a kernel, or compiles it

# From Kafka's own UtilsTest (testMurmur2).
KAFKA = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("key", "want"), KAFKA)
def test_the_hash_is_kafkas(key, want):
    data = np.frombuffer(b"xx" + key + b"yy", np.uint8)

    got = murmur2(data, 2, 2 + len(key))

    assert got == want % 2**32


def test_the_sign_bit_is_masked_off_before_the_modulo():
    keys = pa.array([key for key, _ in KAFKA])

    for partitions in (1, 2, 3, 7, 1000, 2**31 - 1):
        assert murmur2_partitions(keys, partitions).tolist() == [(h & 0x7FFFFFFF) % partitions for _, h in KAFKA]


def test_a_null_key_goes_to_partition_0_and_an_empty_key_does_not_have_to():
    got = murmur2_partitions(pa.array([None, b"", None, b"21"], pa.binary()), 7)

    assert got.dtype == np.int32
    assert got.tolist() == [0, 275646681 % 7, 0, (-973932308 & 0x7FFFFFFF) % 7]  # of no bytes: as librdkafka has it


@unhurried
@given(st.lists(st.none() | st.binary(max_size=20), max_size=10), st.integers(0, 10), st.integers(1, 50))
def test_a_slice_and_a_wide_column_give_the_same_partitions(keys, cut, partitions):
    binary = pa.array(keys, pa.binary())

    want = [int(murmur2_partitions(pa.array([key], pa.binary()), partitions)[0]) for key in keys]

    assert murmur2_partitions(binary, partitions).tolist() == want
    assert murmur2_partitions(binary[cut:], partitions).tolist() == want[cut:]
    assert murmur2_partitions(binary.cast(pa.large_binary())[cut:], partitions).tolist() == want[cut:]
