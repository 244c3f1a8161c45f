"""Of every change of a table, the one before it in the same batch: a chain for each key and window.

Rule: ``earlier[row]`` is the row of the change before of the same key and window; ``NONE_HERE``: the batch has none,
but the table may have had the row before it; ``NEW``: the table had no such row when the change came.
"""

import numpy as np

from ...state.compilation.kernel_compilation import array_kernel, inlined_kernel, inner_kernel
from ...state.stores.slot_index import EMPTY, home
from .fold_program import EMIT, MERGE, START

NONE_HERE, NEW = -1, -2


@array_kernel
def earlier_by_key(key, start, end):  # type: ignore[no-untyped-def]
    """``earlier`` of changes about which nothing but their key and window is known; int32."""
    size = 1
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
        earlier[row] = before
        newest[at] = row


@array_kernel
def earlier_by_slot(program, key, start, end, capacity):  # type: ignore[no-untyped-def]
    """``earlier`` of the updates that a program emits, from the slots that it works on; int32. ``capacity``: of the
    store. What begins in a slot, and what goes on there with other bounds, is a new row of the table.
    """
    earlier = np.empty(key.shape[0], np.int32)
    chain_by_slot(program, key, start, end, np.full(capacity, NONE_HERE, np.int32), earlier)
    return earlier


@inner_kernel
def chain_by_slot(program, key, start, end, newest, earlier):  # type: ignore[no-untyped-def]
    """Fill ``earlier``. ``newest``: NONE_HERE by slot."""
    flags, slots, arguments = program
    update = 0
    for entry in range(flags.shape[0]):
        slot = slots[entry]
        if flags[entry] & START:  # an aggregate that goes on in another slot may go on under its name
            newest[slot] = newest[arguments[entry]] if flags[entry] & MERGE else NEW
        if flags[entry] & EMIT:
            row = newest[slot]
            if row >= 0 and not is_same(row, update, key, start, end):
                row = NEW
            earlier[update] = row
            newest[slot] = update
            update += 1
