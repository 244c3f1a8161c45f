"""One data file of a table: what is known of it, and how it is opened, so that nothing in it is believed unchecked.

Owns the checks: the file is there, has the bytes that Delta's log names, its footer is the one that was sealed
(state/tables/footer_seal.py), and every page has its checksum. Rule: all that reads rows of a warehouse comes through
here; if one does not hold, a DamagedFile names the table, the file, its increment and how to repair it. Files that
have no seal or no checksums (of Spark's landing, of versions before) are read as they are.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from ..errors import DamagedFile
from ..failures import is_refusal
from .footer_seal import holds, token_of
from .in_place import InPlace, InPlaceRows, footer_digest
from .kept_below import below, why_outside
from .names import BRANCHES, LANDED, LANDED_DEAD_LETTER, LANDING, LEDGER, OUTPUTS, REPARTITION, RETRACTIONS, STATE
from .object_stores import open_filesystem

_TAIL_BYTES = 1 << 16
"""Of a file are read at once to find its footer in them."""
_ENDS = 8
"""Bytes behind the footer: its length, and Parquet's mark."""
_MARK = b"PAR1"
_WRITTEN_BY = re.compile(r"(\d{8})-")


@dataclass(frozen=True)
class DataFile:
    """One Parquet file of a table. ``path`` is relative to the table; ``bytes`` its size.

    ``min_offset``/``max_offset`` and ``bounds`` (column to lowest and highest) are closed on both sides; None or left
    out when there is no such column or no value. ``root``: folder of its table, where that is another one than the
    reader's (what a branch has from its parent). ``in_place``: it is a file of somebody else's table, and how its rows
    are a topic's; all else here is of the topic's rows in it. Raises StorageError for a path that leads out of the
    table.
    """

    path: str
    bytes: int
    records: int
    partition: int
    min_offset: int | None
    max_offset: int | None
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict, hash=False)
    root: str | None = None
    in_place: InPlace | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if why_outside(self.path) is not None:
            below(self.root or "a table", self.path)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        fields = {**vars(self), "bounds": dict(self.bounds)}
        own = fields.pop("in_place")
        return fields if own is None else {**fields, "in_place": own.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "DataFile":
        """The reverse of ``to_dict``."""
        bounds = {column: (pair[0], pair[1]) for column, pair in fields.get("bounds", {}).items()}
        own = fields.get("in_place")
        return cls(**{**fields, "bounds": bounds, "in_place": None if own is None else InPlace.from_dict(own)})

    def may_hold(self, column: str, lowest: int, highest: int) -> bool:
        """False only when no row can have ``lowest <= column <= highest``."""
        if self.records == 0:
            return False
        if column not in self.bounds:
            return True
        least, most = self.bounds[column]
        return least <= highest and lowest <= most


class _NotWhole(Exception):
    """What is wrong with a file's end, in a few words."""


@dataclass(frozen=True)
class OpenedFile:
    """A file whose footer has been checked. ``place``: as errors call it."""

    source: pa.NativeFile
    metadata: pq.FileMetaData
    file: DataFile
    place: str

    def rows(self, *, dictionary_keys: bool = False) -> pq.ParquetFile | InPlaceRows:
        """Its rows, as those of its table; in place, as those of the topic. ``dictionary_keys``: keys are a dictionary
        array.
        """
        if self.file.in_place is None:
            return self.parquet(read_dictionary=["key"]) if dictionary_keys else self.parquet()
        keys = [self.file.in_place.columns["key"]] if dictionary_keys and "key" in self.file.in_place.columns else []
        # Of a timestamp in 96 bits, microseconds have room for all its years; nanoseconds wrap.
        parquet = self.parquet(coerce_int96_timestamp_unit="us", read_dictionary=keys)
        own = self.file.in_place
        return InPlaceRows(parquet, own, self.file.partition, self.place, dictionary_keys=dictionary_keys)

    def parquet(self, **options: Any) -> pq.ParquetFile:
        """For reading its pages as they are, each against its checksum. ``options``: of ParquetFile."""
        return pq.ParquetFile(self.source, metadata=self.metadata, page_checksum_verification=True, **options)


@contextmanager
def open_file(table: str, file: DataFile) -> Iterator[OpenedFile]:
    """Open ``file`` of the table at ``table`` (or at its own ``root``).

    Raises DamagedFile when it is not what was committed, also for what Arrow cannot read inside the ``with``. What the
    machine or the object store refuses, and errors of whoever reads, go through as they are. StorageError for one that
    is behind a symbolic link.
    """
    root = file.root or table
    filesystem, path = open_filesystem(below(root, file.path))
    try:
        with filesystem.open_input_file(path) as source:
            yield OpenedFile(source, _checked_metadata(source, file), file, f"{root}/{file.path}")
    except FileNotFoundError:
        raise damaged(root, file, "no file") from None
    except (OSError, UnicodeDecodeError, _NotWhole, pa.ArrowException) as error:
        # Arrow's MemoryError is an ArrowException too, and says nothing about the file.
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and is_refusal(error)):
            raise
        raise damaged(root, file, _first_line(error)) from error


def refuse_missing(table: str, files: Sequence[DataFile]) -> None:
    """Raises DamagedFile when one of ``files`` is not there in full size. Reads nothing of them."""
    for root in dict.fromkeys(file.root or table for file in files):
        own = [file for file in files if (file.root or table) == root]
        filesystem, path = open_filesystem(root)
        for file, entry in zip(own, filesystem.get_file_info([f"{path}/{file.path}" for file in own]), strict=True):
            if entry.type != fs.FileType.File:
                raise damaged(root, file, "no file")
            if entry.size != file.bytes:
                raise damaged(root, file, f"{entry.size} bytes instead of {file.bytes}")


def damaged(root: str, file: DataFile, got: str) -> DamagedFile:
    """The error that ``file`` of the table at ``root`` is not what was committed, or registered."""
    if file.in_place is not None:
        next_step = (
            "where its owner has written the rows to other files, land the topic again from the table (--in-place): "
            "that registers these; else put the file back"
        )
        return DamagedFile(f"{root}/{file.path}", "the file as it was registered", got, next_step)
    increment = _increment(file)
    place = f"{root}/{file.path}" + ("" if increment is None else f", of increment {increment}")
    error = DamagedFile(place, "the file as it was committed", got, how_to_restore(root, increment))
    error.table, error.increment = root, increment
    return error


def how_to_restore(
    table: str, increment: int | None, restorable: Callable[[str], Collection[int]] | None = None
) -> str:
    """What to do about a damaged table, or about its rows of ``increment`` (None: not known). ``restorable``: gives the
    numbers to which the pipeline of a folder can go back; None: the one before ``increment`` is taken for one.
    """
    copy = "put it back from a copy of the warehouse"
    above, _, name = table.rpartition("/")
    kind = above.rpartition("/")[2]
    if kind in (LANDED, LANDED_DEAD_LETTER) or name == "recorded_time":
        topic = kind if name == "recorded_time" else name
        return f"{copy}, or land topic {topic} again into a new warehouse and replay it there"
    if name in (LEDGER, "branches"):
        return f"{copy}; nothing else can make it again"
    other = "replay the landed topics under another pipeline name"
    if kind in (OUTPUTS, RETRACTIONS) or increment is None:
        return f"{copy}, or {other}"
    pipeline = above.rpartition("/")[0] if kind in (STATE, REPARTITION) else above
    numbers = [increment - 1] if restorable is None else [each for each in restorable(pipeline) if each < increment]
    if not numbers:
        return f"{copy}, or {other}"
    return f"{copy}, or go back with `{restore_command(pipeline, max(numbers))}` and run again, or {other}"


def restore_command(pipeline: str, increment: int) -> str:
    """What to paste so that the pipeline whose tables are below the folder ``pipeline`` continues after
    ``increment``.
    """
    warehouse, _, name = pipeline.rpartition("/")
    return f"replay restore --warehouse {quote(warehouse)} --pipeline {name} --to {increment}"


def show_command(table: str, warehouse: str | None, pipeline: str | None) -> str:
    """What to paste to see rows of ``table``. None: an option that is not needed, or is in replay.toml."""
    given = {"warehouse": warehouse, "pipeline": pipeline}
    options = "".join(f" --{name} {quote(value)}" for name, value in given.items() if value is not None)
    return f"replay show {quote(table)}{options}"


def take_back_command(path: str) -> str:
    """The command that takes back what others committed to the table at ``path``."""
    parts = path.split("/")
    if parts[-2] in (OUTPUTS, STATE, REPARTITION, RETRACTIONS) or parts[-3] == LANDING:
        length = 3
    else:
        length = 1 if parts[-1] == BRANCHES else 2
    table, warehouse = "/".join(parts[-length:]), "/".join(parts[:-length])
    return f"replay take-back {quote(table)} --warehouse {quote(warehouse)}"


def _increment(file: DataFile) -> int | None:
    """That wrote the file: its name begins with it, except in files of Spark's landing."""
    match = _WRITTEN_BY.match(file.path.rpartition("/")[2])
    if match is not None:
        return int(match[1])
    return file.bounds["increment"][1] if "increment" in file.bounds else None


def _checked_metadata(source: pa.NativeFile, file: DataFile) -> pq.FileMetaData:
    size = source.size()
    if size != file.bytes:
        raise _NotWhole(f"{size} bytes instead of {file.bytes}")
    footer = _footer(source)
    token = token_of(file.path)
    if file.in_place is not None:
        if footer_digest(footer) != file.in_place.footer:
            raise _NotWhole("another footer")
    elif token is not None and not holds(footer, token):
        raise _NotWhole("a footer that does not have the digest with which it was sealed")
    return _metadata(footer)


def described(source: pa.NativeFile) -> tuple[pq.FileMetaData, str]:
    """What the footer of a Parquet file says, and its digest. ValueError: it is none."""
    try:
        footer = _footer(source)
    except _NotWhole as error:
        raise ValueError(str(error)) from None
    return _metadata(footer), footer_digest(footer)


def _metadata(footer: bytes) -> pq.FileMetaData:
    # Parsed from the bytes that were checked: a second read of the file could return others.
    ends = len(footer).to_bytes(4, "little") + _MARK
    return pq.read_metadata(pa.BufferReader(_MARK + footer + ends))


def _footer(source: pa.NativeFile) -> bytes:
    size = source.size()
    tail = source.read_at(min(size, _TAIL_BYTES), max(0, size - _TAIL_BYTES))
    if tail[-4:] != _MARK:
        raise _NotWhole("an end that is not Parquet's")
    length = int.from_bytes(tail[-_ENDS:-4], "little")
    if length > size - _ENDS:
        raise _NotWhole("a footer longer than the file")
    if length > len(tail) - _ENDS:
        tail = source.read_at(length + _ENDS, size - length - _ENDS)
    footer: bytes = tail[len(tail) - _ENDS - length : -_ENDS]
    return footer


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
