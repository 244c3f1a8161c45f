"""The first new record of a directory, as it will be landed, to be looked at before anything is.

Owns the reading of it. Rule: it becomes a record exactly as the landing makes it one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .file_source import FileSource
from .files.columns import time_text
from .files.known_files import FoundFile
from .files.reading import SliceReading
from .files.records import FileRecords, read_slice, slices_of
from .landing_rules import RowRules

_FILES = 3
"""So many files are looked into for a record."""


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """``block``: it and some that follow it in ``file``. ``format``: of the files."""

    file: str
    format: str
    block: FileRecords

    def described(self) -> dict[str, str]:
        """Its parts as text, in the order of a record."""
        time_ms = int(self.block.time_ms[0])
        return {
            "key": bytes_text(self.block.key[0].as_py()),
            "time": f"{time_text(time_ms)} ({time_ms})",
            "value": bytes_text(self.block.value[0].as_py()),
            "partition": str(self.block.partition[0]),
        }


def first_record(source: FileSource, files: Sequence[FoundFile]) -> FirstRecord | None:
    """The first record of ``files``; None where the first of them have none."""
    for file in files[:_FILES]:
        piece = slices_of(source, file.name, file.bytes, file.mtime_ns)[0]
        reading = SliceReading(source, piece, RowRules(keeps_bad=True), takes_digests=False, keeps=0)
        for block in read_slice(reading):
            return FirstRecord(file.name, source.format or "", block)
    return None


def bytes_text(data: bytes | None) -> str:
    """Bytes as a user reads them: text where they are text, else hexadecimal; null has no bytes."""
    if data is None:
        return "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    shown = text if text.isprintable() else f"0x{data[:40].hex()}"
    return shown if len(shown) <= 400 else f"{shown[:400]}…"
