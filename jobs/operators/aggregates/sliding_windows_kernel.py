"""Which windows a record is in or makes, and what is forwarded (KStreamSlidingWindowAggregate, SlidingWindows;
KIP-450).

Rule: windows are ``[start, start + difference]``, both inclusive. A record at t updates every window that has t and
still takes records (``end >= stream time - grace``; equal is in time), by falling start. It makes the window after the
newest record before it, and its own left window ``[t - difference, t]``. If later records are near, it makes its own
right window ``[t + 1, ...]``, which is a copy of what was there before it and is never too late. A record before
``difference`` is early: it has no left window but shares ``[0, difference]``, which is updated last, the others by
rising start. A record is refused whole if ``t + difference < stream time - grace``. Null keys and values are refused
before the clock moves. The store shows windows from its own newest start less the retention on; one made before that is
forwarded and not stored.

Arrays: ``rows`` is a tuple of key int32, time int64 and valid bool (rows,), and of the two bounds. ``slots`` has the
fields of SlotColumns, ``updates`` of WindowUpdates, ``program`` of FoldProgram, ``refusals`` of Refusals, ``into`` of
WindowOutputs. ``lists``: a tuple as in slots_by_key_kernel, head int32 (keys,) first. ``window_slots`` int32 and
``s_start`` int64 (slots,). ``store_time`` int64 (rows,). ``totals`` int64 (5,). ``windows``, ``kept``, ``asked``,
``record`` and ``bounds``: tuples of numbers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....state.compilation.kernel_compilation import inner_kernel, kernel
from ....state.stores.slots import CHANGED, FREE_TOP, LIVE, OBSERVED_MS, SlotColumns
from ...functions.folds.fold_program import ADD, COPY, EMIT, OLD, START, FoldProgram
from ...kernels.aggregate_buffers import (
    CLOSED,
    NULL,
    PROGRAM,
    REFUSALS,
    STREAM_TIME,
    UNSTORED,
    UPDATES,
    Refusals,
)
from ...kernels.aggregate_buffers import refuse as write_refusal
from ...kernels.slot_lifecycle import is_expired
from ..aggregate_parts import window_columns
from ..aggregate_parts.slots_by_key_kernel import NO_SLOT, first_from, link
from ..aggregate_parts.window_columns import WindowUpdates

NEXT_ROW = 4
"""Place in ``totals``: where a call stopped for lack of room, or the end row."""

SLOTS_PER_RECORD = 3
"""The most windows that a record makes."""
_OTHERS = 8
"""Room that a record needs beside that of the windows it finds."""


class WindowOutputs(NamedTuple):
    """What a call writes; ``totals``: as in aggregate_buffers, and NEXT_ROW."""

    updates: WindowUpdates
    program: FoldProgram
    refusals: Refusals
    totals: NDArray[np.int64]


@kernel
def aggregate_sliding_windows(  # type: ignore[no-untyped-def]
    rows, windows, kept, asked, slots, lists, window_slots, store_time, updates, program, refusals, totals
):
    """Decide rows of ``(key int32, time int64, valid bool, begin, end_row)`` in order, as long as there is room.

    ``windows``: (difference, grace). ``store_time`` int64: the store's newest start after each row, filled. ``kept``,
    ``asked``: as for time windows; ``lists``: as in slots_by_key_kernel. ``window_slots`` int32: room for as many slots
    as there are. Fields of SlotColumns, WindowUpdates, FoldProgram and Refusals.
    """
    slots = SlotColumns(*slots)
    into = WindowOutputs(WindowUpdates(*updates), FoldProgram(*program), Refusals(*refusals), totals)
    key, time, valid, begin, end_row = rows
    difference, grace = windows
    counts = slots.counts
    observed = totals[STREAM_TIME]
    for total in (UPDATES, PROGRAM, REFUSALS):
        totals[total] = 0
    for row in range(begin, end_row):
        totals[NEXT_ROW] = row
        t = time[row]
        # Refused before the clock moves, as in Kafka: null keys and null values both.
        if key[row] < 0 or not valid[row]:
            if totals[REFUSALS] == into.refusals.row.shape[0]:
                return
            refuse(into, row, NULL, (-1, -1), observed, -1, True)
            store_time[row] = counts[OBSERVED_MS]
            continue
        # Searched first, because the room that a record needs depends on it. Nothing has changed yet, so a call that
        # has no room can be repeated from this row.
        n_windows, has_right = search(key[row], t, difference, kept[0], slots, lists, window_slots)
        if not has_room(n_windows + _OTHERS, into):
            return
        observed = max(observed, t)
        totals[STREAM_TIME] = observed
        close = observed - grace
        # Even the latest window that could have the record, [t, t + difference], is closed.
        if t + difference < close:
            refuse(into, row, CLOSED, (t, t + difference), observed, close, True)
        else:
            first_refusal, n_before = totals[REFUSALS], totals[PROGRAM]
            record = row, key[row], t, observed, close, kept
            # The left window would start before 0: processEarly.
            if t < difference:
                take_early(record, difference, asked, window_slots[:n_windows], has_right, slots, lists, into)
            else:
                take(record, difference, asked, window_slots[:n_windows], has_right, slots, lists, into)
            # Every window refused it, so the record as a whole is dropped.
            if totals[PROGRAM] == n_before:
                into.refusals.is_record[first_refusal : totals[REFUSALS]] = True
        store_time[row] = counts[OBSERVED_MS]
    totals[NEXT_ROW] = end_row


@inner_kernel
def has_room(needed, into):  # type: ignore[no-untyped-def]
    """Is there room for what a record with that many windows may cause?"""
    return (
        into.totals[UPDATES] + needed <= into.updates.row.shape[0]
        and into.totals[PROGRAM] + needed <= into.program.flags.shape[0]
        and into.totals[REFUSALS] + needed <= into.refusals.row.shape[0]
    )


@inner_kernel
def search(k, t, difference, hidden, slots, lists, window_slots):  # type: ignore[no-untyped-def]
    """Write the visible windows of key ``k`` that have ``t``, by falling start, and the one before them, to
    ``window_slots``; their number, and whether the window that starts after ``t`` is there.
    """
    _, s_start, s_end, _, _, _, _, counts = slots
    following = lists[1]
    # backwardFetch(key, t - 2 * timeDifference, t + 1): far enough for the left window of the record before, and one
    # more for the record's own right window.
    lowest = max(0, t - 2 * difference, counts[OBSERVED_MS] - hidden)
    n_windows, has_right = 0, False
    slot = first_from(lists, k, s_start, t + 1)
    while slot != NO_SLOT and s_start[slot] >= lowest:
        if s_start[slot] == t + 1:
            has_right = True
        else:
            window_slots[n_windows] = slot
            n_windows += 1
            # The newest window before the record: it knows the time of the previous record, and nothing older is
            # needed.
            if s_end[slot] < t:
                break
        slot = following[slot]
    return n_windows, has_right


@inner_kernel
def take(record, difference, asked, window_slots, has_right, slots, lists, into):  # type: ignore[no-untyped-def]
    """Update and make the windows of a record that is not early (processReverse, createWindows)."""
    _, s_start, s_end, s_time, s_flags, _, _, _ = slots
    t = record[2]
    left, right, previous, has_left, is_repeated = NO_SLOT, NO_SLOT, -1, False, False
    # By falling start, as processReverse. The first that ends after t has all that lies after the record and within
    # reach (rightWinAgg), one that ends at t is the left window of t, and the one before has the previous record.
    for slot in window_slots:
        if s_end[slot] > t:
            right = slot if right == NO_SLOT else right
        elif s_end[slot] == t:
            # A window's time is that of its latest record. At t, another record was at t before: all its windows are
            # there (Kafka returns).
            has_left, is_repeated = True, s_time[slot] >= t
            previous = -1 if is_repeated else s_time[slot]
        else:
            left, previous = slot, s_time[slot]
    if is_repeated:
        left, right, previous = NO_SLOT, NO_SLOT, -1
    # Before any update: the right window must not have the record itself.
    copied = copy_right(record, difference, right, has_right, slots, into)
    for slot in window_slots:
        if s_end[slot] >= t:
            update(record, slot, asked, slots, into)
    made = NO_SLOT
    # createPreviousRecordRightWindow: the previous record's right window has this record as its first.
    if previous >= 0 and previous + 1 + difference >= t and not starts_at(window_slots, previous + 1, s_start):
        made = make(record, previous + 1, difference, NO_SLOT, asked, slots, lists, into)
    if made != NO_SLOT and previous + 1 == t - difference:  # Kafka makes this window once more, from nothing
        put(record, made, START | ADD | (OLD if asked[1] else 0), record[0], asked, slots, into)
        # ``make`` has forwarded the window and not kept it: this second put is booked as the first was.
        if not s_flags[made] & LIVE:
            book_unstored(record, (t - difference, t), slots, into)
    # The left window. leftWindowNotEmpty: where the previous record is in it, it continues the newest window before t,
    # which has no record before this left window: else that one's right window would be newer.
    elif not has_left:
        base = left if previous >= t - difference else NO_SLOT
        make(record, t - difference, difference, base, asked, slots, lists, into)
    if copied != NO_SLOT:
        enter_right(record, copied, asked, slots, lists, into)


@inner_kernel
def take_early(record, difference, asked, window_slots, has_right, slots, lists, into):  # type: ignore[no-untyped-def]
    """Update and make the windows of a record before ``difference`` (processEarly)."""
    _, s_start, _, s_time, _, _, _, _ = slots
    t = record[2]
    combined, right, previous = NO_SLOT, NO_SLOT, -1
    for slot in window_slots:
        # [0, difference] is the left window of all early records. Its time is that of the latest; if that is after t,
        # the previous record's right window is there already, made by the later record.
        if s_start[slot] == 0:
            combined = slot
            previous = s_time[slot] if s_time[slot] < t else -1
        elif right == NO_SLOT:
            right = slot
    # With no window between, the combined window has what lies after the record, if its latest record does; copy_right
    # looks at that.
    right = combined if right == NO_SLOT else right
    copied = copy_right(record, difference, right, has_right, slots, into)
    # processEarly fetches by rising start, processReverse by falling.
    for index in range(window_slots.shape[0] - 1, -1, -1):
        if s_start[window_slots[index]] > 0:
            update(record, window_slots[index], asked, slots, into)
    if copied != NO_SLOT:
        enter_right(record, copied, asked, slots, lists, into)
    # The previous record's right window always reaches t, since both are before ``difference``.
    if previous >= 0 and not starts_at(window_slots, previous + 1, s_start):
        make(record, previous + 1, difference, NO_SLOT, asked, slots, lists, into)
    if combined == NO_SLOT:
        make(record, 0, difference, NO_SLOT, asked, slots, lists, into)
    else:
        update(record, combined, asked, slots, into)


@inner_kernel
def starts_at(window_slots, start, s_start):  # type: ignore[no-untyped-def]
    """Does one of the windows start there?"""
    for slot in window_slots:
        if s_start[slot] == start:
            return True
    return False


@inner_kernel
def update(record, slot, asked, slots, into):  # type: ignore[no-untyped-def]
    """Add the record to a window that is there, if it is open."""
    _, s_start, s_end, s_time, s_flags, _, _, _ = slots
    row, _, t, observed, close, _ = record
    # Window by window: those that are closed are dropped, the others take the record.
    if s_end[slot] < close:
        refuse(into, row, CLOSED, (s_start[slot], s_end[slot]), observed, close, False)
        return
    s_time[slot] = max(s_time[slot], t)
    s_flags[slot] |= CHANGED
    put(record, slot, ADD | (OLD if asked[1] else 0), row, asked, slots, into)


@inner_kernel
def make(record, start, difference, base, asked, slots, lists, into):  # type: ignore[no-untyped-def]
    """Make a window of the record, and of what is in ``base``, if it is open; its slot."""
    row, k, t, observed, close, _ = record
    if start + difference < close:
        refuse(into, row, CLOSED, (start, start + difference), observed, close, False)
        return NO_SLOT
    slot = claim(k, start, start + difference, t, slots)
    flags = ADD | (OLD if asked[1] else 0)
    if base == NO_SLOT:
        flags |= START
    else:
        put_entry(COPY, slot, base, into)
    put(record, slot, flags, row, asked, slots, into)
    store(record, slot, slots, lists, into)
    return slot


@inner_kernel
def copy_right(record, difference, source, has_right, slots, into):  # type: ignore[no-untyped-def]
    """Keep what is in ``source``, before the record is added to it, for the record's right window, if it needs one."""
    _, k, t, _, _, _ = record
    # rightWindowIsNotEmpty: only if something after the record was there. It takes the time of that.
    if has_right or source == NO_SLOT or slots.time[source] <= t:
        return NO_SLOT
    slot = claim(k, t + 1, t + 1 + difference, slots.time[source], slots)
    put_entry(COPY, slot, source, into)
    return slot


@inner_kernel
def enter_right(record, slot, asked, slots, lists, into):  # type: ignore[no-untyped-def]
    """Put the record's right window into the store and forward it."""
    # Without a check of windowCloseTime, and with no old value: createCurrentRecordRightWindow puts and forwards it
    # always.
    if asked[0]:
        put(record, slot, 0, -1, asked, slots, into)
    store(record, slot, slots, lists, into)


@inner_kernel
def store(record, slot, slots, lists, into):  # type: ignore[no-untyped-def]
    """Let a new window be found, unless it is where the store shows none: then its slot is free again."""
    free, counts, start, hidden = slots.free, slots.counts, slots.start[slot], record[5][0]
    # An older one is never shown: it is forwarded, and not kept.
    if start >= counts[OBSERVED_MS] - hidden:
        link(slots, lists, slot)
        counts[OBSERVED_MS] = max(counts[OBSERVED_MS], start)
        return
    free[counts[FREE_TOP]] = slot
    counts[FREE_TOP] += 1
    book_unstored(record, (start, slots.end[slot]), slots, into)


@inner_kernel
def book_unstored(record, bounds, slots, into):  # type: ignore[no-untyped-def]
    """The store counts a put where it shows nothing as a drop, if it has forgotten that time."""
    store_time = slots.counts[OBSERVED_MS]
    _, retention, segment = record[5]
    if is_expired(bounds[0], store_time - retention, segment):
        refuse(into, record[0], UNSTORED, bounds, store_time, store_time - retention, False)


@inner_kernel
def claim(k, start, end, time, slots):  # type: ignore[no-untyped-def]
    """Take a free slot for a window, which is not in its key's list yet."""
    s_key, s_start, s_end, s_time, _, _, free, counts = slots
    counts[FREE_TOP] -= 1
    slot = free[counts[FREE_TOP]]
    s_key[slot], s_start[slot], s_end[slot], s_time[slot] = k, start, end, time
    return slot


@inner_kernel
def put(record, slot, flags, argument, asked, slots, into):  # type: ignore[no-untyped-def]
    """An entry of the program, and if it is to be forwarded its update."""
    updates, totals = into.updates, into.totals
    if asked[0]:
        n = totals[UPDATES]
        updates.row[n], updates.key[n], updates.stream_time[n] = record[0], record[1], record[3]
        # An entry without ADD is the record's own right window, which has no old value.
        updates.start[n], updates.time[n], updates.kind[n] = slots.start[slot], slots.time[slot], flags & ADD > 0
        totals[UPDATES] += 1
        flags |= EMIT
    put_entry(flags, slot, argument, into)


@inner_kernel
def put_entry(flags, slot, argument, into):  # type: ignore[no-untyped-def]
    """An entry of the program."""
    program, totals = into.program, into.totals
    n = totals[PROGRAM]
    program.flags[n], program.slots[n], program.arguments[n] = flags, slot, argument
    totals[PROGRAM] += 1


@inner_kernel
def refuse(into, row, kind, bounds, stream_time, limit, is_record):  # type: ignore[no-untyped-def]
    """Book a refusal."""
    n = into.totals[REFUSALS]
    write_refusal(into.refusals, n, row, kind, bounds[0], bounds[1], stream_time, limit, is_record)
    into.totals[REFUSALS] += 1


def allocate(most: int) -> tuple[WindowUpdates, FoldProgram, Refusals]:
    """Room for that many of each."""
    return window_columns.allocate(most, most, most)
