"""Entries of a table's Delta log, as they are written: who committed what.

Owns which commits are ours, and which features of Delta's protocol this package knows. Rule: every commit of ours says
so, in its `commitInfo` (a key that begins with "replay") or, where Spark's landing wrote it, in its transaction id; all
others are of somebody else. A feature that changes what the rows of a file mean is refused by its name.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from deltalake import DeltaTable
from pyarrow import fs

from ..errors import TouchedTable
from .object_stores import open_filesystem
from .parquet_reader import take_back_command

READ_FEATURES = frozenset({"v2Checkpoint", "vacuumProtocolCheck", "timestampNtz"})
"""Reader features that leave the rows of files what they are."""
WRITE_FEATURES = READ_FEATURES | {
    "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns",
}  # fmt: skip
"""Writer features under which this package may commit: delta-rs knows them, and none asks our files for anything."""
_COLUMN_MAPPING_VERSION = 2
"""Reader version that means the one feature columnMapping."""
ENTRY = re.compile(r"(\d{20})\.json")
_OURS = "replay"
_LANDING = "landing/"
"""How the transaction ids of Spark's landing begin; it cannot write into commitInfo."""


@dataclass(frozen=True)
class LogEntry:
    """One commit: its version, and its actions as JSON."""

    version: int
    actions: Sequence[Mapping[str, Any]]

    def of(self, kind: str) -> Iterator[Mapping[str, Any]]:
        """Actions of a kind: "add", "remove", "metaData", "protocol", …"""
        return (action[kind] for action in self.actions if action.get(kind) is not None)

    @cached_property
    def info(self) -> Mapping[str, Any]:
        """What it says of itself; {}: nothing."""
        return next(self.of("commitInfo"), {})

    @property
    def is_ours(self) -> bool:
        """Did this package commit it?"""
        return any(key.startswith(_OURS) for key in self.info) or any(
            str(txn.get("appId", "")).startswith(_LANDING) for txn in self.of("txn")
        )

    def __str__(self) -> str:
        """As "UPDATE of version 7 by Apache-Spark/4.1.3 Delta-Lake/4.1.0, 2026-01-31T10:00:00Z"."""
        operation, at_ms = self.info.get("operation", "a commit"), self.info.get("timestamp")
        engine = self.info.get("engineInfo", self.info.get("clientVersion", "an engine that does not say its name"))
        when = "" if not isinstance(at_ms, int) else f", {_as_text(at_ms)}"
        return f"{operation} of version {self.version} by {engine}{when}"


def entry_name(version: int) -> str:
    """Of the file in `_delta_log` that has the commit of ``version``."""
    return f"{version:020}.json"


def log_entries(path: str, after: int, until: int) -> list[LogEntry]:
    """Commits of the versions ``(after, until]``; those of which the log has no entry any more are left out."""
    return [entry for version in range(after + 1, until + 1) if (entry := _entry(path, version)) is not None]


def is_table(path: str) -> bool:
    """Is there a Delta log?"""
    filesystem, root = open_filesystem(f"{path}/_delta_log")
    return bool(filesystem.get_file_info(root).type == fs.FileType.Directory)


def log_begins_after(path: str) -> int:
    """The version behind which the log has all commits: the lowest of which it has an entry; -1 where it has that of
    version 0, or none.
    """
    filesystem, root = open_filesystem(path)
    infos = filesystem.get_file_info(fs.FileSelector(f"{root}/_delta_log", allow_not_found=True))
    versions = (ENTRY.fullmatch(info.base_name) for info in infos)
    return min((int(match[1]) for match in versions if match is not None), default=0) or -1


def refuse_unknown_features(table: DeltaTable, path: str, *, writes: bool = False) -> None:
    """Raises TouchedTable for a table with features of Delta's protocol that this package would misread, or that ask
    something of one who ``writes``; it names them and the commit that brought them.
    """
    protocol = table.protocol()
    if protocol.min_reader_version <= 1 and (not writes or protocol.min_writer_version < _FEATURES_BY_NAME):
        return
    unknown = set(protocol.reader_features or ()) - READ_FEATURES
    if protocol.min_reader_version == _COLUMN_MAPPING_VERSION:
        unknown.add("columnMapping")
    if writes:
        unknown |= set(protocol.writer_features or ()) - WRITE_FEATURES
    if unknown:
        names = ", ".join(sorted(unknown))
        expected = "a table without features of Delta's protocol that replays do not know"
        brought = _that_brought(path, table.version(), unknown)
        got = names if brought is None else f"{names}, which came with {brought}"
        raise TouchedTable(path, expected, got, how_to_take_back(path))


_FEATURES_BY_NAME = 7
"""Writer version from which on features are named."""


def how_to_take_back(path: str) -> str:
    """What to do about a commit of others on the table at ``path``."""
    return f"take it back with `{take_back_command(path)}`, and let nobody else write there"


def _that_brought(path: str, newest: int, features: set[str]) -> LogEntry | None:
    """The last commit that changed the protocol so."""
    for version in range(newest, -1, -1):
        entry = _entry(path, version)
        if entry is None:
            return None
        for protocol in entry.of("protocol"):
            named = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
            if features & named or protocol.get("minReaderVersion") == _COLUMN_MAPPING_VERSION:
                return entry
    return None


def _entry(path: str, version: int) -> LogEntry | None:
    """None: it is gone, since a checkpoint holds all that it said, or cannot be read."""
    filesystem, root = open_filesystem(path)
    try:
        with filesystem.open_input_stream(f"{root}/_delta_log/{entry_name(version)}") as stream:
            # Lines of bytes: JSON may have U+2028 or U+0085 within a text, at which lines of text would end.
            lines = stream.read().splitlines()
        return LogEntry(version, [json.loads(line) for line in lines if line.strip()])
    except (FileNotFoundError, ValueError):
        return None


def _as_text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
