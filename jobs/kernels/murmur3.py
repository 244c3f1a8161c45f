"""Murmur3 of 128 bits as Kafka Streams hashes a left value in a foreign-key join (its Murmur3.hash128).

Arrays: ``data`` uint8 (bytes,), ``offsets`` int64 (rows + 1,), ``valid`` bool (rows,). ``first`` uint64 and ``second``
uint64 (rows,).
"""

import numpy as np
import pyarrow as pa

from ...state.buffers import binary_view, is_valid
from ...state.compilation.kernel_compilation import inner_kernel, kernel

SEED = 104729
"""Kafka's default."""

_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_N1, _N2 = np.uint64(0x52DCE729), np.uint64(0x38495AB5)
_F1, _F2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_5, _27, _31, _33, _64 = (np.uint64(n) for n in (5, 27, 31, 33, 64))


def murmur3_128(values: pa.Array, seed: int = SEED) -> tuple[np.ndarray, np.ndarray]:
    """The two longs of each row of a binary array, as int64; 0 for null rows."""
    view = binary_view(values)
    first, second = np.zeros(len(values), np.uint64), np.zeros(len(values), np.uint64)
    with np.errstate(over="ignore"):  # the hash wraps; NumPy would say so when JIT is off
        _hash_rows(view.data, view.offsets, is_valid(values), np.uint64(seed), first, second)
    return first.view(np.int64), second.view(np.int64)


@kernel
def _hash_rows(data, offsets, valid, seed, first, second):  # type: ignore[no-untyped-def]
    for row in range(first.shape[0]):
        if valid[row]:
            first[row], second[row] = _hash(data, offsets[row], offsets[row + 1], seed)


@inner_kernel
def _rotated(x, bits):  # type: ignore[no-untyped-def]
    return (x << bits) | (x >> (_64 - bits))


@inner_kernel
def _mixed(h):  # type: ignore[no-untyped-def]
    h = (h ^ (h >> _33)) * _F1
    h = (h ^ (h >> _33)) * _F2
    return h ^ (h >> _33)


@inner_kernel
def _word(data, begin, end):  # type: ignore[no-untyped-def]
    """At most eight bytes, the first the lowest."""
    word = np.uint64(0)
    for i in range(end - begin):
        word |= np.uint64(data[begin + i]) << np.uint64(8 * i)
    return word


@inner_kernel
def _hash(data, begin, end, seed):  # type: ignore[no-untyped-def]
    h1, h2, length = seed, seed, np.uint64(end - begin)
    # Blocks of 16 bytes, as two words; then up to 15 bytes that are left, the second word first.
    while begin + 16 <= end:
        h1 ^= _rotated(_word(data, begin, begin + 8) * _C1, _31) * _C2
        h1 = (_rotated(h1, _27) + h2) * _5 + _N1
        h2 ^= _rotated(_word(data, begin + 8, begin + 16) * _C2, _33) * _C1
        h2 = (_rotated(h2, _31) + h1) * _5 + _N2
        begin += 16
    # Only nine or more bytes that are left reach into the second word.
    if begin + 8 < end:
        h2 ^= _rotated(_word(data, begin + 8, end) * _C2, _33) * _C1
    # Zero bytes change nothing: the word of no bytes is 0, and its product is 0, too.
    h1 ^= _rotated(_word(data, begin, min(begin + 8, end)) * _C1, _31) * _C2
    h1, h2 = h1 ^ length, h2 ^ length
    h1 = h1 + h2
    h2 = _mixed(h2 + h1)
    h1 = _mixed(h1) + h2
    return h1, h2 + h1
