"""The compiled parts of the key interner: hash, probe, append, and the order of serialized keys.

Owns no memory. Rule: key bytes lie one after the other in ``data``; those of code c are
``data[offsets[c]:offsets[c + 1]]``. ``table`` is open addressing over a power of two of int64 entries
``tag << 32 | code`` (-1 is empty; tag: upper half of the hash), at most half full; nothing is ever removed.
``data`` has a byte behind the last key, at which an empty key begins.
"""

import numpy as np

from ..compilation.kernel_compilation import array_kernel, inlined_kernel, inner_kernel, kernel

EMPTY = -1

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_MIXER = np.uint64(0xD6E8FEB86659FD93)
_HALF, _FOLD = np.uint64(32), np.uint64(29)
_1, _2, _3, _4, _5, _6, _7, _8 = (np.uint64(n) for n in range(1, 9))
_16, _24, _40, _48, _56 = (np.uint64(8 * n) for n in (2, 3, 5, 6, 7))
_CODE = 0xFFFFFFFF
_BLOCK = 256
"""How many keys are looked up together, so that their cache misses overlap. It takes a quarter of the time."""


@inlined_kernel
def _word(data, i):  # type: ignore[no-untyped-def]
    """Eight bytes from ``i`` (uint64: a signed index would be checked for a count from the end) in one load."""
    return (
        np.uint64(data[i])
        | np.uint64(data[i + _1]) << _8
        | np.uint64(data[i + _2]) << _16
        | np.uint64(data[i + _3]) << _24
        | np.uint64(data[i + _4]) << _HALF
        | np.uint64(data[i + _5]) << _40
        | np.uint64(data[i + _6]) << _48
        | np.uint64(data[i + _7]) << _56
    )


@inner_kernel
def hash_bytes(data, begin, end):  # type: ignore[no-untyped-def]
    """64-bit hash of ``data[begin:end]``; ours alone. State files are in its order, so it is to stay as it is."""
    i, stop = np.uint64(begin), np.uint64(end)
    h = (stop - i) * _PRIME
    while i + _8 <= stop:
        h = (h ^ _word(data, i)) * _MIXER
        h ^= h >> _HALF
        i += _8
    rest = np.uint64(0)
    while i < stop:
        rest = (rest << _8) | np.uint64(data[i])
        i += _1
    h = (h ^ rest) * _MIXER
    h = (h ^ (h >> _HALF)) * _PRIME
    return h ^ (h >> _FOLD)


@kernel
def hash_rows(data, offsets, hashes):  # type: ignore[no-untyped-def]
    """Write the hash of every row to ``hashes`` (uint64)."""
    for row in range(len(hashes)):
        hashes[row] = hash_bytes(data, offsets[row], offsets[row + 1])


@inner_kernel
def _is_same(a, first_a, b, first_b, length):  # type: ignore[no-untyped-def]
    i, j = np.uint64(first_a), np.uint64(first_b)
    stop = i + np.uint64(length)
    while i + _8 <= stop:
        if _word(a, i) != _word(b, j):
            return False
        i += _8
        j += _8
    while i < stop:
        if a[i] != b[j]:
            return False
        i += _1
        j += _1
    return True


@inner_kernel
def _tag(hashed):  # type: ignore[no-untyped-def]
    return np.int64(hashed >> _HALF)


@inner_kernel
def _has_tag(entry, hashed):  # type: ignore[no-untyped-def]
    return entry != EMPTY and (entry >> 32) & _CODE == _tag(hashed)


@inner_kernel
def find(table, data, offsets, hashed, words, begin, end):  # type: ignore[no-untyped-def]
    """(slot of ``table``, code) of the key ``words[begin:end]``; code -1: absent, the slot is where it would go."""
    mask = np.uint64(table.shape[0] - 1)
    slot = hashed & mask
    while True:
        entry = table[slot]
        if entry == EMPTY:
            return slot, np.int64(EMPTY)
        if _has_tag(entry, hashed):
            code = entry & _CODE
            first = offsets[code]
            if offsets[code + 1] - first == end - begin and _is_same(data, first, words, begin, end - begin):
                return slot, np.int64(code)
        slot = (slot + _1) & mask


@kernel
def lookup(word, table, data, offsets):  # type: ignore[no-untyped-def]
    """Code of the key ``word``, or -1."""
    length = word.shape[0]
    return find(table, data, offsets, hash_bytes(word, 0, length), word, 0, length)[1]


@array_kernel
def intern_words(words, word_offsets, order, table, data, offsets, count, codes):  # type: ignore[no-untyped-def]
    """Fill ``codes[w]`` for each word w of ``order``, in that order; the new number of keys.

    The bytes of word w are ``words[word_offsets[w]:word_offsets[w + 1]]``. The arrays have room for every word.
    """
    room = np.empty(_BLOCK, np.uint64), np.empty((3, _BLOCK), np.int64), np.empty(_BLOCK, np.uint8)
    return _intern_blocks(words, word_offsets, order, table, data, offsets, count, codes, room)


@inner_kernel
def _intern_blocks(words, word_offsets, order, table, data, offsets, count, codes, room):  # type: ignore[no-untyped-def]
    mask = np.uint64(table.shape[0] - 1)
    hashes, (entries, firsts, lengths), touched = room[0], room[1], room[2]
    for block in range(0, order.shape[0], _BLOCK):
        size = min(_BLOCK, order.shape[0] - block)
        # One array at a time: the loads of such a loop do not wait for each other.
        for b in range(size):
            word = order[block + b]
            hashes[b] = hash_bytes(words, word_offsets[word], word_offsets[word + 1])
        for b in range(size):
            entries[b] = table[hashes[b] & mask]
        for b in range(size):
            code = np.uint64(entries[b] & _CODE) if entries[b] != EMPTY else np.uint64(0)
            firsts[b] = offsets[code]
            lengths[b] = offsets[code + _1] - firsts[b]
        for b in range(size):
            touched[b] = data[np.uint64(firsts[b])]
        for b in range(size):
            word, hashed, entry = order[block + b], hashes[b], entries[b]
            begin, end = word_offsets[word], word_offsets[word + 1]
            is_candidate = _has_tag(entry, hashed) and lengths[b] == end - begin
            if is_candidate and _is_same(data, firsts[b], words, begin, end - begin):
                codes[word] = entry & _CODE
                continue
            slot, code = find(table, data, offsets, hashed, words, begin, end)
            if code == EMPTY:
                code = count
                _append(data, offsets, count, words, begin, end)
                table[slot] = (_tag(hashed) << 32) | code
                count += 1
            codes[word] = code
    return count


@inner_kernel
def _append(data, offsets, count, words, begin, end):  # type: ignore[no-untyped-def]
    first = offsets[count]
    for i in range(end - begin):
        data[first + i] = words[begin + i]
    offsets[count + 1] = first + end - begin


@kernel
def first_uses(indices, is_used, order):  # type: ignore[no-untyped-def]
    """Fill ``order`` with the words that ``indices`` name, by first appearance; their number. Negative names none.

    ``is_used``: true for words to leave out, and on return for all that were found.
    """
    count = 0
    for row in range(indices.shape[0]):
        word = indices[row]
        if word >= 0 and not is_used[word]:
            is_used[word] = True
            order[count] = word
            count += 1
    return count


@kernel
def rebuild(table, data, offsets, count):  # type: ignore[no-untyped-def]
    """Enter every key into the emptied ``table``; all are known to differ."""
    table[:] = EMPTY
    mask = np.uint64(table.shape[0] - 1)
    for code in range(count):
        hashed = hash_bytes(data, offsets[code], offsets[code + 1])
        slot = hashed & mask
        while table[slot] != EMPTY:
            slot = (slot + _1) & mask
        table[slot] = (_tag(hashed) << 32) | code


@kernel
def compare_serialized(data, offsets, code_a, suffix_a, code_b, suffix_b):  # type: ignore[no-untyped-def]
    """-1, 0 or 1: order of ``kb(a) || be64(suffix_a)`` and ``kb(b) || be64(suffix_b)`` (Kafka's WindowKeySchema).

    Unsigned, lexicographic, the shorter of two first when it is a prefix of the other (Kafka's Bytes.compareTo). For
    time and sliding windows the suffix is the window's start.
    """
    return compare_serialized_sessions(data, offsets, code_a, suffix_a, 0, code_b, suffix_b, 0)


@kernel
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


@inner_kernel
def _unsigned_order(a, b):  # type: ignore[no-untyped-def]
    """-1 or 1: order of two different int64 by their big-endian bytes, where negative ones come last."""
    if (a < 0) == (b < 0):
        return -1 if a < b else 1
    return -1 if b < 0 else 1


@inner_kernel
def _byte(data, first, length, end, start, i):  # type: ignore[no-untyped-def]
    """Byte i of ``key || be64(end) || be64(start)``."""
    if i < length:
        return np.int64(data[first + i])
    i -= length
    if i < 8:
        return (np.int64(end) >> (8 * (7 - i))) & 0xFF
    return (np.int64(start) >> (8 * (15 - i))) & 0xFF
