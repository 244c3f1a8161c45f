"""Delta's log of a table in an object store, copied to this machine as far as it was read.

Owns the requests for logs of tables that are open at their newest version. Rule: an entry never changes, so each is
read once, and Delta reads the copy. It commits to the copy, too: what it wrote there is a commit once the store has
taken it by one conditional put. Where another was first, its entries come into the copy, and Delta judges them. What
this cannot copy (checkpoints in parts, a lock beside the store, no room here) Delta reads and writes in the store by
itself.
"""

import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from ..failures import last_cause
from ..process_folder import process_folder
from .delta_log import ENTRY, entry_name
from .object_stores import is_locked_elsewhere, is_remote, open_filesystem

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_NEEDLESS = re.compile(r"\d{20}\.crc|_last_checkpoint|_commit_.*|\..*|")
_HINT = "_last_checkpoint"
_HERE = "LocalFileSystem error"
"""In the words of Delta: this machine refused, and no store."""
_LOOKS = 3
"""At a log from which names go while it is read."""
_AT_ONCE = 8
"""So many entries are asked for at a time: a store answers each after some ten milliseconds."""


class KeptLog:
    """``table``: a folder of this machine with the log of the table at ``path``; it goes with this object."""

    def __init__(self, path: str) -> None:
        """Raises TableNotFoundError where there is no log."""
        self._path = path
        self._files, root = open_filesystem(path)
        self._root = f"{root}/_delta_log"
        self._folder = TemporaryDirectory(prefix="log-", dir=process_folder())
        self.table = self._folder.name
        self._log = Path(self.table) / "_delta_log"
        self._log.mkdir()
        self.newest = self.oldest = -1
        """Versions of the newest and of the oldest entry that is here."""
        self.is_whole = self._load()
        """Whether all that Delta needs is here."""

    @staticmethod
    def of(path: str) -> "KeptLog | None":
        """None: Delta reads and writes it by itself. Raises TableNotFoundError."""
        if not is_remote(path) or is_locked_elsewhere(path):
            return None
        try:
            kept = KeptLog(path)
        except OSError as error:
            if error.errno is None:  # of the store
                raise
            return None
        return kept if kept.is_whole else None

    def refresh(self) -> None:
        """Read the entries that came since. Raises DeltaError where the table was made again."""
        self._forget()
        if self._read_behind() or self._is_there(self.newest):
            return
        # Entries go from the oldest on (state/tables/log_cleanup.py), so the next one may have come and gone.
        is_newer = False
        with suppress(TableNotFoundError):
            is_newer = self._load()
        if not is_newer:
            raise DeltaError(f"the log of {self._path} was replaced while it was open")

    def has_history(self, version: int, limit: int | None) -> bool:
        """Whether the entries of the last ``limit`` versions up to ``version`` are here; None: of all."""
        return self.oldest <= (0 if limit is None else max(0, version - limit + 1))

    def commit(self, write: Callable[[], None]) -> None:
        """Let Delta ``write`` an entry behind the newest one, until the store takes it. Where another was first, his
        entries are here when Delta is asked again.

        Raises what ``write`` raises, CommitFailedError where entries behind the newest one came and went, OSError when
        the store fails.
        """
        is_taken = False
        while not is_taken:
            self._forget()
            try:
                write()
            except (OSError, DeltaError) as error:
                if _HERE in str(error):  # without its path
                    raise OSError(f"{self._log}: {last_cause(str(error))}") from error
                raise
            is_taken = self._publish()

    def _publish(self) -> bool:
        """Whether the store takes what Delta has just written. If not, the entries of another are here in its place."""
        version = self.newest + 1
        name = entry_name(version)
        content = (self._log / name).read_bytes()
        is_made = self._files.handler.make(f"{self._root}/{name}", content)
        if not is_made and self._read(name) != content:  # else the answer to a first try was lost
            self._forget()
            if not self._read_behind():
                # S3 refuses (409) while somebody else puts this name, and that may fail: worth another try.
                raise OSError(f"Object store error: PUT {self._path}: version {version} was refused, and is not there")
            return False
        if not self._is_there(self.newest):
            self._files.delete_file(f"{self._root}/{name}")
            raise CommitFailedError(f"{self._path}: version {version} was committed by another, and is history")
        self.newest = version
        checkpoint = self._log / _checkpoint(version)
        if checkpoint.exists():
            self._write(checkpoint.name, checkpoint.read_bytes())
            self._write(_HINT, (self._log / _HINT).read_bytes())
        return True

    def _load(self) -> bool:
        """Whether all is here now that Delta needs for a newer version than was here."""
        for _ in range(_LOOKS):
            names = self._files.handler.names_in(self._root, self._hint)
            if not any(map(ENTRY.fullmatch, names)):
                raise TableNotFoundError(f"no log files in {self._path}/_delta_log")
            newest, begin = _version(names, ENTRY), _version(names, _CHECKPOINT)
            # Its entry too where it is the newest: it says who committed.
            oldest = min(newest, begin + 1)
            wanted = [_checkpoint(begin)] * (begin >= 0) + [
                entry_name(version) for version in range(oldest, newest + 1)
            ]
            is_known = {*wanted} <= {*names} and all(map(_is_known, names))
            if not is_known or begin > newest or newest <= self.newest:
                return False
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                are_here = [*threads.map(self._copy, wanted)]
            if all(are_here):
                self.newest, self.oldest = newest, oldest
                return True
            # Some went meanwhile, since there is a newer checkpoint.
        return False

    def _read_behind(self) -> bool:
        """Whether there is something behind the newest entry; it is here now."""
        before = self.newest
        while self._copy(entry_name(self.newest + 1)):
            self.newest += 1
        return self.newest > before

    def _copy(self, name: str) -> bool:
        """Whether the store has it; it is here now. Raises OSError with its path here where there is no room."""
        content, path = self._read(name), self._log / name
        if content is not None:
            try:
                path.write_bytes(content)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(path)) from error
        return content is not None

    def _forget(self) -> None:
        """What is here behind the newest entry: the store did not take it, or it was not read to its end."""
        for file in self._log.iterdir():
            version = file.name.partition(".")[0]
            if not version.isdigit() or int(version) > self.newest:
                file.unlink()

    def _is_there(self, version: int) -> bool:
        is_there: bool = self._files.handler.is_file(f"{self._root}/{entry_name(version)}")
        return is_there

    def _hint(self) -> str:
        """How the names of a checkpoint in the store and of all behind it begin; "": it is not known."""
        try:
            version = int(json.loads(self._read(_HINT) or b"")["version"])
        except (ValueError, TypeError, KeyError):
            return ""
        return f"{version:020}" if self._is_there(version) else ""

    def _read(self, name: str) -> bytes | None:
        try:
            with self._files.open_input_stream(f"{self._root}/{name}") as stream:
                content: bytes = stream.read()
        except FileNotFoundError:
            return None
        return content

    def _write(self, name: str, content: bytes) -> None:
        with self._files.open_output_stream(f"{self._root}/{name}") as stream:
            stream.write(content)


def _checkpoint(version: int) -> str:
    return f"{version:020}.checkpoint.parquet"


def _version(names: Sequence[str], kind: re.Pattern[str]) -> int:
    """The highest; -1: there is none."""
    return max((int(match[1]) for match in map(kind.fullmatch, names) if match is not None), default=-1)


def _is_known(name: str) -> bool:
    return any(kind.fullmatch(name) for kind in (ENTRY, _CHECKPOINT, _NEEDLESS))
