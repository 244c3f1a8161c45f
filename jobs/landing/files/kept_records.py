"""Records that the first pass over files has decoded, for the second, as far as they have room in memory.

Owns how much is kept. Rule: a slice is kept as a whole or not at all, with the size and time that its file had when its
digest was taken. What is not kept is read again, and so is what another process has planned.
"""

from .records import FileRecords
from .streams import FileSlice

KEPT_BYTES = 512 << 20
"""Of records in memory: some ten million small ones."""


class KeptRecords:
    """Records of slices whose rows are all good."""

    def __init__(self) -> None:
        self._by_slice: dict[FileSlice, list[FileRecords] | None] = {}
        self._bytes = 0

    def clear(self) -> None:
        """Nothing is kept any more."""
        self._by_slice, self._bytes = {}, 0

    def has_room(self) -> bool:
        """For some more, at least."""
        return self._bytes < KEPT_BYTES

    def add(self, piece: FileSlice, records: FileRecords) -> None:
        """The next records of ``piece``, unless it is one that was dropped."""
        held = self._by_slice.setdefault(piece, [])
        if held is None:
            return
        held.append(records)
        self._bytes += records.nbytes
        if self._bytes > KEPT_BYTES:
            self.drop(piece)

    def drop(self, piece: FileSlice) -> None:
        """Keep nothing of ``piece``, nor of what comes of it."""
        self._bytes -= sum(records.nbytes for records in self._by_slice.get(piece) or ())
        self._by_slice[piece] = None

    def of(self, piece: FileSlice) -> list[FileRecords] | None:
        """All records of ``piece``, in order; None: it is to be read."""
        return self._by_slice.get(piece)
