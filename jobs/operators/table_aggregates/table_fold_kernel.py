"""Aggregates of a grouped table by folds (KTableAggregate): what the folds have to do for every change.

Rule: what a change replaced is taken back first, if its group has an aggregate; then what is new is added, to an empty
one if the group has none. Every change causes a result; one that takes from a group without an aggregate causes a
deletion. In a versioned store the result is made beside the group's aggregate, which it becomes if the store takes it.

Arrays: ``at`` int64 (changes,), ``clock`` int64 (1,). ``changes``: a tuple of time int64, valid bool and old_valid bool
(changes,). ``groups`` has the fields of Groups, ``program`` of FoldProgram, ``result`` of FoldChanges.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....state.compilation.kernel_compilation import kernel
from ....state.stores.value_heap import NO_REFERENCE
from ...functions.folds.fold_program import ADD, COPY, EMIT, OLD, START, TAKE, FoldProgram
from ...kernels.aggregate_buffers import empty
from .table_aggregate_kernel import PLAIN, Groups, settle_group

ENTRIES = 4
"""Most entries of a program that one change makes."""


class FoldChanges(NamedTuple):
    """Of every change, shape (changes,); time in ms."""

    time: NDArray[np.int64]
    valid: NDArray[np.bool_]
    """There is an aggregate now."""
    was_there: NDArray[np.bool_]


@kernel
def fold_changes(at, changes, retention, clock, groups, beside, program, result):  # type: ignore[no-untyped-def]
    """Write the program for ``changes`` (time int64, valid bool, old_valid bool) of the slots ``at``, in order.

    Row r of a program is the new value of change r, row ``len(at) + r`` the old one. ``beside``: a slot of no group's.
    ``retention``, ``clock``, ``groups``: see ``settle_group``. Returns how many entries there are.
    """
    time, valid, old_valid = changes
    program, result = FoldProgram(*program), FoldChanges(*result)
    s_time, _, reference, _ = Groups(*groups)
    n, rows = 0, at.shape[0]
    for row in range(rows):
        slot = at[row]
        # A versioned store may refuse the result, which is known only when its time is. So it is made beside, and
        # copied into the group's slot if the store has taken it.
        into = slot if retention == PLAIN else beside
        is_there = reference[slot] != NO_REFERENCE
        is_value = is_there or valid[row]
        result.was_there[row], result.valid[row] = is_there, is_value
        result.time[row] = max(time[row], s_time[slot]) if is_there else time[row]
        # Without an aggregate and without a new value nothing is folded: the result is a deletion.
        if is_value:
            # The first entry of a change carries OLD or START; the last one EMIT.
            first = OLD if is_there else START
            takes = is_there and old_valid[row]
            if is_there and into != slot:
                # The old value is read from the copy, so that OLD comes with it.
                program.flags[n], program.slots[n], program.arguments[n] = COPY | OLD, into, slot
                first = 0
                n += 1
            if takes:
                end = 0 if valid[row] else EMIT
                program.flags[n], program.slots[n], program.arguments[n] = first | TAKE | end, into, rows + row
                first = 0
                n += 1
            # There must be an EMIT for every result, also where a change neither takes nor adds.
            if valid[row] or not takes:
                more = ADD if valid[row] else 0
                program.flags[n], program.slots[n], program.arguments[n] = first | more | EMIT, into, row
                n += 1
        is_kept = settle_group(slot, result.time[row], is_value, retention, clock, groups)
        if is_value and is_kept and into != slot:
            program.flags[n], program.slots[n], program.arguments[n] = COPY, slot, into
            n += 1
    return n


def results(changes: int) -> FoldChanges:
    """Room for the results of so many."""
    return empty(FoldChanges, changes)


def entries(changes: int) -> FoldProgram:
    """Room for the program of so many."""
    return empty(FoldProgram, ENTRIES * changes)
