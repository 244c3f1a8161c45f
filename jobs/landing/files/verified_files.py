"""Files that a landing has read whole and found to be what it had landed: so that the next landing reads them no more.

Owns a small file beside the ledger of the topic's landing, for landings with nothing new, which write no plan that
could name them. Rule: it decides nothing alone. It names the digest a file had when it had these bytes and this time;
the ledger decides whether a file of that digest has landed. So it may be old, damaged or gone: a file that is not in it
is read again.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pyarrow import fs

from ....state.errors import StorageError
from ....state.tables.kept_below import below
from ....state.tables.object_stores import open_filesystem

Verified = Mapping[str, Mapping[str, Any]]
"""Path of a file → its `bytes`, `mtime_ns`, `digest`, and `content` where that is another, as in a plan."""


def read_verified(path: str) -> dict[str, dict[str, Any]]:
    """What was written last; {} where there is nothing that can be believed."""
    with suppress(OSError, ValueError, LookupError, TypeError, StorageError):
        filesystem, location = open_filesystem(_not_linked(path))
        if filesystem.get_file_info(location).type != fs.FileType.File:
            return {}
        with filesystem.open_input_stream(location) as file:
            written = json.loads(file.read())
        if written["digest"] == _digest(written["files"]):
            return dict(written["files"])
    return {}


def write_verified(path: str, files: Verified) -> None:
    """Write it again. Where it cannot be written, files are read again, as they would be without it."""
    with suppress(OSError, StorageError):
        filesystem, location = open_filesystem(_not_linked(path))
        with filesystem.open_output_stream(location) as file:
            file.write(json.dumps({"digest": _digest(files), "files": files}).encode())


def _not_linked(path: str) -> str:
    """``path``. Raises StorageError for a symbolic link."""
    folder, _, name = path.rpartition("/")
    return below(folder, name)


def _digest(files: Verified) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
