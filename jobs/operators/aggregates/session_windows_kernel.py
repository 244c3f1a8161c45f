"""Which sessions a record merges, and what is forwarded (KStreamSessionWindowAggregate, SessionWindows; KIP-94).

Rule: a record at t merges every visible session of its key with ``end >= t - gap`` and ``start <= t + gap`` (both
inclusive). The merged session is refused iff ``end < stream time - grace - gap`` (strict: equal is still in time). Else
tombstones of all merged sessions go first, by ascending end, then the merged session; a second record at the only time
of a one-point session makes no tombstone. A session is visible while ``end >= store time - reach + 1``.
A null key is refused before the clock moves; null values are taken.

Arrays: ``rows`` has the fields of RecordsToDecide, ``windows`` of SessionTimes, ``asked`` of SessionOutputs,
``closing`` of Closing, ``slots`` of SlotColumns, ``updates`` of WindowUpdates, ``program`` of FoldProgram, ``refusals``
of Refusals. ``lists``: a tuple as in slots_by_key_kernel, head int32 (keys,) first. ``to_merge`` int32 (slots,).
``totals`` int64 (4,). ``session``: a tuple of five integers, (row, key, start, end, stream time); ``written``: a tuple
of two.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....state.compilation.kernel_compilation import inlined_kernel, inner_kernel, kernel
from ....state.stores.slots import CHANGED, FREE_TOP, OBSERVED_MS, STORED, SlotColumns
from ...functions.folds.fold_program import ADD, EMIT, MERGE, OLD, START, FoldProgram
from ...kernels.aggregate_buffers import (
    CLOSED,
    NULL,
    PROGRAM,
    REFUSALS,
    STREAM_TIME,
    UNSTORED,
    UPDATES,
    Refusals,
    refuse,
)
from ...kernels.slot_lifecycle import is_expired
from ..aggregate_parts import window_columns
from ..aggregate_parts.slots_by_key_kernel import NO_SLOT, first_from, link, unlink
from ..aggregate_parts.window_columns import RecordsToDecide, WindowUpdates

UPDATE, TOMBSTONE, FINAL = 0, 1, 2
"""Kinds of update: a session as it is now, one that was merged away, one that closed at the row."""


class SessionTimes(NamedTuple):
    """In ms. ``segment``: length of a persistent store's segment, or 0 for a store in memory. ``overlaps``: the store's
    time may have begun again, so that it shows sessions that were made while it hid those within the gap.
    """

    gap: int
    grace: int
    reach: int
    retention: int
    segment: int
    overlaps: bool


class SessionOutputs(NamedTuple):
    """What the kernel writes. ``go_on``: a merged session continues in the slot of the earliest session that it
    merges, if no row of that one is durable, else in a new slot.
    """

    updates: bool
    old: bool
    final: bool
    go_on: bool


class Closing(NamedTuple):
    """For final results: the latest end that is closed after each row, and the one that was closed before the batch."""

    closed: NDArray[np.int64]
    done: int


@kernel
def aggregate_sessions(  # type: ignore[no-untyped-def]
    rows, windows, asked, closing, slots, lists, to_merge, updates, program, refusals, totals
):
    """Decide ``rows`` in order. Fields of RecordsToDecide, SessionTimes, SessionOutputs, Closing, SlotColumns,
    WindowUpdates, FoldProgram and Refusals; ``totals``: as in aggregate_buffers.

    ``lists``: as in slots_by_key_kernel; visible sessions of a key are apart, so their order by start is the same.
    ``to_merge`` int32: room for as many slots as there are. Refusals of the store do not keep the update from being
    forwarded.
    """
    rows, windows, asked, closing = (
        RecordsToDecide(*rows),
        SessionTimes(*windows),
        SessionOutputs(*asked),
        Closing(*closing),
    )
    slots, updates, program, refusals = (
        SlotColumns(*slots),
        WindowUpdates(*updates),
        FoldProgram(*program),
        Refusals(*refusals),
    )
    gap, grace, reach, following = windows.gap, windows.grace, windows.reach, lists[1]
    n_updates, n_program, n_refusals, observed = 0, 0, 0, totals[STREAM_TIME]
    for row in range(rows.begin, rows.end):
        k, t = rows.key[row], rows.time[row]
        # A null key is dropped before observedStreamTime moves. Null values are aggregated.
        if k >= 0:
            observed = max(observed, t)
        close = observed - grace - gap
        # The record's own session is [t, t]; every session that is found widens it.
        start, end, n_to_merge = t, t, 0
        if k >= 0:
            # findSessions(key, t - gap, t + gap). The store shows no session that it has expired by its own stream
            # time, although it may still be in a segment.
            horizon = max(t - gap, slots.counts[OBSERVED_MS] - reach + 1)
            # By falling end from the last session that starts at or before t + gap, down to the first that ends before
            # the horizon. Sessions that overlap have no order by start, so all that end late enough are looked at.
            slot = lists[0][k] if windows.overlaps else first_from(lists, k, slots.start, t + gap)
            while slot != NO_SLOT and slots.end[slot] >= horizon:
                if not windows.overlaps or slots.start[slot] <= t + gap:
                    to_merge[n_to_merge] = slot
                    n_to_merge += 1
                    start, end = min(start, slots.start[slot]), max(end, slots.end[slot])
                slot = following[slot]
            if windows.overlaps:
                order_ties(to_merge[:n_to_merge], slots)
        # windowCloseTime. The merged session decides, not the record: a late record is taken if it joins a session that
        # is still open. Nothing has been changed yet, so a refused record leaves the sessions as they were.
        if k < 0 or end < close:
            kind = CLOSED if k >= 0 else NULL
            refuse(refusals, n_refusals, row, kind, start, end, observed, close, True)
            n_refusals += 1
            continue
        # If the merged session is the record's own [t, t], what it merges has the same bounds, and Kafka puts over it
        # without a tombstone.
        session, has_tombstones = (row, k, start, end, observed), start != t or end != t
        written = n_updates, n_program
        n_updates, n_program = forward_merged(
            to_merge[:n_to_merge], session, has_tombstones, asked, closing, slots, updates, program, written
        )
        # The tombstones show the old aggregates, so their entries come before those that merge them.
        goes_on = asked.go_on and not windows.overlaps
        merged, n_program = merge(to_merge[:n_to_merge], goes_on, slots, lists, program, n_program)
        # Without a session to merge the aggregate begins from the initializer (START), else it is what ``merge`` has
        # made.
        enter(program, n_program, ADD | (0 if n_to_merge else START) | (EMIT if asked.updates else 0), merged, row)
        n_program += 1
        if asked.updates:
            show(updates, n_updates, row, k, start, end, UPDATE, observed)
            n_updates += 1
        # to_merge[n_to_merge - 1] ends first: it was widened where it is, and need not move in the list.
        if n_to_merge and merged == to_merge[n_to_merge - 1]:
            extend_in_place(merged, start, end, slots)
        else:
            shows_again = asked.final or windows.overlaps
            n_refusals += keep(merged, session, windows, shows_again, slots, lists, refusals, n_refusals)
    totals[UPDATES], totals[PROGRAM], totals[REFUSALS], totals[STREAM_TIME] = n_updates, n_program, n_refusals, observed


@inner_kernel
def order_ties(to_merge, slots):  # type: ignore[no-untyped-def]
    """Put sessions that end at one time, of those by falling end, in the order of falling start."""
    for at in range(1, to_merge.shape[0]):
        n, slot = at, to_merge[at]
        while (
            n > 0 and slots.end[to_merge[n - 1]] == slots.end[slot] and slots.start[to_merge[n - 1]] < slots.start[slot]
        ):
            to_merge[n] = to_merge[n - 1]
            n -= 1
        to_merge[n] = slot


@inner_kernel
def forward_merged(to_merge, session, has_tombstones, asked, closing, slots, updates, program, written):  # type: ignore[no-untyped-def]
    """Forward what becomes of the sessions ``to_merge`` (by falling end): final results of those that have closed, and
    tombstones. ``written``: updates and entries so far; how many then.
    """
    s_start, s_end = slots.start, slots.end
    row, k, _, _, observed = session
    n_updates, n_program = written
    # Backwards, so by ascending end: the order in which Kafka removes and forwards them.
    for f in range(to_merge.shape[0] - 1, -1, -1):
        slot = to_merge[f]
        if asked.final and has_closed(closing, s_end[slot], row):  # it left before; its value stood until now
            enter(program, n_program, EMIT, slot, -1)
            # Its row is the one whose stream time closed it, which is the first with ``closed >= end``.
            left = np.searchsorted(closing.closed, s_end[slot])
            show(updates, n_updates, left, k, s_start[slot], s_end[slot], FINAL, observed)
            n_program, n_updates = n_program + 1, n_updates + 1
        if asked.updates and has_tombstones:
            enter(program, n_program, EMIT | (OLD if asked.old else 0), slot, -1)
            show(updates, n_updates, row, k, s_start[slot], s_end[slot], TOMBSTONE, observed)
            n_program, n_updates = n_program + 1, n_updates + 1
    return n_updates, n_program


@inner_kernel
def merge(to_merge, goes_on, slots, lists, program, n_program):  # type: ignore[no-untyped-def]
    """Merge the sessions ``to_merge`` (by falling end), by rising end; the slot where their aggregate is, and how many
    entries there are then. The first of them continues in its slot, if that may be, and stays in its list, where its
    place is that of the merged session. A durable one is left for a new slot, so that its row is deleted.
    """
    s_flags, free, counts = slots.flags, slots.free, slots.counts
    n = to_merge.shape[0]
    # In place: the aggregate is there already (MERGE alone). In a new slot it is the initializer's, into which all of
    # them are merged.
    if n and goes_on and not s_flags[to_merge[n - 1]] & STORED:
        merged, flags = np.int64(to_merge[n - 1]), MERGE
    else:
        counts[FREE_TOP] -= 1
        merged, flags = np.int64(free[counts[FREE_TOP]]), START | MERGE
    for f in range(n - 1, -1, -1):
        if to_merge[f] != merged:
            enter(program, n_program, flags, merged, to_merge[f])
            n_program, flags = n_program + 1, MERGE
            unlink(slots, lists, to_merge[f])
    return merged, n_program


@inner_kernel
def extend_in_place(slot, start, end, slots):  # type: ignore[no-untyped-def]
    """Widen a session in its slot. It is visible, and stays so."""
    slots.start[slot], slots.end[slot], slots.time[slot] = start, end, end
    slots.flags[slot] |= CHANGED
    slots.counts[OBSERVED_MS] = max(slots.counts[OBSERVED_MS], end)


@inner_kernel
def keep(slot, session, windows, shows_again, slots, lists, refusals, n_refusals):  # type: ignore[no-untyped-def]
    """Enter a session into the store, unless it is nothing that the store would show; how many refusals that makes.
    ``shows_again``: what the store does not show is needed, for final results or after a restart.
    """
    s_key, s_start, s_end, s_time, s_flags, _, free, counts = slots
    row, k, start, end, _ = session
    s_key[slot], s_start[slot], s_end[slot], s_time[slot], s_flags[slot] = k, start, end, end, 0
    counts[OBSERVED_MS] = max(counts[OBSERVED_MS], end)
    # The store's own stream time is that of session ends; a put moves it before it judges the put itself.
    limit = counts[OBSERVED_MS] - windows.retention
    expired = is_expired(end, limit, windows.segment)
    # Kafka forwards the update although its store drops the session and counts it as expired.
    if expired:
        refuse(refusals, n_refusals, row, UNSTORED, start, end, counts[OBSERVED_MS], limit, False)
    if expired or (not shows_again and end <= limit):  # not stored, or stored where it is never visible again
        free[counts[FREE_TOP]] = slot
        counts[FREE_TOP] += 1
    else:
        link(slots, lists, slot)
        if shows_again:
            overwrite(slots, lists, slot)
    return 1 if expired else 0


@inlined_kernel
def enter(program, n, flags, slot, argument):  # type: ignore[no-untyped-def]
    """Entry ``n`` of the program."""
    program.flags[n], program.slots[n], program.arguments[n] = flags, slot, argument


@inlined_kernel
def show(updates, n, row, k, start, end, kind, stream_time):  # type: ignore[no-untyped-def]
    """Update ``n``."""
    updates.row[n], updates.key[n], updates.start[n], updates.time[n] = row, k, start, end
    updates.kind[n], updates.stream_time[n] = kind, stream_time


@inlined_kernel
def has_closed(closing, end, row):  # type: ignore[no-untyped-def]
    """Did the session that ends at ``end`` close at a row before ``row`` of this batch?"""
    # What ends by ``done`` was forwarded before the batch.
    return row > 0 and closing.done < end and end <= closing.closed[row - 1]


@inner_kernel
def overwrite(slots, lists, slot):  # type: ignore[no-untyped-def]
    """Forget a session of the same bounds as ``slot`` which the store has, but shows to no lookup any more."""
    s_start, s_end, following = slots.start, slots.end, lists[1]
    # ``link`` puts a session in front of those of its end, so one of the same bounds follows it.
    other = following[slot]
    while other != NO_SLOT and s_end[other] == s_end[slot]:
        if s_start[other] == s_start[slot]:
            unlink(slots, lists, other)
            return
        other = following[other]


def allocate(records: int, sessions: int) -> tuple[WindowUpdates, FoldProgram, Refusals]:
    """Room for a call over ``records`` rows and ``sessions`` live sessions.

    A record makes one session and one update; every session, new or there before, closes and is merged away once.
    """
    most = 3 * records + 2 * sessions
    return window_columns.allocate(most, most + records + sessions, records)
