"""Arrays that the kernels of windowed aggregates take and give, by name, a dtype a field."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...functions.folds.fold_program import FoldProgram
from ...kernels.aggregate_buffers import Refusals, empty


class RecordsToDecide(NamedTuple):
    """Records to decide: ``begin`` up to ``end`` of the batch; times in ms."""

    key: NDArray[np.int32]
    time: NDArray[np.int64]
    begin: int
    end: int


class WindowUpdates(NamedTuple):
    """Updates in the order in which they are forwarded, shape (updates,); times in ms."""

    row: NDArray[np.int32]
    key: NDArray[np.int32]
    start: NDArray[np.int64]
    """Of the window, inclusive."""
    time: NDArray[np.int64]
    """The largest time in the window; of a session that is its end, inclusive."""
    kind: NDArray[np.int8]
    """Sessions: UPDATE, TOMBSTONE or FINAL; sliding windows: whether there is an old value; else undefined."""
    stream_time: NDArray[np.int64]


def allocate(updates: int, program: int, refusals: int) -> tuple[WindowUpdates, FoldProgram, Refusals]:
    """Room for so many of each."""
    return empty(WindowUpdates, updates), empty(FoldProgram, program), empty(Refusals, refusals)
