"""The interner of one task's keys: serialized bytes to dense ints, and back.

Owns the bytes of every key of the task so far. Rule: codes count from 0 in order of first appearance and never change;
two keys have one code exactly when their bytes are equal; null is NULL_CODE. What only the task's memory holds: codes
are never stored.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..buffers import BinaryView, binary_view, is_valid
from ..serdes import Serde
from . import key_interning

NULL_CODE = -1
"""Code of the null key."""

_KEYS_MIN, _BYTES_MIN = 1024, 16 * 1024
_TEXT = Serde.string()
_DICTIONARIES = 4
"""So many dictionaries are remembered: those of the topics that a task reads in turn."""
_SLICE = 64 * 1024
"""Words interned between two looks at the room: all might be new, so the table is kept wide enough for that.

Every row is looked up in our own table. Arrow's dictionary_encode before it costs more than it saves (measured on 500 k
keys: 30 ns a row without, 60 with, by Zipf; 52 against 166 when all keys are equally frequent)."""


class _DictionaryWords:
    """Words of a dictionary: which a row has named, or are null, and their codes; the last code is for index -1."""

    def __init__(self, dictionary: pa.Array) -> None:
        self.dictionary, self.view = dictionary, binary_view(dictionary)
        self.is_named = ~is_valid(dictionary)
        self.codes = np.full(len(dictionary) + 1, NULL_CODE, np.int32)


def canonical_bytes(serde: Serde, keys: pa.Array) -> pa.BinaryArray:
    """Keys in the form in which ``serde`` writes them; one that it cannot read stays as it is."""
    if serde.codec.is_canonical:
        return keys
    keys = keys.cast(pa.binary())
    decoded = serde.decode(keys)
    return pc.coalesce(serde.encode(decoded.values), keys)


class Keys:
    """Keys of one serde. ``len(keys)`` is the number of keys so far, and the next code."""

    def __init__(self, serde: Serde) -> None:
        self.serde = serde
        self._count = 0
        self._data = np.empty(_BYTES_MIN, np.uint8)
        self._offsets = np.zeros(_KEYS_MIN + 1, np.int64)
        self._table = np.full(2 * _KEYS_MIN, key_interning.EMPTY, np.int64)
        self._dictionaries: list[_DictionaryWords] = []
        self._tried = 0
        """So many keys, from the first on, were tried: all but those that have ``_reasons`` can be decoded."""
        self._reasons: dict[int, str] = {}
        self._forms = np.zeros(0, np.int32)
        """By code, that of the key in the form in which the serde writes it; none while all came in that form."""

    def __len__(self) -> int:
        return self._count

    @property
    def data(self) -> np.ndarray:
        """Bytes of all keys, uint8. A view, right for the current codes; ask again after ``intern``."""
        return self._data[: self._offsets[self._count]]

    @property
    def offsets(self) -> np.ndarray:
        """int64, ``len(self) + 1``: bytes of code c are ``data[offsets[c]:offsets[c + 1]]``. A view, as ``data``."""
        return self._offsets[: self._count + 1]

    def intern(self, array: pa.Array) -> np.ndarray:
        """Code of each row of a binary array, or of a dictionary array of one, as int32; new keys get new codes."""
        if pa.types.is_dictionary(array.type):
            return self._intern_dictionary(array)
        codes = np.full(len(array), NULL_CODE, np.int32)
        order = np.arange(len(array)) if array.null_count == 0 else np.flatnonzero(is_valid(array))
        self._intern_words(binary_view(array), order, codes)
        return codes

    def intern_records(self, array: pa.Array) -> np.ndarray:
        """As ``intern``, of keys that others wrote: one that the serde would write in another form (JSON with spaces, a
        UUID in capitals) gets the code of that form, as Kafka's stores have it.
        """
        codes = self.intern(array)
        if self.serde.codec.is_canonical:
            return codes
        self.undecodable()
        if len(self._forms) == 0:
            return codes
        self._extend_forms()
        return np.where(codes == NULL_CODE, codes, self._forms[codes])

    def _extend_forms(self) -> None:
        """Keys that were added since are in that form."""
        if len(self._forms) < len(self):
            more = np.arange(len(self._forms), len(self), dtype=np.int32)
            self._forms = np.concatenate([self._forms, more])

    def _intern_dictionary(self, array: pa.DictionaryArray) -> np.ndarray:
        """Only words that a row names become keys: a dictionary may hold others."""
        indices = array.indices.cast(pa.int32())
        if indices.null_count:
            indices = indices.fill_null(NULL_CODE)
        rows, words = indices.to_numpy(), self._words_of(array.dictionary)
        order = np.empty(min(len(rows), len(words.is_named)), np.int64)
        count = key_interning.first_uses(rows, words.is_named, order)
        self._intern_words(words.view, order[:count], words.codes)
        return words.codes[rows]

    def _words_of(self, dictionary: pa.Array) -> "_DictionaryWords":
        """What is known of a dictionary, which comes once a chunk with the same words."""
        for known in self._dictionaries:
            if known.dictionary.equals(dictionary):
                return known
        self._dictionaries = [_DictionaryWords(dictionary), *self._dictionaries[: _DICTIONARIES - 1]]
        return self._dictionaries[0]

    def _intern_words(self, view: BinaryView, order: np.ndarray, codes: np.ndarray) -> None:
        for begin in range(0, len(order), _SLICE):
            part = order[begin : begin + _SLICE]
            self._reserve(len(part), int((view.offsets[part + 1] - view.offsets[part]).sum()))
            with np.errstate(over="ignore"):  # the hash wraps; NumPy would say so when JIT is off
                self._count = key_interning.intern_words(
                    view.data, view.offsets, part, self._table, self._data, self._offsets, self._count, codes
                )

    def lookup(self, key: bytes) -> int:
        """Code of a serialized key, or -1 when it was never interned."""
        with np.errstate(over="ignore"):
            return int(key_interning.lookup(np.frombuffer(key, np.uint8), self._table, self._data, self._offsets))

    def take(self, codes: np.ndarray) -> pa.BinaryArray:
        """Serialized bytes of ``codes`` as a binary array, null for -1; less than 2 GiB in all."""
        return self._every().take(_indices(codes)).cast(pa.binary())

    def typed(self, codes: np.ndarray) -> pa.Array:
        """Keys of ``codes`` as ``serde.arrow_type``; null for -1 and for a key that the serde cannot decode."""
        if self.serde == _TEXT:
            return self.take(self._readable(codes)).view(pa.string())  # without looking at their bytes once more
        if len(codes) <= len(self):
            return self.serde.decode(self.take(codes)).values
        every = self.serde.decode(self.take(np.arange(len(self), dtype=np.int32))).values
        return every.take(_indices(codes))

    def as_dictionary(self, codes: np.ndarray) -> pa.Array:
        """``typed``; text as a dictionary array (indices int32, dictionary ``large_string``) of all keys so far, of
        which none is copied: every dictionary begins with the previous one.
        """
        if self.serde != _TEXT:
            return self.typed(codes)
        indices = _indices(self._readable(codes))
        return pa.DictionaryArray.from_arrays(indices, self._every().view(pa.large_string()), safe=False)

    def _readable(self, codes: np.ndarray) -> np.ndarray:
        """``codes``, NULL_CODE for keys that cannot be decoded."""
        is_bad = self.is_undecodable(codes)
        return np.where(is_bad, NULL_CODE, codes) if is_bad.any() else codes

    def is_undecodable(self, codes: np.ndarray) -> np.ndarray:
        """Which of ``codes`` are keys that the serde cannot decode."""
        bad = self.undecodable()
        return np.isin(codes, list(bad)) if bad else np.zeros(len(codes), np.bool_)

    def undecodable(self, first: int = 0) -> dict[int, str]:
        """Code to sentence, for keys from code ``first`` on that the serde cannot decode. A key is tried once, and not
        once a record.
        """
        if self._tried < len(self):
            # Set before the forms become keys below: those are behind it, so the next call tries them.
            tried, self._tried = self._tried, len(self)
            keys = self.take(np.arange(tried, self._tried, dtype=np.int32))
            decoded = self.serde.decode(keys)
            self._reasons |= {tried + row: reason for row, reason in decoded.reasons.items()}
            if not self.serde.codec.is_canonical:
                self._note_forms(tried, keys, canonical_bytes(self.serde, keys))
        return {code: reason for code, reason in self._reasons.items() if code >= first}

    def _note_forms(self, first: int, keys: pa.BinaryArray, forms: pa.BinaryArray) -> None:
        """Of ``keys``, with codes from ``first`` on; ``forms``: as the serde writes them."""
        other = np.flatnonzero(~np.asarray(pc.equal(keys, forms).to_numpy(zero_copy_only=False), np.bool_))
        if len(other):
            codes = self.intern(forms.take(pa.array(other)))
            self._extend_forms()
            self._forms[first + other] = codes

    def _every(self) -> pa.Array:
        """All keys, where they are."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)

    def _reserve(self, keys: int, key_bytes: int) -> None:
        """Make room for that many more, since a kernel cannot, and for the byte behind them, which it may look at."""
        used = int(self._offsets[self._count])
        if used + key_bytes >= len(self._data):
            data = np.empty(max(2 * len(self._data), used + key_bytes + 1), np.uint8)
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
                key_interning.rebuild(self._table, self._data, self._offsets, self._count)


def _indices(codes: np.ndarray) -> pa.Array:
    is_null = codes < 0
    return pa.array(codes, mask=is_null) if is_null.any() else pa.array(codes)
