"""The first new record of a directory, as it will be landed, to be looked at before anything is.

Owns the reading of it. Rule: it becomes a record exactly as the landing makes it one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from .file_source import FileSource
from .files.columns import time_text
from .files.reading import SliceReading
from .files.records import FileRecords, read_slice, slices_of
from .files.streams import FoundFile
from .landing_rules import RowRules

_FILES = 3
"""So many files are looked into for a record."""

_NO_ZONE = ", of a time without a zone, taken as UTC (--zone)"


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """``block``: it and some that follow it in ``file``. ``format``: of the files. ``is_naive``: times have no zone and
    none is declared. ``kinds``: Arrow's types of columns, where they have some. ``source``: the mapping that made it.
    ``is_first``: False of a later file, whose keys and values have other types.
    """

    file: str
    format: str
    block: FileRecords
    is_naive: bool = False
    kinds: Mapping[str, pa.DataType] = field(default_factory=dict)
    source: FileSource | None = None
    is_first: bool = True

    def described(self) -> dict[str, str]:
        """Its parts as text, in the order of a record."""
        time_ms, order, headers = int(self.block.time_ms[0]), self.block.order, self.block.headers
        parts = {
            "key": bytes_text(self.block.key[0].as_py()),
            "time": f"{time_text(time_ms)} ({time_ms})" + (_NO_ZONE if self.is_naive else ""),
            "value": bytes_text(self.block.value[0].as_py()),
            "partition": str(self.block.partition[0]),
        }
        if order is not None and pa.types.is_integer(order.type):
            parts["offset"] = str(order[0])
        if headers is not None:
            pairs = [f"{each['key']}={bytes_text(each['value'])}" for each in headers[0].as_py()]
            parts["headers"] = ", ".join(pairs) or "none"
        return parts


def first_record(source: FileSource, files: Sequence[FoundFile]) -> FirstRecord | None:
    """The first record of ``files``; None where the first of them have none."""
    for file in files[:_FILES]:
        piece = slices_of(source, file)[0]
        reading = SliceReading(source, piece, RowRules(keeps_bad=True), takes_digests=False, keeps=0)
        for block in read_slice(reading):
            return FirstRecord(file.name, source.format or "", block, reading.is_naive, reading.kinds, source)
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
