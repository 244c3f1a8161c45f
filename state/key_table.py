"""Compiled parts of the key interner: hash, probe, append, and the order of serialized keys.

Owns no memory. Rule: key bytes lie one after the other in ``data``; those of code c are
``data[offsets[c]:offsets[c + 1]]``. ``table`` is open addressing over a power of two of int64 entries
``tag << 32 | code`` (-1 is empty; tag: upper half of the hash), at most half full; nothing is ever removed.
"""

import numpy as np
from numba import njit

EMPTY = -1
UNSEEN = -2
"""In ``codes``: a dictionary value that no row has named so far."""

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_MIXER = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_LOW = np.int64(0xFFFFFFFF)


@njit(cache=True)
def hash_bytes(data, begin, end):  # type: ignore[no-untyped-def]
    """64-bit hash of ``data[begin:end]``; ours alone, never stored."""
    h = np.uint64(end - begin) * _PRIME
    i = begin
    while i + 8 <= end:
        word = np.uint64(data[i])
        for k in range(1, 8):
            word |= np.uint64(data[i + k]) << np.uint64(8 * k)
        h = (h ^ word) * _MIXER
        h ^= h >> _HALF
        i += 8
    word = np.uint64(0)
    while i < end:
        word = (word << np.uint64(8)) | np.uint64(data[i])
        i += 1
    h = (h ^ word) * _MIXER
    h ^= h >> _HALF
    h *= _PRIME
    return h ^ (h >> np.uint64(29))


@njit(cache=True)
def find(table, data, offsets, hashed, key_data, begin, end):  # type: ignore[no-untyped-def]
    """(place in ``table``, code) of the key ``key_data[begin:end]``; code -1: absent, place is where it would go."""
    mask = table.shape[0] - 1
    tag = np.int64(hashed >> _HALF)
    place = np.int64(hashed & np.uint64(mask))
    while True:
        entry = table[place]
        if entry == EMPTY:
            return place, EMPTY
        if (entry >> 32) & _LOW == tag:
            code = entry & _LOW
            first = offsets[code]
            if offsets[code + 1] - first == end - begin:
                same = True
                for i in range(end - begin):
                    if data[first + i] != key_data[begin + i]:
                        same = False
                        break
                if same:
                    return place, code
        place = (place + 1) & mask


@njit(cache=True)
def entry_of(hashed, code):  # type: ignore[no-untyped-def]
    return (np.int64(hashed >> _HALF) << 32) | np.int64(code)


@njit(cache=True)
def intern_rows(indices, words, word_offsets, codes, table, data, offsets, count, rows):  # type: ignore[no-untyped-def]
    """Fill ``rows`` with the codes of ``indices`` into the dictionary ``words``; the new number of keys.

    ``codes``: of each word, UNSEEN at first, -1 for a null word. Index -1 is the null key. The arrays have room for
    every word.
    """
    for row in range(indices.shape[0]):
        index = indices[row]
        if index < 0:
            rows[row] = -1
            continue
        code = codes[index]
        if code == UNSEEN:
            begin, end = word_offsets[index], word_offsets[index + 1]
            hashed = hash_bytes(words, begin, end)
            place, found = find(table, data, offsets, hashed, words, begin, end)
            if found == EMPTY:
                found = count
                first = offsets[count]
                for i in range(end - begin):
                    data[first + i] = words[begin + i]
                count += 1
                offsets[count] = first + end - begin
                table[place] = entry_of(hashed, found)
            code = found
            codes[index] = code
        rows[row] = code
    return count


@njit(cache=True)
def rebuild(table, data, offsets, count):  # type: ignore[no-untyped-def]
    """Enter every key into the emptied ``table``; all are known to differ."""
    table[:] = EMPTY
    mask = table.shape[0] - 1
    for code in range(count):
        hashed = hash_bytes(data, offsets[code], offsets[code + 1])
        place = np.int64(hashed & np.uint64(mask))
        while table[place] != EMPTY:
            place = (place + 1) & mask
        table[place] = entry_of(hashed, code)


@njit(cache=True)
def gather(data, offsets, codes, taken, taken_offsets):  # type: ignore[no-untyped-def]
    """Copy the key bytes of ``codes`` (-1: none) into ``taken``, where ``taken_offsets`` says."""
    for row in range(codes.shape[0]):
        code = codes[row]
        if code >= 0:
            first, at = offsets[code], taken_offsets[row]
            for i in range(offsets[code + 1] - first):
                taken[at + i] = data[first + i]


@njit(cache=True)
def compare_serialized(data, offsets, code_a, suffix_a, code_b, suffix_b):  # type: ignore[no-untyped-def]
    """-1, 0 or 1: order of ``kb(a) || be64(suffix_a)`` and ``kb(b) || be64(suffix_b)`` (semantics.md section 0, wk).

    Unsigned, lexicographic, the shorter of two first when it is a prefix of the other (Kafka's Bytes.compareTo). For
    time and sliding windows the suffix is the window's start.
    """
    return compare_serialized_sessions(data, offsets, code_a, suffix_a, 0, code_b, suffix_b, 0)


@njit(cache=True)
def compare_serialized_sessions(data, offsets, code_a, end_a, start_a, code_b, end_b, start_b):  # type: ignore[no-untyped-def]
    """As compare_serialized, of ``kb || be64(end) || be64(start)``."""
    first_a, first_b = offsets[code_a], offsets[code_b]
    length_a, length_b = offsets[code_a + 1] - first_a, offsets[code_b + 1] - first_b
    if code_a != code_b:
        for i in range(min(length_a, length_b)):
            if data[first_a + i] != data[first_b + i]:
                return -1 if data[first_a + i] < data[first_b + i] else 1
    if length_a == length_b:
        if end_a != end_b:
            return _unsigned_order(end_a, end_b)
        if start_a != start_b:
            return _unsigned_order(start_a, start_b)
        return 0
    # The longer key's own bytes now meet the shorter one's suffix.
    for i in range(min(length_a, length_b), min(length_a, length_b) + 16):
        byte_a = _byte(data, first_a, length_a, end_a, start_a, i)
        byte_b = _byte(data, first_b, length_b, end_b, start_b, i)
        if byte_a != byte_b:
            return -1 if byte_a < byte_b else 1
    return -1 if length_a < length_b else 1


@njit(cache=True)
def _unsigned_order(a, b):  # type: ignore[no-untyped-def]
    """-1 or 1: order of two different int64 by their big-endian bytes, where negative ones come last."""
    if (a < 0) == (b < 0):
        return -1 if a < b else 1
    return -1 if b < 0 else 1


@njit(cache=True)
def _byte(data, first, length, end, start, i):  # type: ignore[no-untyped-def]
    """Byte i of ``key || be64(end) || be64(start)``."""
    if i < length:
        return np.int64(data[first + i])
    i -= length
    if i < 8:
        return (np.int64(end) >> (8 * (7 - i))) & 0xFF
    return (np.int64(start) >> (8 * (15 - i))) & 0xFF
