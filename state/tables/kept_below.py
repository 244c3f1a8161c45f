"""Names that others have written, kept below the folder that they are for.

Owns the one rule for all of them: keys of an object store, entries of a folder, files in a table's log, in a ledger or
in an instruction. Rule: a name has parts that are separated by slashes. No part is empty, ``.`` or ``..``, also where
it is spelled with backslashes or per cent signs. No folder on the way to it is a symbolic link, nor is the file.
The root itself may be one: it is what the user named. What is deleted is listed without following links, too.
"""

import os
import re
from functools import lru_cache
from urllib.parse import unquote

from pyarrow import fs

from ..errors import StorageError
from .object_stores import is_remote, joined, open_filesystem

PART_BYTES, NAME_BYTES = 255, 4096
"""The longest part of a name, and the longest name, that a file system takes."""

_PLAIN = re.compile(r"(?:[A-Za-z0-9_=-][A-Za-z0-9_=.-]{0,200}/)*[A-Za-z0-9_=-][A-Za-z0-9_=.-]{0,200}")
"""Most names; the others are looked at more closely."""


@lru_cache(maxsize=4096)
def why_outside(name: str) -> str | None:
    """Why ``name`` is no name below a folder, in a few words; None: it is one."""
    if len(name) < NAME_BYTES and _PLAIN.fullmatch(name):
        return None
    try:
        parts = name.encode().split(b"/")
    except UnicodeEncodeError:
        return "a name that is no text"
    if b"" in parts:
        return "an absolute path, or an empty part"
    if "\0" in _plain(name):
        return "a NUL"
    if not {".", ".."}.isdisjoint(_plain(name).replace("\\", "/").split("/")):
        return "a part that leads elsewhere"
    if max(map(len, parts)) > PART_BYTES or sum(map(len, parts)) + len(parts) > NAME_BYTES:
        return f"a part of more than {PART_BYTES} bytes, or more than {NAME_BYTES} in all"
    return None


def _plain(name: str) -> str:
    """Without encoding by per cent signs, however often it was encoded."""
    while (decoded := unquote(name, errors="replace")) != name:
        name = decoded
    return name


def below(root: str, name: str) -> str:
    """The path of ``name`` below the folder or URI ``root``. Raises StorageError for one that would lead elsewhere, and
    for one behind a symbolic link of this machine.
    """
    why = why_outside(name)
    if why is not None:
        raise _refused(root, f"{_short(name)}, {why}")
    if not is_remote(root):
        path = open_filesystem(root)[1]
        for part in name.split("/"):
            path = f"{path}/{part}"
            if os.path.islink(path):
                raise _refused(root, f"{_short(name)}, behind the symbolic link {path}")
    return joined(root, name)


def files_below(root: str) -> "dict[str, fs.FileInfo]":
    """Every file below a folder or URI, by its name there, as ``why_outside`` has names; {} where there is none.

    Raises StorageError for a symbolic link on this machine, so that nothing behind it is taken for a part of ``root``.
    """
    return {name: info for name, info in _all_below(root).items() if info is not None}


def files_outside(root: str) -> dict[str, str]:
    """Every other file below a folder or URI, which nobody reads: why (``why_outside``), by its name; what is no text
    in the name is escaped. StorageError as ``files_below``.
    """
    outside = [name for name, info in _all_below(root).items() if info is None]
    return {name.encode(errors="backslashreplace").decode(): str(why_outside(name)) for name in outside}


def _all_below(root: str) -> "dict[str, fs.FileInfo | None]":
    """None: of a name that ``why_outside`` refuses."""
    filesystem, path = open_filesystem(root)
    prefix = f"{path.rstrip('/')}/"
    if not isinstance(filesystem, fs.LocalFileSystem):
        infos = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
        files = {info.path.removeprefix(prefix): info for info in infos if info.type == fs.FileType.File}
        return {name: info if why_outside(name) is None else None for name, info in files.items()}
    # Arrow's recursive selector follows symbolic links, and Arrow takes no path that is not UTF-8.
    names = [whole.removeprefix(prefix) for whole in _local_files(path)]
    kept = [name for name in names if why_outside(name) is None]
    infos = filesystem.get_file_info([f"{prefix}{name}" for name in kept])
    there = {name: info for name, info in zip(kept, infos, strict=True) if info.type == fs.FileType.File}
    return {**there, **dict.fromkeys(name for name in names if why_outside(name) is not None)}


def _local_files(root: str) -> list[str]:
    def refuse(error: OSError) -> None:
        # ``os.walk`` ignores every error by default; only a folder that is gone meanwhile may be left out.
        if not isinstance(error, FileNotFoundError):
            raise error

    paths = []
    for folder, folders, names in os.walk(root, onerror=refuse):
        for name in (*folders, *names):
            if os.path.islink(f"{folder}/{name}"):
                raise _refused(root, f"the symbolic link {folder}/{name}")
        paths += [f"{folder}/{name}" for name in names]
    return paths


def _refused(root: str, got: str) -> StorageError:
    return StorageError(
        root, "names that stay below it", got,
        "find out who wrote it, and take it away; where a disk of its own is meant, mount it there",
    )  # fmt: skip


def _short(name: str) -> str:
    return repr(name if len(name) <= 200 else f"{name[:200]}…")
