"""Which changes wait, which leave, in which order, from a buffer that emits early when it is full (KIP-328,
emitEarlyWhenFull).

Rule: a change is put first; then every entry leaves whose buffer time is ``<= stream time - wait``; then entries leave
while the buffer holds more records or bytes than it may (strictly more). Always the oldest first, equal ones by
serialized (windowed) key. So it may be the change just put that leaves.

Here the row at which an entry leaves is not known beforehand, so the entries are in a binary heap. Only its top ever
leaves and a buffer time never changes, so an entry need not be found in it.

Arrays: ``rows`` has the fields of Changes, ``sizes`` of Sizes, ``keys`` of KeyBytes, ``slots`` of SlotColumns,
``entries`` of EntryColumns, ``queue`` of Heap, ``emitted`` of Leaving. ``totals`` int64 (11,), as in suppress_kernel.
``s_key`` int64, ``s_start`` int64, ``s_end`` int64 and ``e_due`` int64 (slots,). ``slots_alive`` int64 (live slots,).
``limits``: a tuple of two numbers.
"""

import numpy as np

from ....state.compilation.kernel_compilation import inner_kernel, kernel
from ....state.stores.slot_index import find
from ....state.stores.slots import CHANGED, LIVE_COUNT, SlotColumns
from ...kernels.aggregate_buffers import empty
from ...kernels.slot_lifecycle import remove
from .kernel_columns import Changes, EntryColumns, Heap, KeyBytes, Leaving, Sizes
from .suppress_kernel import (
    BYTES,
    EMITTED,
    FULL_ROW,
    ONLY_TIME,
    STREAM_TIME,
    enter,
    entry_bytes,
    note,
)
from .suppress_order_kernel import is_before

NO_VALUE = -1


@kernel
def suppress_eagerly(  # type: ignore[no-untyped-def]
    rows, sizes, keys, wait, is_session, with_prior, limits, slots, entries, queue, emitted, totals
):
    """Take changes in order; all as in ``suppress_strictly``, which gives Leaving back where this fills ``emitted``.
    ``queue``: fields of Heap, with room for all rows.
    """
    sizes, keys, slots, entries = Sizes(*sizes), KeyBytes(*keys), SlotColumns(*slots), EntryColumns(*entries)
    queue, emitted = Heap(*queue), Leaving(*emitted)
    key, start, end, due, time, _ = Changes(*rows)
    s_key, s_start, s_end, s_time, s_flags, table, _, counts = slots
    e_due, e_reference, e_prior, _, e_bytes, e_prior_bytes, e_prior_hash = entries
    with_bytes, size, n = sizes.fixed.shape[0] > 0, totals[BYTES], 0
    # Only a buffer that shuts down is ever full at a row; this one emits instead.
    totals[FULL_ROW] = -1
    for row in range(key.shape[0]):
        totals[STREAM_TIME] = max(totals[STREAM_TIME], time[row])
        # A recorded time moves stream time and may evict, but puts nothing.
        if key[row] != ONLY_TIME:
            slot = find(table, s_key, s_start, s_end, key[row], start[row], end[row])
            # The key does not wait (cleanPut): its buffer time is this change's, and so is the prior value, which
            # priorValueForBuffered answers until it leaves. ``-(row + 2)`` refers to a row of this call, as in
            # suppress_kernel.
            if slot < 0:
                slot = enter(key[row], start[row], end[row], slots)
                e_due[slot] = due[row]
                e_prior[slot] = -(row + 2) if with_prior else NO_VALUE
                e_bytes[slot] = 0
                if with_bytes:
                    e_prior_bytes[slot], e_prior_hash[slot] = sizes.old[row], sizes.old_hash[row]
                push(queue, counts[LIVE_COUNT] - 1, slot, keys, is_session, s_key, s_start, s_end, e_due)
            # New or replaced, the entry has the latest value and timestamp; only its place in the order is that of the
            # first.
            s_time[slot] = time[row]
            e_reference[slot] = -(row + 2)
            s_flags[slot] |= CHANGED
            if with_bytes:
                size -= e_bytes[slot]
                e_bytes[slot] = entry_bytes(sizes, row, e_prior_bytes[slot], e_prior_hash[slot])
                size += e_bytes[slot]
            note(counts[LIVE_COUNT], size, totals)
        # enforceConstraints evicts by time first; with the EMIT strategy it then evicts the oldest until the buffer is
        # within its limits. Both are an evictWhile, and so two measurements if both evict something.
        for is_time_over in (True, False):
            before = n
            while counts[LIVE_COUNT]:
                first = queue.slot[0]
                if is_time_over:
                    leaves = e_due[first] <= totals[STREAM_TIME] - wait
                else:
                    # overCapacity, strictly more. It is asked again after each eviction, since one entry may be all
                    # that is too much.
                    leaves = counts[LIVE_COUNT] > limits[0] or size > limits[1]
                if not leaves:
                    break
                write_out(n, row, first, totals[STREAM_TIME], slots, entries, emitted)
                n += 1
                size -= e_bytes[first]
                pop(queue, counts[LIVE_COUNT], keys, is_session, s_key, s_start, s_end, e_due)
                remove(slots, first)
                # The heap keeps values that some entry refers to, so the references go with the entry.
                e_reference[first] = e_prior[first] = NO_VALUE
            if n > before:
                note(counts[LIVE_COUNT], size, totals)
    totals[BYTES], totals[EMITTED] = size, n


@inner_kernel
def write_out(n, row, slot, stream_time, slots, entries, emitted):  # type: ignore[no-untyped-def]
    """Element ``n`` of ``emitted``: the entry in ``slot``, which ``row`` evicted."""
    s_key, s_start, s_end, s_time, _, _, _, _ = slots
    o_row, o_slot, o_key, o_start, o_end, o_due, o_time, o_reference, o_stream_time = emitted
    o_row[n], o_slot[n], o_key[n], o_start[n], o_end[n] = row, slot, s_key[slot], s_start[slot], s_end[slot]
    o_due[n] = entries.due[slot]
    o_time[n], o_reference[n], o_stream_time[n] = s_time[slot], entries.reference[slot], stream_time


@inner_kernel
def push(queue, size, slot, keys, is_session, s_key, s_start, s_end, e_due):  # type: ignore[no-untyped-def]
    """Enter ``slot`` into the heap of ``size`` slots."""
    # The buffer times lie beside the slots, so that a comparison reads one array; keys are read for equal times alone.
    dues, slots = queue
    at, due = size, e_due[slot]
    while at > 0:
        above = (at - 1) >> 1
        if dues[above] < due or (
            dues[above] == due and not is_before(slot, slots[above], keys, is_session, s_key, s_start, s_end, e_due)
        ):
            break
        dues[at], slots[at] = dues[above], slots[above]
        at = above
    dues[at], slots[at] = due, slot


@inner_kernel
def pop(queue, size, keys, is_session, s_key, s_start, s_end, e_due):  # type: ignore[no-untyped-def]
    """Take the top off the heap of ``size`` slots. Times are in the heap, so keys are compared for equal times only."""
    dues, slots = queue
    size -= 1
    due, last, at = dues[size], slots[size], 0
    while 2 * at + 1 < size:
        below = 2 * at + 1
        other = below + 1
        if other < size and dues[other] <= dues[below]:
            if dues[other] < dues[below] or is_before(
                slots[other], slots[below], keys, is_session, s_key, s_start, s_end, e_due
            ):
                below = other
        if due < dues[below] or (
            due == dues[below] and is_before(last, slots[below], keys, is_session, s_key, s_start, s_end, e_due)
        ):
            break
        dues[at], slots[at] = dues[below], slots[below]
        at = below
    dues[at], slots[at] = due, last


@kernel
def refill(queue, slots_alive, keys, is_session, s_key, s_start, s_end, e_due):  # type: ignore[no-untyped-def]
    """Build the heap (fields of Heap) again from the live slots, after a load. ``keys``: fields of KeyBytes."""
    queue, keys = Heap(*queue), KeyBytes(*keys)
    for size in range(slots_alive.shape[0]):
        push(queue, size, slots_alive[size], keys, is_session, s_key, s_start, s_end, e_due)


def grown(queue: tuple[np.ndarray, np.ndarray], capacity: int) -> tuple[np.ndarray, np.ndarray]:
    """The heap with room for ``capacity`` slots."""
    dues, slots = queue
    more = capacity - len(dues)
    if more <= 0:
        return queue
    return np.concatenate([dues, np.empty(more, np.int64)]), np.concatenate([slots, np.empty(more, np.int32)])


def room(records: int, buffered: int) -> Leaving:
    """Room in ``emitted`` for a call over ``records`` rows and ``buffered`` entries."""
    return empty(Leaving, records + buffered)
