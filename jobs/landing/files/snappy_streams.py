"""Files that are compressed by Snappy as a whole: four formats, one extension.

Owns their recognition and their blocks. Rule: the framing format and xerial's stream are known by their first bytes.
Hadoop's format, which Spark writes, begins with the length of a block in four bytes, the highest first, so with a zero.
A raw block that begins with a zero is empty and has no other byte. Every length and every checksum is compared.
"""

import io
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pyarrow as pa

FRAMED, XERIAL = b"\xff\x06\x00\x00sNaPpY", b"\x82SNAPPY\x00"
"""The first bytes of two of the formats."""

BLOCK_BYTES_MAX = 1 << 31
"""A block that holds as many bytes is refused."""

_XERIAL_HEADER = 16
_COMPRESSED, _PLAIN, _RESERVED = 0, 1, 0x80
"""Types of chunks of the framing format; those from the last one on are skipped."""
_MASK = 0xA282EAD8


def plain_block(raw: bytes) -> bytes:
    """What a raw block holds, which begins with its length. Raises ValueError, or OSError (Arrow's)."""
    size, shift = 0, 0
    for byte in raw[:5]:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if not raw or size >= BLOCK_BYTES_MAX:
        raise ValueError("too few bytes")
    return bytes(pa.decompress(raw, decompressed_size=size, codec="snappy", asbytes=True))


class SnappyStream(io.RawIOBase):
    """What ``stream``, at its begin, holds. Raises OSError where it is cut off or no Snappy."""

    def __init__(self, stream: Any) -> None:
        self._blocks, self._rest = _blocks(stream), memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            try:
                block = next(self._blocks, None)
            except ValueError as error:
                raise OSError(f"Snappy: {error}") from error
            if block is None:
                return 0
            self._rest = memoryview(block)
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def _blocks(stream: Any) -> Iterator[bytes]:
    head = stream.read(len(FRAMED))
    known: tuple[tuple[bytes, Callable[[io.BufferedReader], Iterator[bytes]]], ...] = (
        (FRAMED, _framed),
        (XERIAL, _xerial),
        (b"\x00", _hadoop),
    )
    for first, blocks in known:
        if head.startswith(first) and len(head) > 1:
            yield from blocks(io.BufferedReader(_Again(head, stream)))
            return
    yield plain_block(head + stream.read())


class _Again(io.RawIOBase):
    """``head`` and what comes behind it."""

    def __init__(self, head: bytes, stream: Any) -> None:
        self._head, self._stream = head, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._head:
            return int(self._stream.readinto(buffer))
        count = min(len(buffer), len(self._head))
        buffer[:count], self._head = self._head[:count], self._head[count:]
        return count


def _framed(stream: io.BufferedReader) -> Iterator[bytes]:
    """Chunks: a type in one byte, a length in three, the lowest first; of data, a masked CRC-32C goes before it."""
    while start := stream.read(1):
        chunk = _exactly(stream, int.from_bytes(_exactly(stream, 3), "little"))
        if start[0] in (_COMPRESSED, _PLAIN):
            plain = plain_block(chunk[4:]) if start[0] == _COMPRESSED else chunk[4:]
            if _masked(_crc32c(plain)) != int.from_bytes(chunk[:4], "little"):
                raise ValueError("another CRC-32C than that of its bytes")
            yield plain
        elif start[0] < _RESERVED:
            raise ValueError(f"a chunk of the unknown type {start[0]}")


def _xerial(stream: io.BufferedReader) -> Iterator[bytes]:
    """A header, then blocks behind their lengths; a stream that was appended begins with a header, too."""
    while start := stream.read(4):
        if start == XERIAL[:4]:
            _exactly(stream, _XERIAL_HEADER - 4)
        else:
            yield plain_block(_exactly(stream, _length(start)))


def _hadoop(stream: io.BufferedReader) -> Iterator[bytes]:
    """Blocks: the length of what a block holds, then parts behind their lengths that hold as much together."""
    while start := stream.read(4):
        missing = _length(start)
        while missing:
            plain = plain_block(_exactly(stream, _length(_exactly(stream, 4))))
            missing -= len(plain)
            if missing < 0 or not plain:
                raise ValueError("a part that holds another number of bytes than its block says")
            yield plain


def _length(four: bytes) -> int:
    if len(four) < 4:
        raise ValueError("too few bytes")
    return int.from_bytes(four, "big")


def _exactly(stream: io.BufferedReader, size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise ValueError("too few bytes")
    return content


@cache
def _table() -> tuple[int, ...]:
    """Of CRC-32C (Castagnoli), by a byte."""
    table = list(range(256))
    for _ in range(8):
        table = [(entry >> 1) ^ (0x82F63B78 if entry & 1 else 0) for entry in table]
    return tuple(table)


def _crc32c(data: bytes) -> int:
    table, checksum = _table(), 0xFFFFFFFF
    for byte in data:
        checksum = table[(checksum ^ byte) & 255] ^ (checksum >> 8)
    return checksum ^ 0xFFFFFFFF


def _masked(checksum: int) -> int:
    return (((checksum >> 15) | (checksum << 17)) + _MASK) & 0xFFFFFFFF
