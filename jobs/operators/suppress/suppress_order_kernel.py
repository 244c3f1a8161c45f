"""In which order entries leave a suppress buffer at one row: by buffer time, then by serialized (windowed) key.

InMemoryTimeOrderedKeyValueChangeBuffer (BufferKey). Rule: windows of one end leave together, thousands at a time, so a
large group is put in order by counting digits. The digits are those of the buffer time, and of the first eight bytes
behind the prefix that all their keys share. Those that are still equal then, and small groups, are compared as a whole.
Sessions leave by twos and threes, whose buffer times nearly always differ: such a group is sorted as it is.

Arrays: ``left`` has the fields of Leaving, ``keys`` of KeyBytes. ``column`` int32 or int64 and ``order`` int32
(results,). ``group`` int32 (entries,). ``s_key`` int32 or int64, ``s_start`` int64, ``s_end`` int64 and ``e_due`` int64
(slots,). Tuples of two arrays: ``slots`` int32, ``dues`` int64, ``words`` uint64 (entries,); ``numbers``: a tuple, one
of the last two. ``counts`` int64 (2 ** 11,). ``spare`` is a tuple of these four.
"""

import numpy as np

from ....state.compilation.kernel_compilation import array_kernel, inner_array_kernel, inner_kernel
from ....state.records.key_interning import compare_serialized, compare_serialized_sessions
from .kernel_columns import Leaving

# Entries of a group up to which it is sorted by insertion, and up to which by merging alone.
_VERY_FEW, _FEW = 8, 48
# Six passes for 64 bits, with counters (16 KiB) that stay in the processor's cache.
_DIGIT_BITS = 11
_DIGITS = 1 << _DIGIT_BITS


@inner_array_kernel
def in_order(left, most, keys, is_session):  # type: ignore[no-untyped-def]
    """``left`` with what leaves at the same row, at most so many, in order: by buffer time, then serialized key."""
    # Where at most one entry leaves at a row, the order by row is all there is.
    if most < 2:
        return left
    row, slot, key, start, end, due, time, reference, stream_time = left
    order, spare, first = np.empty(row.shape[0], np.int32), room_to_sort(most), 0
    for index in range(order.shape[0]):
        order[index] = index
    for index in range(1, order.shape[0] + 1):
        if index == order.shape[0] or row[index] != row[first]:
            if index - first > 1:
                sort_leaving(order[first:index], spare, keys, is_session, key, start, end, due)
            first = index
    slot, key, start, end = taken(slot, order), taken(key, order), taken(start, order), taken(end, order)
    due, time, reference = taken(due, order), taken(time, order), taken(reference, order)
    return Leaving(row, slot, key, start, end, due, time, reference, stream_time)


@inner_array_kernel
def taken(column, order):  # type: ignore[no-untyped-def]
    """Elements of ``column`` in ``order``."""
    elements = np.empty(order.shape[0], column.dtype)
    for index in range(order.shape[0]):
        elements[index] = column[order[index]]
    return elements


@array_kernel
def room_to_sort(entries):  # type: ignore[no-untyped-def]
    """What ``sort_leaving`` works in, for groups of at most so many."""
    slots = np.empty(entries, np.int32), np.empty(entries, np.int32)
    dues = np.empty(entries, np.int64), np.empty(entries, np.int64)
    return slots, dues, (np.empty(entries, np.uint64), np.empty(entries, np.uint64)), np.empty(_DIGITS, np.int64)


@inner_kernel
def sort_leaving(group, spare, keys, is_session, s_key, s_start, s_end, e_due):  # type: ignore[no-untyped-def]
    """Put the slots ``group`` in order, in place. ``spare``: of ``room_to_sort``."""
    if group.shape[0] <= _VERY_FEW:
        insert_each(group, keys, is_session, s_key, s_start, s_end, e_due)
        return
    slots, dues, words, counts = spare
    n, suffix = group.shape[0], s_end if is_session else s_start
    # Keys of one topic often share a long prefix, which says nothing about their order. The eight bytes behind it
    # mostly decide, and they are compared as one number.
    begin = common_bytes(group, keys, s_key)
    for index in range(n):
        slot = group[index]
        slots[0][index], dues[0][index] = slot, e_due[slot]
        words[0][index] = next_bytes(keys, s_key[slot], suffix[slot], begin)
    at = 0
    # A sort by digits is stable, so the less important number goes first: bytes of the key, then the buffer time.
    if n > _FEW:
        at = sort_by_digits(n, words, words, dues, slots, counts, at)
        lowest = dues[0][0] if at == 0 else dues[1][0]
        # Times are counted from the lowest: numbers must not be negative, and few digits then differ.
        for index in range(n):
            lowest = min(lowest, dues[at][index])
        for index in range(n):
            dues[at][index] -= lowest
        at = sort_by_digits(n, dues, words, dues, slots, counts, at)
        # Entries that are still equal differ behind the eight bytes, or not at all: runs of them are compared as a
        # whole.
        first = 0
        for index in range(1, n + 1):
            if index == n or dues[at][index] != dues[at][first] or words[at][index] != words[at][first]:
                merge_sort(first, index, at, slots, dues, words, keys, is_session, s_key, s_start, s_end, e_due)
                first = index
    else:
        merge_sort(0, n, at, slots, dues, words, keys, is_session, s_key, s_start, s_end, e_due)
    for index in range(n):
        group[index] = slots[at][index]


@inner_kernel
def insert_each(group, keys, is_session, s_key, s_start, s_end, e_due):  # type: ignore[no-untyped-def]
    """Put the slots ``group`` in order by inserting one after the other."""
    for index in range(1, group.shape[0]):
        slot = group[index]
        while index > 0 and is_before(slot, group[index - 1], keys, is_session, s_key, s_start, s_end, e_due):
            group[index] = group[index - 1]
            index -= 1
        group[index] = slot


@inner_kernel
def sort_by_digits(n, numbers, words, dues, slots, counts, at):  # type: ignore[no-untyped-def]
    """Put (slot, due, word) in order of ``numbers`` (never negative), which is one of them; equal ones stay as they
    were. Each has two arrays; ``at`` is the number of the one that is full, and the result is that number afterwards.
    """
    highest = np.uint64(0)
    lowest = ~highest
    for index in range(n):
        highest, lowest = max(highest, np.uint64(numbers[at][index])), min(lowest, np.uint64(numbers[at][index]))
    differs = highest ^ lowest
    for shift in range(0, 64, _DIGIT_BITS):
        # Digits above the highest bit that differs are the same in all numbers.
        if differs >> np.uint64(shift) == 0:
            break
        counts[:] = 0
        for index in range(n):
            counts[(np.uint64(numbers[at][index]) >> np.uint64(shift)) & np.uint64(_DIGITS - 1)] += 1
        # From counts to the first index of each digit.
        total = 0
        for digit in range(_DIGITS):
            counts[digit], total = total, total + counts[digit]
        to = 1 - at
        for index in range(n):
            own = (np.uint64(numbers[at][index]) >> np.uint64(shift)) & np.uint64(_DIGITS - 1)
            new = counts[own]
            counts[own] += 1
            slots[to][new], dues[to][new], words[to][new] = slots[at][index], dues[at][index], words[at][index]
        at = to
    return at


@inner_kernel
def common_bytes(group, keys, s_key):  # type: ignore[no-untyped-def]
    """With how many equal bytes the keys of all slots ``group`` begin."""
    data, offsets = keys
    first = offsets[s_key[group[0]]]
    common = offsets[s_key[group[0]] + 1] - first
    for index in range(1, group.shape[0]):
        other = offsets[s_key[group[index]]]
        common = min(common, offsets[s_key[group[index]] + 1] - other)
        for byte in range(common):
            if data[first + byte] != data[other + byte]:
                common = byte
                break
    return common


@inner_kernel
def next_bytes(keys, code, suffix, begin):  # type: ignore[no-untyped-def]
    """Eight bytes of ``key || be64(suffix)`` from byte ``begin`` on, which is in the key or its end, as a number."""
    # A windowed key is serialized as the key's bytes and then eight of the window's start (of a session its end first),
    # big-endian (WindowKeySchema, SessionKeySchema). As an unsigned number, such bytes compare as Kafka compares them.
    data, offsets = keys
    first, word = offsets[code] + begin, np.uint64(0)
    length = offsets[code + 1] - first
    for i in range(8):
        # Behind the key comes the suffix, its highest byte first: byte ``i - length`` of eight.
        byte = np.int64(data[first + i]) if i < length else (suffix >> (8 * (7 - i + length))) & 0xFF
        word = (word << np.uint64(8)) | np.uint64(byte)
    return word


@inner_kernel
def merge_sort(begin, end, at, slots, dues, words, keys, is_session, s_key, s_start, s_end, e_due):  # type: ignore[no-untyped-def]
    """Bottom up, of the indices ``begin`` to ``end``; the half that is not full is where the merged go."""
    # Compared from the cheapest to the dearest: buffer time, eight bytes of the key as a number, whole serialized keys.
    to, width = 1 - at, 1
    while width < end - begin:
        for left in range(begin, end, 2 * width):
            middle, right = min(left + width, end), min(left + 2 * width, end)
            a, b = left, middle
            for index in range(left, right):
                if a == middle or b == right:
                    takes_a = a < middle
                elif dues[at][a] != dues[at][b]:
                    takes_a = dues[at][a] < dues[at][b]
                elif words[at][a] != words[at][b]:
                    takes_a = words[at][a] < words[at][b]
                else:
                    # The right one must be before the left one, strictly: equal ones stay in order.
                    one, other = slots[at][b], slots[at][a]
                    takes_a = not is_before(one, other, keys, is_session, s_key, s_start, s_end, e_due)
                taken = a if takes_a else b
                a, b = a + takes_a, b + (not takes_a)
                slots[to][index], dues[to][index] = slots[at][taken], dues[at][taken]
                words[to][index] = words[at][taken]
        for index in range(begin, end):
            slots[at][index], dues[at][index], words[at][index] = slots[to][index], dues[to][index], words[to][index]
        width *= 2


@inner_kernel
def is_before(a, b, keys, is_session, s_key, s_start, s_end, e_due):  # type: ignore[no-untyped-def]
    """Does slot ``a`` leave before ``b``: by buffer time, then serialized (windowed) key. Keys without a window have
    start and end 0.
    """
    if e_due[a] != e_due[b]:
        return e_due[a] < e_due[b]
    # BufferKey.compareTo: of one buffer time by serialized key, as unsigned bytes.
    data, offsets = keys
    if is_session:
        order = compare_serialized_sessions(
            data, offsets, s_key[a], s_end[a], s_start[a], s_key[b], s_end[b], s_start[b]
        )
    else:
        order = compare_serialized(data, offsets, s_key[a], s_start[a], s_key[b], s_start[b])
    return order < 0
