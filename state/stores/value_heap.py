"""Values of any Arrow type, kept by number while something refers to them.

Rule: ``append`` gives numbers that stay true until ``keep_only``, which drops what nobody refers to and renumbers the
references in place, once garbage outweighs the rest. Values lie in few pieces, each at least twice as long as the next,
so that a value is copied a logarithmic number of times and not once a chunk.
"""

import numpy as np
import pyarrow as pa

NO_REFERENCE = -1
_COPIED_FOR_ONE = 4
"""So many values are put together for one that is asked for, rather than look in each piece (measured: numbers, texts,
structs)."""


class ValueHeap:
    """Values of one Arrow type; references are int64 and -1 is none."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._pieces: list[pa.Array] = []
        self._size = 0
        self._kept = 0

    def append(self, values: pa.Array) -> int:
        """Add ``values``; returns the reference of the first."""
        base, pieces = self._size, self._pieces
        if len(values):
            pieces.append(values)
            self._size += len(values)
        while len(pieces) > 1 and len(pieces[-2]) < 2 * len(pieces[-1]):
            last = pieces.pop()
            pieces[-1] = pa.concat_arrays([pieces[-1], last])
        return base

    def take(self, references: np.ndarray) -> pa.Array:
        """The values of ``references``; null for -1."""
        if not self._pieces:
            return pa.nulls(len(references), self.kind)
        if len(self._pieces) > 1 and _COPIED_FOR_ONE * len(references) >= self._size:
            self._pieces = [pa.concat_arrays(self._pieces)]
        if len(self._pieces) == 1:
            has_all = len(references) > 0 and references.min() >= 0
            return self._pieces[0].take(pa.array(references, mask=None if has_all else references < 0))
        bases = np.cumsum([0, *(len(piece) for piece in self._pieces[:-1])])
        piece_of = np.searchsorted(bases, references, side="right") - 1
        pieces, indices, size = [pa.nulls(1, self.kind)], np.zeros(len(references), np.int64), 1
        for number, piece in enumerate(self._pieces):
            rows = np.flatnonzero(piece_of == number)
            pieces.append(piece.take(pa.array(references[rows] - bases[number])))
            indices[rows] = size + np.arange(len(rows))
            size += len(rows)
        return pa.concat_arrays(pieces).take(pa.array(indices))

    def one(self, reference: int) -> pa.Array:
        """The value of ``reference`` alone, where it is; null for -1."""
        if reference >= 0:
            for piece in self._pieces:
                if reference < len(piece):
                    return piece.slice(reference, 1)
                reference -= len(piece)
        return pa.nulls(1, self.kind)

    @property
    def is_wasteful(self) -> bool:
        """Whether ``keep_only`` would find enough to forget to be worth its while."""
        return self._size >= 2 * self._kept + 65_536

    def keep_only(self, references: np.ndarray) -> None:
        """Forget values that ``references`` (changed in place) do not name, when it is worth it."""
        if not self.is_wasteful:
            return
        used = references >= 0
        is_named = np.zeros(self._size, np.bool_)
        is_named[references[used]] = True
        kept = self.take(np.flatnonzero(is_named))
        self._pieces, self._size, self._kept = ([kept] if len(kept) else []), len(kept), len(kept)
        references[used] = (np.cumsum(is_named) - 1)[references[used]]
