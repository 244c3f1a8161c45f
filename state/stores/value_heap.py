"""Values of any Arrow type, kept by number while something refers to them.

Rule: ``append`` gives numbers that stay true until ``keep_only``, which drops what nobody refers to and renumbers the
references in place, once garbage outweighs the rest.
"""

import numpy as np
import pyarrow as pa

NO_REFERENCE = -1


class ValueHeap:
    """Values of one Arrow type; references are int64 and -1 is none."""

    def __init__(self, kind: pa.DataType) -> None:
        self.values = pa.array([], kind)
        self._pieces: list[pa.Array] = []
        self._size = 0
        self._kept = 0

    def append(self, values: pa.Array) -> int:
        """Add ``values``; returns the reference of the first."""
        base = self._size
        self._pieces.append(values)
        self._size += len(values)
        return base

    def take(self, references: np.ndarray) -> pa.Array:
        """The values of ``references``; null for -1."""
        self._join()
        if len(references) and references.min() >= 0:
            return self.values.take(pa.array(references))
        return self.values.take(pa.array(references, mask=references < 0))

    @property
    def is_wasteful(self) -> bool:
        """Would ``keep_only`` be worth it?"""
        return self._size >= 2 * self._kept + 65_536

    def keep_only(self, references: np.ndarray) -> None:
        """Forget values that ``references`` (changed in place) do not name, when it is worth it."""
        if not self.is_wasteful:
            return
        self._join()
        used = references >= 0
        distinct, places = np.unique(references[used], return_inverse=True)
        self.values = self.values.take(pa.array(distinct))
        references[used] = places
        self._size = self._kept = len(distinct)

    def _join(self) -> None:
        if self._pieces:
            self.values = pa.concat_arrays([self.values, *self._pieces])
            self._pieces = []
