"""Numba's cache on disk, written by several processes.

Owns the locks, and how a version is written. Rule: one process at a time writes to a folder, code before the index that
names it. Numba takes no lock and writes the index first. Two processes that compile a function for different arguments
would write the same file, and a reader could find old code under a new name. An index that names a class which has
moved since (a bundle of arrays) is that of another version, and counts as empty.

Numba's files are pickles and machine code, so the folder is as private as the code itself. Beside the installed modules
it belongs to whoever installed them. One that is named in $NUMBA_CACHE_DIR must be this user's, root's or that
installer's, and nobody else may write it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from ..private_folders import refuse_shared

FOLDER_VARIABLE = "NUMBA_CACHE_DIR"
"""Environment variable of Numba's that names the folder of its cache."""

WRITING, COMPILING = "replay-writing.lock", "replay-compiling.lock"


@contextmanager
def alone(folder: str, name: str) -> Iterator[None]:
    """While no other process is within the same; its end lets the lock go, however it ends."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        yield
        return
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@lru_cache(maxsize=1024)
def refuse_foreign(folder: str) -> None:
    """Raises StorageError for a ``folder`` of Numba's, below $NUMBA_CACHE_DIR, that others may write. Of kernels there
    are many, and of their folders few.
    """
    if os.environ.get(FOLDER_VARIABLE):
        refuse_shared(folder, FOLDER_VARIABLE, owners={0, os.geteuid(), os.stat(__file__).st_uid})


def write_in_turn(dispatcher: Any) -> None:
    """Let ``dispatcher`` write what it compiles under the lock, and read no index of another version. The names are
    Numba's own; its version is pinned. Raises StorageError for a folder that others may write.
    """
    file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if file is None:  # Numba is switched off, or no folder can be written to
        return

    refuse_foreign(file._cache_path)
    load_index = file._load_index

    def load() -> dict[Any, str]:
        try:
            index: dict[Any, str] = load_index()
        except (AttributeError, ImportError):
            return {}
        return index

    def save(key: Any, compiled: Any) -> None:
        with alone(file._cache_path, WRITING):
            names = file._load_index()
            numbers = (file._data_name(number) for number in range(1, len(names) + 2))
            name = names.get(key) or next(name for name in numbers if name not in names.values())
            file._save_data(name, compiled)
            file._save_index({**names, key: name})

    file._load_index, file.save = load, save
