"""Avro's object containers: a header with the schema, then blocks of records, each followed by the file's marker.

Owns the framing, as Avro's specification ("Object Container Files") has it. Rule: a file is read whole or refused with
the byte at which it is none: what a damaged block held is not known, so nothing behind it is believed.
"""

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from .snappy_streams import BLOCK_BYTES_MAX, plain_block

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_HEADER_BYTES_MAX = 64 << 20
"""More than any schema has: a length beyond is no length."""


class ContainerError(Exception):
    """It is no container, or one that is damaged: ``expected``, ``got``, at byte ``place``."""

    def __init__(self, place: int, expected: str, got: str) -> None:
        super().__init__(place, expected, got)
        self.place, self.expected, self.got = place, expected, got


@dataclass(frozen=True, slots=True)
class ContainerBlock:
    """Records of a block: how many, and their bytes, one after the other. ``begin``: of the block in the file."""

    begin: int
    records: int
    data: bytes


class Container:
    """The container at the beginning of ``stream``, whose header is read at once. ``schema``: its text; ``codec``: the
    name of the compression of its blocks. Raises ContainerError.
    """

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream, self._at = stream, 0
        magic = self._read(len(_MAGIC))
        if magic != _MAGIC:
            raise ContainerError(0, "an Avro object container, which begins with Obj and 1", repr(magic))
        metadata = self._metadata()
        self._sync = self._exactly(_SYNC_BYTES)
        if "avro.schema" not in metadata:
            raise ContainerError(len(_MAGIC), "the schema (avro.schema)", ", ".join(metadata) or "no metadata")
        self.schema = metadata["avro.schema"].decode(errors="replace")
        self.codec = metadata.get("avro.codec", b"null").decode(errors="replace") or "null"
        if self.codec not in _CODECS:
            raise ContainerError(len(_MAGIC), f"blocks as one of {', '.join(_CODECS)}", self.codec)

    def blocks(self) -> Iterator[ContainerBlock]:
        """Those that have records, in order."""
        while True:
            place = self._at
            count = self._number(may_end=True)
            if count is None:
                return
            size = self._number()
            if count < 0 or size is None or not 0 <= size < BLOCK_BYTES_MAX:
                raise ContainerError(place, "a count of records and their bytes", f"{count} and {size}")
            packed = self._exactly(size)
            if self._exactly(_SYNC_BYTES) != self._sync:
                raise ContainerError(place, "the file's marker behind each block", "other bytes")
            if count:
                yield ContainerBlock(place, count, self._unpacked(place, packed))

    def _unpacked(self, place: int, packed: bytes) -> bytes:
        try:
            return _CODECS[self.codec](packed)
        except (ValueError, OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException) as error:
            raise ContainerError(place, f"a block packed by {self.codec}", str(error) or "other bytes") from error

    def _metadata(self) -> dict[str, bytes]:
        metadata: dict[str, bytes] = {}
        while count := self._number():
            if count < 0:  # then the block's size is behind it
                self._number()
            for _ in range(abs(count)):
                name = self._sized().decode(errors="replace")
                metadata[name] = self._sized()
        return metadata

    def _sized(self) -> bytes:
        place, size = self._at, self._number()
        if size is None or not 0 <= size <= _HEADER_BYTES_MAX:
            raise ContainerError(place, "a length", str(size))
        return self._exactly(size)

    def _number(self, *, may_end: bool = False) -> int | None:
        """A zigzag number of seven bits a byte. None where the file ends before it and ``may_end``."""
        number, shift, place = 0, 0, self._at
        while True:
            byte = self._read(1)
            if not byte and may_end and not shift:
                return None
            if not byte or shift > 63:
                raise ContainerError(place, "a number", "the end of the file" if not byte else "more than 10 bytes")
            number |= (byte[0] & 127) << shift
            shift += 7
            if byte[0] < 128:
                return (number >> 1) ^ -(number & 1)

    def _exactly(self, size: int) -> bytes:
        place, content = self._at, self._read(size)
        if len(content) < size:
            raise ContainerError(place, f"{size:,} bytes", f"the end of the file after {len(content):,}")
        return content

    def _read(self, size: int) -> bytes:
        content = self._stream.read(size)
        self._at += len(content)
        return content


def _snappy(packed: bytes) -> bytes:
    """Raw Snappy, and the CRC-32 of what it holds in 4 bytes, the highest first."""
    plain, checksum = plain_block(packed[:-4]), packed[-4:]
    if zlib.crc32(plain) != int.from_bytes(checksum, "big"):
        raise ValueError("another CRC-32 than that of its bytes")
    return plain


def _zstandard(packed: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        return bytes(stream.read())


def _deflate(packed: bytes) -> bytes:
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    plain = inflate.decompress(packed) + inflate.flush()
    if not inflate.eof:
        raise ValueError("too few bytes")
    return plain


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": bz2.decompress,
    "xz": lzma.decompress,
}
