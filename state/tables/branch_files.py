"""Where the rows of a pipeline's table lie: in the pipelines it was forked from, up to the fork, then in its own.

Owns the reading of `bases` and `versions` in a done row. Rule: a table as of an increment is what its bases had at the
versions named, oldest first, then its own files at its own version; a table that is in neither has no rows.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pyarrow import fs

from ..errors import DamagedLedger
from .data_files import (
    DataFile,
    OpenTables,
    Within,
    in_order,
    live_files,
    mark_of,
    open_table,
    read_files,
    table_digest,
)
from .files_in_place import files_in_place
from .foreign_commits import refuse_touched
from .ledger_rows import Bases, Digests, DoneRow, LandingDoneRow, LandingRow
from .names import CURRENT, QUALITY_METRICS, QUALITY_RESULTS, TableName
from .object_stores import open_filesystem
from .parquet_reader import restore_command
from .warehouse import Warehouse, is_name

if TYPE_CHECKING:
    from .ledger import LandingLedger, Ledger, LedgerRow


_LOG = "_delta_log"


class TablePart(NamedTuple):
    """A Delta table, the version to read it at, and the digest of its log there; None: it is not known."""

    path: str
    version: int
    digest: str | None


def table_parts(warehouse: Warehouse, pipeline: str, done: DoneRow, table: str) -> list[TablePart]:
    """The Delta tables that hold ``table`` as of a done row.

    The bases of a branch, oldest first, then the pipeline's own table. [] for a table that the row does not name.
    """
    known = {(name, version): digest for name, version, digest in (done.digests or {}).get(table, [])}
    return [
        TablePart(warehouse.pipeline(name).table(table), version, known.get((name, version)))
        for name, version in _named(pipeline, done, table)
    ]


def _named(pipeline: str, done: DoneRow, table: str) -> list[tuple[str, int]]:
    """Pipelines that have rows of ``table``, each with the version of its table."""
    named = [(str(name), int(version)) for name, version in (done.bases or {}).get(table, [])]
    return [*named, (pipeline, done.versions[table])] if table in done.versions else named


def table_files(
    warehouse: Warehouse, pipeline: str, done: DoneRow, table: str, opened: OpenTables | None = None
) -> list[DataFile]:
    """Files of ``table`` as of a done row, those of bases first; each of a base names its table's folder (``root``).
    ``opened``: as of ``open_table``. Raises DamagedTable for a log that does not say what it said.
    """
    own, all_files = warehouse.pipeline(pipeline).table(table), []
    for path, version, digest in table_parts(warehouse, pipeline, done, table):
        files = read_files(path, version=version, opened=opened, digest=digest)
        all_files += files if path == own else [replace(file, root=path) for file in files]
    return all_files


def table_names(done: DoneRow) -> list[str]:
    """Tables that a done row names, in alphabetical order."""
    return sorted({*done.versions, *(done.bases or {})})


def bases_of(pipeline: str, done: DoneRow) -> Bases:
    """What a branch that is forked from ``pipeline`` at a done row reads through to."""
    bases: Bases = {table: [list(part) for part in parts] for table, parts in (done.bases or {}).items()}
    for table, version in done.versions.items():
        bases.setdefault(table, []).append([pipeline, version])
    return bases


def landed_files(
    warehouse: Warehouse,
    topic: str,
    last: "LedgerRow[LandingDoneRow]",
    within: Within | None = None,
    opened: OpenTables | None = None,
) -> list[DataFile]:
    """Files of a landed topic at the version of its done row ``last``: those that may hold rows ``within``. Where
    others have put their rows into other files since, and ours were deleted: those other files. Files of somebody
    else's table in which rows of the topic lie are among them.

    ``opened``: as of ``open_table``; what it has of the table was brought up to date. Raises DamagedTable for a log
    that does not say what it said.
    """
    own = _own_files(warehouse, topic, last, within, opened)
    if last.content.in_place is None:
        return own
    lying = files_in_place(warehouse, topic, last)
    return in_order([*own, *(file for file in lying if within is None or file.may_hold(*within))])


def _own_files(
    warehouse: Warehouse,
    topic: str,
    last: "LedgerRow[LandingDoneRow]",
    within: Within | None,
    opened: OpenTables | None,
) -> list[DataFile]:
    """Of the topic's own table."""
    version, digest = last.content.table_version, last.content.table_digest
    path = warehouse.landed(topic)
    newest = None if opened is None else opened.get(path)
    if newest is not None and version is not None and newest.version() > version:
        touched = refuse_touched(newest, path, version)
        if touched is not None and touched.is_vacuumed:
            return live_files(newest, within, place=path)
    return read_files(path, version=version, within=within, opened=opened, digest=digest)


def digests_of(
    warehouse: Warehouse, pipeline: str, done: DoneRow, before: DoneRow, opened: OpenTables | None = None
) -> Digests:
    """Digests of the tables that ``done`` names; those that ``before`` has at the same version are taken from there.

    Of what other pipelines have, those that are known. ``opened``: as of ``open_table``.
    """
    digests: Digests = {}
    for table in table_names(done):
        known = {(name, version): digest for name, version, digest in (before.digests or {}).get(table, [])}
        for name, version in _named(pipeline, done, table):
            digest = known.get((name, version))
            if digest is None and name == pipeline:
                path = warehouse.pipeline(name).table(table)
                digest = table_digest(path, version, opened=opened)
            if digest is not None:
                digests.setdefault(table, []).append([name, version, digest])
    return digests


def refuse_older_ledger(
    warehouse: Warehouse,
    pipeline: str,
    ledger: "Ledger",
    last: "LedgerRow[DoneRow] | None",
    opened: OpenTables | None = None,
    *,
    of: Collection[str] | None = None,
) -> None:
    """Raises DamagedLedger when a table is marked with an increment that the ledger does not know: it is gone, or was
    put back as it once was; TouchedTable when somebody else has changed one since. ``last``: its last done row.
    ``opened``: as of ``open_table``. ``of``: only these tables, if the ledger names them all, since opening each takes
    time.
    """
    tables: Iterable[str] = (
        existing_tables(warehouse.pipeline(pipeline).root) if last is None else last.content.versions
    )
    if of is not None and {*of} <= {*tables}:
        tables = of
    looked = OpenTables() if opened is None else opened
    mark, path = _newest_mark(warehouse, pipeline, 0 if last is None else last.epoch, tables, looked)
    if mark <= (0 if last is None else last.increment):
        _refuse_touched(warehouse, pipeline, last, tables, looked)
        return
    newest = ledger.newest()  # with what is planned, by another runner perhaps since
    if mark > newest:
        got = f"increment {newest} as its newest" if newest else "no increment"
        option = "replay under another pipeline name"
        if last is not None:
            command = restore_command(warehouse.pipeline(pipeline).root, last.increment)
            option = f"continue from what it knows: `{command}`"
        next_step = f"put the ledger back from a copy of the warehouse, or {option}"
        raise DamagedLedger(ledger.path, f"increment {mark}, which {path} is marked with", got, next_step)
    _refuse_touched(warehouse, pipeline, last, tables, looked)


def _refuse_touched(
    warehouse: Warehouse,
    pipeline: str,
    last: "LedgerRow[DoneRow] | None",
    tables: Iterable[str],
    looked: OpenTables,
) -> None:
    """``looked``: tables that were brought up to date just now."""
    for name in tables if last is not None else ():
        path = warehouse.pipeline(pipeline).table(name)
        if path in looked and last is not None:
            refuse_touched(looked[path], path, last.content.versions[name])


def refuse_older_landing_ledger(
    warehouse: Warehouse,
    topic: str,
    ledger: "LandingLedger",
    newest: "LedgerRow[LandingRow] | None",
    opened: OpenTables | None = None,
) -> None:
    """As ``refuse_older_ledger``, of the landing of a topic. ``newest``: the newest row of its ledger; where that is a
    plan, others' commits are looked at by whoever finishes it.
    """
    known, epoch = (0, 0) if newest is None else (newest.increment, newest.epoch)
    path = warehouse.landed(topic)
    table = open_table(path, opened=opened)
    mark = 0 if table is None else mark_of(table, path, f"landing/{topic}/{epoch}") or 0
    if mark > known and mark > ledger.newest():
        got = f"increment {known} as its newest" if known else "no increment"
        next_step = "put the ledger back from a copy of the warehouse, or land the topic again into a new one"
        raise DamagedLedger(ledger.path, f"increment {mark}, which {path} is marked with", got, next_step)
    version = None if newest is None else newest.content.table_version
    if table is not None and version is not None:
        refuse_touched(table, path, version)


def _newest_mark(
    warehouse: Warehouse, pipeline: str, epoch: int, tables: Iterable[str], opened: OpenTables | None
) -> tuple[int, str]:
    """The highest increment that any of a pipeline's ``tables`` is marked with, and the table's path; 0: none is."""
    highest = 0, ""
    for name in tables:
        path = warehouse.pipeline(pipeline).table(name)
        table = open_table(path, opened=opened)
        mark = None if table is None else mark_of(table, path, f"{pipeline}/{name}/{epoch}")
        highest = max(highest, (mark or 0, path))
    return highest


def refuse_damage(
    warehouse: Warehouse,
    pipeline: str,
    ledger: "Ledger",
    last: "LedgerRow[DoneRow] | None",
    opened: OpenTables | None = None,
) -> None:
    """Before an increment is added to the pipeline's own tables: else it would take what is damaged for good.

    Raises as ``refuse_older_ledger``, and DamagedTable when a table is not what it was as of ``last``.
    ``opened``: as of ``open_table``.
    """
    refuse_older_ledger(warehouse, pipeline, ledger, last, opened)
    done = DoneRow() if last is None else last.content
    for table in done.versions:
        path, version, digest = table_parts(warehouse, pipeline, done, table)[-1]
        read_files(path, version=version, opened=opened, digest=digest)


def existing_tables(root: str) -> list[str]:
    """Names of the Delta tables in the folder of a pipeline, as the ledger spells them, in alphabetical order; without
    those that no increment writes: of checks, and of current values (``current_tables``).
    """
    filesystem, path = open_filesystem(root)

    def folders(below: str) -> list[str]:
        listed = filesystem.get_file_info(fs.FileSelector(f"{path}/{below}", allow_not_found=True))
        names = [entry.base_name for entry in listed if entry.type == fs.FileType.Directory]
        return [f"{below}{name}" for name in names if name != _LOG and is_name(name)]

    kinds = [kind for kind in folders("") if kind not in (QUALITY_RESULTS, QUALITY_METRICS, CURRENT)]
    names = [name for kind in kinds for name in (kind, *folders(f"{kind}/"))]
    logs = filesystem.get_file_info([f"{path}/{name}/{_LOG}" for name in names])
    return sorted(name for name, log in zip(names, logs, strict=True) if log.type == fs.FileType.Directory)


def current_tables(root: str) -> list[str]:
    """As ``existing_tables``, the tables of current values."""
    filesystem, path = open_filesystem(f"{root}/{CURRENT}")
    listed = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
    names = [entry.base_name for entry in listed if entry.type == fs.FileType.Directory and is_name(entry.base_name)]
    return sorted(TableName.current(name) for name in names)
