"""Aggregates of a grouped table (KTableAggregate): which of them there are, and counts and sums as such.

Rule: what a change replaced is taken away first, if its group has an aggregate; then what is new is added, to 0 if the
group has none. The result's time is the larger of the change's and the aggregate's. Every change causes a result; one
that takes from a group without an aggregate causes a deletion.

A versioned store (KIP-889) refuses a result older than its stream time less its history retention, and keeps one that
is older than its group's last deletion as history only; in both cases the group's aggregate stays what it was.
"""

import numpy as np

from ....state.compilation.kernel_compilation import kernel
from ....state.stores.slots import CHANGED
from ....state.stores.value_heap import NO_REFERENCE

PRESENT = 0
"""``reference`` of a slot with an aggregate."""
PLAIN = -1
"""History retention of a store that is not versioned."""


@kernel
def aggregate_changes(at, changes, retention, clock, groups, amount, result):  # type: ignore[no-untyped-def]
    """Take ``changes`` (time, new, valid, old, old valid) of the slots ``at`` in order; ``amount``: by slot.

    ``result``: (time, new, valid, old, old valid) of each change. ``groups``, ``clock``: see ``settle_group``.
    """
    time, new, valid, old, old_valid = changes
    r_time, r_new, r_valid, r_old, r_old_valid = result
    s_time, _, reference, _ = groups
    for row in range(at.shape[0]):
        slot = at[row]
        is_there = reference[slot] != NO_REFERENCE
        total = amount[slot] if is_there else 0
        r_old[row], r_old_valid[row] = total, is_there
        if is_there and old_valid[row]:
            total -= old[row]
        if valid[row]:
            total += new[row]
        r_time[row] = max(time[row], s_time[slot]) if is_there else time[row]
        r_new[row], r_valid[row] = total, is_there or valid[row]
        if settle_group(slot, r_time[row], r_valid[row], retention, clock, groups):
            amount[slot] = total


@kernel
def settle_group(slot, time, is_value, retention, clock, groups):  # type: ignore[no-untyped-def]
    """Put a group's result; whether its aggregate is now that. ``clock``: the store's stream time.

    ``groups``: (time, flags, reference, next) by slot; ``next``: where the store's history of the group ends.
    """
    s_time, s_flags, reference, s_next = groups
    is_there = reference[slot] != NO_REFERENCE
    if retention != PLAIN:
        if time < clock[0] - retention:
            return False
        clock[0] = max(clock[0], time)
        if not is_there and s_next[slot] > time:
            return False
        if time > s_time[slot] if is_there else not is_value:
            s_next[slot] = time
    s_time[slot] = time
    reference[slot] = PRESENT if is_value else NO_REFERENCE
    s_flags[slot] |= CHANGED
    return True


def results(changes: int) -> tuple[np.ndarray, ...]:
    """Empty ``result`` arrays."""
    return (
        np.empty(changes, np.int64),
        np.empty(changes, np.int64),
        np.empty(changes, np.bool_),
        np.empty(changes, np.int64),
        np.empty(changes, np.bool_),
    )
