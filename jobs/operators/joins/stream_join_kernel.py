"""Which records of two streams are joined (KStreamKStreamJoin, KStreamJoinWindow, JoinWindows).

Rule: a left record at t is joined with right ones in ``[t - before, t + after]``, a right one left ones in ``[t -
after, t + before]``, bounds no lower than 0, as far as the other side's store shows them. A record causes these
results, in this order. First all waiting records whose windows are closed, if its time is the stream time. Then its
pairs, by time and arrival. Then itself alone, if it has no pair, its side is an outer one and its window, without
grace, is over. Else it waits (of JoinWindows.of: it never waits). Then it is stored. A store shows ``time >= its own
newest time - retention + 1``. What it does not show, a persistent one has until it loses the segment, since a restart
shows it again; a put into a lost segment is refused, in memory one that is not shown. Stream time is that of both sides
and moves on before any check. A null key or a null value is refused, except that a null key of an outer side continues
alone; a null value moves the time of an in-memory store.

Arrays: ``rows`` int64 (rows, 7), ``row`` int64 (7,), ``windows`` int64 (10,), ``totals`` int64 (10,). ``pairs`` int64
(room, 5), ``refusals`` int64 (room, 5). ``store`` has the fields of RecordColumns, ``unmatched`` of Unmatched.
"""

import numpy as np

from ....state.compilation.kernel_compilation import inner_kernel, kernel
from ....state.stores import waiting_records as waiting
from ....state.stores.timed_records import (
    BEGIN,
    COUNT,
    LATE,
    OBSERVED_MS,
    PENDING,
    REFERENCE,
    SEQUENCE,
    TIME,
    first_from,
    first_late,
    has_room,
    insert,
    is_late_next,
    named,
)
from ....state.times import UNBOUNDED
from ...kernels.slot_lifecycle import first_kept, is_expired
from .stream_join_unmatched_kernel import (
    NONE,
    Unmatched,
    begin_waiting,
    end_waiting,
    first_closed,
    is_open,
    tracked_time,
)

SIDE, ROW_KEY, ROW_TIME, IS_WHOLE, ROW_REFERENCE, ROW_SEQUENCE, RANK = range(7)
"""Columns of ``rows``: side, key code, time, whether neither key nor value is null, reference of the value (NONE: it
is null), number of the record, rank among what may wait (NONE: it will not).
"""

LOOK_BACK, LOOK_AHEAD, WAIT, IS_OUTER, RETENTION, SEGMENT = 0, 2, 4, 6, 8, 9
"""Places in ``windows``; the first four by side: look-back, look-ahead, look-ahead + grace, whether it is an outer one;
then the stores' retention and the length of their segments, 0 in memory.
"""

AT_ONCE = 2
"""In IS_OUTER: a record without a pair continues alone at once, and none waits (JoinWindows.of)."""

STREAM_TIME, TRACKED_TIME, ROW, PHASE, AT, HAS_EFFECT, LAST_LEFT, WRITTEN, REFUSED, LATE_AT = range(10)
"""Places in ``totals``: stream time and the time of unmatched records that Kafka tracks, in and out; where a call
continues; pairs and refusals written.
"""

FRESH, LEAVING, JOINING = 0, 1, 2
"""Phases of a row."""

DONE, OUT_IS_FULL, STORE_IS_FULL = 0, 1, 2
"""Answers of ``join_streams``; the last two: make room and call again."""

NULL_KEY, NULL_VALUE, EXPIRED = 0, 1, 2
"""Kinds of refusals."""

ONLY_TIME = 2
"""In IS_WHOLE: the row is no record and only moves stream time; every closed record that waits then leaves."""


@kernel
def join_streams(rows, windows, store, unmatched, pairs, refusals, totals):  # type: ignore[no-untyped-def]
    """Take ``rows`` in order, from ``totals[ROW]`` on.

    ``store``, ``unmatched``: fields of RecordColumns and Unmatched. All other arrays are int64: ``pairs``: (row, key,
    time, left reference, right reference), NONE for no reference. ``refusals``: (row, kind, stream time, limit, is
    record).
    """
    store, unmatched = named(store), Unmatched(*unmatched)
    totals[WRITTEN], totals[REFUSED] = 0, 0
    for at in range(totals[ROW], rows.shape[0]):
        row = rows[at]
        totals[ROW] = at
        # sharedTimeTracker.advanceStreamTime, before any check: also a record that is refused moves the clock of both
        # sides.
        totals[STREAM_TIME] = max(totals[STREAM_TIME], row[ROW_TIME])
        # A recorded time: there is no record to be joined, but what is closed leaves.
        if row[IS_WHOLE] == ONLY_TIME:
            if not let_leave(row, windows, unmatched, pairs, totals):
                return OUT_IS_FULL
            totals[PHASE] = FRESH
            continue
        # A null key or null value: skipRecord, or the result of an outer side. It neither looks for closed records nor
        # is stored.
        if not row[IS_WHOLE]:
            if not pass_by(row, windows, store, pairs, refusals, totals):
                return OUT_IS_FULL
            continue
        # Asked before the row has any effect. A row that is stopped in the middle is continued from its phase: what it
        # has written is then not written again.
        if totals[PHASE] == FRESH and not has_room(store, 2 * row[ROW_KEY] + row[SIDE]):
            return STORE_IS_FULL
        if not let_leave(row, windows, unmatched, pairs, totals):
            return OUT_IS_FULL
        if not join_others(row, windows, store, unmatched, pairs, totals):
            return OUT_IS_FULL
        keep(row, windows, store, refusals, totals)
        totals[PHASE] = FRESH
    totals[ROW] = rows.shape[0]
    return DONE


@inner_kernel
def write(pairs, totals, key, time, side, own, other):  # type: ignore[no-untyped-def]
    """Write a pair of a record of ``side``; False when there is no room."""
    n = totals[WRITTEN]
    if n == pairs.shape[0]:
        return False
    pairs[n, 0], pairs[n, 1], pairs[n, 2] = totals[ROW], key, time
    # Columns 3 and 4 are the left and the right reference, so that a record of side 1 writes its own into column 4.
    pairs[n, 3 + side], pairs[n, 4 - side] = own, other
    totals[WRITTEN] = n + 1
    return True


@inner_kernel
def refuse(refusals, totals, kind, observed, limit, is_record):  # type: ignore[no-untyped-def]
    """Write a refusal of the row at hand."""
    n = totals[REFUSED]
    refusals[n, 0], refusals[n, 1], refusals[n, 2] = totals[ROW], kind, observed
    refusals[n, 3], refusals[n, 4] = limit, is_record
    totals[REFUSED] = n + 1


@inner_kernel
def pass_by(row, windows, store, pairs, refusals, totals):  # type: ignore[no-untyped-def]
    """A record whose key or value is null."""
    side, key, time, reference = row[SIDE], row[ROW_KEY], row[ROW_TIME], row[ROW_REFERENCE]
    # There is a value, so it is the key that is null: on an outer side it is forwarded without a partner (KIP-962).
    if reference != NONE and windows[IS_OUTER + side]:
        return write(pairs, totals, key, time, side, reference, NONE)
    refuse(refusals, totals, NULL_KEY if key < 0 else NULL_VALUE, totals[STREAM_TIME], NONE, 1)
    # KStreamJoinWindow puts the null value. RocksDBWindowStore.put drops it at once, since with retainDuplicates it
    # would delete nothing, but InMemoryWindowStore.put moves its stream time first, and counts the put if it is
    # expired.
    if key >= 0 and windows[SEGMENT] == 0:
        limit = advance(store, side, time) - windows[RETENTION]
        if time <= limit:
            refuse(refusals, totals, EXPIRED, limit + windows[RETENTION], limit, 1)
    return True


@inner_kernel
def advance(store, side, time):  # type: ignore[no-untyped-def]
    """The stream time of one side's store, after it has seen ``time``."""
    counts = store.counts
    counts[OBSERVED_MS + side] = max(counts[OBSERVED_MS + side], time)
    return counts[OBSERVED_MS + side]


@inner_kernel
def let_leave(row, windows, unmatched, pairs, totals):  # type: ignore[no-untyped-def]
    """Waiting records whose windows are closed leave, if this one is to look."""
    observed = totals[STREAM_TIME]
    # emitNonJoinedOuterRecords runs for records at the stream time only, and returns at once while the tracked time
    # (sharedTimeTracker.minTime) shows that nothing can be closed.
    if totals[PHASE] == FRESH:
        # In left and in outer joins the left side is an outer one, so its flag is that of the join.
        looks = windows[IS_OUTER] and row[ROW_TIME] == observed
        if row[IS_WHOLE] == ONLY_TIME or (
            looks and not is_open(totals[TRACKED_TIME], windows[WAIT + row[SIDE]], observed)
        ):
            totals[PHASE], totals[LAST_LEFT] = LEAVING, NONE
        else:
            totals[PHASE], totals[AT] = JOINING, NONE
    if totals[PHASE] == LEAVING:
        times, slot_of, waits = unmatched.time, unmatched.slot, unmatched.rows
        while True:
            rank = first_closed(unmatched, windows[WAIT], windows[WAIT + 1], observed)
            if rank == NONE:
                break
            # The result of a record that waited has its own time, not that of the record which closes it.
            slot = slot_of[rank]
            key, side, own = waits[slot, waiting.KEY], waits[slot, waiting.SIDE], waits[slot, waiting.REFERENCE]
            if not write(pairs, totals, key, times[rank], side, own, NONE):
                return False
            end_waiting(unmatched, slot)
            totals[LAST_LEFT] = rank
        # Kafka sets minTime while it iterates, so it is what the iteration has read last.
        totals[TRACKED_TIME] = tracked_time(unmatched, totals[LAST_LEFT])
        totals[PHASE], totals[AT] = JOINING, NONE
    return True


@inner_kernel
def join_others(row, windows, store, unmatched, pairs, totals):  # type: ignore[no-untyped-def]
    """The record's pairs; without any and of an outer side: itself alone, now or later."""
    blocks, pool, counts, beside = store
    # A block has the records of one key and side: number 2 * key + side, and so 2 * key + 1 - side for the other side.
    side, key, time, reference = row[SIDE], row[ROW_KEY], row[ROW_TIME], row[ROW_REFERENCE]
    block = 2 * key + 1 - side
    end, until = blocks[block, BEGIN] + blocks[block, COUNT], max(0, time + windows[LOOK_AHEAD + side])
    # The first time at this row: where otherWindowStore.fetch(timeFrom, timeTo) begins. The other side's store shows
    # only what is within its retention, by its own stream time.
    if totals[AT] == NONE:
        visible = counts[OBSERVED_MS + 1 - side] - windows[RETENTION] + 1
        oldest = max(0, time - windows[LOOK_BACK + side], visible)
        totals[AT], totals[HAS_EFFECT] = first_from(pool, blocks[block, BEGIN], end, oldest), 0
        totals[LATE_AT] = first_late(store, block, oldest) if blocks[block, LATE] != NONE else NONE
    at, late = totals[AT], totals[LATE_AT]
    # Two runs by rising time are merged: the block, and the list of late records which were too far down to be moved
    # in.
    while True:
        is_late = is_late_next(pool, at, end, late)
        other = late if is_late else at
        if (at == end and not is_late) or pool[other, TIME] > until:
            break
        # A pair has the later of both times.
        if not write(pairs, totals, key, max(time, pool[other, TIME]), side, reference, pool[other, REFERENCE]):
            totals[AT], totals[LATE_AT] = at, late
            return False
        # emitInnerJoin: the other record has a match now, so it waits no longer.
        totals[HAS_EFFECT] = 1
        slot = pool[other, PENDING]
        if slot != NONE:
            pool[other, PENDING] = NONE
            # The slot may have been freed and given to another record since, which its sequence number shows.
            if unmatched.rows[slot, waiting.SEQUENCE] == pool[other, SEQUENCE]:  # else it has left
                end_waiting(unmatched, slot)
        if is_late:
            late = beside.following[late]
        else:
            at += 1
    totals[AT] = NONE  # from here on: the slot in which this record waits
    # needOuterJoin. Once stream time is past the join window (timeTo), Kafka forwards the record at once and stores it
    # nowhere. The grace period does not count here.
    if windows[IS_OUTER + side] and not totals[HAS_EFFECT]:
        if until < totals[STREAM_TIME] or windows[IS_OUTER + side] == AT_ONCE:
            if not write(pairs, totals, key, time, side, reference, NONE):
                totals[AT], totals[LATE_AT] = at, late
                return False
        else:
            # sharedTimeTracker.updatedMinTime, then putInOuterJoinStore.
            totals[TRACKED_TIME] = min(totals[TRACKED_TIME], time)
            totals[AT] = begin_waiting(unmatched, key, row[ROW_SEQUENCE], side, time, reference, row[RANK])
        totals[HAS_EFFECT] = 1
    return True


@inner_kernel
def keep(row, windows, store, refusals, totals):  # type: ignore[no-untyped-def]
    """Store the record, unless it is expired."""
    side, time = row[SIDE], row[ROW_TIME]
    limit = advance(store, side, time) - windows[RETENTION]
    # Only a record without any result is dropped whole: one that has been joined or waits has had its effect.
    if is_expired(time, limit, windows[SEGMENT]):
        refuse(refusals, totals, EXPIRED, limit + windows[RETENTION], limit, 1 - totals[HAS_EFFECT])
    else:  # also where the store does not show it: its segment is alive, so a restart does
        record = time, row[ROW_REFERENCE], row[ROW_SEQUENCE], totals[AT]
        insert(store, 2 * row[ROW_KEY] + side, record, first_kept(limit, windows[SEGMENT]))


def fresh_totals() -> np.ndarray:
    """``totals`` before the first record."""
    totals = np.zeros(10, np.int64)
    # As Kafka's TimeTracker begins: NO_TIMESTAMP, and a minTime of Long.MAX_VALUE.
    totals[STREAM_TIME], totals[TRACKED_TIME] = -1, UNBOUNDED
    return totals


def allocate(pairs: int, records: int) -> tuple[np.ndarray, np.ndarray]:
    """Empty (pairs, refusals) for so many pairs, and for all that ``records`` rows may be refused."""
    return np.empty((pairs, 5), np.int64), np.empty((2 * records, 5), np.int64)
