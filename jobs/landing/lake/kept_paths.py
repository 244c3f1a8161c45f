"""Paths of files as a table's log has them, kept below the folders of the table.

Owns the step from a path in a log to a name, and the refusal of one that leads elsewhere. Rule: a path is a name below
the table, or an absolute one. An absolute one is known by the folder of the table that it is below, and where it is
below none of them no table takes it.
"""

import os
import re
from collections.abc import Sequence

from ....state.errors import LandingError
from ....state.tables.kept_below import why_outside

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_HERE = re.compile(r"file:(?://)?(?=/[^/])")
"""What a URI of this machine has before its path."""
_S3A = re.compile(r"\As3[an]://")
"""What Hadoop calls the same store."""


def plain(uri: str) -> str:
    """A path, where it is of this machine."""
    here = _HERE.match(uri)
    return (uri if here is None else uri[here.end() :]).rstrip("/")


def name_and_root(path: str, roots: Sequence[str]) -> tuple[str, str | None]:
    """What a file is called, and the folder that it is below; None: the first of ``roots``, or no other. A file that is
    not below the first of them has its whole path as its name.
    """
    if _ABSOLUTE.match(path) is None:
        return path, None
    whole = _S3A.sub("s3://", plain(path), count=1)
    for number, root in enumerate(roots):
        prefix = f"{_comparable(root)}/"
        if whole.startswith(prefix):
            name = whole.removeprefix(prefix)
            return (f"{root}/{name}", root) if number else (name, None)
    return plain(path), None


def own_name(name: str, root: str | None) -> str:
    """Below its folder, of a file's name and that folder as ``name_and_root`` says them."""
    return name if root is None else name.removeprefix(f"{root}/")


def refuse_elsewhere(table: str, roots: Sequence[str], name: str, root: str | None) -> None:
    """Raises LandingError for a file of ``table`` that is not below one of its folders, ``roots``."""
    if (why := why_outside(own_name(name, root))) is not None:
        raise LandingError(
            table, f"files below {' or '.join(roots)}", f"{name[:200]!r} in its log, {why}",
            "find out who wrote it; where files elsewhere are meant (a shallow clone, files that were added by their "
            "paths), copy the rows into a table that has them below it",
        )  # fmt: skip


def _comparable(root: str) -> str:
    here = plain(root)
    return _S3A.sub("s3://", here, count=1) if "://" in here else os.path.abspath(here)
