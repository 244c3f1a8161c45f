"""Delta's log of a table in an object store, copied to this machine as far as it was read.

Owns the requests for logs of tables that are open at their newest version. Rule: an entry never changes, so each is
read once, and Delta reads the copy. It commits to the copy, too: what it wrote there is a commit once the store has
taken it by one conditional put. Where another was first, its entries come into the copy, and Delta judges them. What
this cannot copy (checkpoints in parts, a lock beside the store) Delta reads and writes in the store by itself.
"""

import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from .object_stores import is_locked_elsewhere, is_remote, open_filesystem

_ENTRY = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_NEEDLESS = re.compile(r"\d{20}\.crc|_last_checkpoint|_commit_.*|\..*|")
_HINT = "_last_checkpoint"
_AT_ONCE = 8
"""So many entries are asked for at a time: a store answers each after some ten milliseconds."""


class KeptLog:
    """``table``: a folder of this machine with the log of the table at ``path``; it goes with this object."""

    def __init__(self, path: str) -> None:
        """Raises TableNotFoundError where there is no log."""
        self._path = path
        self._files, root = open_filesystem(path)
        self._root = f"{root}/_delta_log"
        self._folder = TemporaryDirectory(prefix="replay-log-")
        self.table = self._folder.name
        self._log = Path(self.table) / "_delta_log"
        self.is_whole = False
        """Whether all that Delta needs is here."""
        self.newest = self.oldest = -1
        """Versions of the newest and of the oldest entry that is here."""
        self._load()

    @staticmethod
    def of(path: str) -> "KeptLog | None":
        """None: Delta reads and writes it by itself. Raises TableNotFoundError."""
        if not is_remote(path) or is_locked_elsewhere(path):
            return None
        kept = KeptLog(path)
        return kept if kept.is_whole else None

    def refresh(self) -> None:
        """Read the entries that came since."""
        if self._read_behind() or self._is_there(self.newest):
            return
        # Entries go from the oldest on (state/tables/log_cleanup.py), so the next one may have come and gone.
        self.is_whole = False
        with suppress(TableNotFoundError):
            self._load()
        if not self.is_whole:
            raise DeltaError(f"the log of {self._path} was replaced while it was open")

    def has_history(self, version: int, limit: int | None) -> bool:
        """Whether the entries of the last ``limit`` versions up to ``version`` are here; None: of all."""
        return self.oldest <= (0 if limit is None else max(0, version - limit + 1))

    def publish(self) -> bool:
        """Whether the store takes what Delta has just written behind the newest entry. If not, another was first: then
        his entries are here in its place.

        Raises CommitFailedError where entries behind the newest one came and went, OSError when the store fails.
        """
        version = self.newest + 1
        name, hint = _entry(version), self._log / _HINT
        content = (self._log / name).read_bytes()
        try:
            is_made = self._files.handler.make(f"{self._root}/{name}", content)
            if not is_made and self._read(name) != content:  # else the answer to a first try was lost
                self._forget(version)
                if not self._read_behind():
                    raise OSError(f"{self._path}: the store refused version {version}, and does not have it")
                return False
        except BaseException:
            self._forget(version)
            raise
        if not self._is_there(self.newest):
            self._files.delete_file(f"{self._root}/{name}")
            self._forget(version)
            raise CommitFailedError(f"{self._path}: version {version} was committed by another, and is history")
        self.newest = version
        checkpoint = self._log / _checkpoint(version)
        if checkpoint.exists():
            self._write(checkpoint.name, checkpoint.read_bytes())
            self._write(_HINT, hint.read_bytes())
        return True

    def _load(self) -> None:
        names = self._files.handler.names_in(self._root, self._hint)
        if not any(map(_ENTRY.fullmatch, names)):
            raise TableNotFoundError(f"no log files in {self._path}/_delta_log")
        newest, begin = _version(names, _ENTRY), _version(names, _CHECKPOINT)
        # Its entry too where it is the newest: it says who committed.
        oldest = min(newest, begin + 1)
        wanted = [_checkpoint(begin)] * (begin >= 0) + [_entry(version) for version in range(oldest, newest + 1)]
        self.is_whole = {*wanted} <= {*names} and all(map(_is_known, names))
        if not self.is_whole:
            return None
        self._log.mkdir(exist_ok=True)
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            contents = [*threads.map(self._read, wanted)]
        for name, content in zip(wanted, contents, strict=True):
            if content is None:  # it went meanwhile, since there is a newer checkpoint
                return self._load()
            (self._log / name).write_bytes(content)
        self.newest, self.oldest = newest, oldest
        return None

    def _read_behind(self) -> bool:
        """Whether there is something behind the newest entry; it is here now."""
        before = self.newest
        while (content := self._read(_entry(self.newest + 1))) is not None:
            (self._log / _entry(self.newest + 1)).write_bytes(content)
            self.newest += 1
        return self.newest > before

    def _forget(self, version: int) -> None:
        """What Delta wrote here of a version that is not its own."""
        for name in (_entry(version), _checkpoint(version), _HINT):
            (self._log / name).unlink(missing_ok=True)

    def _is_there(self, version: int) -> bool:
        is_there: bool = self._files.handler.is_file(f"{self._root}/{_entry(version)}")
        return is_there

    def _hint(self) -> str:
        """How the names of a checkpoint in the store and of all behind it begin; "": it is not known."""
        try:
            return f"{int(json.loads(self._read(_HINT) or b'')['version']):020}"
        except (ValueError, TypeError, KeyError):
            return ""

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


def _entry(version: int) -> str:
    return f"{version:020}.json"


def _checkpoint(version: int) -> str:
    return f"{version:020}.checkpoint.parquet"


def _version(names: Sequence[str], kind: re.Pattern[str]) -> int:
    """The highest; -1: there is none."""
    return max((int(match[1]) for match in map(kind.fullmatch, names) if match is not None), default=-1)


def _is_known(name: str) -> bool:
    return any(kind.fullmatch(name) for kind in (_ENTRY, _CHECKPOINT, _NEEDLESS))
