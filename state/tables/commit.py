"""The one place that commits files to Delta.

Owns the Delta transaction of an increment. Rule: one table, one increment, one transaction, marked with
(app id, increment) and read back. Delta's marks alone are not enough: this library writes a lower mark without a word,
Spark skips it without a word, and RESTORE brings old files back but keeps the newer mark. So each of these is looked
for before writing, and answered with CommitLost. A restored table continues under a new epoch (part of the app id).
"""

import json
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from ..errors import CommitLost, DamagedFile, Fenced, TouchedTable
from ..wall_clock import now_ms
from .data_files import (
    DataFile,
    KeptTable,
    OpenedTable,
    OpenTables,
    live_files,
    mark_of,
    open_table,
    read_files,
    readable,
)
from .delta_log import how_to_take_back, refuse_unknown_features
from .foreign_commits import APPEND_ONLY, Touched, refuse_touched, touched_since
from .formats import description, raise_format, refuse_newer
from .names import is_only_appended
from .object_stores import delta_options, is_remote, open_filesystem, refuse_overwriting, timeout_seconds
from .parquet_reader import refuse_missing
from .parquet_writer import write_task_file
from .patience import patiently
from .schema_evolution import grow, other_types, refuse_other_columns

# Kept as long as history may be asked for (law 6): the log must outlive the files that it names. Version 2 checkpoints,
# auto compaction and the change feed stay off: the first is not written by this library, the second adds commits of
# its own, and rows carry their increment, so a change feed would only repeat them.
PROPERTIES = {
    "delta.checkpointInterval": "10",
    "delta.logRetentionDuration": "interval 3650 days",
    "delta.deletedFileRetentionDuration": "interval 3650 days",
    "delta.enableExpiredLogCleanup": "false",
}

_PUT_BACK = "put-back"
"""App id of commits that put back what others have changed; of two runners at it Delta lets one through."""
_ATTEMPTS = 3
_COMMIT = "replayCommit"
"""Key of a commit's own name in its metadata, on object stores."""

# Looking for an expired log lists all of it, which costs more than the commit once there are a thousand.
_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


def properties_of(path: str) -> dict[str, str]:
    """Delta's properties of a table that is made at ``path``. Spark and delta-rs keep to appendOnly: they refuse what
    would take rows out, and let files be merged.
    """
    return PROPERTIES | ({APPEND_ONLY: "true"} if is_only_appended(path) else {})


def commit_files(
    path: str,
    schema: pa.Schema,
    files: Sequence[DataFile],
    *,
    app_id: str,
    increment: int,
    removed: Sequence[DataFile] = (),
    may_grow: bool = False,
    replaces: bool = False,
    opened: OpenTables | None = None,
    since: int | None = None,
) -> int:
    """Add ``files`` to the table and take ``removed`` out of it, in one Delta transaction; return a version that holds
    the increment.

    Creates the table, partitioned by `partition`, when it is missing. An empty list still marks the increment. A table
    that already has ``increment`` is left as it is. ``may_grow``: columns and fields of structs that the table lacks
    are added to it, null in what it holds, by a commit of their own before (state/tables/schema_evolution.py); it may
    have more than ``schema``, too. ``replaces``: the files take the place of all there are, and ``schema`` that of the
    table's. ``opened``: as of ``open_table``. ``since``: the version that the ledger knows, -1: none; what others
    committed after it is looked at before and behind the commit, as of ``settle``. None: it is not.
    Raises CommitLost when it has a later one, was restored since, lost a file, or does not have the increment when read
    back; ConfigError when the table has other columns.
    """
    table = create_table(path, schema, partition_by=["partition"], opened=opened)
    if since is not None:
        table = settle(table, path, since)
    if not (may_grow or replaces):
        refuse_other_columns(table, path, schema)
    if _has_increment(table, path, app_id, increment):
        return table.version()
    actions = [*_add_actions(path, files), *(_remove_action(file, now_ms()) for file in removed)]
    mark = _mark(app_id, increment)
    try:
        if may_grow and not replaces:
            table = grow(table, path, schema, opened=opened)
        before = table.version()
        _commit(table, path, actions, "overwrite" if replaces else "append", schema, ["partition"], mark)
    except CommitFailedError as error:
        return _after_conflict(path, app_id, increment, error)
    version = _read_back(table, path, app_id, increment)
    # Delta lets an append through whatever rows others committed since, so that is looked at afterwards.
    if since is not None and version > before + 1:  # somebody was quicker
        version = settle(table, path, since).version()
    return version


def settle(table: DeltaTable, path: str, since: int) -> DeltaTable:
    """``table``, open at its newest version, as its ledger knows it from version ``since``, before one writes to it.

    What others have only rearranged is put back: their files go and ours come again, in a transaction that changes no
    data. Those of a landed topic stay where ours were deleted. Raises TouchedTable for all else that they did.
    """
    attempts = 0
    while (touched := refuse_touched(table, path, since, writes=True)) is not None and not touched.is_vacuumed:
        if attempts == _ATTEMPTS:
            raise touched.error()
        with suppress(CommitFailedError):  # others were quicker: it is looked at again
            _put_back(table, touched, changes_data=False)
        table.update_incremental()
        attempts += 1
    return table


def take_back(path: str, since: int) -> Touched | None:
    """Take back what others committed to the table since the version that its ledger knows; return what that was, None:
    nothing.

    Raises TouchedTable where it cannot be: files are gone, the log has lost versions since, columns were changed before
    increments of ours, or it has a feature that delta-rs does not know.
    """
    table = OpenedTable(path)
    touched = touched_since(path, since, table.version())
    if touched is None or (touched.is_nothing and not _has_unknown_features(table, path)):
        return None
    if touched.lost:
        raise touched.error()
    if touched.changes or _has_unknown_features(table, path):
        first = touched.commits[0].version
        # RESTORE goes back to one version, so it would take out the increments behind that commit as well.
        if any(version > first for version in touched.ours_since):
            raise touched.error("; and increments were committed since")

        def restore(own: CommitProperties) -> None:
            table.restore(first - 1, protocol_downgrade_allowed=True, commit_properties=own)

        try:
            _once(table, path, restore, CommitProperties(custom_metadata=_metadata(_PUT_BACK, touched.newest)))
        except CommitFailedError as error:  # a feature that delta-rs does not know, as a rule
            next_step = f"take it back with the engine that committed it: drop the feature, or RESTORE to {first - 1}"
            raise TouchedTable(path, "a table that can be committed to", str(error), next_step) from error
    else:
        # Of an append-only table Delta refuses every remove that says to change data.
        _put_back(table, touched, changes_data=not is_only_appended(path))
    table.update_incremental()
    left = touched_since(path, since, table.version())
    if left is not None and not left.is_nothing:
        raise left.error()
    return touched


def _put_back(table: DeltaTable, touched: Touched, *, changes_data: bool) -> None:
    """Raises CommitFailedError when somebody else commits, TouchedTable when a file that must come back is gone."""
    removed_at_ms = now_ms()
    try:
        refuse_missing(touched.path, list(touched.gone.values()))
    except DamagedFile as damaged:
        raise touched.error(f"; and {damaged.place} has {damaged.got}") from damaged
    actions = [
        *_add_actions(touched.path, list(touched.gone.values()), changes_data=changes_data),
        *(_remove_action(file, removed_at_ms, changes_data=changes_data) for file in touched.added.values()),
    ]
    schema = pa.schema(table.schema().to_arrow())
    mark = _mark(_PUT_BACK, touched.newest)
    _commit(table, touched.path, actions, "append", schema, table.metadata().partition_columns, mark)


def _has_unknown_features(table: DeltaTable, path: str) -> bool:
    try:
        refuse_unknown_features(table, path, writes=True)
    except TouchedTable:
        return True
    return False


def replace_files(
    path: str,
    schema: pa.Schema,
    files: Sequence[DataFile],
    *,
    app_id: str,
    fenced: Sequence[str],
    increment: int,
    written_at_ms: int,
) -> int:
    """Make ``files`` all that the table has, in one Delta transaction; return a version that holds the increment.

    Files that are live stay untouched, the others come and go; a table that already has ``increment`` is left as it is.
    ``fenced``: app ids of earlier epochs, which get the mark too, so that runners that still work under them are
    refused. Raises Fenced where one of them has a later mark: a third runner has shut its runner out since, and shuts
    this one out too. The table gains the columns that it lacks, as of ``commit_files``; columns of other types are
    taken over where no live file stays. Raises as ``commit_files``.
    """
    table = create_table(path, schema, partition_by=["partition"])
    if _has_increment(table, path, app_id, increment):
        return table.version()
    for each in fenced:
        _refuse_later(table, path, each, increment)
    wanted, live = {file.path for file in files}, live_files(table)
    stay = {file.path for file in live} & wanted
    actions: list[AddAction | RemoveAction] = list(_add_actions(path, [f for f in files if f.path not in stay]))
    # "overwrite" would take out all that is live, so also the files that stay.
    mode: Literal["append", "overwrite"] = "append"
    marks = [Transaction(each, increment) for each in (app_id, *fenced)]
    mark = CommitProperties(app_transactions=marks, custom_metadata=_metadata(app_id, increment))
    try:
        if not stay and other_types(table, schema):
            mode = "overwrite"  # removes what is live by itself, and takes the columns over
        else:
            table = grow(table, path, schema)
            schema = pa.schema(table.schema().to_arrow())
            actions += [_remove_action(file, written_at_ms) for file in live if file.path not in wanted]
        _commit(table, path, actions, mode, schema, ["partition"], mark)
    except CommitFailedError as error:
        return _after_conflict(path, app_id, increment, error)
    version = _read_back(table, path, app_id, increment)
    current = {file.path for file in read_files(path, version=version)}
    if current != wanted:
        raise CommitLost(
            f"{path}, {app_id}", f"{len(wanted)} files when read back", f"{len(current)}", "run the restatement again"
        )
    return version


def swap_files(
    table: DeltaTable,
    path: str,
    files: Sequence[DataFile],
    removed: Sequence[DataFile],
    *,
    app_id: str,
    increment: int,
    changes_data: bool = False,
) -> None:
    """Put ``files`` in the place of those ``removed``, which have the same rows: a transaction that changes no data,
    unless it ``changes_data``.

    Raises CommitFailedError when somebody else committed under ``app_id`` since ``table`` was opened.
    """
    removed_at_ms = now_ms()
    actions = [
        *_add_actions(path, files, changes_data=changes_data),
        *(_remove_action(file, removed_at_ms, changes_data=changes_data) for file in removed),
    ]
    schema = pa.schema(table.schema().to_arrow())
    _commit(table, path, actions, "append", schema, table.metadata().partition_columns, _mark(app_id, increment))


def write_mark(table: DeltaTable, path: str, app_id: str, increment: int, *, also: Sequence[str] = ()) -> None:
    """Mark a table that was opened *before* the caller decided to, without a row, and read the mark back. ``also``:
    other app ids that get it at once.

    Raises CommitFailedError when somebody else committed under one of them since then.
    """
    schema = pa.schema(table.schema().to_arrow())
    marks = [Transaction(each, increment) for each in (app_id, *also)]
    mark = CommitProperties(app_transactions=marks, custom_metadata=_metadata(app_id, increment))
    _commit(table, path, [], "append", schema, table.metadata().partition_columns, mark)
    _read_back(table, path, app_id, increment)


def create_table(
    path: str,
    schema: pa.Schema,
    *,
    partition_by: Sequence[str] = (),
    opened: OpenTables | None = None,
) -> DeltaTable:
    """Create the empty table, or open it when it is there already (two runners may create at once), to write to it: one
    of an older format gets the current number (state/tables/formats.py). ``opened``: as of ``open_table``.
    """
    table = open_table(path, opened=opened)
    if table is not None:
        raise_format(table, path)
        return table
    refuse_overwriting(path)

    def create() -> DeltaTable:
        return DeltaTable.create(
            path,
            Schema.from_arrow(schema),
            mode="ignore",
            partition_by=list(partition_by),
            description=description(),
            configuration=dict[str, str | None](properties_of(path)),
            storage_options=delta_options(path),
        )

    try:
        made = patiently(create, timeout_seconds(path))
    except DeltaError:
        # "ignore" looks first: of two runners that both saw no table, the second fails at version 0.
        existing = open_table(path, opened=opened)
        if existing is None:
            raise
        return existing
    # ``create`` returns a plain DeltaTable, which gives up when the store fails once.
    made = KeptTable(path) if is_remote(path) else made
    refuse_newer(made, path)  # of another runner, which was quicker
    if opened is not None:
        opened[path] = made
    return made


def append_row(
    table: DeltaTable, path: str, row: pa.Table, *, app_id: str, increment: int, against: Sequence[str] = ()
) -> None:
    """Add ``row`` to an unpartitioned table that was opened *before* the caller decided to write.

    Raises CommitFailedError when somebody else committed under ``app_id``, or under one of ``against``, since then.
    """
    file = write_task_file(path, row, partition=-1, name=f"{increment:08d}")
    marks = [Transaction(each, increment) for each in (app_id, *against)]
    mark = CommitProperties(app_transactions=marks, custom_metadata=_metadata(app_id, increment))
    _commit(table, path, _add_actions(path, [file]), "append", row.schema, [], mark)


def transaction_version(path: str, app_id: str) -> int | None:
    """The last increment committed under ``app_id``; None when there is none, or no table."""
    table = open_table(path)
    return None if table is None else mark_of(table, path, app_id)


def _commit(
    table: DeltaTable,
    path: str,
    actions: list[AddAction | RemoveAction],
    mode: Literal["append", "overwrite"],
    schema: pa.Schema,
    partition_by: list[str],
    mark: CommitProperties,
) -> None:
    """Raises CommitFailedError when somebody else committed, DamagedTable for a log with a gap that Delta needs."""

    def write(own: CommitProperties) -> None:
        table.create_write_transaction(
            actions, mode, schema, partition_by, commit_properties=own, post_commithook_properties=_HOOKS
        )

    _once(table, path, write, mark)


def _once(table: DeltaTable, path: str, write: Callable[[CommitProperties], Any], said: CommitProperties) -> None:
    """Let ``write`` commit to ``table`` with the properties ``said``. Raises as ``_commit``.

    On an object store the answer to a commit may be lost. So the commit has a name of its own there, and after any
    failure the log is asked for it, before the commit is made again or counts as another's.
    """
    name, since = uuid.uuid4().hex, table.version()
    named = {**(said.custom_metadata or {}), _COMMIT: name} if is_remote(path) else said.custom_metadata
    own = CommitProperties(app_transactions=said.app_transactions, custom_metadata=named)

    def attempt() -> None:
        try:
            write(own)
        except (CommitFailedError, DeltaError, OSError):
            if not (is_remote(path) and _is_there(path, since, name)):
                raise

    with readable(path):
        patiently(attempt, timeout_seconds(path))


def _is_there(path: str, since: int, name: str) -> bool:
    """Is the commit ``name`` among those after version ``since``?"""
    table = open_table(path)
    if table is None or table.version() <= since:
        return False
    return any(entry.get(_COMMIT) == name for entry in table.history(table.version() - since))


def _mark(app_id: str, increment: int) -> CommitProperties:
    return CommitProperties(
        app_transactions=[Transaction(app_id, increment)], custom_metadata=_metadata(app_id, increment)
    )


def _metadata(app_id: str, increment: int) -> dict[str, str]:
    return {"replayApp": app_id, "replayIncrement": str(increment)}


def _has_increment(table: DeltaTable, path: str, app_id: str, increment: int) -> bool:
    """True when the increment is in the table, false when it may be written; else CommitLost."""
    committed = _refuse_later(table, path, app_id, increment)
    if committed is None:
        return False
    if was_restored(table, path, app_id):
        next_step = "continue under a new epoch (`replay restore`)"
        raise CommitLost(
            f"{path}, {app_id}",
            f"the files of increment {committed}",
            "a table that was restored since",
            f"{how_to_take_back(path) if is_only_appended(path) else next_step}: a restored table keeps the marks of "
            "what it no longer has",
        )
    return committed == increment


def _refuse_later(table: DeltaTable, path: str, app_id: str, increment: int) -> int | None:
    """The last increment committed under ``app_id``; raises Fenced when it is a later one."""
    committed = mark_of(table, path, app_id)
    if committed is not None and committed > increment:
        raise Fenced(
            f"{path}, {app_id}",
            f"no increment after {increment}",
            f"increment {committed}",
            "fork under a new epoch to replay from an earlier increment (`replay restore`, `replay fork`)",
        )
    return committed


def was_restored(table: DeltaTable, path: str, app_id: str) -> bool:
    """Has a RESTORE since the newest commit of ``app_id`` taken files away that were there then? Looks back no further
    than that commit.
    """
    # Nearly always the newest commit is that of ``app_id``; the whole history is read where others committed since.
    for limit in (1, 16, None):
        is_restored = False
        for entry in table.history(limit):
            if entry.get("replayApp") == app_id:
                return is_restored and _lacks_files_of(path, entry["version"], table.version())
            # A RESTORE by ``take_back`` bears our name: it takes out what others did, and no increment.
            is_restored |= entry.get("operation") == "RESTORE" and "replayApp" not in entry
    return is_restored


def _lacks_files_of(path: str, version: int, newest: int) -> bool:
    touched = touched_since(path, version, newest)
    return touched is not None and bool(touched.gone)


def _after_conflict(path: str, app_id: str, increment: int, error: CommitFailedError) -> int:
    """Another runner committed meanwhile: the same increment is as good as ours, anything else is lost."""
    table = open_table(path)
    if table is not None and _has_increment(table, path, app_id, increment):
        return table.version()
    raise CommitLost(
        f"{path}, {app_id}", f"increment {increment} committed", str(error), "run the increment again"
    ) from error


def _read_back(table: DeltaTable, path: str, app_id: str, increment: int) -> int:
    table.update_incremental()
    got = mark_of(table, path, app_id)
    if got != increment:
        raise CommitLost(
            f"{path}, {app_id}",
            f"increment {increment} when read back",
            f"increment {got}",
            "stop the other writer of this table, then run the increment again",
        )
    return table.version()


def _add_actions(path: str, files: Sequence[DataFile], *, changes_data: bool = True) -> list[AddAction | RemoveAction]:
    """Delta's add actions; every file must be there in full size."""
    filesystem, root = open_filesystem(path)
    entries = filesystem.get_file_info([f"{root}/{file.path}" for file in files])
    actions: list[AddAction | RemoveAction] = []
    for file, entry in zip(files, entries, strict=True):
        if entry.type != fs.FileType.File or entry.size != file.bytes:
            got = "no file" if entry.type != fs.FileType.File else f"{entry.size} bytes"
            raise CommitLost(f"{path}/{file.path}", f"{file.bytes} bytes", got, "run the increment again")
        values: dict[str, str | None] = {} if file.partition < 0 else {"partition": str(file.partition)}
        modified_ms = 0 if entry.mtime_ns is None else entry.mtime_ns // 1_000_000
        actions.append(AddAction(file.path, file.bytes, values, modified_ms, changes_data, _stats(file)))
    return actions


def _remove_action(file: DataFile, removed_at_ms: int, *, changes_data: bool = True) -> RemoveAction:
    values: dict[str, str | None] = {} if file.partition < 0 else {"partition": str(file.partition)}
    return RemoveAction(file.path, changes_data, removed_at_ms, file.bytes, values)


def _stats(file: DataFile) -> str:
    return json.dumps(
        {
            "numRecords": file.records,
            "minValues": {column: pair[0] for column, pair in file.bounds.items()},
            "maxValues": {column: pair[1] for column, pair in file.bounds.items()},
        }
    )
