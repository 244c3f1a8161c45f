"""The program between control and fold: what a kernel decided, for folds to carry out on any kind of value.

An entry is (flags, slot, argument), carried out in this order of flags:
    START     aggregate of ``slot`` = initial value
    COPY      aggregate of ``slot`` = aggregate of slot ``argument``
    OLD       the aggregate of ``slot`` as it is now is the old value of the next update
    MERGE     aggregate of ``slot`` = merge(it, aggregate of slot ``argument``)
    TAKE      aggregate of ``slot`` = it without the value of row ``argument`` (of a grouped table; never beside ADD)
    ADD       aggregate of ``slot`` = add(it, value of row ``argument``)
    EMIT      the aggregate of ``slot`` is the new value of the next update, which is thereby complete
One order of the rows, one implementation of the rules, any number of folds.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

START, OLD, MERGE, ADD, EMIT, COPY, TAKE = 1, 2, 4, 8, 16, 32, 64


class FoldProgram(NamedTuple):
    """Entries in order, shape (entries,): what to do, the slot that it is done to, and the slot or row it takes."""

    flags: NDArray[np.uint8]
    slots: NDArray[np.int32]
    arguments: NDArray[np.int32]
