"""What kernels of aggregates write: updates, entries of the fold's program, refusals, and how many of each.

Owns the bundles that all of them fill, and their allocation. Rule: a bundle is allocated for the most that one call may
write; ``totals`` says how much of it the call has written.

Arrays: ``refusals`` has the fields of Refusals. ``totals`` is int64 (4,).
"""

import functools
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from ...state.compilation.kernel_compilation import inner_kernel

UPDATES, PROGRAM, REFUSALS, STREAM_TIME = 0, 1, 2, 3
"""Places in ``totals`` int64: updates, program entries and refusals written; the operator's stream time in and out."""

NULL, CLOSED, UNSTORED = 0, 1, 2
"""Kinds of refusal: a null key or value, a window that is closed, a put that the store refuses."""


class Refusals(NamedTuple):
    """What was refused, shape (refusals,): rows or windows, by rising row."""

    row: NDArray[np.int32]
    kind: NDArray[np.int8]
    """NULL, CLOSED or UNSTORED."""
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    """Bounds of the window, as its kind of window has them; undefined for NULL."""
    stream_time: NDArray[np.int64]
    limit: NDArray[np.int64]
    """The time that decided; -1 for NULL."""
    is_record: NDArray[np.bool_]
    """The record had no effect at all."""


@inner_kernel
def refuse(refusals, n, row, kind, start, end, stream_time, limit, is_record):  # type: ignore[no-untyped-def]
    """Write refusal ``n`` into ``refusals`` (Refusals)."""
    refusals.row[n], refusals.kind[n], refusals.start[n], refusals.end[n] = row, kind, start, end
    refusals.stream_time[n], refusals.limit[n], refusals.is_record[n] = stream_time, limit, is_record


Bundle = TypeVar("Bundle", bound=tuple[Any, ...])


def empty(bundle: type[Bundle], length: int) -> Bundle:
    """A ``bundle`` (NamedTuple of arrays) for ``length`` elements, undefined, of the dtypes that its fields name."""
    return bundle(*(np.empty(length, dtype) for dtype in _dtypes(bundle)))


def written(bundle: Bundle, length: int) -> Bundle:
    """The first ``length`` elements of ``bundle``, not copied."""
    return type(bundle)(*(column[:length] for column in bundle))


@functools.cache
def _dtypes(bundle: type[Bundle]) -> tuple[type, ...]:
    """Of an NDArray[np.int64] the dtype, np.int64."""
    return tuple(get_args(get_args(kind)[1])[0] for kind in get_type_hints(bundle).values())
