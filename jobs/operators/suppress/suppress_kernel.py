"""Which changes wait, which leave, in which order, from a buffer that never emits early.

KTableSuppressProcessorSupplier, InMemoryTimeOrderedKeyValueChangeBuffer.

Rule: a change is put first, then every entry leaves whose buffer time is ``<= stream time - wait``, oldest first and
equal ones by serialized (windowed) key. The buffer time is the window's end, or the time of the key's first change that
waits. A second change of a key keeps the entry's place and replaces its value, so that what leaves is the latest change
at the place of the first. A tombstone of a final result leaves in silence.

Stream time never goes back and an entry's buffer time never changes, so the row at which an entry will leave is known
when it is put. No queue is kept, and the entries that leave are put in order once a call, by counting. Most entries
come and leave within one call, so the entries of a call are in its own arrays, in the order of arrival. Only those that
stay take a slot of the buffer.

Arrays: ``rows`` has the fields of Changes, ``sizes`` of Sizes, ``keys`` of KeyBytes, ``slots`` of SlotColumns,
``entries`` of EntryColumns, ``held`` of Held, ``left`` of Leaving, ``stays`` of Staying. By row: ``observed`` int64,
``earlier`` int32, ``number_of`` int32, ``puts`` int8, ``bytes_put`` int64, ``goes`` int32, ``bytes_gone`` int64 and
``valid`` bool (rows,). ``weighed`` int64 (entries, 3). ``e_reference`` int64 (slots,), ``order`` int32 (results,).
``totals`` int64 (11,). ``data`` uint8 (bytes,), ``offsets`` int64 (values + 1,). ``keeps`` and ``limits``: tuples of
two. ``marks``: a tuple of rows int32 (steps,) and a number.
"""

import numpy as np

from ....state.compilation.kernel_compilation import array_kernel, inner_array_kernel, inner_kernel, kernel
from ....state.records.key_interning import hash_bytes
from ....state.stores.slot_index import delete, find, insert, rebuild
from ....state.stores.slots import CHANGED, FREE_TOP, LIVE, LIVE_COUNT, SlotColumns
from ...kernels.earlier_changes import NONE_HERE
from ...kernels.slot_lifecycle import vacate
from .kernel_columns import Changes, EntryColumns, Held, KeyBytes, Leaving, Sizes, Staying
from .suppress_order_kernel import in_order

NO_VALUE = -1
ONLY_TIME = -2
"""Key of a row that is no change and only moves stream time."""
_NO_PUT = -1
_NONE = -1
"""No change of this call; no slot."""

EMITTED, STREAM_TIME, COUNT_MAX, BYTES, BYTES_MAX, FULL_ROW, FULL_COUNT, FULL_BYTES = 0, 1, 2, 3, 4, 5, 6, 7
MEASURED, COUNT_SUM, BYTES_SUM = 8, 9, 10
"""Indices into ``totals``. FULL_ROW: row at which the buffer went over its limit, or -1, and what it held then.
MEASURED: how often the buffer was measured (after each put and after each round of evictions), and the sums of what it
held.
"""


@array_kernel
def suppress_strictly(  # type: ignore[no-untyped-def]
    rows, earlier, observed, sizes, keys, wait, is_session, keeps, limits, slots, entries, totals
):
    """Take ``rows`` (fields of Changes) in order: what leaves, and what comes and stays.

    ``observed``: stream time after each row. ``earlier``: as in earlier_changes. Fields of Sizes, KeyBytes, SlotColumns
    and EntryColumns. ``keeps``: (tombstones are forwarded, old values are kept). ``limits``: (records, bytes).

    Returns fields of Leaving, in order, where what a slot held beside ``entries`` is there until it is taken again; and
    fields of Staying, which ``stay`` enters.
    """
    rows, sizes, keys, slots = Changes(*rows), Sizes(*sizes), KeyBytes(*keys), SlotColumns(*slots)
    entries = EntryColumns(*entries)
    n, n_before, with_bytes = rows.key.shape[0], slots.counts[LIVE_COUNT], sizes.fixed.shape[0] > 0
    if n:
        totals[STREAM_TIME] = observed[n - 1]
    # The last expiry time of the call. What is due after it stays beyond the call, whatever row put it.
    limit = totals[STREAM_TIME] - wait
    # The most entries there can be: all from before, and a new one for every row. The entries from before have the
    # numbers below n_before, so a number alone says whether the entry has a slot.
    most = n + n_before
    held = Held(np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32))
    weighed = np.empty((most if with_bytes else 0, 3), np.int64)
    puts, goes = np.zeros(n, np.int8), np.zeros(n, np.int32)
    bytes_put, bytes_gone = np.zeros(n if with_bytes else 0, np.int64), np.zeros(n if with_bytes else 0, np.int64)
    marks = milestones(observed)
    schedule(observed, marks, limit, wait, slots, entries, held, weighed)
    number_of = np.empty(n, np.int32)
    n_held = put_changes(
        rows, earlier, sizes, wait, slots, entries, observed, marks, limit, held, weighed, number_of, puts, bytes_put
    )
    most_at_once = count_leaving(n_held, held, weighed, goes, bytes_gone)
    measure(puts, goes, bytes_put, bytes_gone, n_before, totals[BYTES], limits, totals)
    # BufferFullStrategy.SHUT_DOWN: what left up to the row that filled the buffer has been forwarded, then Kafka
    # throws.
    last_row = n if totals[FULL_ROW] < 0 else totals[FULL_ROW]
    order = by_row(n_held, held, last_row, goes, rows.valid, keeps[0], entries.reference)
    left = written_out(order, held, observed, rows, keeps[0], slots, entries)
    left = in_order(left, most_at_once, keys, is_session)
    totals[EMITTED] = order.shape[0]
    stays = staying(n_before, n_held, n, held, weighed)
    settle(n_before, n, held, weighed, rows, keeps[0], slots, entries)
    return (
        (left.row, left.slot, left.key, left.start, left.end, left.due, left.time, left.reference, left.stream_time),
        (stays.first, stays.latest, stays.weighed),
    )


@inner_kernel
def schedule(observed, marks, limit, wait, slots, entries, held, weighed):  # type: ignore[no-untyped-def]
    """Number the previous entries, and say at which row each leaves."""
    s_flags = slots.flags
    e_due, _, _, e_number, e_bytes, e_prior_bytes, e_prior_hash = entries
    h_slot, h_first, h_latest, h_leaves = held
    n, number = observed.shape[0], 0
    # Room for more entries than rows means that the buffer is not empty. An empty one is not searched: it may be large.
    for slot in range(s_flags.shape[0] if h_slot.shape[0] > n else 0):
        if s_flags[slot] & LIVE:
            e_number[slot] = number
            h_slot[number], h_first[number], h_latest[number], h_leaves[number] = slot, _NONE, _NONE, n
            # evictWhile takes an entry while ``due <= stream time - wait``, which is the first row with ``stream time
            # >= due + wait``.
            if n > 0 and e_due[slot] <= limit:
                h_leaves[number] = first_reaching(observed, marks, e_due[slot] + wait)
            if weighed.shape[0]:
                weighed[number, 0] = e_bytes[slot]
                weighed[number, 1], weighed[number, 2] = e_prior_bytes[slot], e_prior_hash[slot]
            number += 1


@inner_kernel
def put_changes(  # type: ignore[no-untyped-def]
    rows, earlier, sizes, wait, slots, entries, observed, marks, limit, held, weighed, number_of, puts, bytes_put
):
    """Enter every change; how many entries there are then. ``number_of``: of each change's entry, filled."""
    key, start, end, due, _, _ = rows
    s_key, s_start, s_end, _, _, table, _, counts = slots
    h_slot, h_first, h_latest, h_leaves = held
    n, n_held = key.shape[0], counts[LIVE_COUNT]
    for row in range(n):
        # A recorded time moves stream time and may evict, but there is no buffer.put, and so no measurement of the
        # buffer.
        if key[row] == ONLY_TIME:
            puts[row] = _NO_PUT
            continue
        number = _NONE
        # The batch names the key's previous change: its entry is known without a lookup, but it may have left since.
        if earlier[row] >= 0:
            number = number_of[earlier[row]]
        # The first change of its key here: only the buffer can have an entry of it. For NEW even that is excluded,
        # since the table above had no such row before, so that nothing of it can have been buffered.
        elif earlier[row] == NONE_HERE:
            slot = find(table, s_key, s_start, s_end, key[row], start[row], end[row])
            number = _NONE if slot < 0 else entries.number[slot]
        # No entry, or one that was evicted at an earlier row: the key begins again with a new buffer time (cleanPut).
        # An entry that leaves at this very row is still there, because the put comes before the evictions.
        if number < 0 or h_leaves[number] < row:
            number, n_held, puts[row] = n_held, n_held + 1, 1
            h_slot[number], h_first[number], h_leaves[number] = _NONE, row, n
            # A change that is due already leaves at its own row.
            if due[row] <= limit:
                h_leaves[number] = max(row, first_reaching(observed, marks, due[row] + wait))
            # The old value of the key's first change is the prior value of the entry: what priorValueForBuffered
            # answers while the entry waits. Later changes of the key leave it as it is.
            if weighed.shape[0]:
                weighed[number, 0], weighed[number, 1], weighed[number, 2] = 0, sizes.old[row], sizes.old_hash[row]
        number_of[row] = number
        h_latest[number] = row
        # A replaced value gives its bytes back, so that the row counts for the difference.
        if weighed.shape[0]:
            size = entry_bytes(sizes, row, weighed[number, 1], weighed[number, 2])
            bytes_put[row] = size - weighed[number, 0]
            weighed[number, 0] = size
    return n_held


@inner_kernel
def enter(key, start, end, slots):  # type: ignore[no-untyped-def]
    """A slot for a new entry."""
    s_key, s_start, s_end, _, s_flags, table, free, counts = slots
    counts[FREE_TOP] -= 1
    counts[LIVE_COUNT] += 1
    slot = free[counts[FREE_TOP]]
    s_key[slot], s_start[slot], s_end[slot], s_flags[slot] = key, start, end, LIVE
    insert(table, s_key, s_start, s_end, slot)
    return slot


@inner_kernel
def count_leaving(n_held, held, weighed, goes, bytes_gone):  # type: ignore[no-untyped-def]
    """Count the entries, and bytes, that leave at each row; the most that leave at one."""
    h_leaves, n, most = held.leaves, goes.shape[0], 0
    for number in range(n_held):
        if h_leaves[number] < n:
            goes[h_leaves[number]] += 1
            most = max(most, goes[h_leaves[number]])
            if weighed.shape[0]:
                bytes_gone[h_leaves[number]] += weighed[number, 0]
    return most


@inner_kernel
def entry_bytes(sizes, row, prior, prior_hash):  # type: ignore[no-untyped-def]
    """What Kafka counts for an entry: an old value that equals the prior one is kept once."""
    fixed, new_bytes = sizes.fixed[row], sizes.new[row]
    old_bytes, old_hash = sizes.old[row], sizes.old_hash[row]
    # BufferValue keeps one array for both if they are equal, and counts it once. Equal by length and hash of 64 bits
    # here: the bytes themselves are not kept, and a collision would only miscount a size.
    same = old_bytes == prior and old_hash == prior_hash
    # A size of -1 is no value, which has no bytes.
    return fixed + max(prior, 0) + (0 if same or old_bytes < 0 else old_bytes) + new_bytes


@inner_array_kernel
def milestones(observed):  # type: ignore[no-untyped-def]
    """First rows at which stream time is so many steps after that of the first row, and the step: 2 to the power of
    ``shift`` ms, so that there are about as many as rows. Neighbouring changes leave far apart where records are late,
    so a search that began where the last one ended would not be short.
    """
    n, shift = observed.shape[0], 0
    span = observed[n - 1] - observed[0] if n else 0
    while span >> shift > n:
        shift += 1
    # One mark more than steps, which stays ``n``: so the last step has a mark after it, too.
    rows, filled = np.full((span >> shift) + 2, n, np.int32), 0
    for row in range(n):
        steps = (observed[row] - observed[0]) >> shift
        while filled <= steps:
            rows[filled] = row
            filled += 1
    return rows, shift


@inner_kernel
def first_reaching(observed, marks, time):  # type: ignore[no-untyped-def]
    """First row at which stream time is at least ``time``, which it reaches: between two ``marks``, by bisection."""
    rows, shift = marks
    # The first row reaches it, and the marks count from that row's time on.
    if time <= observed[0]:
        return np.int64(0)
    step = (time - observed[0]) >> shift
    begin, end = np.int64(rows[step]), np.int64(rows[step + 1])
    while begin < end:
        middle = (begin + end) >> 1
        if observed[middle] < time:
            begin = middle + 1
        else:
            end = middle
    return begin


@inner_kernel
def measure(puts, goes, bytes_put, bytes_gone, count, size, limits, totals):  # type: ignore[no-untyped-def]
    """Measure the buffer after every put and every round of evictions; find where it is over a limit after them."""
    totals[FULL_ROW] = -1
    for row in range(puts.shape[0]):
        # updateBufferMetrics is called after each put, before evictions: the maximum includes what leaves at the same
        # row.
        if puts[row] != _NO_PUT:
            count += puts[row]
            if bytes_put.shape[0]:
                size += bytes_put[row]
            note(count, size, totals)
        # All evictions of a row are one evictWhile, which updates the metrics once.
        if goes[row]:
            count -= goes[row]
            if bytes_put.shape[0]:
                size -= bytes_gone[row]
            note(count, size, totals)
        # overCapacity is asked after the evictions by time. More than the limit is too much, the limit itself is not.
        if count > limits[0] or size > limits[1]:
            totals[FULL_ROW], totals[FULL_COUNT], totals[FULL_BYTES] = row, count, size
            break
    totals[BYTES] = size


@inner_kernel
def note(count, size, totals):  # type: ignore[no-untyped-def]
    """One measurement of the buffer."""
    totals[COUNT_MAX], totals[BYTES_MAX] = max(totals[COUNT_MAX], count), max(totals[BYTES_MAX], size)
    totals[MEASURED] += 1
    totals[COUNT_SUM] += count
    totals[BYTES_SUM] += size


@inner_kernel
def reference_of(number, held, valid, with_tombstones, e_reference):  # type: ignore[no-untyped-def]
    """What entry ``number`` refers to now; NO_VALUE: a tombstone that is not forwarded."""
    latest = held.latest[number]
    # No change in this call: the value lies in the heap, where the call before has put it.
    if latest < 0:
        return e_reference[held.slot[number]]
    return reference_to(latest, valid, with_tombstones)


@inner_kernel
def reference_to(row, valid, with_tombstones):  # type: ignore[no-untyped-def]
    """Reference of a change of this call; NO_VALUE: a tombstone that is not forwarded."""
    # One column refers to two places. A number from 0 on is a value in the heap, -1 (NO_VALUE) is none, and so -2 and
    # below are rows of this call: row 0 is -2, row 1 is -3. They become heap numbers when the values of the call are
    # stored. shouldForward: a tombstone of a final result has nothing to delete below, so it becomes NO_VALUE, which
    # leaves no result.
    return -(np.int64(row) + 2) if valid[row] or with_tombstones else np.int64(NO_VALUE)


@inner_array_kernel
def by_row(n_held, held, last_row, goes, valid, with_tombstones, e_reference):  # type: ignore[no-untyped-def]
    """Numbers of the entries that leave, by the row, up to ``last_row``, at which they do; none that do in silence."""
    h_leaves, n = held.leaves, goes.shape[0]
    is_forwarded, at = np.empty(n_held, np.bool_), np.zeros(n + 1, np.int64)
    # A counting sort by row: ``at[row + 1]`` counts the entries of a row, the sums make ``at[row]`` its first index,
    # and each entry moves that on by one. Entries of one row are put in their final order by ``in_order``.
    for number in range(n_held):
        is_forwarded[number] = h_leaves[number] < n and h_leaves[number] <= last_row
        if is_forwarded[number]:
            is_forwarded[number] = reference_of(number, held, valid, with_tombstones, e_reference) != NO_VALUE
            at[h_leaves[number] + 1] += is_forwarded[number]
    for row in range(n):
        at[row + 1] += at[row]
    order = np.empty(at[n], np.int32)
    for number in range(n_held):
        if is_forwarded[number]:
            order[at[h_leaves[number]]] = number
            at[h_leaves[number]] += 1
    return order


@inner_array_kernel
def written_out(order, held, observed, rows, with_tombstones, slots, entries):  # type: ignore[no-untyped-def]
    """What ``suppress_strictly`` returns of the entries ``order``."""
    n = order.shape[0]
    left = Leaving(
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
    )
    write_out(order, held, observed, rows, with_tombstones, slots, entries, left)
    return left


@inner_kernel
def write_out(order, held, observed, rows, with_tombstones, slots, entries, left):  # type: ignore[no-untyped-def]
    """Fill ``left``."""
    key, start, end, due, time, valid = rows
    s_key, s_start, s_end, s_time, _, _, _, _ = slots
    l_row, l_slot, l_key, l_start, l_end, l_due, l_time, l_reference, l_stream_time = left
    for index in range(order.shape[0]):
        number = order[index]
        slot, first, latest, row = held.slot[number], held.first[number], held.latest[number], held.leaves[number]
        l_row[index], l_slot[index], l_stream_time[index] = row, slot, observed[row]
        l_reference[index] = reference_of(number, held, valid, with_tombstones, entries.reference)
        # It came and left within the call, and never had a slot: its key and buffer time are those of its first change.
        if slot < 0:
            l_key[index], l_start[index], l_end[index], l_due[index] = key[first], start[first], end[first], due[first]
        else:
            l_key[index], l_start[index], l_end[index] = s_key[slot], s_start[slot], s_end[slot]
            l_due[index] = entries.due[slot]
        # The buffer time is the first change's, the record's timestamp the latest one's, since its value is what is
        # forwarded.
        l_time[index] = s_time[slot] if latest < 0 else time[latest]


@inner_array_kernel
def staying(n_before, n_held, n, held, weighed):  # type: ignore[no-untyped-def]
    """Of the entries that came in this call and stay: first and latest row, and what is weighed of each."""
    _, h_first, h_latest, h_leaves = held
    n_staying = 0
    for number in range(n_before, n_held):
        n_staying += h_leaves[number] >= n
    first, latest = np.empty(n_staying, np.int32), np.empty(n_staying, np.int32)
    kept = np.empty((n_staying if weighed.shape[0] else 0, 3), np.int64)
    index = 0
    for number in range(n_before, n_held):
        if h_leaves[number] >= n:
            first[index], latest[index] = h_first[number], h_latest[number]
            if weighed.shape[0]:
                for column in range(3):
                    kept[index, column] = weighed[number, column]
            index += 1
    return Staying(first, latest, kept)


@inner_kernel
def settle(n_before, n, held, weighed, rows, with_tombstones, slots, entries):  # type: ignore[no-untyped-def]
    """Bring the slots of the previous entries up to date: those that leave are freed, stored ones leave graves."""
    s_key, s_start, s_end, s_time, s_flags, table, free, counts = slots
    _, e_reference, e_prior, _, e_bytes, _, _ = entries
    n_leaving = 0
    for number in range(n_before):
        n_leaving += held.leaves[number] < n
    # Where many leave, building the index again costs less than deleting each of them from it.
    few = n_leaving * 8 < n_before
    for number in range(n_before):
        slot = held.slot[number]
        # It stays. If it changed in this call, its value and timestamp are new, its place in the order is not.
        if held.leaves[number] >= n:
            if held.latest[number] >= 0:
                e_reference[slot] = reference_of(number, held, rows.valid, with_tombstones, e_reference)
                s_time[slot] = rows.time[held.latest[number]]
                s_flags[slot] |= CHANGED
                if weighed.shape[0]:
                    e_bytes[slot] = weighed[number, 0]
            continue
        if few:
            delete(table, s_key, s_start, s_end, slot)
        # The heap keeps values that some entry refers to, so the references go with the entry.
        e_reference[slot] = e_prior[slot] = NO_VALUE
        vacate(s_flags, free, counts, slot)
    if not few and n_leaving:
        rebuild(table, s_key, s_start, s_end, s_flags)


@kernel
def stay(stays, rows, keeps, slots, entries):  # type: ignore[no-untyped-def]
    """Enter what ``suppress_strictly`` said would stay; there must be room. Fields of Staying, Changes, SlotColumns and
    EntryColumns.
    """
    slots = SlotColumns(*slots)
    first, latest, weighed = Staying(*stays)
    key, start, end, due, time, valid = Changes(*rows)
    s_time, s_flags = slots.time, slots.flags
    e_due, e_reference, e_prior, _, e_bytes, e_prior_bytes, e_prior_hash = EntryColumns(*entries)
    for index in range(first.shape[0]):
        began, now = first[index], latest[index]
        slot = enter(key[began], start[began], end[began], slots)
        s_flags[slot] |= CHANGED
        s_time[slot], e_due[slot] = time[now], due[began]
        e_reference[slot] = reference_to(now, valid, keeps[0])
        # The prior value is the old value of the first change, a row of this call: ``-(row + 2)``.
        e_prior[slot] = -(np.int64(began) + 2) if keeps[1] else np.int64(NO_VALUE)
        if weighed.shape[0]:
            e_bytes[slot] = weighed[index, 0]
            e_prior_bytes[slot], e_prior_hash[slot] = weighed[index, 1], weighed[index, 2]


@array_kernel
def hashes(data, offsets):  # type: ignore[no-untyped-def]
    """A 64-bit hash of each value's bytes, ours alone and never stored."""
    value_hashes = np.empty(offsets.shape[0] - 1, np.int64)
    for row in range(value_hashes.shape[0]):
        value_hashes[row] = np.int64(hash_bytes(data, offsets[row], offsets[row + 1]))
    return value_hashes
