"""Commits of others on a table of ours: what they did to it, and whether that is harmless.

Owns the judgement. Rule: it is about the rest of the foreign commits since the version that the ledger knows, whatever
happened between. It is made in one place, whenever a table is opened to be used. Nothing left (a vacuum, a checkpoint,
a property, a change that was taken back) is harmless. So is a rearrangement: commits that say they change no data, and
leave every partition as many rows as it had (OPTIMIZE, Z-ORDER). Readers do not see it, since they read the version of
the ledger; the next writer puts the files back, so that order, names and seals are as they were. Anything else is
refused, with the commit's name. It costs one comparison of two versions where nobody else has committed.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from ..errors import DamagedFile, TouchedTable
from .data_files import BOUNDED, NO_BOUNDS, DataFile, OpenedTable, live_files
from .delta_log import LogEntry, how_to_take_back, log_begins_after, log_entries, refuse_unknown_features
from .names import LANDED, is_only_appended
from .parquet_reader import how_to_restore, refuse_missing

APPEND_ONLY = "delta.appendOnly"
"""A property with which Spark and delta-rs refuse UPDATE, DELETE, MERGE and overwrites."""


@dataclass
class Touched:
    """What others left of a table since version ``since``.

    ``gone``: files of ours that are not live any more; ``added``: files of others that are; by path. ``changes``: of
    columns and deciding properties, in words. ``commits``: theirs, in order. ``ours_since``: versions of ours between.
    ``altered``: of ``gone`` and ``added``, those by which a commit said to change data. ``is_vacuumed``: files of
    ``gone`` were deleted, so that they cannot be put back. ``lost``: how many of the versions the log has no more.
    """

    path: str
    since: int
    newest: int
    commits: list[LogEntry] = field(default_factory=list)
    gone: dict[str, DataFile] = field(default_factory=dict)
    added: dict[str, DataFile] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    is_vacuumed: bool = False
    ours_since: list[int] = field(default_factory=list)
    altered: set[str] = field(default_factory=set)
    lost: int = 0

    @property
    def is_nothing(self) -> bool:
        """Nothing is left of what they did."""
        return not (self.gone or self.added or self.changes)

    @property
    def is_rearranged(self) -> bool:
        """The same rows in other files, as far as their commits say."""
        if self.is_nothing or self.is_altered:
            return False
        return self._rows(self.gone) == self._rows(self.added)

    @property
    def is_altered(self) -> bool:
        """A commit that said to change data or columns has left something."""
        return bool(self.changes) or not self.altered.isdisjoint({*self.gone, *self.added})

    @staticmethod
    def _rows(files: Mapping[str, DataFile]) -> Counter[int]:
        rows: Counter[int] = Counter()
        for file in files.values():
            rows[file.partition] += file.records
        return rows

    def culprits(self) -> str:
        """Their commits that did it, the first and the last of many."""
        kinds = {"add", "remove"} if self.gone or self.added else set[str]()
        kinds |= {"metaData", "protocol"} if self.changes or not kinds else set[str]()
        did = [entry for entry in self.commits if any(action.keys() & kinds for action in entry.actions)]
        if not did:
            return "commits of which nothing is known"
        if len(did) > 3:
            return f"{did[0]}, {len(did) - 2} more, and {did[-1]}"
        return ", ".join(map(str, did))

    def said(self) -> str:
        """What is left, in words."""
        left = [
            _counted(len(files), "file", how) for how, files in (("gone", self.gone), ("added", self.added)) if files
        ]
        rows = self._rows(self.added).total() - self._rows(self.gone).total()
        if left and rows:
            left.append(_counted(abs(rows), "row", "more" if rows > 0 else "fewer"))
        return ", ".join([*left, *self.changes]) or "features of Delta's protocol"

    def error(self, why: str = "") -> TouchedTable:
        """Which commits, what they left, and what to do. ``why``: what else is wrong."""
        expected = f"no commit of others since version {self.since}, which its ledger names"
        if self.since < 0 or why:
            expected = "no commit of others"
        got = f"{self.culprits()} ({self.said()}{why})"
        # What a lost version did cannot be taken back, since nobody knows it.
        next_step = how_to_restore(self.path, None) if why or self.lost else how_to_take_back(self.path)
        return TouchedTable(self.path, expected, got, next_step)


def _counted(number: int, noun: str, how: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'} {how}"


def touched_since(path: str, since: int, newest: int) -> Touched | None:
    """What others did to the table at ``path`` in the versions ``(since, newest]``; None: they did nothing.

    ``since`` -1: in all that its log still has, of files that were there before it without a word.
    """
    entries = log_entries(path, since, newest)
    # Version 0 only creates the table, and its commit does not bear our name.
    theirs = [entry for entry in entries if not (entry.is_ours or entry.version == 0)]
    if not theirs and len(entries) == newest - since:
        return None
    before = _before(path, since)
    files = {file.path: file for file in live_files(before)} if before is not None else {}
    touched = Touched(path, since, newest, theirs)
    touched.ours_since = [entry.version for entry in entries if entry.is_ours]
    for entry in entries:
        _follow(touched, files, entry)
    touched.changes = _changes(path, before, entries)
    touched.lost = newest - since - len(entries)
    if touched.lost:
        touched.changes.append(f"its log has lost {touched.lost} of the versions since")
    return touched


def refuse_ever_altered(table: DeltaTable, path: str) -> None:
    """Raises TouchedTable where something is left of what others altered since the first version that its log still
    has. ``table``: open at its newest version.
    """
    touched = touched_since(path, log_begins_after(path), table.version())
    if touched is not None and touched.is_altered:
        raise touched.error("; and it has been used since")


def refuse_touched(table: DeltaTable, path: str, since: int, *, writes: bool = False) -> Touched | None:
    """Raises TouchedTable where others changed the table since the version that its ledger knows. ``table``: open at
    its newest version. A rearrangement is returned, for one who ``writes`` to put it back; None: there is none. Where
    the files that it took out were deleted since, it is refused too, but for that of a landed topic: offsets say the
    order of its rows in whichever files they are.
    """
    if table.version() <= since:
        return None
    refuse_unknown_features(table, path, writes=writes)
    touched = touched_since(path, since, table.version())
    if touched is None or touched.is_nothing:
        return None
    if not touched.is_rearranged:
        raise touched.error()
    try:
        refuse_missing(path, list(touched.gone.values()))
    except DamagedFile as damaged:
        if not _is_landed(path):
            raise touched.error(f"; and {damaged.place} has {damaged.got}") from damaged
        touched.is_vacuumed = True
    return touched


def _is_landed(path: str) -> bool:
    return path.split("/")[-2] == LANDED


def _follow(touched: Touched, files: dict[str, DataFile], entry: LogEntry) -> None:
    """Bring ``files``, those that are ours and live, and what is ``touched`` behind ``entry``."""
    is_altered = False
    # Removes first: a commit that sets a deletion vector removes and adds the same path.
    for remove in entry.of("remove"):
        path = unquote(remove["path"])
        was = files.pop(path, None)
        # An OPTIMIZE that rewrites files of an UPDATE says to change no data, but its rows are altered still.
        if touched.added.pop(path, None) is not None:
            is_altered |= path in touched.altered
        elif not entry.is_ours:
            touched.gone.setdefault(path, _file_of(remove) if was is None else was)
            touched.altered |= {path} if remove.get("dataChange", True) else set()
        else:
            touched.gone.pop(path, None)
    for add in entry.of("add"):
        path, file = unquote(add["path"]), _file_of(add)
        is_whole = add.get("deletionVector") is None
        was = touched.gone.get(path)
        if entry.is_ours or (is_whole and was is not None and was.bytes == file.bytes):
            touched.gone.pop(path, None)
            touched.altered.discard(path)
            files[path] = file if was is None else was
        elif not (is_whole and path in files):  # else the log says it again, as computing statistics does
            touched.added[path] = file
            if is_altered or not is_whole or add.get("dataChange", True):
                touched.altered.add(path)


def _changes(path: str, before: DeltaTable | None, entries: Sequence[LogEntry]) -> list[str]:
    """How columns, and what may be committed, differ from what we gave the table, in words."""
    want = None if before is None else _meaning(before.schema().to_json(), before.metadata().configuration)
    have = want
    for entry in entries:
        for metadata in entry.of("metaData"):
            have = _meaning(metadata["schemaString"], metadata.get("configuration") or {})
            want = have if entry.is_ours or want is None else want
    if want is None or have is None or want == have:
        return []
    (columns, was_appended), (other_columns, is_appended) = want, have
    said = [
        _change_of(name, columns, other_columns)
        for name in sorted({*columns, *other_columns})
        if columns.get(name) != other_columns.get(name)
    ]
    if is_appended and not was_appended and not is_only_appended(path):
        said.append(f"{APPEND_ONLY} is set, though increments rewrite files of this table")
    return said


def _change_of(name: str, was: Mapping[str, str], have: Mapping[str, str]) -> str:
    if name in was and name in have:
        return f"column {name} has another type"
    return f"column {name} {'is gone' if name in was else 'was added'}"


def _meaning(schema: str, configuration: Mapping[str, str | None]) -> tuple[dict[str, str], bool]:
    """Columns by name, and whether rows may only be added."""
    fields = json.loads(schema)["fields"]
    columns = {column["name"]: json.dumps(column["type"], sort_keys=True) for column in fields}
    return columns, configuration.get(APPEND_ONLY) == "true"


def _before(path: str, version: int) -> DeltaTable | None:
    """The table as the ledger knows it; None: no version was named, or its log has it no more."""
    if version < 0:
        return None
    try:
        return OpenedTable(path, version=version)
    except (DeltaError, OSError, ValueError):
        return None


def _file_of(action: Mapping[str, Any]) -> DataFile:
    """Of an add or a remove; 0 rows where it does not say."""
    said = json.loads(action.get("stats") or "{}")
    lowest, highest = said.get("minValues") or {}, said.get("maxValues") or {}
    bounds = {
        column: (lowest[column], highest[column])
        for column in BOUNDED
        if isinstance(lowest.get(column), int) and isinstance(highest.get(column), int)
    }
    value = (action.get("partitionValues") or {}).get("partition")
    offsets = bounds.get("offset", NO_BOUNDS)
    return DataFile(
        unquote(action["path"]), action.get("size") or 0, said.get("numRecords") or 0,
        -1 if value is None else int(value), offsets[0], offsets[1], bounds,
    )  # fmt: skip
