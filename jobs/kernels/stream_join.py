"""Which records of two streams meet (KStreamKStreamJoin, KStreamJoinWindow, JoinWindows).

Rule: a left record at t meets right ones in ``[t - before, t + after]``, a right one left ones in ``[t - after, t +
before]``, bounds no lower than 0, as far as the other side's store shows them. Of one record come, in this order: all
waiting ones whose windows are closed, if its time is the stream time; its pairs, by time and arrival; itself alone, if
it has no pair, its side is an outer one and its window, without grace, is over, else it waits. Then it is stored.
A store shows ``time >= its own newest time - retention + 1``; a put at or before that limit is refused.
Stream time is that of both sides and moves on before any check. A null key or a null value is refused, except that a
null key of an outer side goes on alone; a null value moves the time of an in-memory store.
"""

import numpy as np
from numba import njit

from jobs.kernels.stream_join_unmatched import (
    LONG_MAX,
    NONE,
    begin_waiting,
    end_waiting,
    first_closed,
    is_open,
    tracked_time,
)
from jobs.kernels.time_windows import is_expired
from state.stores.timed_records import (
    BEGIN,
    COUNT,
    OBSERVED_MS,
    PENDING,
    REFERENCE,
    SEQUENCE,
    TIME,
    first_from,
    has_room,
    insert,
)

STREAM_TIME, TRACKED_TIME, ROW, PHASE, AT, HAS_EFFECT, LAST_LEFT, WRITTEN, REFUSED = range(9)
"""Places in ``totals``: stream time and the time of unmatched records that Kafka tracks, in and out; where a call goes
on; pairs and refusals written.
"""

FRESH, LEAVING, MEETING = 0, 1, 2
"""Phases of a row."""

DONE, OUT_IS_FULL, STORE_IS_FULL = 0, 1, 2
"""Answers of ``join_streams``; the last two: make room and call again."""

NULL_KEY, NULL_VALUE, EXPIRED = 0, 1, 2
"""Kinds of refusals."""


@njit(cache=True)
def join_streams(rows, windows, stores, unmatched, pairs, refusals, totals):  # type: ignore[no-untyped-def]
    """Take rows of ``(side, key, time, valid, reference, sequence, rank)`` in order, from ``totals[ROW]`` on.

    ``windows``: (look-back by side, look-ahead by side, look-ahead + grace by side, is outer by side, retention,
    segment or 0 in memory). ``stores``: (left, right). ``pairs``: (row, key, time, left reference, right reference),
    NONE for no reference. ``refusals``: (row, kind, stream time, limit, is record).
    """
    side, key, time, valid = rows[:4]
    totals[WRITTEN], totals[REFUSED] = 0, 0
    for row in range(totals[ROW], side.shape[0]):
        totals[ROW] = row
        totals[STREAM_TIME] = max(totals[STREAM_TIME], time[row])
        if key[row] < 0 or not valid[row]:
            if not pass_by(row, rows, windows, stores, pairs, refusals, totals):
                return OUT_IS_FULL
            continue
        if totals[PHASE] == FRESH and not has_room(stores[side[row]], key[row]):
            return STORE_IS_FULL
        if not let_leave(row, rows, windows, unmatched, pairs, totals):
            return OUT_IS_FULL
        if not meet_others(row, rows, windows, stores, unmatched, pairs, totals):
            return OUT_IS_FULL
        keep(row, rows, windows, stores, refusals, totals)
        totals[PHASE] = FRESH
    totals[ROW] = side.shape[0]
    return DONE


@njit(cache=True)
def write(pairs, totals, row, key, time, side, own, other):  # type: ignore[no-untyped-def]
    """Write a pair of a record of ``side``; False when there is no room."""
    n = totals[WRITTEN]
    o_row, o_key, o_time, o_left, o_right = pairs
    if n == o_row.shape[0]:
        return False
    o_row[n], o_key[n], o_time[n] = row, key, time
    o_left[n], o_right[n] = (own, other) if side == 0 else (other, own)
    totals[WRITTEN] = n + 1
    return True


@njit(cache=True)
def refuse(refusals, totals, row, kind, observed, limit, is_record):  # type: ignore[no-untyped-def]
    n = totals[REFUSED]
    r_row, r_kind, r_observed, r_limit, r_is_record = refusals
    r_row[n], r_kind[n], r_observed[n], r_limit[n], r_is_record[n] = row, kind, observed, limit, is_record
    totals[REFUSED] = n + 1


@njit(cache=True)
def pass_by(row, rows, windows, stores, pairs, refusals, totals):  # type: ignore[no-untyped-def]
    """A record whose key or value is null."""
    side, key, time, valid, reference, _, _ = rows
    _, _, _, is_outer, retention, segment = windows
    s, t = side[row], time[row]
    if valid[row] and is_outer[s]:
        return write(pairs, totals, row, key[row], t, s, reference[row], NONE)
    refuse(refusals, totals, row, NULL_KEY if key[row] < 0 else NULL_VALUE, totals[STREAM_TIME], NONE, True)
    if key[row] >= 0 and segment == 0:
        counts = stores[s][2]
        counts[OBSERVED_MS] = max(counts[OBSERVED_MS], t)
        limit = counts[OBSERVED_MS] - retention
        if t <= limit:
            refuse(refusals, totals, row, EXPIRED, counts[OBSERVED_MS], limit, True)
    return True


@njit(cache=True)
def let_leave(row, rows, windows, unmatched, pairs, totals):  # type: ignore[no-untyped-def]
    """Waiting records whose windows are closed leave, if this one is to look."""
    waits, is_outer = windows[2], windows[3]
    if totals[PHASE] == FRESH:
        observed = totals[STREAM_TIME]
        looks = is_outer[0] and rows[2][row] == observed
        if looks and not is_open(totals[TRACKED_TIME], waits[rows[0][row]], observed):
            totals[PHASE], totals[LAST_LEFT] = LEAVING, NONE
        else:
            totals[PHASE], totals[AT] = MEETING, NONE
    if totals[PHASE] == LEAVING:
        _, times, slot_of, slots, references, _ = unmatched
        while True:
            rank = first_closed(unmatched, waits, totals[STREAM_TIME])
            if rank == NONE:
                break
            slot = slot_of[rank]
            if not write(pairs, totals, row, slots[0][slot], times[rank], slots[2][slot], references[slot], NONE):
                return False
            end_waiting(unmatched, slot)
            totals[LAST_LEFT] = rank
        totals[TRACKED_TIME] = tracked_time(unmatched, totals[LAST_LEFT])
        totals[PHASE], totals[AT] = MEETING, NONE
    return True


@njit(cache=True)
def meet_others(row, rows, windows, stores, unmatched, pairs, totals):  # type: ignore[no-untyped-def]
    """The record's pairs; without any and of an outer side: itself alone, now or later."""
    side, key, time, _, reference, sequence, rank = rows
    look_back, look_ahead, _, is_outer, retention, _ = windows
    s, k, t = side[row], key[row], time[row]
    blocks, pool, counts = stores[1 - s]
    slots = unmatched[3]
    end, until = blocks[k, BEGIN] + blocks[k, COUNT], max(0, t + look_ahead[s])
    if totals[AT] == NONE:
        oldest = max(0, t - look_back[s], counts[OBSERVED_MS] - retention + 1)
        totals[AT], totals[HAS_EFFECT] = first_from(pool, blocks[k, BEGIN], end, oldest), 0
    at = totals[AT]
    while at < end and pool[at, TIME] <= until:
        if not write(pairs, totals, row, k, max(t, pool[at, TIME]), s, reference[row], pool[at, REFERENCE]):
            totals[AT] = at
            return False
        totals[HAS_EFFECT] = 1
        slot = pool[at, PENDING]
        if slot != NONE:
            pool[at, PENDING] = NONE
            if slots[1][slot] == pool[at, SEQUENCE]:  # else it has left
                end_waiting(unmatched, slot)
        at += 1
    totals[AT] = NONE  # from here on: the slot in which this record waits
    if is_outer[s] and not totals[HAS_EFFECT]:
        if until < totals[STREAM_TIME]:
            if not write(pairs, totals, row, k, t, s, reference[row], NONE):
                totals[AT] = at
                return False
        else:
            totals[TRACKED_TIME] = min(totals[TRACKED_TIME], t)
            totals[AT] = begin_waiting(unmatched, s, k, t, reference[row], sequence[row], rank[row])
        totals[HAS_EFFECT] = 1
    return True


@njit(cache=True)
def keep(row, rows, windows, stores, refusals, totals):  # type: ignore[no-untyped-def]
    """Store the record, unless it is expired."""
    side, key, time, _, reference, sequence, _ = rows
    retention, segment = windows[4], windows[5]
    store, t = stores[side[row]], time[row]
    counts = store[2]
    counts[OBSERVED_MS] = max(counts[OBSERVED_MS], t)
    limit = counts[OBSERVED_MS] - retention
    if is_expired(t, limit, segment):
        refuse(refusals, totals, row, EXPIRED, counts[OBSERVED_MS], limit, not totals[HAS_EFFECT])
    elif t > limit:  # else it stands in a segment that is alive, never to be seen
        insert(store, key[row], (t, reference[row], sequence[row], totals[AT]), limit + 1)


def fresh_totals() -> np.ndarray:
    """``totals`` before the first record."""
    totals = np.zeros(9, np.int64)
    totals[STREAM_TIME], totals[TRACKED_TIME] = -1, LONG_MAX
    return totals


def rooms(pairs: int, records: int) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Empty (pairs, refusals) for so many pairs, and for all that ``records`` rows may be refused."""
    return (
        tuple(np.empty(pairs, kind) for kind in (np.int32, np.int32, np.int64, np.int64, np.int64)),
        tuple(np.empty(2 * records, kind) for kind in (np.int32, np.int8, np.int64, np.int64, np.bool_)),
    )
