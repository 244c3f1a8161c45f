"""Files of a table that its newest version does not have, and the deleting of files.

Owns what a file is that may go. Rule: what is live stays, whoever asks. Logs go last and from their beginning, so that
what is left of them is whole.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyarrow import fs

from .data_files import OpenTables, read_files
from .kept_below import below, files_below
from .log_cleanup import LOG_ENTRY
from .object_stores import open_filesystem

NOT_RETAINED, LOG = "of increments not retained", "log of versions not retained"

BY_INCREMENT = re.compile(r"(\d{8,})-")
"""Begins the name of a file that an increment wrote."""


@dataclass(frozen=True)
class Waste:
    """A file that may go: ``name`` below ``root``. ``table``: as the ledger spells it, or "landed/x",
    "landed_dead_letter/x", "landing/x/ledger", "landing/x/recorded_time", "_exchange", "_heartbeats".
    """

    table: str
    root: str
    name: str
    bytes: int
    reason: str

    @property
    def path(self) -> str:
        """All of it."""
        return f"{self.root}/{self.name}"


def replaced_files(path: str, last: int) -> Iterator[Waste]:
    """Files of a table that its newest version does not have: those that were committed, and those of increments up to
    ``last``. For a table of which nobody may ask for an earlier version.
    """
    infos = files_below(path)
    if not infos:
        return
    log = {name.removeprefix("_delta_log/") for name in infos if name.startswith("_delta_log/")}
    committed, live = {file for files in added_files(path, log).values() for file in files}, live_paths(path, None, {})
    for name, info in infos.items():
        numbered = BY_INCREMENT.match(name.rpartition("/")[2])
        is_old = name in committed or (numbered is not None and int(numbered[1]) <= last)
        if name.endswith(".parquet") and not name.startswith("_") and name not in live and is_old:
            yield Waste("", path, name, info.size, NOT_RETAINED)


def delete_files(waste: list[Waste]) -> None:
    """Delete what is still there. Logs last and from their beginning, so that what is left of them is whole. Raises
    StorageError where a folder has become a symbolic link since.
    """
    for each in sorted(waste, key=lambda each: (each.reason == LOG, each.path)):
        filesystem, path = open_filesystem(below(each.root, each.name))
        if filesystem.get_file_info(path).type == fs.FileType.File:
            filesystem.delete_file(path)


def added_files(path: str, log: Iterable[str]) -> dict[int, set[str]]:
    """Files that each version added, as far as the log's own entries (not its checkpoints) say."""
    filesystem, root = open_filesystem(path)
    added = {}
    for name in log:
        match = LOG_ENTRY.fullmatch(name)
        if match is not None and match[2] == "json":
            with filesystem.open_input_file(f"{root}/_delta_log/{name}") as opened:
                lines = [json.loads(line) for line in opened.read().splitlines() if line]
            added[int(match[1])] = {line["add"]["path"] for line in lines if "add" in line}
    return added


def live_paths(path: str, version: int | None, opened: OpenTables) -> set[str]:
    """Paths of the files of a table at a version; None: the newest. ``opened``: as of ``read_files``."""
    return {file.path for file in read_files(path, version=version, opened=opened)}
