"""Records of a landed slice, handed out in offset order, so many at a time.

Rule: no more of a slice is in memory than the piece of it that the tape has come to.
"""

from collections import deque
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ...state.tables.key_dictionaries import concatenated
from ...state.times import known_times
from .landed_slice import Slice

_PIECE_ROWS = 1 << 19
"""Rows that are read at once: several chunks, since a chunk of two pieces is copied."""


class LandedRows:
    """``nothing``: no rows."""

    def __init__(self, slice_: Slice, nothing: pa.Table) -> None:
        self._unread = slice_.chunks(_PIECE_ROWS, dictionary_keys=True)
        self._nothing = nothing
        self._pieces: deque[pa.Table] = deque()

    def times(self) -> Iterator[np.ndarray]:
        """Timestamps of the records in ms, piece by piece; what is read stays until it is taken."""
        while self._read_on():
            yield known_times(self._pieces[-1]["timestamp"].to_numpy())

    def take(self, records: int) -> pa.Table:
        """The next ``records``, which there must be; each column is one array."""
        pieces, missing = [], records
        while missing and (self._pieces or self._read_on()):
            piece = self._pieces.popleft()
            pieces.append(piece.slice(0, missing))
            missing -= len(pieces[-1])
            if len(piece) > len(pieces[-1]):
                self._pieces.appendleft(piece.slice(len(pieces[-1])))
        if len(pieces) == 1:
            return pieces[0]
        return concatenated(pieces).combine_chunks() if pieces else self._nothing

    def _read_on(self) -> bool:
        """Read the next piece, if there is one."""
        piece = next(self._unread, None)
        if piece is not None:
            self._pieces.append(piece.combine_chunks())
        return piece is not None
