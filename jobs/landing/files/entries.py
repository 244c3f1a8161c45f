"""What is in a directory and below it: files, folders, and what is neither.

Owns the walk over this machine's disks; object stores list themselves. Rule: links are followed, but no folder is
entered within itself. What is neither a file nor a folder has a name and a reason, so that nothing is passed over.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from pyarrow import fs

_ABSENT = "a link to what is not there"
_NAMELESS = "a name that is not UTF-8"
_AROUND = "a link to a folder around it"
_NO_FILE = {
    stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FolderEntries:
    """Files and folders at any depth. By name below the directory, and what it is: ``unreadable`` entries, behind which
    records may be, and those that are ``no_files``. ``links``: by path those that are links, and what they lead to.
    """

    infos: list[fs.FileInfo] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    no_files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)


def entries_of(filesystem: fs.FileSystem, root: str) -> FolderEntries:
    """Of the directory ``root``. OSError where one below it cannot be read."""
    if not isinstance(filesystem, fs.LocalFileSystem):
        return FolderEntries(filesystem.get_file_info(fs.FileSelector(root, recursive=True)))
    entries = FolderEntries()
    folders: list[tuple[str, tuple[str, ...]]] = [("", (os.path.realpath(root),))]
    while folders:
        folder, around = folders.pop()
        for entry in _scanned(f"{root}/{folder}"):
            name = f"{folder}{entry.name}"
            try:
                status = entry.stat()
            except OSError:
                # An entry that is gone since the folder was listed is
                # none; what is there and cannot be read ends the landing.
                if entry.is_symlink():
                    entries.unreadable[name] = f"{_ABSENT} ({os.readlink(entry.path)!r})"
                elif os.path.lexists(entry.path):
                    raise
                continue
            if _is_nameless(name):
                entries.unreadable[os.fsencode(name).decode(errors="replace")] = _NAMELESS
                continue
            path, mtime_ns = f"{root}/{name}", status.st_mtime_ns
            if entry.is_symlink():
                entries.links[path] = os.path.realpath(entry.path)
            if stat.S_ISREG(status.st_mode):
                size = status.st_size
                entries.infos.append(fs.FileInfo(path, fs.FileType.File, mtime_ns=mtime_ns, size=size))
            elif stat.S_ISDIR(status.st_mode):
                real = entries.links.get(path, f"{around[-1]}/{entry.name}")
                if real in around:
                    entries.no_files[name] = _AROUND
                    continue
                entries.infos.append(fs.FileInfo(path, fs.FileType.Directory, mtime_ns=mtime_ns))
                folders.append((f"{name}/", (*around, real)))
            else:
                entries.no_files[name] = _NO_FILE.get(stat.S_IFMT(status.st_mode), "no file")
    return entries


def _scanned(folder: str) -> Iterator[os.DirEntry[str]]:
    """What is in it; nothing where it is gone meanwhile."""
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except FileNotFoundError:
        return


def _is_nameless(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return True
    return False
