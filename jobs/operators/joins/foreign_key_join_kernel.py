"""Subscriptions of a foreign-key join: who is answered when a right value changes (SubscriptionReceive,
SubscriptionJoin and ForeignTableJoin of Kafka Streams).

Rule: a subscription is put or removed in the order of arrival, then answered with the current right value. A change of
a right value is sent to every subscription of its key, by rising serialized primary key. The subscriptions of a key are
a list of slots, put in order when they are asked for and not before.

Arrays: ``which`` int8 and ``rows`` int64 (rows of both,). ``subscriptions`` has the fields of SubscriptionRecords,
``changes`` of RightChanges, ``store`` of SubscriptionColumns, ``lists`` of KeyLists, ``answers`` of
SubscriptionResponses. ``keys``: a tuple of data uint8 (bytes,) and offsets int64 (keys + 1,). ``totals`` int64 (3,).
``slots`` int64 (slots to enter,), of ``_merge`` int32 (slots,). ``merged`` int32 (slots,). ``slot_keys`` int64 and
``primary`` int64 (slots,). ``bounds``: a tuple of three numbers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....state.compilation.kernel_compilation import inner_kernel, kernel
from ....state.records.key_interning import compare_serialized
from ....state.stores.slot_index import delete, find, insert
from ....state.stores.slots import CHANGED, FREE_TOP, LIVE, LIVE_COUNT
from ...kernels.slot_lifecycle import vacate

SUBSCRIPTION = 0
"""``which`` of a row: a subscription, else a change of the right table."""
WRITTEN, NEXT, NEEDED = 0, 1, 2
"""Indices of ``totals``: answers written; the first row not done; answers that it needs room for."""
NO_SLOT = -1
# SubscriptionWrapper.Instruction: DELETE_KEY_AND_PROPAGATE, PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE and
# PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE, by Kafka's numbers; DELETE_KEY_NO_PROPAGATE is 0, and has no answer.
_ANSWERS_NULL, _ANSWERS_ALWAYS, _ANSWERS_IF_FOUND = 1, 2, 3


class SubscriptionRecords(NamedTuple):
    """Subscriptions in order, shape (subscriptions,); times in ms, hashes of the left value."""

    key: NDArray[np.int32]
    """The foreign key."""
    primary: NDArray[np.int32]
    instruction: NDArray[np.int32]
    time: NDArray[np.int64]
    has_hash: NDArray[np.bool_]
    hash_a: NDArray[np.int64]
    hash_b: NDArray[np.int64]
    partition: NDArray[np.int32]
    refused: NDArray[np.bool_]
    """It is not done at all."""
    has_value: NDArray[np.bool_]
    """There is a right value, of ``value_time``."""
    value_time: NDArray[np.int64]


class RightChanges(NamedTuple):
    """Changes of the right table in order, shape (changes,); times in ms."""

    key: NDArray[np.int32]
    time: NDArray[np.int64]
    valid: NDArray[np.bool_]
    """False: a deletion."""
    refused: NDArray[np.bool_]
    """No subscription is sent anything."""


class SubscriptionColumns(NamedTuple):
    """What the kernels see of the subscriptions: SlotColumns, and beside them, shape (capacity,)."""

    key: NDArray[np.int64]
    """The foreign key."""
    start: NDArray[np.int64]
    """The primary key."""
    end: NDArray[np.int64]
    time: NDArray[np.int64]
    flags: NDArray[np.uint8]
    table: NDArray[np.int32]
    free: NDArray[np.int32]
    counts: NDArray[np.int64]
    hash_a: NDArray[np.int64]
    hash_b: NDArray[np.int64]
    partition: NDArray[np.int64]
    """Of the left record."""


class KeyLists(NamedTuple):
    """Lists of subscriptions: by foreign key, shape (keys,), and by slot, shape (capacity,)."""

    first: NDArray[np.int32]
    """First slot by foreign key, or NO_SLOT."""
    length: NDArray[np.int64]
    """By foreign key."""
    in_order: NDArray[np.bool_]
    """By foreign key: its list goes by rising serialized primary key."""
    following: NDArray[np.int32]
    previous: NDArray[np.int32]
    """By slot, or NO_SLOT."""
    spare: NDArray[np.int32]
    other_spare: NDArray[np.int32]
    """Room to sort a list in, twice as many slots as there are."""


class SubscriptionResponses(NamedTuple):
    """SubscriptionResponses in order, shape (answers,); times in ms."""

    at: NDArray[np.int64]
    """Index of what causes it, among the merged rows."""
    primary: NDArray[np.int32]
    time: NDArray[np.int64]
    valid: NDArray[np.bool_]
    """There is a right value."""
    has_hash: NDArray[np.bool_]
    hash_a: NDArray[np.int64]
    hash_b: NDArray[np.int64]
    partition: NDArray[np.int32]


@kernel
def join(which, rows, subscriptions, changes, store, lists, keys, answers, begin, totals):  # type: ignore[no-untyped-def]
    """Do the rows from ``begin`` on, until ``answers`` have no room for the next.

    Fields of SubscriptionRecords, RightChanges, SubscriptionColumns, KeyLists and SubscriptionResponses; ``keys``:
    (data, offsets) of the primary keys.
    """
    subscriptions, store, lists = SubscriptionRecords(*subscriptions), SubscriptionColumns(*store), KeyLists(*lists)
    answers = SubscriptionResponses(*answers)
    c_key, c_time, c_valid, c_refused = RightChanges(*changes)
    lengths, n, room = lists.length, 0, answers.at.shape[0]
    for at in range(begin, which.shape[0]):
        row = rows[at]
        # A subscription has at most one answer; a change of the right table has one for each subscription of its key. A
        # row is begun only if all of its answers have room, so that no row is ever half done.
        if which[at] == SUBSCRIPTION:
            if n == room:
                totals[WRITTEN], totals[NEXT], totals[NEEDED] = n, at, 1
                return
            if not subscriptions.refused[row]:
                n = _subscribe(row, at, subscriptions, store, lists, answers, n)
            continue
        if c_refused[row]:
            continue
        key = c_key[row]
        if lengths[key] > room - n:
            totals[WRITTEN], totals[NEXT], totals[NEEDED] = n, at, lengths[key]
            return
        n = _answer_all(at, key, c_time[row], c_valid[row], store, lists, keys, answers, n)
    totals[WRITTEN], totals[NEXT], totals[NEEDED] = n, which.shape[0], 0


@inner_kernel
def _subscribe(row, at, subscriptions, store, lists, answers, n):  # type: ignore[no-untyped-def]
    """Put or remove subscription ``row``, and answer it; the new number of answers."""
    s_key, s_primary, s_instruction, s_time, s_hashed, s_a, s_b, s_partition, _, r_valid, r_time = subscriptions
    instruction, key, primary, time = s_instruction[row], s_key[row], s_primary[row], s_time[row]
    # The two instructions that propagate a right value put the subscription, the two that delete remove it.
    subscribes = instruction >= _ANSWERS_ALWAYS
    # Without a foreign key nothing is stored, but a left join still answers the left record.
    if key >= 0:
        slot = find(store.table, store.key, store.start, store.end, key, primary, 0)
        if subscribes:
            if slot == NO_SLOT:
                slot = _added(store, lists, key, primary)
            store.time[slot] = time
            store.hash_a[slot], store.hash_b[slot], store.partition[slot] = s_a[row], s_b[row], s_partition[row]
            store.flags[slot] |= CHANGED
        elif slot != NO_SLOT:
            _removed(store, lists, slot)
    # SubscriptionJoinProcessorSupplier. The answer's time is the later one of the subscription and the right value.
    if (
        instruction == _ANSWERS_NULL
        or instruction == _ANSWERS_ALWAYS
        or (instruction == _ANSWERS_IF_FOUND and r_valid[row])
    ):
        answers.at[n], answers.primary[n], answers.partition[n] = at, primary, s_partition[row]
        answers.time[n] = max(time, r_time[row]) if r_valid[row] else time
        # DELETE_KEY_AND_PROPAGATE is answered with null, also where there is a right value.
        answers.valid[n] = r_valid[row] and instruction != _ANSWERS_NULL
        answers.has_hash[n], answers.hash_a[n], answers.hash_b[n] = s_hashed[row], s_a[row], s_b[row]
        n += 1
    return n


@inner_kernel
def _answer_all(at, key, time, valid, store, lists, keys, answers, n):  # type: ignore[no-untyped-def]
    """Answer every subscription of ``key``; the new number of answers."""
    firsts, lengths, in_order, following, _, _, _ = lists
    if lengths[key] == 0:
        return n
    # Kafka scans its store by the prefix of the foreign key (prefixScan), so by serialized primary key. The list is put
    # in this order only when it is read: most subscriptions come long before their right value changes, or never see it
    # change.
    if not in_order[key]:
        _sort(key, store, lists, keys)
    a_at, a_primary, a_time, a_valid, a_hashed, a_a, a_b, a_partition = answers
    slot = firsts[key]
    while slot != NO_SLOT:
        # The answer has the right record's time, also where the left record is later.
        a_at[n], a_primary[n], a_time[n], a_valid[n] = at, store.start[slot], time, valid
        # The hash of the left value that subscribed: ResponseJoin drops the answer if the left value has changed since.
        a_hashed[n], a_partition[n] = True, store.partition[slot]
        a_a[n], a_b[n] = store.hash_a[slot], store.hash_b[slot]
        n += 1
        slot = following[slot]
    return n


@inner_kernel
def _added(store, lists, key, primary):  # type: ignore[no-untyped-def]
    """A new slot of (key, primary key)."""
    s_key, s_start, s_end, _, s_flags, table, free, counts, _, _, _ = store
    counts[FREE_TOP] -= 1
    counts[LIVE_COUNT] += 1
    slot = free[counts[FREE_TOP]]
    s_key[slot], s_start[slot], s_end[slot], s_flags[slot] = key, primary, 0, LIVE
    insert(table, s_key, s_start, s_end, slot)
    _link(lists, key, slot)
    return slot


@inner_kernel
def _link(lists, key, slot):  # type: ignore[no-untyped-def]
    firsts, lengths, in_order, following, previous, _, _ = lists
    following[slot], previous[slot] = NO_SLOT, NO_SLOT
    # New subscriptions go in front, which takes one step. A list of one is in order.
    if lengths[key]:
        following[slot] = firsts[key]
        previous[firsts[key]] = slot
    firsts[key] = slot
    lengths[key] += 1
    in_order[key] = lengths[key] == 1


@kernel
def link_all(slots, slot_keys, lists):  # type: ignore[no-untyped-def]
    """Enter ``slots``, just read from the durable table, into the lists of their keys (fields of KeyLists)."""
    lists = KeyLists(*lists)
    for slot in slots:
        _link(lists, slot_keys[slot], slot)


@inner_kernel
def _removed(store, lists, slot):  # type: ignore[no-untyped-def]
    s_key, s_start, s_end, _, s_flags, table, free, counts, _, _, _ = store
    firsts, lengths, _, following, previous, _, _ = lists
    key, before, after = s_key[slot], previous[slot], following[slot]
    # Taking one out leaves the others in the order in which they are, sorted or not.
    if before == NO_SLOT:
        firsts[key] = after
    else:
        following[before] = after
    if after != NO_SLOT:
        previous[after] = before
    lengths[key] -= 1
    delete(table, s_key, s_start, s_end, slot)
    vacate(s_flags, free, counts, slot)


@inner_kernel
def _sort(key, store, lists, keys):  # type: ignore[no-untyped-def]
    """Put the list of ``key`` in order of the serialized primary keys: a merge sort of its slots."""
    firsts, lengths, in_order, following, previous, slots, merged = lists
    length, primary = lengths[key], store.start
    slot = firsts[key]
    for i in range(length):
        slots[i] = slot
        slot = following[slot]
    width = 1
    while width < length:
        for low in range(0, length, 2 * width):
            _merge(slots, merged, (low, min(low + width, length), min(low + 2 * width, length)), primary, keys)
        slots, merged = merged, slots
        width *= 2
    before = np.int32(NO_SLOT)
    for i in range(length):
        previous[slots[i]] = before
        following[slots[i]] = slots[i + 1] if i + 1 < length else np.int32(NO_SLOT)
        before = slots[i]
    firsts[key] = slots[0]
    in_order[key] = True


@inner_kernel
def _merge(slots, merged, bounds, primary, keys):  # type: ignore[no-untyped-def]
    """Merge two runs of ``slots``, [low, middle) and [middle, high). Most lists were in order but for their newest."""
    low, middle, high = bounds
    data, offsets = keys
    left, right = low, middle
    # The last of the left run is before the first of the right: nothing to compare, both runs are copied.
    if (
        middle < high
        and compare_serialized(data, offsets, primary[slots[middle - 1]], 0, primary[slots[middle]], 0) < 0
    ):
        right = high
        for i in range(middle, high):
            merged[i] = slots[i]
        high = middle
    for i in range(low, high):
        is_left = left < middle and (
            right >= high or compare_serialized(data, offsets, primary[slots[left]], 0, primary[slots[right]], 0) < 0
        )
        if is_left:
            merged[i] = slots[left]
            left += 1
        else:
            merged[i] = slots[right]
            right += 1
