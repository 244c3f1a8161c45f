"""What a user names as files: a directory, one file, or a glob.

Owns the step to a directory and a pattern. Rule: a glob means what it means to a shell; what is there under such a name
counts first.
"""

from glob import escape, has_magic

from pyarrow import fs

from ....state.errors import ConfigError
from ....state.tables.object_stores import open_filesystem

ALL = "*"


def named_files(path: str, pattern: str = ALL) -> tuple[str, str]:
    """Directory and pattern. Raises ConfigError for a file or a glob beside a ``pattern``."""
    filesystem, place = open_filesystem(path)
    kind = filesystem.get_file_info(place).type
    is_glob = kind == fs.FileType.NotFound and has_magic(path)
    if kind != fs.FileType.File and not is_glob:
        return path, pattern
    if pattern != ALL:
        next_step = "leave --pattern out, or name the directory"
        raise ConfigError(f"--files {path}", "a directory beside a pattern", f"pattern {pattern!r}", next_step)
    parts = path.split("/")
    cut = next(number for number, part in enumerate(parts) if has_magic(part)) if is_glob else len(parts) - 1
    below = "/".join(parts[cut:])
    folder = "/".join(parts[:cut]) or ("/" if path.startswith("/") else ".")
    return folder, f"./{below if is_glob else escape(below)}"
