"""Aggregates of a grouped table (KTableAggregate): which of them there are, and counts and sums as such.

Rule: what a change replaced is taken away first, if its group has an aggregate; then what is new is added, to 0 if the
group has none. The result's time is the larger of the change's and the aggregate's. Every change causes a result; one
that takes from a group without an aggregate causes a deletion.

A versioned store (KIP-889) refuses a result older than its stream time less its history retention. One that is older
than its group's last deletion is kept as history only. In both cases the group's aggregate is unchanged.

Arrays: ``at`` int64 (changes,), ``amount`` int64 (slots,), ``clock`` int64 (1,). ``changes`` and ``result`` have the
fields of Amounts, ``groups`` of Groups.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....state.compilation.kernel_compilation import kernel
from ....state.stores.slots import CHANGED
from ....state.stores.value_heap import NO_REFERENCE
from ...kernels.aggregate_buffers import empty

PRESENT = 0
"""``reference`` of a slot with an aggregate."""
PLAIN = -1
"""History retention of a store that is not versioned."""


class Amounts(NamedTuple):
    """Changes to take, and results of each, shape (changes,); times in ms."""

    time: NDArray[np.int64]
    new: NDArray[np.int64]
    valid: NDArray[np.bool_]
    """There is a new one."""
    old: NDArray[np.int64]
    old_valid: NDArray[np.bool_]
    """There is an old one."""


class Groups(NamedTuple):
    """What kernels see of the groups, shape (capacity,)."""

    time: NDArray[np.int64]
    flags: NDArray[np.uint8]
    reference: NDArray[np.int64]
    """PRESENT, or NO_REFERENCE: the group has no aggregate."""
    next: NDArray[np.int64]
    """Where a versioned store's history of the group ends, in ms."""


@kernel
def aggregate_changes(at, changes, retention, clock, groups, amount, result):  # type: ignore[no-untyped-def]
    """Take ``changes`` of the slots ``at`` in order; ``amount`` int64: by slot. ``clock``: see ``settle_group``.

    Fields of Amounts (``changes``, and ``result`` of each) and of Groups.
    """
    time, new, valid, old, old_valid = Amounts(*changes)
    result = Amounts(*result)
    s_time, _, reference, _ = Groups(*groups)
    for row in range(at.shape[0]):
        slot = at[row]
        is_there = reference[slot] != NO_REFERENCE
        total = amount[slot] if is_there else 0
        result.old[row], result.old_valid[row] = total, is_there
        # KTableAggregate: the subtractor first, but only if there is an aggregate to take from.
        if is_there and old_valid[row]:
            total -= old[row]
        # Then the adder; without an aggregate it begins from the initializer, here 0.
        if valid[row]:
            total += new[row]
        # Kafka's newTimestamp: never before what the aggregate had.
        result.time[row] = max(time[row], s_time[slot]) if is_there else time[row]
        result.new[row], result.valid[row] = total, is_there or valid[row]
        # A store that refuses the result, or keeps it as history, leaves the group's aggregate as it was.
        if settle_group(slot, result.time[row], result.valid[row], retention, clock, groups):
            amount[slot] = total


@kernel
def settle_group(slot, time, is_value, retention, clock, groups):  # type: ignore[no-untyped-def]
    """Put a group's result; whether its aggregate is now that. ``clock`` int64: the store's stream time, shape (1,).

    ``groups``: fields of Groups.
    """
    s_time, s_flags, reference, s_next = Groups(*groups)
    is_there = reference[slot] != NO_REFERENCE
    if retention != PLAIN:
        # The put is expired by the store's stream time.
        if time < clock[0] - retention:
            return False
        clock[0] = max(clock[0], time)
        # The group was deleted later than this: the result is in its history, and the group stays deleted.
        if not is_there and s_next[slot] > time:
            return False
        # The version that was there moves into the history, which then ends here. So it does where a deleted group is
        # deleted again.
        if time > s_time[slot] if is_there else not is_value:
            s_next[slot] = time
    s_time[slot] = time
    reference[slot] = PRESENT if is_value else NO_REFERENCE
    s_flags[slot] |= CHANGED
    return True


def results(changes: int) -> Amounts:
    """Room for the results of so many."""
    return empty(Amounts, changes)
