"""What a reader sees of a suppressed table (KTableSuppressProcessorSupplier's value getter).

Rule: while a key waits in the buffer it is what the first change that waits replaced, else what the table above shows.
An entry is there from its first change on, and until all below have got what it emits. Of final results some entries
leave in silence: those whose window's end is ``<= stream time - wait`` are gone when the put of a change is over. It is
once all below have got what the change made the buffer emit (InMemoryTimeOrderedKeyValueChangeBuffer.evictWhile).

Arrays: ``merged`` is a tuple of which int8 and row int64 (all rows,). ``changes`` is a tuple of slot int64, time int64
and old valid bool (changes,). ``c_at`` int64 and ``old_valid`` bool (changes,) are two of these. ``leaving`` int64
(emissions,). ``asked`` int64, ``shown`` int64 and ``is_held`` bool (rows that ask,). ``ends`` int64, ``s_flags`` uint8,
``reference`` int64 and ``newest`` int64 (slots,). ``clock``: a tuple of two numbers.
"""

from ....state.compilation.kernel_compilation import inner_kernel, kernel
from ....state.stores.key_values import FIRST_ROW
from ....state.stores.value_heap import NO_REFERENCE
from ....state.times import FOREVER

HELD = 8
"""Flag of a slot whose key waits."""
NONE_ENDED = -FOREVER
"""Limit by which no window ended."""
LEFT = -1
"""In ``newest``: the entry has left in this chunk."""


@kernel
def watch_buffer(merged, changes, leaving, asked, clock, ends, s_flags, reference, newest, shown, is_held):  # type: ignore[no-untyped-def]
    """Walk ``changes`` (slot, time, old valid), emissions ``leaving`` (slots) and rows ``asked`` (slots, -1: nothing)
    in the order of ``merged``; the largest time of a change so far.

    ``clock``: (that before the call, wait). ``newest``: 1 + row of the change that began the entry, or LEFT; stays as
    it is, for ``clear`` or ``commit``. ``shown``: reference of what a row sees where ``is_held``.
    """
    which, row_of = merged
    c_at, c_time, c_old_valid = changes
    observed, wait = clock
    last, limit, over = -1, NONE_ENDED, 0
    for i in range(which.shape[0]):
        row = row_of[i]
        # A change moves stream time and is put. While what the buffer emits because of it goes out, nothing has left in
        # silence since the put before.
        if which[i] == 0:
            last, limit = row, max(limit, observed - wait)
            observed, over = max(observed, c_time[row]), end_of_put(which, i)
            slot = c_at[row]
            if not is_waiting(slot, -1, limit, ends, s_flags, newest):
                # The key does not wait, so the change begins an entry. Later ones leave ``newest`` as it is: the prior
                # value is that of the first.
                newest[slot] = row + 1
        # An entry is there until all below have got its result: it leaves behind the rows that see it.
        elif which[i] == 1:
            newest[leaving[row]] = LEFT
        else:
            if last >= 0 and i >= over:
                last, limit = -1, observed - wait
            slot = asked[row]
            is_held[row] = slot >= 0 and is_waiting(slot, last, limit, ends, s_flags, newest)
            if is_held[row]:
                begun = newest[slot] - 1
                # From before the chunk: its prior value was kept when that chunk was committed.
                shown[row] = reference[slot] if begun < 0 else prior_of(begun, c_old_valid)
    return observed


@inner_kernel
def end_of_put(which, change):  # type: ignore[no-untyped-def]
    """Behind the last emission that the change at ``change`` caused. ``which`` int8 (all rows,): as in ``merged``."""
    over = change + 1
    for i in range(change + 1, which.shape[0]):
        if which[i] == 0:
            break
        if which[i] == 1:
            over = i + 1
    return over


@inner_kernel
def is_waiting(slot, last, limit, ends, s_flags, newest):  # type: ignore[no-untyped-def]
    """Is the slot's entry there, after change ``last``, when those that ended by ``limit`` had left before it?"""
    # At 0 no change of this chunk began the entry: HELD says whether one waits from before it.
    if newest[slot] == LEFT or (newest[slot] == 0 and not s_flags[slot] & HELD):
        return False
    # The entry of change ``last`` itself is there, however old: it was put after the previous evictions.
    return ends[slot] > limit or (last >= 0 and newest[slot] == last + 1)


@inner_kernel
def prior_of(begun, old_valid):  # type: ignore[no-untyped-def]
    """Reference of what change ``begun`` replaced."""
    # ``FIRST_ROW - row``, -2 and below, is a row of the chunk's old values, as in table_store_kernel.
    return FIRST_ROW - begun if old_valid[begun] else NO_REFERENCE


@kernel
def clear(c_at, leaving, newest):  # type: ignore[no-untyped-def]
    """Forget what ``watch_buffer`` noted."""
    for row in range(c_at.shape[0]):
        newest[c_at[row]] = 0
    for row in range(leaving.shape[0]):
        newest[leaving[row]] = 0


@kernel
def commit(c_at, leaving, old_valid, limit, ends, s_flags, reference, newest):  # type: ignore[no-untyped-def]
    """Keep what ``watch_buffer`` noted, as of the end of the chunk, when all that ended by ``limit`` have left."""
    for slot in range(ends.shape[0]):
        # It has left, by an emission or in silence, so its prior value is needed no longer.
        if s_flags[slot] & HELD and (newest[slot] == LEFT or ends[slot] <= limit):
            s_flags[slot] ^= HELD
            reference[slot] = NO_REFERENCE
    for row in range(c_at.shape[0]):
        slot = c_at[row]
        # The entry began in this chunk and stays: HELD and its prior value outlast ``newest``.
        if newest[slot] > 0 and ends[slot] > limit:
            s_flags[slot] |= HELD
            reference[slot] = prior_of(newest[slot] - 1, old_valid)
        newest[slot] = 0
    for row in range(leaving.shape[0]):
        newest[leaving[row]] = 0
