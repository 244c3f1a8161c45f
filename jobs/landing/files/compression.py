"""How a file is compressed as a whole: gzip, Zstandard, bzip2, LZ4 frames or Snappy.

Owns the extensions and the first bytes by which it is known. Rule: the first bytes decide, so that a compressed file
may have any name; where they say nothing, the extension does, and then a file that is not so compressed is refused.
"""

import bz2
import io
from typing import Any

import pyarrow as pa

from .snappy_streams import FRAMED, XERIAL, SnappyStream

HEAD_BYTES = 10
"""So many bytes of a file decide."""

_EXTENSIONS = {
    "gz": "gzip",
    "gzip": "gzip",
    "zst": "zstd",
    "zstd": "zstd",
    "bz2": "bz2",
    "lz4": "lz4",
    "snappy": "snappy",
    "sz": "snappy",
}
"""To Arrow's names of codecs."""
_HEADS = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (FRAMED, "snappy"),
    (XERIAL, "snappy"),
)
_BZIP2, _BLOCK, _END = b"BZh", b"1AY&SY", b"\x17rE8P\x90"
"""A file of bzip2 has a digit after the first of these; then a block begins, or it ends. Text may begin with BZh."""

_PART = 1 << 16

COMPRESSED = tuple(_EXTENSIONS)
"""Extensions, in lower case, without a dot."""


def plain_name(name: str) -> str:
    """Without the extension of a compression."""
    stem, _, extension = name.rpartition(".")
    return stem if stem and extension.lower() in _EXTENSIONS else name


def compression_of(name: str, head: bytes) -> str | None:
    """Arrow's name of the codec of a file, None: none. ``head``: its first HEAD_BYTES, fewer where it is shorter."""
    for known, codec in _HEADS:
        if head.startswith(known):
            return codec
    if head.startswith(_BZIP2) and head[3:4].isdigit() and head[4:] in (_BLOCK, _END):
        return "bz2"
    return _EXTENSIONS.get(name.rpartition(".")[2].lower()) if plain_name(name) != name else None


def decompressed(stream: Any, codec: str) -> Any:
    """What ``stream``, at its begin, holds: of Arrow's codecs, and of Snappy, of which Arrow knows raw blocks alone."""
    own = {"snappy": SnappyStream, "bz2": _Bzip2Stream}.get(codec)
    return pa.CompressedInputStream(pa.PythonFile(stream, "r"), codec) if own is None else own(stream)


class _Bzip2Stream(io.RawIOBase):
    """What ``stream`` holds, of one stream of bzip2 or several; Arrow's reader fails where one between others is empty.
    Raises OSError where it is cut off or no bzip2.
    """

    def __init__(self, stream: Any) -> None:
        self._stream, self._given = stream, stream.read(_PART)
        self._decompressor = None if not self._given else bz2.BZ2Decompressor()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while self._decompressor is not None and not data:
            if self._decompressor.eof:
                self._given = self._decompressor.unused_data or self._stream.read(_PART)
                self._decompressor = bz2.BZ2Decompressor() if self._given else None
                continue
            if self._decompressor.needs_input and not self._given:
                self._given = self._stream.read(_PART)
                if not self._given:
                    raise OSError("bzip2: too few bytes")
            given, self._given = self._given, b""
            data = self._decompressor.decompress(given, len(buffer))
        buffer[: len(data)] = data
        return len(data)
