"""Files of an object store, as pyarrow asks for them.

Owns every request but those that Delta makes by itself. Rule: as few requests as can be. A file is one PUT, written
when it is closed, so that a writer that dies leaves nothing. A small file is one GET, size included. Folders are made
by their files.
"""

import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from tempfile import SpooledTemporaryFile, gettempdir
from typing import Any, TypeVar

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from pyarrow import fs

from ..failures import last_cause
from .patience import patiently
from .requests import REQUESTS

T = TypeVar("T")
_PART_BYTES = 16 << 20
"""A file up to here is one PUT and waits in memory; a larger one waits on the disk and goes in such parts."""
_WHOLE_BYTES = 4 << 20
"""A file up to here is read at once; of a larger one, what is asked for."""
_PAGE = 1000
"""Names that one LIST gives."""


class ObjectFiles(fs.FileSystemHandler):  # type: ignore[misc]
    """The store at ``url``, whose paths begin with ``bucket``. A request that fails is made again for ``seconds``."""

    def __init__(self, store: Any, bucket: str, url: str, seconds: float) -> None:
        self.store, self._bucket, self._url, self._seconds = store, bucket, url, seconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectFiles) and self.store == other.store

    def __hash__(self) -> int:
        return hash(self._url)

    def get_type_name(self) -> str:
        return "object store"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[fs.FileInfo]:
        """A folder is there as long as something is in it."""
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """Raises FileNotFoundError where nothing is, unless the selector allows that."""
        base = selector.base_dir.rstrip("/")
        infos = self._below(base) if selector.recursive else self._in(base)
        if not infos and not selector.allow_not_found:
            raise FileNotFoundError(f"{self._url}: no folder {base}")
        return infos

    def open_input_file(self, path: str) -> pa.PythonFile:
        """Raises FileNotFoundError."""
        return pa.PythonFile(_Source(self, path), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        """Raises FileNotFoundError."""
        return self.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> pa.PythonFile:
        """It is there when it is closed."""
        return pa.PythonFile(_Sink(self, path), mode="w")

    def create_dir(self, path: str, recursive: bool) -> None:
        """Nothing: what is put into it makes it."""

    def delete_file(self, path: str) -> None:
        """One that is not there stays so."""
        self._delete([path])

    def delete_dir(self, path: str) -> None:
        """With all that is in it."""
        self._delete([entry.path for entry in self._below(path.rstrip("/")) if entry.type == fs.FileType.File])

    def copy_file(self, src: str, dest: str) -> None:
        """Within the store, where it need not be read."""
        self.ask("PUT", dest, lambda key: obstore.copy(self.store, self._key(src), key))

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise io.UnsupportedOperation("objects are never written again")

    def move(self, src: str, dest: str) -> None:
        raise io.UnsupportedOperation("objects are never renamed")

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        raise io.UnsupportedOperation("nobody empties a folder")

    def delete_root_dir_contents(self) -> None:
        raise io.UnsupportedOperation("nobody empties a bucket")

    def makes_once(self, path: str) -> bool:
        """Whether the store refuses to make a file that is there. ``path``: one that nobody has, gone afterwards."""
        self.make(path, b"")
        refuses = not self.make(path, b"")
        self.delete_file(path)
        return refuses

    def make(self, path: str, content: bytes) -> bool:
        """Make a file; False: there is one, perhaps by this call, whose first answer was lost."""

        def put(key: str) -> bool:
            try:
                obstore.put(self.store, key, content, mode="create")
            except AlreadyExistsError:
                return False
            return True

        return self.ask("PUT", path, put)

    def is_file(self, path: str) -> bool:
        """Whether it is there."""
        try:
            self._head(path)
        except FileNotFoundError:
            return False
        return True

    def names_in(self, folder: str, after: Callable[[], str]) -> list[str]:
        """Of the files below a folder, as paths from there. Where they are too many for one answer, only those whose
        names are greater than what ``after`` gives.
        """

        def listed(key: str, offset: str | None, *, is_whole: bool) -> list[str]:
            pages = obstore.list(self.store, f"{key}/", offset=offset, chunk_size=_PAGE)
            objects = pages.collect() if is_whole else next(iter(pages), [])
            return [each["path"].removeprefix(f"{key}/") for each in objects]

        names = self.ask("LIST", folder, partial(listed, offset=None, is_whole=False))
        if len(names) < _PAGE:
            return names
        begin = f"{self._key(folder)}/{after()}"
        return self.ask("LIST", folder, partial(listed, offset=begin, is_whole=True))

    # --- requests --------------------------------------------------------------------------------------------

    def ask(self, kind: str, path: str, request: Callable[[str], T], number: int = 1) -> T:
        """What ``request`` gives for the key of ``path``; it counts as ``number`` of its ``kind``.

        Raises FileNotFoundError, or OSError with the last cause when the time is up or the store refuses for good.
        """
        REQUESTS.count(kind, number)
        try:
            return patiently(lambda: request(self._key(path)), self._seconds)
        except (BaseError, OSError) as error:
            # What a PUT does not find is the bucket, or the source of a copy, so that is an error of the store.
            if _is_missing(error) and kind != "PUT":
                raise FileNotFoundError(f"{self._url}: no file {path}") from None
            scheme = self._url.partition(":")[0]
            raise OSError(f"Object store error: {kind} {scheme}://{path}: {last_cause(str(error))}") from error

    def get_whole(self, path: str) -> tuple[int, bytes | None]:
        """Size and bytes; no bytes of a file that is larger than those read at once."""

        def read(key: str) -> tuple[int, bytes | None]:
            # The answer has the size, for which a HEAD would be a second request; a larger body is not read.
            answer = obstore.get(self.store, key)
            size = answer.meta["size"]
            return size, bytes(answer.bytes()) if size <= _WHOLE_BYTES else None

        return self.ask("GET", path, read)

    def get_range(self, path: str, start: int, end: int) -> bytes:
        """The bytes ``[start, end)``, all of which are there."""
        return self.ask("GET", path, lambda key: bytes(obstore.get_range(self.store, key, start=start, end=end)))

    def put(self, path: str, content: Any, size: int) -> None:
        """All of ``content``, a file of ``size`` bytes, in the place of what may be there."""

        def write(key: str) -> None:
            # ``patiently`` may call this again after a part of the content was read.
            content.seek(0)
            whole = content.read() if size <= _PART_BYTES else content
            obstore.put(self.store, key, whole, chunk_size=_PART_BYTES, max_concurrency=4)

        # A multipart upload is a request to begin, one a part, and one to complete.
        self.ask("PUT", path, write, 1 if size <= _PART_BYTES else 2 + math.ceil(size / _PART_BYTES))

    def _head(self, path: str) -> Any:
        return self.ask("HEAD", path, lambda key: obstore.head(self.store, key))

    def _info(self, path: str) -> fs.FileInfo:
        path = path.rstrip("/")
        if self._key(path):
            try:
                return self._file(path, self._head(path))
            except FileNotFoundError:
                pass
        first = self.ask("LIST", path, lambda key: next(iter(obstore.list(self.store, f"{key}/", chunk_size=1)), []))
        return fs.FileInfo(path, fs.FileType.Directory if first else fs.FileType.NotFound)

    def _in(self, base: str) -> list[fs.FileInfo]:
        """What is in a folder, the folders without what is in them."""
        listed = self.ask("LIST", base, lambda key: obstore.list_with_delimiter(self.store, f"{key}/" if key else None))
        folders = [self._path(prefix) for prefix in listed["common_prefixes"]]
        files = [self._file(self._path(each["path"]), each) for each in listed["objects"]]
        # Consoles and Hadoop mark a folder by an empty object of its name, which is no file.
        marks = {base, *folders}
        return [
            *(fs.FileInfo(folder, fs.FileType.Directory) for folder in folders),
            *(file for file in files if file.size or file.path not in marks),
        ]

    def _below(self, base: str) -> list[fs.FileInfo]:
        """All that is below a folder, with the folders that this makes."""
        objects = self.ask(
            "LIST", base, lambda key: obstore.list(self.store, f"{key}/" if key else None).collect()
        )  # fmt: skip
        REQUESTS.count("LIST", (max(1, len(objects)) - 1) // _PAGE)
        files = [self._file(self._path(each["path"]), each) for each in objects]
        folders = sorted({folder for file in files for folder in _folders_above(file.path, base)})
        marks = {base, *folders}
        return [
            *(fs.FileInfo(folder, fs.FileType.Directory) for folder in folders),
            *(file for file in files if file.size or file.path not in marks),
        ]

    def _delete(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), _PAGE):
            page = paths[start : start + _PAGE]
            try:
                self.ask("DELETE", page[0], partial(self._delete_keys, [self._key(path) for path in page]))
            except FileNotFoundError:
                # What is not there need not be deleted: a first answer may have been lost. But some stores give that
                # as the answer for all of several, and leave the others, so each of them is asked for.
                if len(page) > 1:
                    for path in page:
                        self._delete([path])

    def _delete_keys(self, keys: Sequence[str], first: str) -> None:
        """``first``: of them."""
        obstore.delete(self.store, keys)

    def _key(self, path: str) -> str:
        return path.removeprefix(self._bucket).strip("/")

    def _path(self, key: str) -> str:
        return f"{self._bucket}/{key}".rstrip("/")

    def _file(self, path: str, meta: Any) -> fs.FileInfo:
        return fs.FileInfo(path, fs.FileType.File, size=meta["size"], mtime=meta["last_modified"])


def _is_missing(error: Exception) -> bool:
    """Whether a file is not there, and not all of its bucket."""
    is_there = re.search(r"NoSuchBucket|ContainerNotFound|bucket does not exist", str(error)) is None
    return isinstance(error, NotFoundError | FileNotFoundError) and is_there


def _folders_above(path: str, base: str) -> Iterator[str]:
    """Of a file's folders those below ``base``."""
    folder = path.rpartition("/")[0]
    while len(folder) > len(base):
        yield folder
        folder = folder.rpartition("/")[0]


class _Source:
    """A file that is read at any offset."""

    def __init__(self, files: ObjectFiles, path: str) -> None:
        self._files, self._path, self._offset, self.closed = files, path, 0, False
        self._size, self._whole = files.get_whole(path)

    def read(self, length: int | None = -1) -> bytes:
        end = self._size if length is None or length < 0 else min(self._size, self._offset + length)
        start, self._offset = self._offset, max(self._offset, end)
        if start >= end:
            return b""
        return self._files.get_range(self._path, start, end) if self._whole is None else self._whole[start:end]

    def seek(self, offset: int, whence: int = 0) -> int:
        self._offset = offset + (0, self._offset, self._size)[whence]
        return self._offset

    def tell(self) -> int:
        return self._offset

    def size(self) -> int:
        return self._size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        self.closed, self._whole = True, None


class _Sink:
    """A file that is being written."""

    def __init__(self, files: ObjectFiles, path: str) -> None:
        self._files, self._path, self.closed = files, path, False
        self._content = SpooledTemporaryFile(max_size=_PART_BYTES)  # noqa: SIM115  (closed with it)

    def write(self, piece: Any) -> int:
        with _in_temporary_folder():
            return self._content.write(memoryview(piece).cast("B"))

    def tell(self) -> int:
        return self._content.tell()

    def flush(self) -> None:
        """It is written when it is closed."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with self._content:
                with _in_temporary_folder():
                    self._content.flush()
                self._files.put(self._path, self._content, self._content.tell())


@contextmanager
def _in_temporary_folder() -> Iterator[None]:
    """An error of the disk names the folder, which a file without a name does not."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, gettempdir()) from error
