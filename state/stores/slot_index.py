"""Open-addressing index from (key code, start, end) to the slot that holds it.

Owns nothing but the probing. Rule: linear probing over a power-of-two table of slot numbers (-1 is empty); a deletion
shifts later entries back, so that no probe ever finds a grave. Compiled, and inlined into the kernels.
"""

import numpy as np

from ..compilation.kernel_compilation import inlined_kernel, inner_kernel, kernel

EMPTY = -1


@inlined_kernel
def home(mask, key, start, end):  # type: ignore[no-untyped-def]
    """Where in a table of ``mask + 1`` places the search for (key, start, end) begins."""
    # Odd multipliers and shifts spread neighbouring keys and window starts over the table, which takes the lowest bits.
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(29))) + np.uint64(start) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(32))) + np.uint64(end) * np.uint64(0x94D049BB133111EB)
    h = h ^ (h >> np.uint64(31))
    return np.int64(h & np.uint64(mask))


@inner_kernel
def find(table, keys, starts, ends, key, start, end):  # type: ignore[no-untyped-def]
    """Slot of (key, start, end), or -1."""
    mask = table.shape[0] - 1
    at = home(mask, key, start, end)
    while True:
        slot = table[at]
        if slot == EMPTY:
            return EMPTY
        if keys[slot] == key and starts[slot] == start and ends[slot] == end:
            return slot
        at = (at + 1) & mask


@inner_kernel
def insert(table, keys, starts, ends, slot):  # type: ignore[no-untyped-def]
    """Enter ``slot`` under its own (key, start, end), which must not be there."""
    mask = table.shape[0] - 1
    at = home(mask, keys[slot], starts[slot], ends[slot])
    while table[at] != EMPTY:
        at = (at + 1) & mask
    table[at] = slot


@inner_kernel
def delete(table, keys, starts, ends, slot):  # type: ignore[no-untyped-def]
    """Take ``slot``, which must be there, out of the table."""
    mask = table.shape[0] - 1
    at = home(mask, keys[slot], starts[slot], ends[slot])
    while table[at] != slot:
        at = (at + 1) & mask
    hole = at
    while True:
        at = (at + 1) & mask
        moved = table[at]
        if moved == EMPTY:
            break
        begin = home(mask, keys[moved], starts[moved], ends[moved])
        # The entry may fill the hole unless its home lies in (hole, at], around the end of the table.
        if ((at - begin) & mask) >= ((at - hole) & mask):
            table[hole] = moved
            hole = at
    table[hole] = EMPTY


@kernel
def rebuild(table, keys, starts, ends, flags):  # type: ignore[no-untyped-def]
    """Enter every slot whose lowest flag bit (live) is set into the emptied ``table``."""
    table[:] = EMPTY
    for slot in range(flags.shape[0]):
        if flags[slot] & 1:
            insert(table, keys, starts, ends, slot)
