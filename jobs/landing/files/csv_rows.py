"""Rows of CSV files, and those that are none.

Owns what a CSV row is: fields in UTF-8, quoted or not, as Python's csv module reads them. Rule: each row that is none
has its line and its bytes. What a quote that is never closed would swallow is no row: it stops the landing.
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..bad_rows import BadRow
from ..file_source import UTF_8, FileSource
from .streams import PartDigests, opened


@dataclass(frozen=True, slots=True)
class CsvRow:
    """A row that is not blank: its number from 0, its first line from 1, its bytes; ``fields`` None: ``problem``."""

    number: int
    line: int
    raw: bytes
    fields: list[str] | None
    problem: str = ""


def csv_rows(
    source: FileSource, name: str, digests: PartDigests | None = None, content: PartDigests | None = None
) -> Iterator[CsvRow]:
    """Every row that is not blank, also those that are none. LandingError for a quote that is never closed, since all
    that comes after it would be one bad row.
    """
    with opened(source, name, digests, content) as stream:
        lines = _Remembered(csv_text(source, stream, errors="surrogateescape"))
        reader, number = csv_reader(source, lines), 0
        while True:
            line, problem, fields = lines.count + 1, "", None
            lines.taken.clear()
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                problem = str(error)
                if problem == "unexpected end of data":
                    bad = BadRow(number, a_csv_row(source), f"{problem}: a quote is not closed")
                    raise bad.error(source, name, line) from error
            text = "".join(lines.taken)
            # Strict decoding would end the file here. As half surrogate pairs such bytes spoil their own row alone.
            if fields is not None and not text.isascii() and any("\udc80" <= char <= "\udcff" for char in text):
                problem, fields = f"bytes that are not {source.encoding.upper()}", None
            if fields != []:
                raw = text.rstrip("\r\n").encode(source.encoding, errors="surrogateescape")
                yield CsvRow(number, line, raw, fields, problem)
                number += 1


def a_csv_row(source: FileSource) -> str:
    """What is expected of one."""
    return f"a CSV row in {source.encoding.upper()}"


class _Remembered:
    """Lines of ``text``, which remembers those ``taken`` and how many there were."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self.text, self.count = text, 0
        self.taken: list[str] = []

    def __iter__(self) -> "_Remembered":
        return self

    def __next__(self) -> str:
        line = next(self.text)
        self.count += 1
        self.taken.append(line)
        return line


def csv_text(
    source: FileSource, stream: io.BufferedReader, errors: str = "strict", *, is_first: bool = True
) -> io.TextIOWrapper:
    """The stream as text, its line ends as they are. ``is_first``: it begins with the file, whose byte order mark is
    left out.
    """
    encoding = "utf-8-sig" if source.encoding == UTF_8 and is_first else source.encoding
    return io.TextIOWrapper(stream, encoding=encoding, errors=errors, newline="")


def csv_reader(source: FileSource, lines: Iterator[str]) -> Any:
    """Python's reader of rows, lists of fields; a blank line is an empty one."""
    csv.field_size_limit(1 << 30)  # values may be long; Python stops at 128 KiB
    return csv.reader(lines, delimiter=source.delimiter, strict=True)
