"""Lines of text files: what a line is, for every format whose rows are lines.

Owns the cut into lines. Rule: a line belongs to the slice in which it begins. Only blank lines are no rows. A byte
order mark before the first line is no part of it, nor is one before any line of JSON: files may have been joined.
"""

import codecs
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..bad_rows import BadRow
from ..file_source import FileSource
from . import streams
from .blocks import BLOCK_BYTES, BLOCK_ROWS
from .streams import FileSlice, is_compressed, opened

BLANK = b" \t\r\n\v\f"
"""What a line may have that is blank."""
CHUNK_BYTES = 1 << 20
"""Of lines that are read at once; a core's cache has room for them and their columns."""


def line_slices(source: FileSource, whole: FileSlice) -> list[FileSlice]:
    """A file cut into ranges of bytes; one, where it is compressed."""
    if is_compressed(source, whole.name):
        return [whole]
    step = streams.SLICE_BYTES
    cuts = [(first, min(first + step, whole.size)) for first in range(0, whole.size, step)]
    return [replace(whole, start=s, end=e, bytes=step, first_byte=s, last_byte=e) for s, e in cuts]


def lines_as_they_stand(source: FileSource, piece: FileSlice, bad: Sequence[BadRow]) -> list[tuple[int, bytes]]:
    """Of bad rows located by their first bytes: their lines from 1, and their bytes. The file is read again."""
    with opened(source, piece.name) as stream:
        numbers, at, lines = [], 0, 1
        for row in bad:
            lines += _ends_within(stream, row.location - at)
            at = row.location
            numbers.append(lines)
    return [(number, row.raw or b"") for number, row in zip(numbers, bad, strict=True)]


def line_chunks(stream: io.BufferedReader, piece: FileSlice) -> Iterator[tuple[int, bytes]]:
    """(byte at which it begins, whole lines of about CHUNK_BYTES) of the lines that begin in the slice."""
    at = piece.start
    if at > 0:
        # From the byte before on: if it is a line end, the line that begins at `start` is this slice's own.
        stream.seek(at - 1)
        at += len(stream.readline()) - 1
    while piece.end is None or at < piece.end:
        chunk = stream.read(CHUNK_BYTES if piece.end is None else min(CHUNK_BYTES, piece.end - at))
        if not chunk:
            return
        if not chunk.endswith(b"\n"):
            chunk += stream.readline()
        yield at, chunk
        at += len(chunk)


def line_blocks(
    stream: io.BufferedReader, piece: FileSlice, blank: bytes = BLANK, *, is_json: bool = True
) -> Iterator[tuple[list[int], list[bytes]]]:
    """(bytes at which lines begin, lines without their ends) of the lines that begin in the slice and have more than
    ``blank``. ``is_json``: a byte order mark is no part of any line, and not only of the first.
    """
    for at, chunk in line_chunks(stream, piece):
        yield from lines_of(at, chunk, blank, is_json=is_json)


def lines_of(
    at: int, chunk: bytes, blank: bytes = BLANK, *, is_json: bool = True
) -> Iterator[tuple[list[int], list[bytes]]]:
    """The same of a chunk that begins at byte ``at``."""
    locations: list[int] = []
    lines: list[bytes] = []
    size = 0
    for line in io.BytesIO(chunk):
        begin = len(codecs.BOM_UTF8) if (is_json or at == 0) and line.startswith(codecs.BOM_UTF8) else 0
        if line[begin:].strip(blank):
            locations.append(at)
            lines.append(line[begin:].removesuffix(b"\n").removesuffix(b"\r"))
            size += len(line)
        at += len(line)
        if len(lines) >= BLOCK_ROWS or size >= BLOCK_BYTES:
            yield locations, lines
            locations, lines, size = [], [], 0
    if lines:
        yield locations, lines


def line_ends(chunk: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Of each line of ``chunk`` its first byte, and the one behind its last, without the line end."""
    data = np.frombuffer(chunk, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    if not chunk.endswith(b"\n"):
        ends = np.append(ends, len(chunk))
    return np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1]), ends


def _ends_within(stream: io.BufferedReader, count: int) -> int:
    """Line ends in the next ``count`` bytes."""
    lines = 0
    while count > 0 and (part := stream.read(min(count, 1 << 20))):
        lines, count = lines + part.count(b"\n"), count - len(part)
    return lines
