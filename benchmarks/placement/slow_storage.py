"""Reads from a warehouse that are as slow as from an object store, in a time that is counted and not waited for.

Owns the delay: so many seconds an open, so many bytes a second. Rule: it is in the file system layer, where every
reader of a warehouse's data files opens them (``state/tables/parquet_reader.py``); warm copies are local, and free.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import fs

from ...state.tables import parquet_reader

OPEN_S, BYTES_PER_SECOND = 0.030, 50e6


@dataclass
class StorageReads:
    """What was read so far. ``state_bytes``: of files of stores."""

    seconds: float = 0.0
    state_bytes: int = 0


@contextmanager
def slow_storage() -> Iterator[StorageReads]:
    """Within it reads are counted, and how long they would take."""
    reads, before = StorageReads(), parquet_reader.open_filesystem

    def open_filesystem(directory: str) -> tuple[Any, str]:
        filesystem, path = before(directory)
        return _SlowFileSystem(filesystem, reads), path

    parquet_reader.open_filesystem = open_filesystem
    try:
        yield reads
    finally:
        parquet_reader.open_filesystem = before


class _SlowFileSystem:
    def __init__(self, filesystem: fs.FileSystem, reads: StorageReads) -> None:
        self._filesystem, self._reads = filesystem, reads

    def open_input_file(self, path: str) -> pa.NativeFile:
        self._reads.seconds += OPEN_S
        is_state = "/state/" in path
        return pa.PythonFile(_SlowFile(self._filesystem.open_input_file(path), self._reads, is_state), mode="r")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._filesystem, name)


class _SlowFile:
    """What ``pa.PythonFile`` asks of a file."""

    def __init__(self, file: pa.NativeFile, reads: StorageReads, is_state: bool) -> None:
        self._file, self._reads, self._is_state = file, reads, is_state

    def read(self, count: int = -1) -> bytes:
        piece: bytes = self._file.read(None if count < 0 else count)
        self._reads.seconds += len(piece) / BYTES_PER_SECOND
        self._reads.state_bytes += len(piece) if self._is_state else 0
        return piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
