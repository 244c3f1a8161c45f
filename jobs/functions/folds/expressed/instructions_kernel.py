"""Carries instructions out: those of an expression fold, for every record in the order of a fold's program.

Owns what each instruction computes, null and NaN included, which is what polars computes of the same expression. Rule:
a register is an int64, a float64 in the same eight bytes, or a boolean as 0 and 1, and it may be null.

Arrays: ``program`` has the fields of Program. ``codes``, ``registers``, ``initial``, ``inputs``, ``state``, ``new``,
``old``, ``into`` and ``rows`` are tuples, which fold_expressions describes. ``wanted`` and ``wanted_old`` int64
(updates,). ``code`` int64 (instructions, 5): an operation, the register that it sets, and up to three that it reads.
``words`` int64, ``doubles`` float64 of the same memory and ``known`` bool (registers,): not known is null.
"""

import math

from .....state.compilation.kernel_compilation import inner_kernel, kernel
from ..fold_program import ADD, COPY, EMIT, MERGE, OLD, START, TAKE

# Of any registers.
IS_NULL, IS_NOT_NULL, OR_ELSE, CHOOSE, NOT, AND, OR = 0, 1, 2, 3, 4, 5, 6
TO_DOUBLE, TO_BOOLEAN = 7, 8
# Of longs and booleans; the same number and DOUBLES more is of doubles.
PLUS, MINUS, TIMES, DIVIDE, REMAINDER, ABSOLUTE = 10, 11, 12, 13, 14, 15
EQUAL, UNEQUAL, LESS, AT_MOST, SAME, NOT_SAME, GREATEST, LEAST = 16, 17, 18, 19, 20, 21, 22, 23
DOUBLES = 20
SQUARE_ROOT = 44

_OF_LONGS, _OF_DOUBLES = PLUS, PLUS + DOUBLES


@kernel
def fold_expressions(program, codes, registers, initial, inputs, state, wanted, wanted_old, new, old, is_plain):  # type: ignore[no-untyped-def]
    """Fold the rows of ``inputs`` into ``state`` by slot. Parameters not named here are those of fold_numbers.

    ``codes``: (code, bounds, results, targets). MERGE, TAKE and ADD, part 0 to 2, run code[bounds[part] : bounds[part +
    1]], which leaves their fields in the registers results[part]. Column k of the inputs goes into register targets[k].
    ``registers``: (words, doubles, known). An aggregate of n fields has the first n registers, another one the next n.
    ``initial``, ``inputs``, ``state``, ``new``, ``old``: (words, known), a row a slot or record, a column a field. Of
    all but inputs, ``known`` has a last column: whether there is an aggregate. ``is_plain``: a null one is none.
    """
    flags, slots, arguments = program
    code, bounds, results, targets = codes
    words, doubles, known = registers
    input_words, input_known = inputs
    state_words, state_known = state
    fields, update = state_words.shape[1], 0
    for p in range(flags.shape[0]):
        f, s, a = flags[p], slots[p], arguments[p]
        if f & START:
            copy_row(state, s, initial, 0, fields)
        if f & COPY:
            copy_row(state, s, state, a, fields)
        if f & OLD and wanted_old[update] >= 0:
            copy_row(old, wanted_old[update], state, s, fields)
        for part in range(3):
            # Part 0 is MERGE, 1 TAKE and 2 ADD, each with instructions of its own; TAKE and ADD read a row, MERGE
            # another aggregate.
            if not f & (MERGE if part == 0 else TAKE if part == 1 else ADD):
                continue
            # There is no aggregate to merge.
            if part == 0 and not state_known[a, fields]:
                continue
            # The last column says whether there is an aggregate at all: an add without one begins from the initial
            # value.
            if not state_known[s, fields]:
                copy_row(state, s, initial, 0, fields)
            for field in range(fields):
                words[field], known[field] = state_words[s, field], state_known[s, field]
                if part == 0:
                    words[fields + field], known[fields + field] = state_words[a, field], state_known[a, field]
            if part > 0:
                for column in range(targets.shape[0]):
                    words[targets[column]], known[targets[column]] = input_words[a, column], input_known[a, column]
            carry_out(code, bounds[part], bounds[part + 1], words, doubles, known)
            for field in range(fields):
                register = results[part, field]
                state_words[s, field], state_known[s, field] = words[register], known[register]
            # A plain fold has one field, and null is no aggregate. One of several fields is there even if all of them
            # are null.
            state_known[s, fields] = state_known[s, 0] or not is_plain
        if f & EMIT:
            if wanted[update] >= 0:
                copy_row(new, wanted[update], state, s, fields)
            update += 1


@inner_kernel
def copy_row(into, at, rows, row, fields):  # type: ignore[no-untyped-def]
    """A row of (words, known) as the row ``at`` of ``into``."""
    into_words, into_known = into
    words, known = rows
    for field in range(fields):
        into_words[at, field], into_known[at, field] = words[row, field], known[row, field]
    into_known[at, fields] = known[row, fields]


@inner_kernel
def carry_out(code, begin, end, words, doubles, known):  # type: ignore[no-untyped-def]
    """Instructions from ``begin`` up to ``end``."""
    for at in range(begin, end):
        operation, into, a, b, c = code[at, 0], code[at, 1], code[at, 2], code[at, 3], code[at, 4]
        if operation >= _OF_LONGS:
            both = known[a] and known[b]
            # SAME and NOT_SAME know null: it is the same as null and nothing else, and the answer is never null.
            if (
                operation == SAME
                or operation == NOT_SAME
                or operation == SAME + DOUBLES
                or operation == NOT_SAME + DOUBLES
            ):
                is_same = known[a] == known[b]
                if both:
                    is_double = operation >= _OF_DOUBLES
                    is_same = equal(doubles[a], doubles[b]) if is_double else words[a] == words[b]
                words[into] = is_same == (operation == SAME or operation == SAME + DOUBLES)
                known[into] = True
            elif both:
                known[into] = True
                # An operation of doubles has the number of that of longs and DOUBLES more, so one list of cases
                # serves both.
                if operation >= _OF_DOUBLES:
                    of_doubles(operation - DOUBLES, into, float(doubles[a]), float(doubles[b]), words, doubles)
                else:
                    of_longs(operation, into, words[a], words[b], words, known)
            # SQL's rule: with a null operand the result is null. Greatest and least pass a null over.
            else:
                known[into] = False
                if GREATEST <= operation <= LEAST or GREATEST + DOUBLES <= operation <= LEAST + DOUBLES:
                    source = a if known[a] else b  # the one that there is
                    words[into], known[into] = words[source], known[source]
        elif operation == IS_NULL or operation == IS_NOT_NULL:
            words[into], known[into] = known[a] == (operation == IS_NOT_NULL), True
        elif operation == OR_ELSE:
            source = a if known[a] else b
            words[into], known[into] = words[source], known[source]
        # A condition that is null is not true.
        elif operation == CHOOSE:
            source = b if known[a] and words[a] != 0 else c
            words[into], known[into] = words[source], known[source]
        # Three-valued logic: decided by one operand, else null if one of them is.
        elif operation == AND or operation == OR:
            decides = operation == OR  # true decides an OR, false an AND, whatever is beside it
            is_decided = (known[a] and (words[a] != 0) == decides) or (known[b] and (words[b] != 0) == decides)
            words[into], known[into] = is_decided == decides, is_decided or (known[a] and known[b])
        else:
            known[into] = known[a]
            if operation == TO_DOUBLE:
                doubles[into] = float(words[a])
            else:
                # TO_BOOLEAN keeps whether it is not 0; NOT, the only other operation here, turns it round.
                words[into] = (words[a] != 0) == (operation == TO_BOOLEAN)


@inner_kernel
def of_longs(operation, into, x, y, words, known):  # type: ignore[no-untyped-def]
    """An operation of two longs, neither null; they wrap as Java's. What cannot be divided is null."""
    if operation == PLUS:
        words[into] = x + y
    elif operation == MINUS:
        words[into] = x - y
    elif operation == TIMES:
        words[into] = x * y
    elif operation == DIVIDE or operation == REMAINDER:
        if y == 0:
            known[into] = False
        # The least long divided by -1 does not fit: it wraps in Java, and traps in the processor.
        elif y == -1:
            words[into] = -x if operation == DIVIDE else 0
        else:
            # // rounds down, Java's division towards zero.
            quotient = x // y
            if quotient < 0 and quotient * y != x:
                quotient += 1  # towards zero
            words[into] = quotient if operation == DIVIDE else x - quotient * y
    elif operation == ABSOLUTE:
        words[into] = -x if x < 0 else x
    elif operation == EQUAL:
        words[into] = x == y
    elif operation == UNEQUAL:
        words[into] = x != y
    elif operation == LESS:
        words[into] = x < y
    elif operation == AT_MOST:
        words[into] = x <= y
    elif operation == GREATEST:
        words[into] = max(x, y)
    else:
        words[into] = min(x, y)


@inner_kernel
def of_doubles(operation, into, x, y, words, doubles):  # type: ignore[no-untyped-def]
    """An operation of two doubles, neither null, ``operation`` as of longs. NaN is equal to itself and above all."""
    if operation == PLUS:
        doubles[into] = x + y
    elif operation == MINUS:
        doubles[into] = x - y
    elif operation == TIMES:
        doubles[into] = x * y
    elif operation == DIVIDE:
        # By zero as IEEE 754 says; Numba would raise instead.
        if y != 0.0:
            doubles[into] = x / y
        elif x == 0.0 or x != x:
            doubles[into] = math.nan
        else:
            doubles[into] = math.copysign(math.inf, x) * math.copysign(1.0, y)
    elif operation == ABSOLUTE:
        doubles[into] = abs(x)
    elif operation == SQUARE_ROOT - DOUBLES:
        doubles[into] = math.sqrt(x) if x >= 0.0 else math.nan
    elif operation == EQUAL:
        words[into] = equal(x, y)
    elif operation == UNEQUAL:
        words[into] = not equal(x, y)
    elif operation == LESS:
        words[into] = x < y or (x == x and y != y)
    elif operation == AT_MOST:
        words[into] = x <= y or y != y
    # Greatest and least pass NaN over where the other operand is a number.
    elif y != y or (x == x and (x >= y if operation == GREATEST else x <= y)):
        doubles[into] = x
    else:
        doubles[into] = y


@inner_kernel
def equal(x, y):  # type: ignore[no-untyped-def]
    """Of doubles, with NaN equal to NaN."""
    return x == y or (x != x and y != y)
