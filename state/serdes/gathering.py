"""Pieces of bytes that lie anywhere, as one column."""

import numpy as np
import pyarrow as pa

from ..buffers import binary_array
from ..compilation.kernel_compilation import kernel


def gather(data: np.ndarray, begins: np.ndarray, lengths: np.ndarray) -> pa.BinaryArray:
    """Binary array of rows ``data[begin : begin + length]``, null where the length is negative."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(np.maximum(lengths, 0), out=offsets[1:])
    copied = np.empty(int(offsets[-1]), np.uint8)
    _copy_rows(data, begins, offsets, copied)
    return binary_array(copied, offsets, lengths >= 0)


@kernel
def _copy_rows(data, begins, offsets, copied):  # type: ignore[no-untyped-def]
    for row in range(begins.shape[0]):
        begin, to = begins[row], offsets[row]
        for i in range(offsets[row + 1] - to):
            copied[to + i] = data[begin + i]
