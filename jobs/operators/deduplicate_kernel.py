"""Which records are the first of their identity (KIP-655).

Rule, in this order: stream time advances to the record's time, also for a record without an identity. Entries older
than ``stream time - interval`` are expired (they are not looked at, and removed later). A record without an identity
passes. So does one that is processed again, which is one at the coordinates of the entry. One at most the interval away
from the entry, before or after, is a duplicate. Any other passes, and becomes the entry unless it is itself too old.

Arrays: ``rows`` is a tuple of key int32, id int32, time int64, topic int16, offset int64 and record int64 (rows,).
``entries`` is a tuple of topic int16, offset int64 and record int64 (slots,). ``slots`` has the fields of SlotColumns.
``passes`` bool (rows,), ``totals`` int64 (2,).
"""

from ...state.compilation.kernel_compilation import kernel
from ...state.stores.slot_index import find, insert
from ...state.stores.slots import CHANGED, FREE_TOP, LIVE, LIVE_COUNT

STREAM_TIME, DUPLICATES = 0, 1
"""Places in ``totals``."""


@kernel
def deduplicate(rows, interval, knows_siblings, slots, entries, passes, totals):  # type: ignore[no-untyped-def]
    """Fill ``passes`` for ``(key, id, time, topic, offset, record)`` in order.

    A negative key or id is none. ``record`` numbers the input records ever taken: with ``knows_siblings`` one that was
    caused by the same input record as the entry is not taken for a record that is processed again. ``entries``: (topic,
    offset, record) by slot; an offset below 0 equals none.
    """
    key, id_, time, topic, offset, record = rows
    s_key, s_start, s_end, s_time, s_flags, table, free, counts = slots
    e_topic, e_offset, e_record = entries
    for row in range(key.shape[0]):
        totals[STREAM_TIME] = max(totals[STREAM_TIME], time[row])
        passes[row] = True
        # Without an identity nothing can be its duplicate.
        if key[row] < 0 or id_[row] < 0:
            continue
        oldest = totals[STREAM_TIME] - interval
        # The id stands in the place of a window's start: an entry is found by (key, id).
        slot = find(table, s_key, s_start, s_end, key[row], id_[row], 0)
        # An older entry is expired: looked up as if it were gone, whether or not it has been removed yet.
        if slot >= 0 and s_time[slot] >= oldest:
            is_again = offset[row] >= 0 and offset[row] == e_offset[slot] and topic[row] == e_topic[slot]
            # The record that made the entry, processed again after a failure: it passes, as it did the first time.
            if is_again and not (knows_siblings and record[row] == e_record[slot]):
                continue
            if abs(time[row] - s_time[slot]) <= interval:
                passes[row] = False
                totals[DUPLICATES] += 1
                continue
        # It passes, but an entry that is expired from the beginning would never be found.
        if time[row] < oldest:
            continue
        # An entry that has expired, or is further away than the interval, keeps its slot and is replaced.
        if slot < 0:
            counts[FREE_TOP] -= 1
            counts[LIVE_COUNT] += 1
            slot = free[counts[FREE_TOP]]
            s_key[slot], s_start[slot], s_end[slot], s_flags[slot] = key[row], id_[row], 0, LIVE
            insert(table, s_key, s_start, s_end, slot)
        s_time[slot], s_flags[slot] = time[row], s_flags[slot] | CHANGED
        e_topic[slot], e_offset[slot], e_record[slot] = topic[row], offset[row], record[row]
