"""Folders of this machine that only we may write: what is read from them is believed.

Owns the rule who else may write a folder. Rule: it belongs to this user, is no symbolic link, and nobody else may write
it. Every folder above it belongs to this user or to root. Where others may write one, they can replace nothing in it
(its sticky bit is set, as of the folder of temporary files). A group that has its owner's number is that owner's own,
as systems make one for each user. What cannot be said to be private is refused, and its mode is not changed, since its
content may be somebody else's already.
"""

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress

from .errors import StorageError

_ROOT = 0


def private_folder(folder: str, variable: str) -> str:
    """``folder``, which is made for this user alone where it is not there (mode 0700, those above it likewise).

    ``variable``: of the environment, which names another folder. Raises StorageError for one that is not private.
    """
    missing, path = [], os.path.abspath(folder)
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    for each in reversed(missing):
        with suppress(FileExistsError):  # another process has made it; whose it is, is looked at below
            os.mkdir(each, 0o700)
    refuse_shared(folder, variable, owners=[os.geteuid()])
    return folder


def refuse_shared(folder: str, variable: str, *, owners: Collection[int]) -> None:
    """Raises StorageError for a folder, which is there, that another than ``owners`` has or may write.

    ``owners``: numbers of users; ``variable``: of the environment, which names another folder.
    """
    status = os.lstat(folder)
    if stat.S_ISLNK(status.st_mode):
        raise _shared(folder, "a symbolic link", variable)
    if not stat.S_ISDIR(status.st_mode):
        raise _shared(folder, "no folder", variable)
    if status.st_uid not in owners:
        raise _shared(folder, f"one of user {status.st_uid}", variable)
    if _may_others_write(status):
        raise _shared(folder, f"mode {stat.S_IMODE(status.st_mode):04o}, so that others may write it", variable)
    trusted = {_ROOT, os.geteuid(), *owners}
    for above, its in _above(os.path.realpath(folder)):
        if its.st_uid not in trusted:
            raise _shared(folder, f"one below {above}, of user {its.st_uid}", variable)
        if _may_others_write(its) and not its.st_mode & stat.S_ISVTX:
            mode = f"mode {stat.S_IMODE(its.st_mode):04o}"
            raise _shared(folder, f"one below {above}, of {mode}, in which others may replace it", variable)


def _above(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    while (above := os.path.dirname(folder)) != folder:
        yield above, os.lstat(above)
        folder = above


def _may_others_write(status: os.stat_result) -> bool:
    is_group_shared = status.st_gid != status.st_uid
    return bool(status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and is_group_shared))


def _shared(folder: str, got: str, variable: str) -> StorageError:
    return StorageError(
        f"folder {folder}", "a folder that only this user may write", got,
        f"name another by {variable}, or delete it; if nobody else had a hand in it, `chmod go-w` is enough",
    )  # fmt: skip
