"""Bytes of a directory's files, and the digest of their content, taken while they are read.

Owns opening and digests. Rule: a file of up to ``SLICE_BYTES`` has SHA-256 of its bytes as its digest. A larger one,
whose slices are read by several tasks, ``<slice bytes>:`` and SHA-256 of the digests of its parts of that size. Content
is what a compressed file holds: compressing a file makes no other content of it.
"""

import hashlib
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from ....state.errors import LandingError
from ....state.tables.object_stores import open_filesystem
from ..file_source import FileSource
from .compression import HEAD_BYTES, compression_of, decompressed

SLICE_BYTES = 32 << 20
"""About what one task reads; a CSV file is never split, because a quoted field may hold line ends."""
_PART = 1 << 20


@dataclass(frozen=True, slots=True)
class FileBeside:
    """A file of keys or headers (``kind``) beside one of values (beside.py)."""

    kind: str
    name: str
    bytes: int
    mtime_ns: int | None


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of the directory. ``name``: relative to it, with slashes; ``beside``: those beside it, as declared."""

    name: str
    bytes: int
    mtime_ns: int | None
    beside: tuple[FileBeside, ...] = ()


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Part of a file: bytes ``[start, end)`` of JSON lines, row groups ``[start, end)`` of Parquet; ``end`` None: all.

    ``bytes`` is its weight, about; ``size`` and ``mtime_ns`` are what the whole file had when it was planned.
    ``first_byte``, ``last_byte``: the part ``[first, last)`` of the file's bytes whose digest this slice takes.
    ``beside``: files of which it needs the rows too; then it is the whole file.
    """

    name: str
    start: int
    end: int | None
    bytes: int
    size: int
    mtime_ns: int | None
    first_byte: int = 0
    last_byte: int | None = None
    beside: tuple[FileBeside, ...] = ()

    def to_list(self) -> list[Any]:
        """As JSON values."""
        return [
            self.name, self.start, self.end, self.bytes, self.size, self.mtime_ns, self.first_byte, self.last_byte,
            *([[each.kind, each.name, each.bytes, each.mtime_ns] for each in self.beside],) * bool(self.beside),
        ]  # fmt: skip

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> Self:
        """The reverse of ``to_list``; plans from before have no bytes of digests."""
        beside = tuple(FileBeside(*each) for each in values[8]) if len(values) > 8 else ()
        return replace(cls(*values[:8]), beside=beside)


class PartDigests:
    """SHA-256 of the parts of ``part`` bytes, in order, of a stream that begins at ``first`` (where a part begins).
    ``is_used``: a stream takes them, also where it is empty.
    """

    def __init__(self, first: int = 0, last: int | None = None, *, part: int | None = None) -> None:
        self.part = SLICE_BYTES if part is None else part
        self.at, self.last = first, last
        self._hexdigests: list[str] = []
        self.is_used = False
        self._open: Any = None

    def take(self, at: int, data: memoryview | bytes) -> None:
        """``data`` begins at byte ``at``; what has been taken already, or is outside, is left out."""
        data = memoryview(data)[max(0, self.at - at) :]
        if self.last is not None:
            data = data[: max(0, self.last - self.at)]
        while data:
            room = self.part - self.at % self.part
            self._open = self._open or hashlib.sha256()
            self._open.update(data[:room])
            self.at += len(data[:room])
            if self.at % self.part == 0:
                self.close()
            data = data[room:]

    def close(self) -> list[str]:
        """All digests; the last part may be shorter than the others."""
        if self._open is not None:
            self._hexdigests.append(self._open.hexdigest())
            self._open = None
        return self._hexdigests


def whole_digest(parts: Sequence[str], part: int | None = None) -> str:
    """The digest of a file, of those of its parts of ``part`` bytes."""
    if len(parts) < 2:
        return parts[0] if parts else hashlib.sha256().hexdigest()
    return f"{SLICE_BYTES if part is None else part}:{hashlib.sha256(''.join(parts).encode()).hexdigest()}"


def digest_like(known: str, source: FileSource, name: str) -> str:
    """The digest of a file's bytes, in the way in which ``known`` was taken."""
    part = int(known.partition(":")[0]) if ":" in known else 1 << 62
    digests = PartDigests(part=part)
    with opened(source, name, digests) as stream:
        while stream.read(_PART):
            pass
    return whole_digest(digests.close(), part)


def is_compressed(source: FileSource, name: str) -> bool:
    """As a whole, so that no part of the file can be read alone."""
    filesystem, path = open_filesystem(source.uri_of(name))
    with filesystem.open_input_file(path) as file:
        return compression_of(name, file.read(HEAD_BYTES)) is not None


@contextmanager
def opened(
    source: FileSource, name: str, digests: PartDigests | None = None, content: PartDigests | None = None
) -> Iterator[io.BufferedReader]:
    """The bytes of a file, decompressed where it is compressed; LandingError where they cannot be read.

    ``digests`` takes the file's own bytes, all of them unless it ends before; ``content`` those in a compressed file.
    """
    filesystem, path = open_filesystem(source.uri_of(name))
    try:
        with filesystem.open_input_file(path) as file:
            codec = compression_of(name, file.read(HEAD_BYTES))
            file.seek(0)
            own: Any = io.BufferedReader(_Counted(file, digests), buffer_size=_PART)
            if codec is not None:
                yield io.BufferedReader(_Counted(decompressed(own, codec), content), buffer_size=_PART)
            else:
                yield own
            while digests is not None and digests.last is None and own.read(_PART):  # what nobody asked for
                pass
    except OSError as error:
        raise LandingError(
            f"{source.path}/{name}", "a file that can be read", str(error), "put a whole file there, then land again"
        ) from error


@contextmanager
def parquet_file(source: FileSource, name: str, digests: PartDigests | None = None) -> Iterator[pq.ParquetFile]:
    """A Parquet file; LandingError when it is none. ``digests`` takes the bytes that it is to take at once."""
    filesystem, path = open_filesystem(source.uri_of(name))
    with filesystem.open_input_file(path) as file:
        try:
            # Of a timestamp in 96 bits, which Spark writes, microseconds have room for all its years; nanoseconds wrap.
            whole = file if digests is None else _digested(file, digests)
            parquet = pq.ParquetFile(whole, coerce_int96_timestamp_unit="us")
            if dictionaries := _dictionaries(parquet):
                # Arrow casts a dictionary to the type that it had in memory, and refuses the file for one text that is
                # not UTF-8. One that is asked for is read as it lies there, and its rows are judged one by one.
                parquet = pq.ParquetFile(
                    whole,
                    metadata=parquet.metadata,
                    read_dictionary=dictionaries,
                    coerce_int96_timestamp_unit="us",
                )
            yield parquet
        except (pa.ArrowInvalid, OSError) as error:
            raise LandingError(
                f"{source.path}/{name}", "a Parquet file", str(error).splitlines()[0], "remove or rewrite the file"
            ) from error


def _dictionaries(file: pq.ParquetFile) -> list[str]:
    """Paths of columns that were dictionaries when they were written, however deep in lists, maps and structs."""
    leaves = [leaf for field in file.schema_arrow for leaf in _leaves(field.type)]
    return [file.schema.column(at).path for at, leaf in enumerate(leaves) if pa.types.is_dictionary(leaf)]


def _leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if pa.types.is_dictionary(kind) or not kind.num_fields:
        yield kind
    else:
        for at in range(kind.num_fields):
            yield from _leaves(kind.field(at).type)


def _digested(file: pa.NativeFile, digests: PartDigests) -> pa.NativeFile:
    """``file`` after its digests were taken; one that is read at once is read no second time."""
    size = file.size()
    if digests.at == 0 and size <= digests.part:
        data = file.read()
        digests.take(0, data)
        return pa.BufferReader(data)
    at, last = digests.at, size if digests.last is None else digests.last
    file.seek(at)
    while at < last and (data := file.read(min(_PART, last - at))):
        digests.take(at, data)
        at += len(data)
    file.seek(0)
    return file


class _Counted(io.RawIOBase):
    """``stream``, of which ``digests`` are taken while it is read."""

    def __init__(self, stream: Any, digests: PartDigests | None) -> None:
        self.stream, self.digests, self.at = stream, digests, 0
        if digests is not None:
            digests.is_used = True

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self.stream.seekable())

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = self.stream.seek(offset, whence)
        return self.at

    def tell(self) -> int:
        return self.at

    def readinto(self, buffer: Any) -> int:
        count: int = self.stream.readinto(buffer)
        if self.digests is not None:
            self.digests.take(self.at, memoryview(buffer)[:count])
        self.at += count
        return count


def is_as_planned(source: FileSource, piece: FileSlice) -> bool:
    """Have its file, and those beside it, the size and time with which they were planned? Without a time: it is never
    written again.
    """
    planned = [(piece.name, piece.size, piece.mtime_ns)]
    planned += [(each.name, each.bytes, each.mtime_ns) for each in piece.beside]
    for name, size, mtime_ns in planned:
        filesystem, path = open_filesystem(source.uri_of(name))
        entry = filesystem.get_file_info(path)
        if entry.size != size or mtime_ns not in (None, entry.mtime_ns):
            return False
    return True
