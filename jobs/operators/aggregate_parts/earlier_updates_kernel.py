"""Of every update of an aggregate, the one before it in the same batch, known from the slots that it works on.

Rule: as in jobs/kernels/earlier_changes.py, without a look-up: what begins in a slot, and what continues there with
other bounds, is a new row of the table.

Arrays: ``program`` has the fields of Program. ``key`` int32, ``start`` int64, ``end`` int64 and ``earlier`` int32
(updates,). ``newest`` int32 (slots,).
"""

import numpy as np

from ....state.compilation.kernel_compilation import array_kernel, inner_kernel
from ...functions.folds.fold_program import EMIT, MERGE, START
from ...kernels.earlier_changes import NEW, NONE_HERE, is_same


@array_kernel
def earlier_by_slot(program, key, start, end, capacity):  # type: ignore[no-untyped-def]
    """``earlier`` of the updates that a program emits; int32. ``capacity``: of the store."""
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
            # A session that was widened is another row of the result table: its key has other bounds.
            if row >= 0 and not is_same(row, update, key, start, end):
                row = NEW
            earlier[update] = row
            newest[slot] = update
            update += 1
