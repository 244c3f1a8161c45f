"""Entries of a table's Delta log that nobody needs any more.

Owns which may go. Rule: an entry may go when a checkpoint behind it holds all that it said, and nobody asks for a
version before that checkpoint. They go from the oldest on, so that what is left is whole wherever a delete ends.
"""

import re
from collections.abc import Iterable
from contextlib import suppress

from pyarrow import fs

from .object_stores import open_filesystem

LOG_ENTRY = re.compile(r"(\d{20})\.(json|checkpoint\..*parquet|crc)")
"""A log entry's name: its version, and what it is."""


def entries_before(names: Iterable[str], checkpoints: Iterable[str], oldest: int) -> list[str]:
    """Those of ``names`` before the newest of ``checkpoints`` from which every version from ``oldest`` on can be read,
    oldest first. [] when there is no such checkpoint.
    """
    starts = (_version(name) for name in checkpoints if ".checkpoint." in name)
    begin = max((version for version in starts if version is not None and version <= oldest), default=0)
    return sorted(name for name in names if (version := _version(name)) is not None and version < begin)


def trim_log(path: str, oldest: int) -> None:
    """Delete the log entries of a table that are for versions before ``oldest``, of which nobody asks any more. Another
    runner may be at it too.
    """
    filesystem, root = open_filesystem(path)
    infos = filesystem.get_file_info(fs.FileSelector(f"{root}/_delta_log"))
    names = [info.base_name for info in infos if info.type == fs.FileType.File]
    for name in entries_before(names, names, oldest):
        with suppress(FileNotFoundError):
            filesystem.delete_file(f"{root}/_delta_log/{name}")


def _version(name: str) -> int | None:
    match = LOG_ENTRY.fullmatch(name)
    return None if match is None else int(match[1])
