"""The partition of a key, as Kafka's producers choose it: ``toPositive(murmur2(serialized key)) % partitions``.

Rule: 32-bit MurmurHash2 with Kafka's seed over the serialized key, the sign bit masked off, modulo the number of
partitions (BuiltInPartitioner.partitionForKey, Utils.murmur2). So a repartition table is co-partitioned with topics
that Kafka's Java clients wrote. A null key, which a producer would put anywhere, goes to partition 0.
"""

import numpy as np
import pyarrow as pa

from ..buffers import binary_view, is_valid
from ..compilation.kernel_compilation import kernel

SEED = 0x9747B28C

# All sums and products of 32-bit numbers fit 64 unsigned bits, so nothing wraps but where the mask says so.
_M = np.uint64(0x5BD1E995)
_MASK = np.uint64(0xFFFFFFFF)
_R, _13, _15 = np.uint64(24), np.uint64(13), np.uint64(15)
_SEED = np.uint64(SEED)


def murmur2_partitions(keys: pa.Array, partitions: int) -> np.ndarray:
    """Partition of each serialized key of a binary array, int32 in [0, partitions); 0 for a null key."""
    assert partitions > 0, partitions
    view = binary_view(keys)
    chosen = np.empty(len(keys), np.int32)
    _partitions(view.data, view.offsets, is_valid(keys), partitions, chosen)
    return chosen


@kernel
def _partitions(data, offsets, valid, partitions, chosen):  # type: ignore[no-untyped-def]
    for row in range(chosen.shape[0]):
        if valid[row]:
            hashed = murmur2(data, offsets[row], offsets[row + 1])
            chosen[row] = (hashed & 0x7FFFFFFF) % partitions
        else:
            chosen[row] = 0


@kernel
def murmur2(data, begin, end):  # type: ignore[no-untyped-def]
    """Kafka's hash of ``data[begin:end]`` as an int64 in [0, 2^32): Java's int, read without a sign."""
    h = _SEED ^ np.uint64(end - begin)
    i = begin
    while i + 4 <= end:
        k = (
            np.uint64(data[i])
            | np.uint64(data[i + 1]) << np.uint64(8)
            | np.uint64(data[i + 2]) << np.uint64(16)
            | np.uint64(data[i + 3]) << np.uint64(24)
        )
        k = (k * _M) & _MASK
        k = ((k ^ (k >> _R)) * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
        i += 4
    if i < end:
        for index in range(end - i):
            h ^= np.uint64(data[i + index]) << np.uint64(8 * index)
        h = (h * _M) & _MASK
    h = ((h ^ (h >> _13)) * _M) & _MASK
    return np.int64(h ^ (h >> _15))
