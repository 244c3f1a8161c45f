"""Landed files that several replays of one process read, one after the other: each is read once.

Owns the rows that are kept, of whole files and as Arrow read them. Rule: a file is kept as long as all together are
below a number of bytes, for the time of the ``with``; any other is read again. Workers of Spark keep nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import pyarrow as pa

from ...state.tables.data_files import DataFile

SHARED_BYTES = 512 << 20
"""Of rows that are kept, as Arrow has them in memory."""

_BYTES_OF_A_FILE = 8
"""A file of so many times fewer bytes than there is room is read whole, in the hope that its rows fit."""

Batches = list[pa.RecordBatch]


class SharedReads:
    """Batches by file and columns."""

    def __init__(self, bytes_max: int = SHARED_BYTES) -> None:
        self.room = bytes_max
        self._kept: dict[tuple[object, ...], Batches] = {}

    def of(self, path: str, file: DataFile, columns: Sequence[str], how: tuple[object, ...]) -> Batches | None:
        """What was kept of the file of the table at ``path``; None for what was not. ``how`` it was read is part of its
        name.
        """
        return self._kept.get((file.root or path, file.path, *columns, *how))

    def may_keep(self, file: DataFile) -> bool:
        """Whether its rows are likely to fit."""
        return file.bytes * _BYTES_OF_A_FILE <= self.room

    def keep(self, path: str, file: DataFile, columns: Sequence[str], how: tuple[object, ...], rows: Batches) -> None:
        """Keep the rows of a whole file, if there is room."""
        size = sum(batch.nbytes for batch in rows)
        if size <= self.room:
            self.room -= size
            self._kept[file.root or path, file.path, *columns, *how] = rows


_shared: ContextVar[SharedReads | None] = ContextVar("shared_reads", default=None)


def shared() -> SharedReads | None:
    """What replays keep, None outside of ``sharing_reads``."""
    return _shared.get()


@contextmanager
def sharing_reads(bytes_max: int = SHARED_BYTES) -> Iterator[SharedReads]:
    """Replays inside the ``with`` share what they read of landed files."""
    reads = SharedReads(bytes_max)
    token = _shared.set(reads)
    try:
        yield reads
    finally:
        _shared.reset(token)
