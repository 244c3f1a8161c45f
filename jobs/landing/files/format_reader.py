"""How files of a format are read: what each format does in its own way.

Owns the interface. Rule: every row is in exactly one block or among the bad rows of the ``SliceReading``, and slices
that touch neither lose nor repeat one.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from ..bad_rows import BadRow
from ..file_source import FileSource
from .blocks import Block
from .streams import FileSlice

if TYPE_CHECKING:
    from .reading import SliceReading


class FormatReader(Protocol):
    """Reads files of one format."""

    def blocks(self, reading: "SliceReading") -> Iterator[Block]:
        """Rows of the slice that are rows, block by block; the others are refused."""

    def slices(self, source: FileSource, whole: FileSlice) -> list[FileSlice]:
        """A file of more than ``SLICE_BYTES`` cut into slices of about that size, in order. Raises LandingError for a
        file that is none of the format.
        """

    def as_they_stand(self, source: FileSource, piece: FileSlice, bad: Sequence[BadRow]) -> list[tuple[int, bytes]]:
        """Of bad rows of a slice, in the order of their locations: line or row from 1, and their bytes, or their JSON
        where bytes say nothing to a person. The file is read again.
        """
