"""Counts and sums of grouped tables, carrying out a program that takes values back as well.

Rule: numbers that are not null are added and subtracted; a count counts values, nulls included. As
Kafka's subtractors, it goes below what was added where more is taken back than was there. A sum of what is THERE does
not: of numbers 0 and 1 it ignores what was never added, as folds do that keep values.

Arrays: ``program`` has the fields of Program. ``rows`` int64 or float64 and ``valid`` bool (rows,). ``state`` int64 or
float64 and ``state_valid`` bool (slots,). ``wanted`` and ``wanted_old`` int64 (updates,). ``new`` and ``old`` int64 or
float64, ``new_valid`` and ``old_valid`` bool (results that are wanted,).
"""

from ....state.compilation.kernel_compilation import kernel
from .fold_program import ADD, COPY, EMIT, OLD, START, TAKE
from .folding_kernel import COUNT

THERE = 4
"""A kind beside those of folding_kernel.py."""


@kernel
def change_numbers(kind, program, rows, valid, state, state_valid, wanted, wanted_old, new, new_valid, old, old_valid):  # type: ignore[no-untyped-def]
    """Carry ``program`` out for COUNT, SUM or THERE; parameters as of ``folding_kernel.fold_numbers``, ``rows``: the
    values of the rows.
    """
    flags, slots, arguments = program
    update = 0
    for p in range(flags.shape[0]):
        f, s, a = flags[p], slots[p], arguments[p]
        if f & START:
            state[s] = 0
            state_valid[s] = True
        if f & COPY:
            state[s], state_valid[s] = state[a], state_valid[a]
        if f & OLD and wanted_old[update] >= 0:
            old[wanted_old[update]] = state[s]
            old_valid[wanted_old[update]] = state_valid[s]
        if f & TAKE:
            # A subtractor may go below zero, as Kafka's does.
            if kind == COUNT:
                state[s] -= 1
            # THERE sums numbers 0 and 1: where the sum is 0, there is no 1 to take back.
            elif valid[a] and (kind != THERE or state[s] >= rows[a]):
                state[s] -= rows[a]
        if f & ADD:
            if kind == COUNT:
                state[s] += 1
            elif valid[a]:
                state[s] += rows[a]
        if f & EMIT:
            # Only what somebody below reads is written out.
            if wanted[update] >= 0:
                new[wanted[update]] = state[s]
                new_valid[wanted[update]] = state_valid[s]
            update += 1
