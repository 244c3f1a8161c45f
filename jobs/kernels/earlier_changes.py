"""Of every change of a table, the one before it in the same batch: a chain for each key and window.

Rule: ``earlier[row]`` is the row of the previous change of the same key and window. ``NONE_HERE``: the batch has
none, but the table may have had the row before it. ``NEW``: the table had no such row when the change came.

Arrays: ``key`` int32, ``start`` int64, ``end`` int64 and ``earlier`` int32 (changes,). ``newest`` int32 (places,).
"""

import numpy as np

from ...state.compilation.kernel_compilation import array_kernel, inlined_kernel, inner_kernel
from ...state.stores.slot_index import EMPTY, home

NONE_HERE, NEW = -1, -2


@array_kernel
def earlier_by_key(key, start, end):  # type: ignore[no-untyped-def]
    """``earlier`` of changes about which nothing but their key and window is known; int32."""
    size = 1
    # At least half of the places stay empty, so that a probe ends soon.
    while size < 2 * key.shape[0]:
        size *= 2
    earlier = np.empty(key.shape[0], np.int32)
    chain_by_key(key, start, end, np.full(size, EMPTY, np.int32), earlier)
    return earlier


@inlined_kernel
def is_same(one, other, key, start, end):  # type: ignore[no-untyped-def]
    """Are two changes of the same key and window?"""
    return key[one] == key[other] and start[one] == start[other] and end[one] == end[other]


@inner_kernel
def chain_by_key(key, start, end, newest, earlier):  # type: ignore[no-untyped-def]
    """Fill ``earlier``. ``newest``: an empty table of a power of two of places, at least as many as changes."""
    mask = newest.shape[0] - 1
    for row in range(key.shape[0]):
        at = home(mask, key[row], start[row], end[row])
        before = newest[at]
        while before != EMPTY and not is_same(before, row, key, start, end):
            at = (at + 1) & mask
            before = newest[at]
        # EMPTY of the table is NONE_HERE: a key's first change finds no row, and that is the answer.
        earlier[row] = before
        newest[at] = row
