"""Which results wait, which leave, in which order (KTableSuppressProcessorSupplier, InMemoryTimeOrderedKeyValueChangeBuffer).

Rule: a change is put first, then every entry leaves whose buffer time is ``<= stream time - wait``, oldest first and
equal ones by serialized windowed key. A second change of a key keeps the entry's place and replaces its value, so that what
leaves is the latest change at the place of the first. A tombstone of a final result leaves in silence.
"""

import numpy as np
from numba import njit

from state.keys import compare_serialized, compare_serialized_sessions
from state.stores.slot_index import delete, find, insert
from state.stores.slots import CHANGED, FREE_TOP, LIVE, LIVE_COUNT, STORED

NO_VALUE = -1

EMITTED, STREAM_TIME, COUNT_MAX, BYTES, BYTES_MAX, FULL_ROW = 0, 1, 2, 3, 4, 5
"""Places in ``totals``; FULL_ROW: row at which the buffer went over its limit, or -1."""


@njit(cache=True)
def suppress_until_window_closes(  # type: ignore[no-untyped-def]
    rows, sizes, keys, wait, is_session, limits, slots, entries, heap, emitted, totals
):
    """Take changes ``(key, start, end, time, valid)`` in order.

    ``sizes``: (fixed, new bytes, old bytes, old hash) a row, or empty arrays when bytes are not counted. ``keys``: (data, offsets)
    of the interned keys. ``entries``: (reference, valid, bytes, prior bytes, prior hash) by slot; the reference of row r of this
    call is ``-(r + 2)``. ``heap``: (time, slot) with its length in ``totals``' last place. ``limits``: (records, bytes).
    ``emitted``: (row that evicted, key, start, end, time, reference, stream time).
    """
    key, start, end, time, valid = rows
    s_key, s_start, s_end, s_time, s_flags, table, free, counts = slots
    e_reference, e_valid, e_bytes, e_prior, e_prior_hash = entries
    h_time, h_slot = heap
    o_row, o_key, o_start, o_end, o_time, o_reference, o_stream_time = emitted
    with_bytes = sizes[0].shape[0] > 0
    n_out, observed, n_heap = 0, totals[STREAM_TIME], counts[LIVE_COUNT]
    totals[FULL_ROW] = -1
    for row in range(key.shape[0]):
        observed = max(observed, time[row])
        slot = find(table, s_key, s_start, s_end, key[row], start[row], end[row])
        if slot < 0:
            counts[FREE_TOP] -= 1
            counts[LIVE_COUNT] += 1
            slot = free[counts[FREE_TOP]]
            s_key[slot], s_start[slot], s_end[slot], s_flags[slot] = key[row], start[row], end[row], LIVE
            insert(table, s_key, s_start, s_end, slot)
            e_bytes[slot] = 0
            if with_bytes:
                e_prior[slot], e_prior_hash[slot] = sizes[2][row], sizes[3][row]
            h_time[n_heap], h_slot[n_heap] = end[row], slot
            n_heap += 1
            sift_up(h_time, h_slot, n_heap - 1, keys, is_session, s_key, s_start, s_end)
        s_time[slot], e_valid[slot] = time[row], valid[row]
        e_reference[slot] = -(row + 2) if valid[row] else NO_VALUE
        s_flags[slot] |= CHANGED
        if with_bytes:
            fixed, new_bytes, old_bytes, old_hash = sizes[0][row], sizes[1][row], sizes[2][row], sizes[3][row]
            same = old_bytes == e_prior[slot] and old_hash == e_prior_hash[slot]
            size = fixed + max(e_prior[slot], 0) + (0 if same or old_bytes < 0 else old_bytes) + new_bytes
            totals[BYTES] += size - e_bytes[slot]
            e_bytes[slot] = size
            totals[BYTES_MAX] = max(totals[BYTES_MAX], totals[BYTES])
        totals[COUNT_MAX] = max(totals[COUNT_MAX], n_heap)
        while n_heap > 0 and h_time[0] <= observed - wait:
            slot = h_slot[0]
            n_heap -= 1
            h_time[0], h_slot[0] = h_time[n_heap], h_slot[n_heap]
            sift_down(h_time, h_slot, n_heap, keys, is_session, s_key, s_start, s_end)
            if e_valid[slot]:
                o_row[n_out], o_key[n_out], o_start[n_out], o_end[n_out] = row, s_key[slot], s_start[slot], s_end[slot]
                o_time[n_out], o_reference[n_out], o_stream_time[n_out] = s_time[slot], e_reference[slot], observed
                n_out += 1
            totals[BYTES] -= e_bytes[slot]
            delete(table, s_key, s_start, s_end, slot)
            counts[LIVE_COUNT] -= 1
            e_reference[slot] = NO_VALUE
            if s_flags[slot] & STORED:
                s_flags[slot] = STORED
            else:
                s_flags[slot] = 0
                free[counts[FREE_TOP]] = slot
                counts[FREE_TOP] += 1
        if n_heap > limits[0] or totals[BYTES] > limits[1]:
            totals[FULL_ROW] = row
            break
    totals[EMITTED], totals[STREAM_TIME] = n_out, observed


@njit(cache=True, inline="always")
def is_before(time_a, a, time_b, b, keys, is_session, s_key, s_start, s_end):  # type: ignore[no-untyped-def]
    if time_a != time_b:
        return time_a < time_b
    data, offsets = keys
    if is_session:
        order = compare_serialized_sessions(data, offsets, s_key[a], s_end[a], s_start[a], s_key[b], s_end[b], s_start[b])
    else:
        order = compare_serialized(data, offsets, s_key[a], s_start[a], s_key[b], s_start[b])
    return order < 0


@njit(cache=True)
def sift_up(h_time, h_slot, at, keys, is_session, s_key, s_start, s_end):  # type: ignore[no-untyped-def]
    time, slot = h_time[at], h_slot[at]
    while at > 0:
        parent = (at - 1) >> 1
        if not is_before(time, slot, h_time[parent], h_slot[parent], keys, is_session, s_key, s_start, s_end):
            break
        h_time[at], h_slot[at] = h_time[parent], h_slot[parent]
        at = parent
    h_time[at], h_slot[at] = time, slot


@njit(cache=True)
def sift_down(h_time, h_slot, n, keys, is_session, s_key, s_start, s_end):  # type: ignore[no-untyped-def]
    if n == 0:
        return
    at, time, slot = 0, h_time[0], h_slot[0]
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        right = child + 1
        if right < n and is_before(
            h_time[right], h_slot[right], h_time[child], h_slot[child], keys, is_session, s_key, s_start, s_end
        ):
            child = right
        if not is_before(h_time[child], h_slot[child], time, slot, keys, is_session, s_key, s_start, s_end):
            break
        h_time[at], h_slot[at] = h_time[child], h_slot[child]
        at = child
    h_time[at], h_slot[at] = time, slot


@njit(cache=True)
def refill(heap, slots, keys, is_session):  # type: ignore[no-untyped-def]
    """Build the heap anew from the live slots, after a load."""
    s_key, s_start, s_end, _, s_flags, _, _, _ = slots
    h_time, h_slot = heap
    n = 0
    for slot in range(s_flags.shape[0]):
        if s_flags[slot] & LIVE:
            h_time[n], h_slot[n] = s_end[slot], slot
            n += 1
            sift_up(h_time, h_slot, n - 1, keys, is_session, s_key, s_start, s_end)


def room(records: int, buffered: int) -> tuple[np.ndarray, ...]:
    """Empty ``emitted`` arrays for a call over ``records`` rows and ``buffered`` entries."""
    most = records + buffered
    return (
        np.empty(most, np.int32),
        np.empty(most, np.int32),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
    )
