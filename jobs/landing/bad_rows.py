"""Rows of files that do not fit the mapping: what is kept of them, and how many are too many.

Owns `landed_dead_letter/<topic>`. Rule: a bad row is kept as it is, with file, line and reason, by the increment that
lands the others of its file. Where more of a file's rows are bad than the rules allow, the mapping is wrong and
nothing lands. Readers believe rows of increments that the topic's ledger has done, as everywhere.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ...state.errors import LandingError
from ...state.tables.commit import commit_files
from ...state.tables.data_files import DataFile, OpenTables, read_files, read_rows
from ...state.tables.foreign_commits import refuse_touched
from ...state.tables.ledger import LandingLedger
from ...state.tables.warehouse import LANDED_DEAD_LETTER_SCHEMA, Warehouse
from .file_formats import FORMATS
from .file_source import FileSource


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that does not fit. ``location``: as in ``Block``; ``raw``: as it is, where the reader has it."""

    location: int
    expected: str
    got: str
    raw: bytes | None = None

    @property
    def reason(self) -> str:
        """As a dead letter says it."""
        return f"expected {self.expected}, got {self.got}"

    def error(self, source: FileSource, name: str, number: int, next_step: str | None = None) -> LandingError:
        """The error of the row, whose line or row is ``number``."""
        unit = FORMATS[source.format].unit if source.format is not None else "line"
        place = f"{source.path}/{name}, {unit} {number}"
        return LandingError(
            place, self.expected, self.got, next_step or "correct the file, or the mapping, and land again"
        )


def _unlike(share: float, limit: float) -> tuple[str, str]:
    """Both as percent, with as many digits as it takes to see that they differ."""
    digits = next((n for n in range(1, 12) if f"{share:.{n}%}" != f"{limit:.{n}%}"), 12)
    return f"{share:.{digits}%}", f"{limit:.{digits}%}"


def refuse_too_many(
    source: FileSource, name: str, rows: int, bad: int, first: tuple[int, str, str], most: float
) -> None:
    """Raises LandingError when ``bad`` of a file's ``rows`` are more than the share ``most``; ``first``: line or row of
    the first, what was expected, what was got. A single bad row beside good ones is allowed, unless ``most`` is 0.
    """
    if bad == 1 and rows > 1 and most > 0:
        return
    if bad > most * rows:
        share, limit = _unlike(bad / rows, most)
        next_step = (
            f"{bad:,} of {rows:,} rows of the file do not fit ({share}), more than {limit}: correct the "
            "file, or the mapping, and land again, or allow more (--max-bad-share)"
        )
        number, expected, got = first
        raise BadRow(0, expected, got).error(source, name, number, next_step)


def dead_letters(rows: Sequence[tuple[int, bytes]], bad: Sequence[BadRow], file: str, increment: int) -> pa.Table:
    """Rows of the table for bad rows of one file, given with their lines and bytes."""
    columns: dict[str, list[Any]] = {
        "partition": [0] * len(bad),
        "increment": [increment] * len(bad),
        "file": [file] * len(bad),
        "line": [number for number, _ in rows],
        "bytes": [raw for _, raw in rows],
        "reason": [row.reason for row in bad],
    }
    nothing = {name: [None] * len(bad) for name in ("timestamp", "key", "headers")}
    return pa.table(columns | nothing, LANDED_DEAD_LETTER_SCHEMA)


def commit_dead_letters(
    warehouse: Warehouse, topic: str, files: Iterable[DataFile], app_id: str, increment: int, *, given_up: bool = False
) -> None:
    """Commit dead letters of an increment; nothing where there are none. ``given_up``: take them out instead."""
    path = warehouse.landed_dead_letter(topic)
    added, removed = list(files), []
    if given_up:
        own = ("increment", increment, increment)
        added, removed = [], read_files(path, within=own)
    if added or removed:
        commit_files(
            path,
            LANDED_DEAD_LETTER_SCHEMA,
            added,
            removed=removed,
            # The table may have the increment's own mark, with which `commit_files` would leave it as it is.
            app_id=f"{app_id}/given-up" if given_up else app_id,
            increment=increment,
        )


def landed_dead_letters(warehouse: Warehouse, topic: str) -> pa.Table:
    """What was found in the sources of ``topic`` and became no record, by increment, file and line."""
    path = warehouse.landed_dead_letter(topic)
    done = {row.increment for row in LandingLedger(warehouse.landing_ledger(topic)).done_rows()}
    opened: OpenTables = {}
    letters = read_rows(path, read_files(path, opened=opened), LANDED_DEAD_LETTER_SCHEMA)
    if path in opened:
        refuse_touched(opened[path], path, -1)
    mask = [increment in done for increment in letters["increment"].to_pylist()]
    order = [("increment", "ascending"), ("file", "ascending"), ("line", "ascending")]
    return letters.filter(pa.array(mask, pa.bool_())).sort_by(order)
