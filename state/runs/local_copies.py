"""Warm copies of state files on a worker's disk, as memory-mapped Arrow.

Owns a directory of copies, one folder a state file. Rule: a copy is made of one committed file, which never changes,
and is used only if its seal names that file, this form of rows and the files that were written. Else it is made again
from Delta. It never represents a file that is gone. So it may be deleted, damaged or belong to another warehouse, and
the disk may be full: that costs time and nothing else.
"""

import hashlib
import json
import logging
import os
import shutil
import tempfile
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..private_folders import private_folder
from ..tables.data_files import DataFile, conformed
from ..tables.parquet_reader import open_file, refuse_missing
from .sorted_runs import RowForm, SortedRun, due_index, run_of

CACHE_VARIABLE = "REPLAY_CACHE"
"""Environment variable that names the directory of warm copies."""

_FORMAT = 1
_READ_ROWS = 65_536
_UNFINISHED = "unfinished"
_ROWS, _HASHES, _DUE_TIMES, _DUE_ROWS, _SEAL = "rows.arrow", "hashes", "due_times", "due_rows", "seal.json"
_PARTS = (_ROWS, _HASHES, _DUE_TIMES, _DUE_ROWS)

_LOG = logging.getLogger(__name__)


def default_cache() -> str:
    """$REPLAY_CACHE, or a folder of this user's among the temporary files. Whoever reads it asks ``own_cache``."""
    return os.environ.get(CACHE_VARIABLE) or f"{tempfile.gettempdir()}/replay-cache-{os.geteuid()}"


def own_cache(cache: str) -> str:
    """The directory here of what the driver calls ``cache``: a worker's own $REPLAY_CACHE counts before it.

    It is made where it is not there. Raises StorageError for one that others may write.
    """
    return private_folder(os.environ.get(CACHE_VARIABLE) or cache, CACHE_VARIABLE)


@dataclass(frozen=True)
class StateFile:
    """A committed file and the path of its table."""

    table: str
    file: DataFile


def open_run(state_file: StateFile, form: RowForm, cache: str | None) -> SortedRun:
    """The rows of ``state_file``: from its warm copy, which is made if need be, or with no ``cache`` into memory."""
    if cache is None:
        return run_of(_whole(state_file, form), form)
    folder = _folder(cache, state_file)
    run = _sealed(folder, state_file, form)
    if run is not None:
        refuse_missing(state_file.table, [state_file.file])  # the copy lives longer than what it is a copy of
    else:
        _copy(state_file, form, cache, lambda rows: True)
        run = _sealed(folder, state_file, form)
    # There may be no room for it, or another process has deleted it, since ``forget_others`` takes no lock.
    return run_of(_whole(state_file, form), form) if run is None else run


def make_copy(state_file: StateFile, form: RowForm, cache: str, goes_on: Callable[[int], bool]) -> None:
    """Make the warm copy of ``state_file`` piece by piece, where there is none yet.

    ``goes_on``: called after each piece with the number of rows copied so far; False gives it up, and nothing of it
    stays.
    """
    if _sealed(_folder(cache, state_file), state_file, form) is None:
        _copy(state_file, form, cache, goes_on)


def copy_name(state_file: StateFile) -> str:
    """Name of a file's copy, the same in every cache."""
    return _folder("", state_file).as_posix()


def copies_in(cache: str) -> list[str]:
    """Names of the copies in a cache, whole ones, not looked into."""
    root = Path(cache)
    return [seal.parent.relative_to(root).as_posix() for seal in root.glob(f"*/*/*/{_SEAL}")]


def forget_others(cache: str, table: str, partition: int, files: Sequence[DataFile]) -> None:
    """Delete the copies of a table's partition that are not of ``files``, and what killed processes left unfinished."""
    unfinished = Path(cache) / _UNFINISHED
    for entry in unfinished.iterdir() if unfinished.is_dir() else ():
        if not _is_alive(int(entry.name.partition("-")[0])):
            shutil.rmtree(entry, ignore_errors=True)
    kept = {_folder(cache, StateFile(table, file)).name for file in files}
    folder = _table_folder(cache, table) / str(partition)
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.name not in kept:
            shutil.rmtree(entry, ignore_errors=True)


def folder_of(cache: str, table: str) -> str:
    """Where the copies of a table are, if there are any."""
    return str(_table_folder(cache, table))


def forget_table(cache: str, table: str) -> None:
    """Delete all copies of a table; those that are needed are made again."""
    shutil.rmtree(_table_folder(cache, table), ignore_errors=True)


class RunWriter:
    """Writes the copy of a file whose rows come piece by piece, by rising hash. Nobody sees it before ``close``. Where
    the disk does not take it, the copy is given up, with a warning.
    """

    def __init__(self, cache: str, table: str, form: RowForm) -> None:
        self.cache, self.table, self.form = cache, table, form
        self.is_given_up = False
        self._folder = Path(cache) / _UNFINISHED / f"{os.getpid()}-{uuid.uuid4().hex}"
        self._files = ExitStack()
        self._due: list[tuple[np.ndarray, np.ndarray]] = []
        self._starts: list[int] = []
        self._length = 0
        self._try(self._open)

    def write(self, rows: pa.Table) -> None:
        """Append rows of the form's schema."""
        for batch in rows.select(self.form.schema.names).combine_chunks().to_batches(_READ_ROWS):
            self._try(partial(self._append, batch))

    def close(self, file: DataFile | None) -> None:
        """The copy is that of ``file``, which is written now; None: there is no such file."""
        self._try(self._files.close)
        if file is not None:
            self._try(partial(self._seal, StateFile(self.table, file)))
        shutil.rmtree(self._folder, ignore_errors=True)

    def _open(self) -> None:
        self._folder.mkdir(parents=True)
        self._hashes = self._files.enter_context((self._folder / _HASHES).open("wb"))
        file = self._files.enter_context(pa.OSFile(str(self._folder / _ROWS), "wb"))
        self._rows = self._files.enter_context(pa.ipc.new_file(file, self.form.schema))

    def _append(self, batch: pa.RecordBatch) -> None:
        self._rows.write_batch(batch)
        self._starts.append(self._length)
        piece = pa.Table.from_batches([batch])
        self._hashes.write(self.form.hashes(piece).tobytes())
        self._due.append(due_index(self.form.due(piece), self._length))
        self._length += len(batch)

    def _seal(self, state_file: StateFile) -> None:
        nothing = np.zeros(0, np.int64)
        times = np.concatenate([nothing, *(times for times, _ in self._due)])
        rows = np.concatenate([nothing, *(rows for _, rows in self._due)])
        order = np.argsort(times, kind="stable")
        times[order].tofile(self._folder / _DUE_TIMES)
        rows[order].tofile(self._folder / _DUE_ROWS)
        parts = {name: _part(self._folder / name) for name in _PARTS}
        content = {"source": _source(state_file, self.form), "starts": self._starts, "parts": parts}
        (self._folder / _SEAL).write_text(_signed(content))
        target = _folder(self.cache, state_file)
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # another process made the same copy
            self._folder.rename(target)

    def _try(self, work: Callable[[], None]) -> None:
        if self.is_given_up:
            return
        try:
            work()
        except OSError as error:
            self.is_given_up = True
            _LOG.warning("no warm copy of state of %s in %s, so it is slower: %s", self.table, self.cache, error)
            with suppress(OSError):
                self._files.close()
            shutil.rmtree(self._folder, ignore_errors=True)  # others need the room


# --- one copy -----------------------------------------------------------------------------------------------------


def _sealed(folder: Path, state_file: StateFile, form: RowForm) -> SortedRun | None:
    """The copy in ``folder``, or None when it is not there, not of this file and form, or damaged."""
    try:
        content = _checked((folder / _SEAL).read_text())
        if content is None or content["source"] != _source(state_file, form):
            return None
        parts = {name: _part(folder / name, content["parts"][name]) for name in _PARTS}
        if any(parts[name]["crc"] != content["parts"][name]["crc"] for name in _PARTS):
            return None
        if parts != content["parts"]:  # moved or copied, and whole
            (folder / _SEAL).write_text(_signed(content | {"parts": parts}))
        reader = pa.ipc.open_file(pa.memory_map(str(folder / _ROWS)))
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        starts = np.array(content["starts"], np.int64)
        return SortedRun(batches, starts, _mapped(folder / _HASHES, np.uint64), *(
            _mapped(folder / name, np.int64) for name in (_DUE_TIMES, _DUE_ROWS)
        ))  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowInvalid):
        return None


def _part(path: Path, known: dict[str, int] | None = None) -> dict[str, int]:
    """Size, identity and checksum of a file. What was not written to since ``known`` is not read again: nothing but a
    write, or a copy, changes the time at which the file system says its inode was changed.
    """
    stat = path.stat()
    identity = {"bytes": stat.st_size, "changed_ns": stat.st_ctime_ns, "inode": stat.st_ino}
    if known is not None and identity == {name: known[name] for name in identity}:
        return dict(known)
    crc = 0
    with path.open("rb") as source:
        while block := source.read(1 << 22):
            crc = zlib.crc32(block, crc)
    return identity | {"crc": crc}


def _mapped(path: Path, kind: type) -> np.ndarray:
    if path.stat().st_size == 0:
        return np.zeros(0, kind)
    return np.memmap(path, kind, "r").view(np.ndarray)


def _source(state_file: StateFile, form: RowForm) -> dict[str, Any]:
    """What a copy was made of."""
    return {
        "format": _FORMAT,
        "table": state_file.table,
        "file": state_file.file.path,
        "bytes": state_file.file.bytes,
        "form": form.name,
        "schema": str(form.schema),
    }


def _signed(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True)
    return json.dumps({"content": text, "crc": zlib.crc32(text.encode())})


def _checked(text: str) -> dict[str, Any] | None:
    signed = json.loads(text)
    if zlib.crc32(signed["content"].encode()) != signed["crc"]:
        return None
    content: dict[str, Any] = json.loads(signed["content"])
    return content


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _table_folder(cache: str, table: str) -> Path:
    return Path(cache) / hashlib.sha256(os.path.abspath(table).encode()).hexdigest()[:16]


def _folder(cache: str, state_file: StateFile) -> Path:
    file = state_file.file
    return _table_folder(cache, state_file.table) / str(file.partition) / Path(file.path).stem


# --- from Delta ---------------------------------------------------------------------------------------------------


def _whole(state_file: StateFile, form: RowForm) -> pa.Table:
    pieces = list(_pieces(state_file, form))
    return pa.concat_tables(pieces) if pieces else form.schema.empty_table()


def _pieces(state_file: StateFile, form: RowForm) -> Iterator[pa.Table]:
    with open_file(state_file.table, state_file.file) as opened:
        for batch in opened.rows().iter_batches(_READ_ROWS, columns=form.schema.names):
            yield conformed(pa.Table.from_batches([batch]), form.schema)


class _Unsorted(Exception):
    """Rows of a file are not sorted by rising hash."""


def _copy(state_file: StateFile, form: RowForm, cache: str, goes_on: Callable[[int], bool]) -> None:
    """Make the copy again: of rows as they are in the file, unless it was written in another order."""
    shutil.rmtree(_folder(cache, state_file), ignore_errors=True)
    try:
        _write(state_file, form, cache, _rising(_pieces(state_file, form), form), goes_on)
    except _Unsorted:
        run = run_of(_whole(state_file, form), form)
        _write(state_file, form, cache, [run.part(0, len(run), form.schema)], goes_on)


def _write(
    state_file: StateFile, form: RowForm, cache: str, pieces: Iterable[pa.Table], goes_on: Callable[[int], bool]
) -> None:
    writer, copied, is_whole = RunWriter(cache, state_file.table, form), 0, False
    try:
        for piece in pieces:
            writer.write(piece)
            copied += len(piece)
            if writer.is_given_up or not goes_on(copied):
                return
        is_whole = True
    finally:
        writer.close(state_file.file if is_whole else None)


def _rising(pieces: Iterable[pa.Table], form: RowForm) -> Iterator[pa.Table]:
    """``pieces``, as long as their rows are sorted by rising hash; then raises _Unsorted."""
    last = 0
    for piece in pieces:
        hashes = form.hashes(piece)
        if len(hashes) and (int(hashes[0]) < last or (hashes[1:] < hashes[:-1]).any()):
            raise _Unsorted
        last = int(hashes[-1]) if len(hashes) else last
        yield piece
