"""The interner of one task's keys: serialized bytes to dense ints, and back.

Owns the bytes of every key the task has met. Rule: codes count from 0 in order of first appearance and never change;
two keys have one code exactly when their bytes are equal; null is NULL_CODE. What only the task's memory holds: codes
are never stored.
"""

import numpy as np
import pyarrow as pa

from state import key_table
from state.buffers import binary_array, binary_view, is_valid
from state.key_table import compare_serialized, compare_serialized_sessions
from state.serdes import Serde

__all__ = ["NULL_CODE", "Keys", "compare_serialized", "compare_serialized_sessions"]

NULL_CODE = -1
"""Code of the null key."""

_KEYS_MIN, _BYTES_MIN = 1024, 16 * 1024


class Keys:
    """Keys of one serde. ``len(keys)`` is the number of keys met so far, and the next code."""

    def __init__(self, serde: Serde) -> None:
        self.serde = serde
        self._count = 0
        self._data = np.empty(_BYTES_MIN, np.uint8)
        self._offsets = np.zeros(_KEYS_MIN + 1, np.int64)
        self._table = np.full(2 * _KEYS_MIN, key_table.EMPTY, np.int64)

    def __len__(self) -> int:
        return self._count

    @property
    def data(self) -> np.ndarray:
        """Bytes of all keys, uint8. A view, right for the codes of this moment; ask again after ``intern``."""
        return self._data[: self._offsets[self._count]]

    @property
    def offsets(self) -> np.ndarray:
        """int64, ``len(self) + 1``: the bytes of code c are ``data[offsets[c]:offsets[c + 1]]``. A view, as ``data``."""
        return self._offsets[: self._count + 1]

    def intern(self, array: pa.Array) -> np.ndarray:
        """Code of each row of a binary array, or of a dictionary array of one, as int32; new keys get new codes."""
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        indices, dictionary = array.indices, array.dictionary
        if indices.null_count:
            indices = indices.fill_null(NULL_CODE) if pa.types.is_signed_integer(indices.type) else _signed(indices)
        words = binary_view(dictionary)
        codes = np.where(is_valid(dictionary), np.int32(key_table.UNSEEN), np.int32(NULL_CODE))
        self._reserve(len(dictionary), int(words.offsets[-1] - words.offsets[0]))
        rows = np.empty(len(indices), np.int32)
        numbers = indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        with np.errstate(over="ignore"):  # the hash wraps; NumPy says so when JIT is off
            self._count = key_table.intern_rows(
                numbers, words.data, words.offsets, codes, self._table, self._data, self._offsets, self._count, rows
            )
        return rows

    def lookup(self, key: bytes) -> int:
        """Code of a serialized key, or -1 when it was never interned."""
        word = np.frombuffer(key, np.uint8)
        with np.errstate(over="ignore"):
            hashed = key_table.hash_bytes(word, 0, len(key))
            found = key_table.find(self._table, self._data, self._offsets, hashed, word, 0, len(key))
        return int(found[1])

    def take(self, codes: np.ndarray) -> pa.BinaryArray:
        """Serialized bytes of ``codes`` as a binary array, null for -1; less than 2 GiB in all."""
        valid = codes >= 0
        offsets = np.zeros(len(codes) + 1, np.int64)
        np.cumsum(np.diff(self.offsets, append=0)[codes] * valid, out=offsets[1:])
        taken = np.empty(int(offsets[-1]), np.uint8)
        key_table.gather(self._data, self._offsets, codes, taken, offsets)
        return binary_array(taken, offsets, valid)

    def typed(self, codes: np.ndarray) -> pa.Array:
        """Keys of ``codes`` as ``serde.arrow_type``; null for -1 and for a key that the serde cannot decode."""
        if len(codes) <= len(self):
            return self.serde.decode(self.take(codes)).values
        every = self.serde.decode(self.take(np.arange(len(self), dtype=np.int32))).values
        return every.take(pa.array(codes, mask=codes < 0))

    def undecodable(self, first: int = 0) -> dict[int, str]:
        """Code to sentence, for keys from code ``first`` on that the serde cannot decode.

        To be asked for the new keys of an ``intern``, so that a key is tried once and not once a record.
        """
        if first == len(self):
            return {}
        decoded = self.serde.decode(self.take(np.arange(first, len(self), dtype=np.int32)))
        return {first + row: reason for row, reason in decoded.reasons.items()}

    def _reserve(self, keys: int, key_bytes: int) -> None:
        """Make room for that many more, since a kernel cannot."""
        used = int(self._offsets[self._count])
        if used + key_bytes > len(self._data):
            data = np.empty(max(2 * len(self._data), used + key_bytes), np.uint8)
            data[:used] = self._data[:used]
            self._data = data
        needed = self._count + keys
        if needed + 1 > len(self._offsets):
            offsets = np.zeros(max(2 * len(self._offsets), needed + 1), np.int64)
            offsets[: self._count + 1] = self.offsets
            self._offsets = offsets
        if 2 * needed > len(self._table):
            self._table = np.empty(1 << (2 * needed - 1).bit_length(), np.int64)
            with np.errstate(over="ignore"):
                key_table.rebuild(self._table, self._data, self._offsets, self._count)


def _signed(indices: pa.Array) -> pa.Array:
    return indices.cast(pa.int64()).fill_null(NULL_CODE)
