"""One pass over a slice of a file: what it found besides records, and the locations of bad rows.

Rule: a bad row has the line or row by which a person finds it, and its bytes; the file is read again for them.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ....state.errors import LandingError
from ..bad_rows import BadRow
from ..file_source import FileSource
from ..landing_rules import RowRules
from .column_types import column_types
from .formats import reader_of
from .streams import FileSlice, PartDigests, whole_digest


class SliceReading:
    """One pass over a slice, and what it found besides records: ``rows`` in all, ``bad_rows`` of them and the first
    ``keeps`` of these (None: all), rows of other topics that were ``left_out``, names of columns that were
    ``seen`` (of JSON lines those of the mapping), ``columns`` of the first row, and ``digests`` of its bytes.
    ``beside``: by kind, digests of files beside it. ``is_naive``: a time has no zone, and none is declared; ``naive``:
    how many; ``zoned``: how many name one. ``kinds``: Arrow's types of columns, where they have some. ``row_bytes``: of
    a record in memory, about, where columns are not read. ``not_finite``: by column, keys and values that are NaN or
    infinite and became null, since JSON has no such numbers.
    """

    def __init__(
        self, source: FileSource, piece: FileSlice, rules: RowRules, *, takes_digests: bool, keeps: int | None
    ) -> None:
        self.source, self.piece, self.rules, self.keeps = source, piece, rules, keeps
        self.rows = self.bad_rows = self.left_out = 0
        self.bad: list[BadRow] = []
        self.seen: set[str] = set()
        self.columns: Sequence[str] = ()
        self.is_naive = False
        self.naive = self.zoned = 0
        self.kinds: dict[str, pa.DataType] = {}
        self.row_bytes: int | None = None
        self.not_finite = Counter[str]()
        self.takes_digests = takes_digests
        self.beside = {each.kind: PartDigests() for each in piece.beside} if takes_digests else {}
        self.begin_digests()

    def begin_digests(self) -> None:
        """Take them from the first byte on."""
        piece = self.piece
        self.digests = PartDigests(piece.first_byte, piece.last_byte) if self.takes_digests else None
        self.content = PartDigests() if self.takes_digests else None

    def refuse(self, rows: Sequence[BadRow]) -> None:
        """Take ``rows`` as bad; LandingError where the first is to stop the landing."""
        if rows and not self.rules.keeps_bad:
            raise self.error(rows[0])
        self.bad_rows += len(rows)
        self.bad = sorted([*self.bad, *rows], key=lambda row: row.location)[: self.keeps] if rows else self.bad

    def error(self, row: BadRow) -> LandingError:
        """The error of a row."""
        [(number, _)] = as_they_stand(self.source, self.piece, [row])
        return row.error(self.source, self.piece.name, number)

    def summary(self) -> dict[str, Any]:
        """What was found, as JSON values."""
        first_bad: list[Any] = []
        if self.bad:
            [(number, _)] = as_they_stand(self.source, self.piece, self.bad[:1])
            first_bad = [number, self.bad[0].expected, self.bad[0].got]
        return {
            "rows": self.rows,
            "bad_rows": self.bad_rows,
            "left_out": self.left_out,
            "first_bad": first_bad,
            "seen": sorted(self.seen),
            "columns": list(self.columns),
            "types": column_types(self.source, self.kinds),
            "not_finite": dict(self.not_finite),
            "naive": self.naive,
            "zoned": self.zoned,
            "digests": [] if self.digests is None else self.digests.close(),
            "content": self.content.close() if self.content is not None and self.content.is_used else None,
            "beside": {kind: whole_digest(digests.close()) for kind, digests in self.beside.items()},
        }


def as_they_stand(source: FileSource, piece: FileSlice, bad: Sequence[BadRow]) -> list[tuple[int, bytes]]:
    """Of bad rows, in the order of their locations: line or row from 1, and their bytes. The file is read again."""
    return reader_of(source).as_they_stand(source, piece, bad)
