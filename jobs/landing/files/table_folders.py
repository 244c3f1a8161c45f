"""Folders that are tables of a lake format, and no heap of files.

Owns the marks by which they are known. Rule: the rows of a table are what its own log says. Its folder also has files
that are no row of it any more (overwritten, deleted, merged into larger ones), and rows that a deletion vector takes
away. Read as files, such rows would come back or come twice, without a word.
"""

import os
from collections.abc import Iterable

from pyarrow import fs

from ....state.errors import LandingError
from .entries import FolderEntries

_FORMATS = {"_delta_log": "a Delta table", ".hoodie": "a Hudi table"}
"""By the folder that only such a table has."""
_ICEBERG = "an Iceberg table"
_NEXT_STEPS = {
    "a Delta table": "land it as a table (--delta), where it has Kafka's partitions and offsets; else ",
    _ICEBERG: "land it as a table (--iceberg), where it has Kafka's partitions and offsets; else ",
}
_LEVELS = 8
"""So many folders above the directory may be the table's, of which the directory is a partition."""


def refuse_tables(
    path: str,
    topic: str,
    filesystem: fs.FileSystem,
    root: str,
    entries: FolderEntries,
    names: Iterable[str],
) -> None:
    """Raises LandingError when one of the files ``names``, which the directory ``root`` has, is in a table's folder.

    ``path``: the directory as the user gave it; ``entries``: all that is in it.
    """
    tables = dict(filter(None, map(_table_of, entries.infos)))
    # A table may be around what is landed, and around what links lead to. What is
    # named from the working directory, or through a link, does not say what is.
    is_local = isinstance(filesystem, fs.LocalFileSystem)
    below = dict.fromkeys([os.path.abspath(root), os.path.realpath(root)] if is_local else [root])
    for name in names:
        parts = f"{root}/{name}".split("/")
        for depth in range(len(parts), 0, -1):
            entry = "/".join(parts[:depth])
            if len(entry) < len(root):
                break
            if entry in tables:
                _refuse(path, topic, entry, *tables[entry])
            if entry in entries.links:
                below[entries.links[entry]] = None
    for folder in dict.fromkeys(folder for each in below for folder in _around(each)):
        marks = filesystem.get_file_info([f"{folder}/{name}" for name in _FORMATS])
        metadata = filesystem.get_file_info(fs.FileSelector(f"{folder}/metadata", allow_not_found=True))
        for table in filter(None, map(_table_of, [*marks, *metadata])):
            _refuse(path, topic, table[0], *table[1])


def _around(path: str) -> list[str]:
    """The folders around it, the nearest first."""
    parts = path.split("/")
    return list(filter(None, ("/".join(parts[:-depth]) for depth in range(1, min(_LEVELS, len(parts) - 1) + 1))))


def _table_of(entry: fs.FileInfo) -> tuple[str, tuple[str, str]] | None:
    """(folder, (what it is, by what it is known)) if the entry is the mark of a table."""
    folder, _, name = entry.path.rpartition("/")
    if entry.type == fs.FileType.Directory and name in _FORMATS:
        return folder, (_FORMATS[name], f"{name}/")
    if entry.type == fs.FileType.File and name.endswith(".metadata.json") and folder.endswith("/metadata"):
        return folder.removesuffix("/metadata"), (_ICEBERG, f"metadata/{name}")
    return None


def _refuse(path: str, topic: str, table: str, what: str, mark: str) -> None:
    raise LandingError(
        f"topic {topic}, directory {path}",
        "files that are no table's",
        f"files of {what}, {table}, which has {mark}",
        f"{_NEXT_STEPS.get(what, '')}write the table's current rows to a folder of their own with an engine that knows "
        "the format, and land that: the table's files also have rows that were deleted or overwritten",
    )
