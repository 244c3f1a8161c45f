"""What every kernel of aggregates writes: updates, entries of the fold's program, refusals, and their totals."""

from ...state.compilation.kernel_compilation import inner_kernel

UPDATES, PROGRAM, REFUSALS, STREAM_TIME = 0, 1, 2, 3
"""Places in ``totals``: updates, program entries and refusals written; the operator's stream time in and out."""

NULL, CLOSED, UNSTORED = 0, 1, 2
"""Kinds of refusal: a null key or value, a window that is closed, a put that the store refuses."""


@inner_kernel
def refuse(refusals, n, row, kind, start, stream_time, limit, is_record):  # type: ignore[no-untyped-def]
    """Refusal ``n``; a null's has no start and no limit."""
    r_row, r_kind, r_start, r_stream_time, r_limit, r_is_record = refusals
    r_row[n], r_kind[n], r_start[n], r_stream_time[n], r_limit[n] = row, kind, start, stream_time, limit
    r_is_record[n] = is_record
