"""What a user names as files: a directory, one file, or a glob.

Owns the step to a directory and a pattern, and what a pattern matches. Rule: a glob means what it means to a shell;
what is there under such a name counts first.
"""

import os
from collections.abc import Sequence
from fnmatch import fnmatch
from glob import escape, has_magic
from urllib.parse import unquote

from pyarrow import fs

from ....state.errors import ConfigError
from ....state.tables.object_stores import open_filesystem

ALL = "*"


def named_files(path: str, pattern: str = ALL) -> tuple[str, str]:
    """Directory and pattern. Raises ConfigError for a file or a glob beside a ``pattern``."""
    filesystem, location = open_filesystem(path)
    kind = filesystem.get_file_info(location).type
    is_file = kind == fs.FileType.File or (isinstance(filesystem, fs.LocalFileSystem) and _leads_nowhere(location))
    is_glob = kind == fs.FileType.NotFound and has_magic(path) and not is_file
    if not is_file and not is_glob:
        return path, pattern
    if pattern != ALL:
        next_step = "leave --pattern out, or name the directory"
        raise ConfigError(f"--files {path}", "a directory beside a pattern", f"pattern {pattern!r}", next_step)
    parts = path.split("/")
    cut = next(number for number, part in enumerate(parts) if has_magic(part)) if is_glob else len(parts) - 1
    below = "/".join(parts[cut:])
    if path.startswith("file://"):
        below = unquote(below)  # the folder stays a URI, and a pattern is of names as they are
    folder = "/".join(parts[:cut]) or ("/" if path.startswith("/") else ".")
    return folder, f"./{below if is_glob else escape(below)}"


def _leads_nowhere(path: str) -> bool:
    """Is it a link to what is not there?"""
    return os.path.islink(path) and not os.path.exists(path)


def matches(name: str, pattern: str) -> bool:
    """Of a path below the directory: by its last part, or by the whole where ``pattern`` has a slash. One that begins
    with ./ is matched folder by folder, as a shell does. ``**`` as a part is any number of folders, also none.
    """
    parts, patterns = name.split("/"), pattern.removeprefix("./").split("/")
    if pattern.startswith("./"):
        return _matches_by_folder(parts, patterns)
    if len(patterns) == 1:
        return fnmatch(parts[-1], pattern)
    return fnmatch(name, pattern) or ("**" in patterns and _matches_by_folder(parts, patterns))


def _matches_by_folder(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    if not parts or not patterns:
        return not parts and all(pattern == "**" for pattern in patterns)
    if patterns[0] == "**":
        return _matches_by_folder(parts, patterns[1:]) or _matches_by_folder(parts[1:], patterns)
    return fnmatch(parts[0], patterns[0]) and _matches_by_folder(parts[1:], patterns[1:])


def hidden_by(name: str, pattern: str, topic: str | None = None) -> str | None:
    """The path up to the first part that begins with ``.`` or ``_``; None where no part does, unless a part of
    ``pattern`` begins so, too, and matches it. ``topic``: of the file, by its path; its name hides nothing.
    """
    parts, patterns = name.split("/"), pattern.split("/")
    for number, part in enumerate(parts, 1):
        if not part.startswith((".", "_")):
            continue
        is_topic = topic is not None and (part == topic or (number == len(parts) and part.startswith(topic)))
        if not is_topic and not any(each.startswith(part[0]) and fnmatch(part, each) for each in patterns):
            return "/".join(parts[:number])
    return None
