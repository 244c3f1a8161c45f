"""A task's stream time and tape time over a chunk's rows, and how late its records are (PartitionGroup, StreamTask).

Rule: stream time is the largest time of the records taken so far, tape time that of all records. A record that is taken
is as late as it is behind stream time from before it, or not at all. Latenesses are counted in classes: one for each
millisecond up to 15, then eight for every doubling. So the largest of a class is at most an eighth above the others.

Arrays: ``time_ms`` int64, ``takes`` bool, ``is_record`` bool, ``stream_time_ms`` int64 and ``tape_time_ms`` int64
(rows,). ``counters`` int64 (5,), ``late_classes`` int64 (LATE_CLASSES,).
"""

from ...state.compilation.kernel_compilation import kernel

STREAM_MS, TAPE_MS, LATE_SUM_MS, LATE_MAX_MS, TAKEN = 0, 1, 2, 3, 4
"""Places in ``counters``: both times as of the last row; lateness and number of the records taken in this call."""
LATE_SUM_MAX_MS = 2**62
"""From there on a sum of lateness grows no more: a thousand records behind one of the year 287396 come to it."""
LATE_CLASSES = 496
"""Of lateness in ms, below 2 ** 63."""


def class_limit_ms(number: int) -> int:
    """The largest lateness that is counted in a class."""
    shift = max(0, number // 8 - 1)
    # The inverse of the class number in advance_counters: class 8 * shift + m has latenesses whose top bits are m.
    return ((number - 8 * shift + 1) << shift) - 1


@kernel
def advance_counters(time_ms, takes, is_record, counters, late_classes, stream_time_ms, tape_time_ms):  # type: ignore[no-untyped-def]
    """Move ``counters`` on over all rows, add to ``late_classes``, and write both times as they are after each row."""
    stream, tape, late_sum, late_max, taken = counters[STREAM_MS], counters[TAPE_MS], 0, 0, 0
    for row in range(time_ms.shape[0]):
        if is_record[row]:
            tape = max(tape, time_ms[row])
        # Late against the time before it: a record that moves stream time is not late.
        if takes[row]:
            late = max(stream - time_ms[row], 0)
            # The sum saturates, so that no number of late records overflows an int64.
            late_sum, late_max, taken = min(late_sum, LATE_SUM_MAX_MS) + late, max(late_max, late), taken + 1
            stream = max(stream, time_ms[row])
            # A class keeps the four highest bits of a lateness, m = late >> shift, which is below 16. From 16 on m is 8
            # to 15, so every doubling adds eight classes: the number is 8 * shift + m.
            shift = 0
            while late >> shift >= 16:
                shift += 1
            late_classes[8 * shift + (late >> shift)] += 1
        stream_time_ms[row], tape_time_ms[row] = stream, tape
    counters[STREAM_MS], counters[TAPE_MS] = stream, tape
    counters[LATE_SUM_MS], counters[LATE_MAX_MS], counters[TAKEN] = late_sum, late_max, taken
