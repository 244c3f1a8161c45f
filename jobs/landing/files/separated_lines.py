"""Lines with separators and without quotes, as kcat -f and Kafka's console consumer write them.

Owns the cut of a line into cells. Rule: cells are what is between separators, with quotes; the last one is the rest of
the line, whatever it has. Names that the console consumer puts before a time or a partition are cut.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..bad_rows import BadRow
from ..file_source import FileSource
from .blocks import Block, check_columns
from .format_reader import FormatReader
from .streams import FileSlice, opened
from .text_cells import TextCells
from .text_lines import line_blocks, line_slices, lines_as_they_stand

if TYPE_CHECKING:
    from .reading import SliceReading

_TIMES = ("CreateTime:", "LogAppendTime:")
_PARTITION = ("Partition:",)


class SeparatedLinesReader(FormatReader):
    """Slices are ranges of bytes; the place of a row is its first byte."""

    def blocks(self, reading: "SliceReading") -> Iterator[Block]:
        source, piece = reading.source, reading.piece
        names = source.columns or ()
        check_columns(source, piece.name, names)
        reading.seen.update(names)
        reading.columns = names
        cells = TextCells(reading, names)
        prefixes = [
            (names.index(name), before)
            for name, before in ((source.timestamp, _TIMES), (source.partition, _PARTITION))
            if name in names  # it may be in the path
        ]
        with opened(source, piece.name, reading.digests, reading.content) as stream:
            for places, lines in line_blocks(stream, piece, blank=b"\r\n", is_json=False):
                reading.rows += len(lines)
                kept: list[tuple[int, bytes, list[str]]] = []
                bad: list[BadRow] = []
                for place, line in zip(places, lines, strict=True):
                    row = _row(source, place, line, len(names))
                    if isinstance(row, BadRow):
                        bad.append(row)
                    else:
                        for at, before in prefixes:
                            row[at] = _without(row[at], before)
                        kept.append((place, line, row))
                reading.refuse(bad)
                if kept:
                    of_lines = [line for _, line, _ in kept]
                    yield cells.block([place for place, _, _ in kept], [row for _, _, row in kept], of_lines)

    def slices(self, source: FileSource, whole: FileSlice) -> list[FileSlice]:
        return line_slices(source, whole)

    def as_they_stand(self, source: FileSource, piece: FileSlice, bad: Sequence[BadRow]) -> list[tuple[int, bytes]]:
        return lines_as_they_stand(source, piece, bad)


def _row(source: FileSource, place: int, line: bytes, width: int) -> list[str] | BadRow:
    try:
        cells = line.decode(source.encoding).split(source.delimiter, width - 1)
    except UnicodeDecodeError as error:
        return BadRow(place, f"a line in {source.encoding}", f"{line[:80]!r} ({error.reason})", line)
    return cells if len(cells) == width else BadRow(place, f"{width} fields", f"{len(cells)} fields", line)


def _without(cell: str, before: Sequence[str]) -> str:
    for prefix in before:
        if cell.startswith(prefix):
            return cell[len(prefix) :]
    return cell
