"""Which changes wait, which leave, in which order, from a buffer that never emits early.

KTableSuppressProcessorSupplier, InMemoryTimeOrderedKeyValueChangeBuffer.

Rule: a change is put first, then every entry leaves whose buffer time is ``<= stream time - wait``, oldest first and
equal ones by serialized (windowed) key. The buffer time is the window's end, or the time of the key's first change that
waits. A second change of a key keeps the entry's place and replaces its value, so that what leaves is the latest change
at the place of the first. A tombstone of a final result leaves in silence.

Stream time never goes back and an entry's buffer time never changes, so the row at which an entry will leave is known
when it is put: no queue is kept, and what leaves is put in order once a call, by counting.
"""

import numpy as np
from numba import njit

from jobs.kernels.suppress_order import room_to_sort, sort_leaving
from state.compiled import allocation_free
from state.key_table import hash_bytes
from state.stores.slot_index import delete, find, insert, rebuild, replace
from state.stores.slots import CHANGED, FREE_TOP, LIVE, LIVE_COUNT, STORED

NO_VALUE = -1
ONLY_TIME = -2
"""Key of a row that is no change and only moves stream time."""
_NO_PUT = -1

EMITTED, STREAM_TIME, COUNT_MAX, BYTES, BYTES_MAX, FULL_ROW, FULL_COUNT, FULL_BYTES = 0, 1, 2, 3, 4, 5, 6, 7
MEASURED, COUNT_SUM, BYTES_SUM = 8, 9, 10
"""Places in ``totals``; FULL_ROW: row at which the buffer went over its limit, or -1, and what it held then; MEASURED:
how often the buffer was measured (after each put and after each round of evictions), and the sums of what it held.
"""


@njit(cache=True)
def suppress_strictly(  # type: ignore[no-untyped-def]
    rows, sizes, keys, wait, is_session, keeps, limits, slots, entries, emitted, totals
):
    """Take changes ``(key, start, end, buffer time, time, valid)`` in order.

    ``sizes``: (fixed, new bytes, old bytes, old hash) a row, or empty arrays when bytes are not counted. ``keys``:
    (data, offsets) of the interned keys. ``keeps``: (tombstones are forwarded, old values are kept). ``limits``:
    (records, bytes). ``entries``: (buffer time, reference, prior, leaves, bytes, prior bytes, prior hash) by slot; the
    reference of row r of this call is ``-(r + 2)``, and so is that of its old value in ``prior``; ``leaves``: row after
    which the entry goes. ``emitted``: (row that evicted, slot, key, start, end, buffer time, time, reference, stream
    time); what a slot held beside ``entries`` is there until the call is over.
    """
    s_key, s_start, s_end, _, s_flags, _, _, counts = slots
    e_due, e_reference, e_prior, e_leaves, e_bytes, _, _ = entries
    n, with_bytes = rows[0].shape[0], sizes[0].shape[0] > 0
    observed = watch(rows[4], totals)
    highest = totals[STREAM_TIME]
    puts, goes = np.zeros(n, np.int8), np.zeros(n, np.int64)
    bytes_put, bytes_gone = np.zeros(n if with_bytes else 0, np.int64), np.zeros(n if with_bytes else 0, np.int64)
    count_before, bytes_before = counts[LIVE_COUNT], totals[BYTES]
    leaving, at_row = np.empty(n + count_before, np.int32), np.empty(n + count_before, np.int32)
    limit = highest - wait
    n_leaving = schedule(observed, limit, wait, count_before, e_due, s_flags, e_leaves, leaving, at_row)
    left = leaving, at_row, n_leaving
    n_leaving = put_changes(rows, sizes, wait, keeps, slots, entries, observed, limit, puts, bytes_put, left)
    leaving, at_row = leaving[:n_leaving], at_row[:n_leaving]
    for i in range(n_leaving):
        goes[at_row[i]] += 1
    if with_bytes:
        add_bytes(leaving, at_row, e_bytes, bytes_gone)
    measure(puts, goes, bytes_put, bytes_gone, count_before, bytes_before, limits, totals)
    told = e_reference[leaving] != NO_VALUE  # tombstones of final results are not
    order = in_order(leaving[told], at_row[told], n, keys, is_session, s_key, s_start, s_end, e_due)
    totals[EMITTED] = emit(order, observed, n if totals[FULL_ROW] < 0 else totals[FULL_ROW], slots, entries, emitted)
    forget(leaving, slots, e_reference, e_prior)


@allocation_free
def put_changes(  # type: ignore[no-untyped-def]
    rows, sizes, wait, keeps, slots, entries, observed, limit, puts, bytes_put, left
):
    """Enter every change, and write to ``left``, (slots, rows, how many), what leaves in this call; how many then."""
    key, start, end, due, time, valid = rows
    s_key, s_start, s_end, s_time, s_flags, table, _, _ = slots
    n = key.shape[0]
    e_due, e_reference, e_prior, e_leaves, e_bytes, e_prior_bytes, e_prior_hash = entries
    with_tombstones, with_prior = keeps
    leaving, at_row, n_leaving = left
    guess, with_bytes = 0, sizes[0].shape[0] > 0
    for row in range(n):
        if key[row] == ONLY_TIME:
            puts[row] = _NO_PUT
            continue
        slot = find(table, s_key, s_start, s_end, key[row], start[row], end[row])
        if slot < 0 or e_leaves[slot] < row:
            slot = enter(slot, key[row], start[row], end[row], slots)
            puts[row] = 1
            e_due[slot], e_prior[slot] = due[row], -(row + 2) if with_prior else NO_VALUE
            if with_bytes:
                e_bytes[slot] = 0
                e_prior_bytes[slot], e_prior_hash[slot] = sizes[2][row], sizes[3][row]
            e_leaves[slot] = n
            if due[row] <= limit:
                guess = near_reaching(observed, row, guess, due[row] + wait)
                e_leaves[slot] = guess
                leaving[n_leaving], at_row[n_leaving] = slot, guess
                n_leaving += 1
        s_time[slot] = time[row]
        e_reference[slot] = -(row + 2) if valid[row] or with_tombstones else NO_VALUE
        s_flags[slot] |= CHANGED
        if with_bytes:
            size = entry_bytes(sizes, row, e_prior_bytes[slot], e_prior_hash[slot])
            bytes_put[row] = size - e_bytes[slot]
            e_bytes[slot] = size
    return n_leaving


@allocation_free
def enter(left, key, start, end, slots):  # type: ignore[no-untyped-def]
    """A slot for a new entry. ``left``: the slot of one that has left, whose place in the index it takes; -1: none."""
    s_key, s_start, s_end, _, s_flags, table, free, counts = slots
    counts[FREE_TOP] -= 1
    counts[LIVE_COUNT] += 1
    slot = free[counts[FREE_TOP]]
    s_key[slot], s_start[slot], s_end[slot], s_flags[slot] = key, start, end, LIVE
    if left < 0:
        insert(table, s_key, s_start, s_end, slot)
    else:
        replace(table, s_key, s_start, s_end, left, slot)
    return slot


@njit(cache=True)
def watch(time, totals):  # type: ignore[no-untyped-def]
    """Stream time after each change; the operator's own moves on."""
    observed = np.empty(time.shape[0], np.int64)
    highest = totals[STREAM_TIME]
    for row in range(time.shape[0]):
        highest = max(highest, time[row])
        observed[row] = highest
    totals[STREAM_TIME] = highest
    return observed


@allocation_free
def add_bytes(leaving, at_row, e_bytes, bytes_gone):  # type: ignore[no-untyped-def]
    """Bytes that leave at each row."""
    for i in range(leaving.shape[0]):
        bytes_gone[at_row[i]] += e_bytes[leaving[i]]


@allocation_free
def schedule(observed, limit, wait, count, e_due, s_flags, e_leaves, leaving, at_row):  # type: ignore[no-untyped-def]
    """Say of every entry of before at which row it leaves; those that do go to ``leaving`` and ``at_row``."""
    n, n_leaving = observed.shape[0], 0
    for slot in range(s_flags.shape[0] if count else 0):
        if s_flags[slot] & LIVE:
            e_leaves[slot] = n
            if n > 0 and e_due[slot] <= limit:
                e_leaves[slot] = first_reaching(observed, 0, e_due[slot] + wait)
                leaving[n_leaving], at_row[n_leaving] = slot, e_leaves[slot]
                n_leaving += 1
    return n_leaving


@allocation_free
def entry_bytes(sizes, row, prior, prior_hash):  # type: ignore[no-untyped-def]
    """What Kafka counts for an entry: an old value that equals the prior one is kept once."""
    fixed, new_bytes, old_bytes, old_hash = sizes[0][row], sizes[1][row], sizes[2][row], sizes[3][row]
    same = old_bytes == prior and old_hash == prior_hash
    return fixed + max(prior, 0) + (0 if same or old_bytes < 0 else old_bytes) + new_bytes


@allocation_free
def first_reaching(observed, begin, time):  # type: ignore[no-untyped-def]
    """First row from ``begin`` on at which stream time is at least ``time``, by bisection."""
    end = observed.shape[0]
    while begin < end:
        middle = (begin + end) >> 1
        if observed[middle] < time:
            begin = middle + 1
        else:
            end = middle
    return begin


@allocation_free
def near_reaching(observed, begin, guess, time):  # type: ignore[no-untyped-def]
    """As first_reaching; starts at ``guess``, since neighbours leave near one another."""
    guess = max(begin, min(guess, observed.shape[0] - 1))
    for _ in range(8):
        if observed[guess] < time:
            guess += 1
        elif guess > begin and observed[guess - 1] >= time:
            guess -= 1
        else:
            return guess
    return first_reaching(observed, begin, time)


@allocation_free
def measure(puts, goes, bytes_put, bytes_gone, count, size, limits, totals):  # type: ignore[no-untyped-def]
    """Measure the buffer after every put and every round of evictions; find where it is over a limit after them."""
    totals[FULL_ROW] = -1
    for row in range(puts.shape[0]):
        if puts[row] != _NO_PUT:
            count += puts[row]
            if bytes_put.shape[0]:
                size += bytes_put[row]
            note(count, size, totals)
        if goes[row]:
            count -= goes[row]
            if bytes_put.shape[0]:
                size -= bytes_gone[row]
            note(count, size, totals)
        if count > limits[0] or size > limits[1]:
            totals[FULL_ROW], totals[FULL_COUNT], totals[FULL_BYTES] = row, count, size
            break
    totals[BYTES] = size


@allocation_free
def note(count, size, totals):  # type: ignore[no-untyped-def]
    """One measurement of the buffer."""
    totals[COUNT_MAX], totals[BYTES_MAX] = max(totals[COUNT_MAX], count), max(totals[BYTES_MAX], size)
    totals[MEASURED] += 1
    totals[COUNT_SUM] += count
    totals[BYTES_SUM] += size


@njit(cache=True)
def in_order(leaving, at_row, n, keys, is_session, s_key, s_start, s_end, e_due):  # type: ignore[no-untyped-def]
    """Slots ``leaving`` by the row that they leave at, then buffer time, then serialized key."""
    goes, at = np.zeros(n, np.int64), np.empty(n + 1, np.int64)
    for i in range(leaving.shape[0]):
        goes[at_row[i]] += 1
    at[0] = 0
    for row in range(n):
        at[row + 1] = at[row] + goes[row]
    order = np.empty(leaving.shape[0], np.int32)
    for i in range(leaving.shape[0]):
        row = at_row[i]
        order[at[row]] = leaving[i]
        at[row] += 1
    spare = room_to_sort(goes.max() if n else 0)
    first = 0
    for row in range(n):
        last = first + goes[row]
        if last - first > 1:
            sort_leaving(order[first:last], spare, keys, is_session, s_key, s_start, s_end, e_due)
        first = last
    return order


@allocation_free
def emit(order, observed, last_row, slots, entries, emitted):  # type: ignore[no-untyped-def]
    """Write out what leaves at rows up to ``last_row``, in order."""
    n = 0
    for i in range(order.shape[0]):
        row = entries[3][order[i]]
        if row <= last_row:
            write_out(n, row, order[i], observed[row], slots, entries, emitted)
            n += 1
    return n


@allocation_free
def write_out(n, row, slot, stream_time, slots, entries, emitted):  # type: ignore[no-untyped-def]
    """Element ``n`` of ``emitted``: the entry in ``slot``, which ``row`` evicted."""
    s_key, s_start, s_end, s_time, _, _, _, _ = slots
    o_row, o_slot, o_key, o_start, o_end, o_due, o_time, o_reference, o_stream_time = emitted
    o_row[n], o_slot[n], o_key[n], o_start[n], o_end[n] = row, slot, s_key[slot], s_start[slot], s_end[slot]
    o_due[n] = entries[0][slot]
    o_time[n], o_reference[n], o_stream_time[n] = s_time[slot], entries[1][slot], stream_time


@allocation_free
def forget(leaving, slots, e_reference, e_prior):  # type: ignore[no-untyped-def]
    """Free the slots ``leaving``; stored ones stay behind as graves."""
    s_key, s_start, s_end, _, s_flags, table, free, counts = slots
    few = leaving.shape[0] * 8 < counts[LIVE_COUNT]
    for i in range(leaving.shape[0]):
        slot = leaving[i]
        if few and find(table, s_key, s_start, s_end, s_key[slot], s_start[slot], s_end[slot]) == slot:
            delete(table, s_key, s_start, s_end, slot)
        e_reference[slot] = e_prior[slot] = NO_VALUE
        if s_flags[slot] & STORED:
            s_flags[slot] = STORED
        else:
            s_flags[slot] = 0
            free[counts[FREE_TOP]] = slot
            counts[FREE_TOP] += 1
    counts[LIVE_COUNT] -= leaving.shape[0]
    if not few and leaving.shape[0]:
        rebuild(table, s_key, s_start, s_end, s_flags)


@njit(cache=True)
def hashes(data, offsets):  # type: ignore[no-untyped-def]
    """A 64-bit hash of each value's bytes, ours alone and never stored."""
    found = np.empty(offsets.shape[0] - 1, np.int64)
    for row in range(found.shape[0]):
        found[row] = np.int64(hash_bytes(data, offsets[row], offsets[row + 1]))
    return found


def room(records: int, buffered: int) -> tuple[np.ndarray, ...]:
    """Empty ``emitted`` arrays for a call over ``records`` rows and ``buffered`` entries."""
    most = records + buffered
    return (*(np.empty(most, np.int32) for _ in range(3)), *(np.empty(most, np.int64) for _ in range(6)))
