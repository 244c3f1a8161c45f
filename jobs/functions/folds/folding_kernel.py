"""Folds over numbers and over references to values, carrying out a program (jobs/functions/folds/fold_program.py).

Rule: a null input changes nothing in a sum, a minimum or a maximum; a count counts it; first and last take it.
A number is preferred to NaN, whichever comes first. So NaN stays only where there is nothing else.
``wanted[u]`` is where the new value of update u goes, or -1; ``wanted_old`` the same for its old value.

Arrays: ``program`` has the fields of Program. ``values`` int64 or float64, ``by`` int64, ``valid`` bool and
``by_valid`` bool (rows,). ``state`` int64 or float64, ``state_by`` int64 and ``state_valid`` bool (slots,). ``wanted``
int64 and ``wanted_old`` int64 (updates,). ``new`` and ``old`` int64 or float64, ``new_valid`` bool and ``old_valid``
bool (results that are wanted,).
"""

from ....state.compilation.kernel_compilation import inlined_kernel, kernel
from .fold_program import ADD, COPY, EMIT, MERGE, OLD, START

COUNT, SUM, MIN, MAX = 0, 1, 2, 3
FIRST, LAST, MIN_BY, MAX_BY, LAST_BY = 0, 1, 2, 3, 4
NO_REFERENCE = -1


@kernel
def fold_numbers(kind, program, values, valid, state, state_valid, wanted, wanted_old, new, new_valid, old, old_valid):  # type: ignore[no-untyped-def]
    """Fold ``values`` of the rows into ``state`` by slot; ``*_valid`` false means null."""
    flags, slots, arguments = program
    update = 0
    # The order of these branches is that of the flags in fold_program. An OLD is asked before MERGE and ADD change the
    # slot.
    for p in range(flags.shape[0]):
        f, s, a = flags[p], slots[p], arguments[p]
        if f & START:
            state[s] = 0
            # A count or a sum of nothing is 0; a minimum or maximum of nothing is null.
            state_valid[s] = kind <= SUM
        if f & COPY:
            state[s], state_valid[s] = state[a], state_valid[a]
        if f & OLD and wanted_old[update] >= 0:
            old[wanted_old[update]] = state[s]
            old_valid[wanted_old[update]] = state_valid[s]
        if f & MERGE and state_valid[a]:
            # Partial counts and sums are added, minima and maxima compared: merging is the same as taking one more
            # number.
            combine(kind, state, state_valid, s, state[a])
        if f & ADD:
            if kind == COUNT:
                state[s] += 1
                state_valid[s] = True  # an aggregate of before there was this count is null
            elif valid[a]:
                combine(kind, state, state_valid, s, values[a])
        if f & EMIT:
            # Only what somebody below reads is written out.
            if wanted[update] >= 0:
                new[wanted[update]] = state[s]
                new_valid[wanted[update]] = state_valid[s]
            update += 1


@inlined_kernel
def combine(kind, state, state_valid, s, number):  # type: ignore[no-untyped-def]
    """Take one number that is not null into slot ``s``."""
    if kind <= SUM:
        state[s] += number
    elif (
        not state_valid[s]
        or (number < state[s] if kind == MIN else number > state[s])
        or state[s] != state[s]  # NaN, below and above nothing
    ):
        state[s] = number
    state_valid[s] = True


@kernel
def fold_references(kind, program, base, by, by_valid, state, state_by, wanted, wanted_old, new, old):  # type: ignore[no-untyped-def]
    """Fold references into ``state`` by slot: row r is the reference ``base + r``; ``state_by``: its ``by`` number.

    For MIN_BY, MAX_BY and LAST_BY a null ``by`` is passed over; of equal ones the first stays, for LAST_BY the last.
    All NaN are equal, and preferred to no number.
    """
    flags, slots, arguments = program
    update = 0
    for p in range(flags.shape[0]):
        f, s, a = flags[p], slots[p], arguments[p]
        if f & START:
            state[s] = NO_REFERENCE
        if f & COPY:
            state[s], state_by[s] = state[a], state_by[a]
        if f & OLD and wanted_old[update] >= 0:
            old[wanted_old[update]] = state[s]
        if f & MERGE and state[a] != NO_REFERENCE:
            prefer(kind, state, state_by, s, state[a], state_by[a])
        # FIRST and LAST, the lowest kinds, have no ``by`` that could be null.
        if f & ADD and (kind <= LAST or by_valid[a]):
            prefer(kind, state, state_by, s, base + a, by[a])
        if f & EMIT:
            if wanted[update] >= 0:
                new[wanted[update]] = state[s]
            update += 1


@inlined_kernel
def prefer(kind, state, state_by, s, reference, by):  # type: ignore[no-untyped-def]
    """Let slot ``s`` refer to ``reference`` if the kind prefers it to what is there."""
    if (
        state[s] == NO_REFERENCE
        or kind == LAST
        or (kind == MIN_BY and by < state_by[s])
        or (kind == MAX_BY and by > state_by[s])
        or (kind == LAST_BY and by >= state_by[s])
        or (state_by[s] != state_by[s] and (by == by or kind == LAST_BY))  # NaN is unequal to itself
    ):
        state[s] = reference
        state_by[s] = by
