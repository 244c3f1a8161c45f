"""Where a run touches the disk, seen from outside: pyarrow's files, Delta's transactions, Python's own files.

Owns the watching. Rule: nothing in the code under test knows of it. So new ways of writing are watched too, as long as
they go through pyarrow, delta-rs or Python. (tests/laws/syscalls.py sees everything, but needs a process
of its own.)
"""

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.table import TableOptimizer
from pyarrow import fs

from kstreams_replay.state.tables import object_files, object_stores
from kstreams_replay.state.tables.warehouse import Warehouse


@dataclass(frozen=True)
class StorageStep:
    """One thing that is about to be done below the watched folder. ``half`` leaves it as if the process had died in
    the middle; None: it is done as a whole or not at all.
    """

    name: str
    path: str
    half: Callable[[], None] | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.path}"


OnStep = Callable[[StorageStep], None]
"""Called with a step before it is done. What it raises comes out of the call that was about to do it."""


class _Watch:
    """The one watch of the process, while there is one."""

    root: str = ""
    on_step: OnStep | None = None
    last_opened: str = ""
    """By Python."""
    is_dead: bool = False
    """``on_step`` has raised what nobody catches: files that are still open get nothing more."""


_watch = _Watch()


@contextmanager
def watched(root: Any, on_step: OnStep) -> Iterator[None]:
    """Call ``on_step`` with everything that this process is about to do to files below ``root``."""
    assert _watch.on_step is None, "one watch at a time"
    _listen_to_python()
    kept = fs.LocalFileSystem, object_files.ObjectFiles, pa.OSFile
    fs.LocalFileSystem, object_files.ObjectFiles, pa.OSFile = _WatchedFiles, _watched_store, _open_watched
    object_stores._opened.cache_clear()
    _watch.root, _watch.on_step, _watch.is_dead = str(root), on_step, False
    try:
        with _watched_tables():
            yield
    finally:
        (fs.LocalFileSystem, object_files.ObjectFiles, pa.OSFile), _watch.on_step = kept, None
        object_stores._opened.cache_clear()


def above(warehouse: Warehouse) -> str:
    """Where to watch what is done to a warehouse: the folder, or the prefix of an object store, that holds it."""
    return _plain(warehouse.root.rpartition("/")[0])


def _plain(place: str) -> str:
    """A URI as pyarrow's path: without its scheme."""
    return place.partition("://")[2] or place


def _tell(name: str, path: Any, half: Callable[[], None] | None = None) -> None:
    if _watch.on_step is not None and isinstance(path, str) and path.startswith(_watch.root):
        try:
            _watch.on_step(StorageStep(name, path.removeprefix(_watch.root).lstrip("/"), half))
        except BaseException as death:
            _watch.is_dead = not isinstance(death, Exception)
            raise


# --- pyarrow -------------------------------------------------------------------------------------------------


class _WatchedFiles(fs.PyFileSystem):
    """Replaces ``LocalFileSystem``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(_Handler(_LOCAL))


def _watched_store(*arguments: Any) -> "_StoreHandler":
    """Replaces ``ObjectFiles``."""
    return _StoreHandler(fs.PyFileSystem(_OBJECTS(*arguments)))


_OBJECTS = object_files.ObjectFiles
_LOCAL, _OS_FILE = fs.LocalFileSystem(), pa.OSFile


def _open_watched(path: str, mode: str = "r", **options: Any) -> Any:
    """Replaces ``OSFile``."""
    if mode.startswith("r"):
        return _OS_FILE(path, mode, **options)
    _tell("open", path)
    return pa.PythonFile(_Stream(path, _OS_FILE(path, mode, **options)), mode="w")


class _Handler(fs.FileSystemHandler):
    """Calls ``files`` for everything; a call that changes them is reported first."""

    def __init__(self, files: fs.FileSystem) -> None:
        self.files = files

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handler)

    def __hash__(self) -> int:
        return 0

    def get_type_name(self) -> str:
        return "watched"

    def normalize_path(self, path: str) -> str:
        return self.files.normalize_path(path)

    def get_file_info(self, paths: list[str]) -> Any:
        return self.files.get_file_info(paths)

    def get_file_info_selector(self, selector: fs.FileSelector) -> Any:
        return self.files.get_file_info(selector)

    def open_input_stream(self, path: str) -> Any:
        return self.files.open_input_stream(path, compression=None)

    def open_input_file(self, path: str) -> Any:
        return self.files.open_input_file(path)

    def create_dir(self, path: str, recursive: bool) -> None:
        if self.files.get_file_info(path).type == fs.FileType.NotFound:
            _tell("make folder", path)
        self.files.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        _tell("delete folder", path, lambda: self._delete_half(path))
        self.files.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        _tell("empty folder", path, lambda: self._delete_half(path))
        self.files.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        raise AssertionError("nobody empties the root of a file system")

    def delete_file(self, path: str) -> None:
        _tell("delete", path)
        self.files.delete_file(path)

    def move(self, src: str, dest: str) -> None:
        _tell("move", src)
        self.files.move(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        _tell("copy", dest)
        self.files.copy_file(src, dest)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        _tell("open", path)
        return pa.PythonFile(_Stream(path, self.files.open_output_stream(path, compression=None)), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        _tell("open", path)
        return pa.PythonFile(_Stream(path, self.files.open_append_stream(path, compression=None)), mode="w")

    def _delete_half(self, path: str) -> None:
        entries = sorted(self.files.get_file_info(fs.FileSelector(path)), key=lambda entry: entry.path)
        for entry in entries[: (len(entries) + 1) // 2]:
            (self.files.delete_file if entry.type == fs.FileType.File else self.files.delete_dir)(entry.path)


class _StoreHandler(_Handler):
    """Of an object store, where an object is there as a whole or not at all."""

    def create_dir(self, path: str, recursive: bool) -> None:
        """What is put into it makes it."""

    def makes_once(self, path: str) -> bool:
        """As of the store's own."""
        return bool(self.files.handler.makes_once(path))

    def make(self, path: str, content: bytes) -> bool:
        """As of the store's own."""
        _tell("make", path)
        return bool(self.files.handler.make(path, content))

    def is_file(self, path: str) -> bool:
        """As of the store's own."""
        return bool(self.files.handler.is_file(path))

    def names_in(self, folder: str, after: Callable[[], str]) -> list[str]:
        """As of the store's own."""
        return list(self.files.handler.names_in(folder, after))

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        _tell("open", path)
        return pa.PythonFile(_Upload(path, self.files.open_output_stream(path, compression=None)), mode="w")


class _Stream:
    """A file being written: reported when it is about to be whole."""

    def __init__(self, path: str, sink: Any) -> None:
        self.path, self.sink, self.is_told = path, sink, False

    @property
    def closed(self) -> bool:
        return bool(self.sink.closed)

    def write(self, piece: bytes) -> int:
        if not _watch.is_dead:
            self.sink.write(piece)
        return len(piece)

    def flush(self) -> None:
        self.sink.flush()

    def tell(self) -> int:
        return int(self.sink.tell())

    def close(self) -> None:
        if not (self.is_told or _watch.is_dead):  # once, since whoever clears up closes again
            self.is_told = True
            _tell("close", self.path, self._cut_short)
        self.sink.close()

    def _cut_short(self) -> None:
        self.sink.close()
        os.truncate(self.path, os.path.getsize(self.path) // 2)


class _Upload(_Stream):
    """An object being written, which is made by its close: before, there is none."""

    def close(self) -> None:
        if not (self.is_told or _watch.is_dead):
            self.is_told = True
            _tell("close", self.path)
        if not _watch.is_dead:
            self.sink.close()


# --- Delta ---------------------------------------------------------------------------------------------------

READS = frozenset(
    {
        "count", "deletion_vectors", "file_uris", "generate", "get_add_actions", "history", "is_deltatable",
        "load_as_version", "load_cdf", "metadata", "partitions", "protocol", "scan", "schema", "to_pandas",
        "to_pyarrow_dataset", "to_pyarrow_table", "transaction_version", "update_incremental", "version",
    }
)  # fmt: skip
"""Methods of a table that change nothing. Every other one is a step."""


@contextmanager
def _watched_tables() -> Iterator[None]:
    kept: list[tuple[type, str, Any]] = []
    for kind in (DeltaTable, TableOptimizer):
        for name, method in list(vars(kind).items()):
            if not name.startswith("_") and name not in READS and isinstance(method, Callable | classmethod):
                kept.append((kind, name, method))
                setattr(kind, name, _told(name, method))
    try:
        yield
    finally:
        for kind, name, method in kept:
            setattr(kind, name, method)


def _told(name: str, method: Any) -> Any:
    """``method``; its table's path is reported before the call. ``create`` on a table that is there does nothing."""
    if isinstance(method, classmethod):

        @functools.wraps(method.__func__)
        def on_class(cls: type, place: Any, *args: Any, **options: Any) -> Any:
            if not DeltaTable.is_deltatable(str(place), options.get("storage_options")):
                _tell(name.replace("_", " "), _plain(str(place)))
            return method.__func__(cls, place, *args, **options)

        return classmethod(on_class)

    @functools.wraps(method)
    def on_table(self: Any, *args: Any, **options: Any) -> Any:
        table = self if isinstance(self, DeltaTable) else self.table
        _tell(name.replace("_", " "), _plain(table.table_uri).rstrip("/"))
        return method(self, *args, **options)

    return on_table


# --- Python --------------------------------------------------------------------------------------------------

_EVENTS = {
    "os.remove": "remove",
    "os.rmdir": "remove folder",
    "os.mkdir": "make folder",
    "os.link": "link",
    "os.symlink": "link",
    "os.truncate": "truncate",
    "shutil.rmtree": "remove tree",
}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@functools.cache
def _listen_to_python() -> None:
    """Python's audit events; a hook cannot be taken away again, and is deaf without a watch."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if _watch.on_step is None:
            return
        path = _text(args[0]) if args else ""
        if event == "open" and isinstance(args[2], int) and args[2] & _WRITES:
            is_emptied = args[2] & os.O_TRUNC and os.path.isfile(path)
            _tell("open", path, (lambda: os.truncate(path, 0)) if is_emptied else None)
            _watch.last_opened = path
        elif event == "os.rename":
            written = _watch.last_opened  # it, or a file in it
            has_it = written.startswith(path) and os.path.isfile(written)
            _tell("rename", path, (lambda: os.truncate(written, os.path.getsize(written) // 2)) if has_it else None)
        elif event in _EVENTS:
            _tell(_EVENTS[event], path)

    sys.addaudithook(hook)


def _text(path: Any) -> str:
    return os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
