"""Where the rows of a pipeline's table lie: in the pipelines it was forked from, up to the fork, then in its own.

Owns the reading of `bases` and `versions` in a done row. Rule: a table as of an increment is what its bases had at the
versions named, oldest first, then its own files at its own version; a table that is in neither has no rows.
"""

from dataclasses import replace
from typing import NamedTuple

from pyarrow import fs

from .data_files import DataFile, OpenTables, read_files
from .ledger_rows import Bases, DoneRow
from .object_stores import open_filesystem
from .warehouse import Warehouse


class TablePart(NamedTuple):
    """A Delta table, and the version to read it at."""

    path: str
    version: int


def table_parts(warehouse: Warehouse, pipeline: str, done: DoneRow, table: str) -> list[TablePart]:
    """The Delta tables that hold ``table`` as of a done row.

    The bases of a branch, oldest first, then the pipeline's own table. [] for a table that the row does not name.
    """
    named = list((done.bases or {}).get(table, []))
    if table in done.versions:
        named.append([pipeline, done.versions[table]])
    return [TablePart(warehouse.pipeline(name).table(table), int(version)) for name, version in named]


def table_files(
    warehouse: Warehouse, pipeline: str, done: DoneRow, table: str, opened: OpenTables | None = None
) -> list[DataFile]:
    """Files of ``table`` as of a done row, those of bases first; each of a base names its table's folder (``root``).
    ``opened``: as of ``open_table``.
    """
    own, found = warehouse.pipeline(pipeline).table(table), []
    for path, version in table_parts(warehouse, pipeline, done, table):
        files = read_files(path, version=version, storage_options=warehouse.storage_options, opened=opened)
        found += files if path == own else [replace(file, root=path) for file in files]
    return found


def table_names(done: DoneRow) -> list[str]:
    """Tables that a done row names, in alphabetical order."""
    return sorted({*done.versions, *(done.bases or {})})


def bases_of(pipeline: str, done: DoneRow) -> Bases:
    """What a branch that is forked from ``pipeline`` at a done row reads through to."""
    bases: Bases = {table: [list(part) for part in parts] for table, parts in (done.bases or {}).items()}
    for table, version in done.versions.items():
        bases.setdefault(table, []).append([pipeline, version])
    return bases


def existing_tables(root: str) -> list[str]:
    """Names of the Delta tables in the folder of a pipeline, as the ledger spells them, in alphabetical order."""
    filesystem, path = open_filesystem(root)

    def folders(below: str) -> list[str]:
        found = filesystem.get_file_info(fs.FileSelector(f"{path}/{below}", allow_not_found=True))
        names = [entry.base_name for entry in found if entry.type == fs.FileType.Directory]
        return [f"{below}{name}" for name in names if not name.startswith("_")]

    names = [name for kind in folders("") for name in (kind, *folders(f"{kind}/"))]
    logs = filesystem.get_file_info([f"{path}/{name}/_delta_log" for name in names])
    return sorted(name for name, log in zip(names, logs, strict=True) if log.type == fs.FileType.Directory)
