"""The proof that no file of a warehouse holds a key or certain bytes.

Owns the search. Rule: it looks at files and believes no log: every file below the root, whoever wrote it, and its name.
The bytes are searched for as they are, and in what Parquet and Arrow files have compressed or encoded, column by
column. Fewer bytes than ``LONG`` are found anywhere by chance: of such a key whole values are looked for, in tables
and not in ledgers and logs, which hold numbers, names and settings. A file that cannot be read proves nothing, so it is
reported like one that has something.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from urllib.parse import unquote_to_bytes

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from ...state.tables.kept_below import below, files_below, files_outside
from ...state.tables.names import BRANCHES, LANDING, LEDGER
from ...state.tables.object_stores import open_filesystem
from ...state.tables.sought import KEY_COLUMNS, Sought, is_text, leaves
from ..landing.files.avro_container import Container, ContainerError

_BLOCK = 8 << 20
_LOG = "_delta_log"
_PARQUET, _ARROW, _AVRO = (b"PAR1", b"PARE"), b"ARROW1", b"Obj\1"
_OTHER = "other"
_COMPRESSED = {
    b"\x1f\x8b\x08": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"BZh": "bz2",
    b"PK\3\4": _OTHER,
    b"\xfd7zXZ\0": _OTHER,
}
"""What files begin with whose bytes are compressed, and what Arrow calls it; _OTHER: it reads none of these."""
_MAGIC_BYTES = 6


@dataclass(frozen=True)
class Remains:
    """Where something is still found. ``place``: a file below the root; ``what``: a column and how many rows, or where
    else in the file.
    """

    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


def remains(root: str, sought: Sought) -> Iterator[Remains]:
    """Every place below ``root`` with something of what is sought, by file, and every file that cannot be read."""
    for name, why in files_outside(root).items():
        yield _unread(name, why)
    typed = dict[str, Remains]()
    for name in sorted(files_below(root)):
        # Writers of Delta percent-encode the values of partition columns in the names of folders.
        if sought.is_in(name.encode()) or sought.is_in(unquote_to_bytes(name)):
            yield Remains(name, "its name")
        with suppress(FileNotFoundError):  # deleted since it was listed
            yield from _in_file(root, name, sought, typed)
    yield from typed.values()


def _unread(name: str, why: object) -> Remains:
    return Remains(name, f"it cannot be read, so nothing is proved of it: {str(why).partition(chr(10))[0]}")


def _in_file(root: str, name: str, sought: Sought, typed: dict[str, Remains]) -> Iterator[Remains]:
    """``typed``: gets, by table, what is said of keys that nobody can compare."""
    filesystem, path = open_filesystem(below(root, name))
    counts, unread, begin = dict[str, int](), list[Remains](), b""
    with _unless_unread(name, unread), filesystem.open_input_file(path) as source:
        begin = source.read(_MAGIC_BYTES)
        for rows in _tables(source, _kind(name, begin)):
            column, count = _in_rows(rows, sought, is_book=_is_book(name))
            counts[column] = counts.get(column, 0) + count
            if sought.unread and not _is_book(name):
                typed |= {_table(name): Remains(_table(name), why) for why in _typed(rows, sought.unread)}
    hits = {column: count for column, count in counts.items() if count}
    for column, count in hits.items():
        yield Remains(name, f"column {column} of {count:,} {'row' if count == 1 else 'rows'}")
    if not hits:
        compression = next((how for magic, how in _COMPRESSED.items() if begin.startswith(magic)), None)
        with _unless_unread(name, unread):
            if _is_in_bytes(filesystem, path, compression, sought) or _is_in_blocks(filesystem, path, begin, sought):
                yield Remains(name, "its bytes")
    yield from unread[:1]


@contextmanager
def _unless_unread(name: str, unread: list[Remains]) -> Iterator[None]:
    """Add to ``unread`` where what is done with the file fails; FileNotFoundError goes through."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, ContainerError) as error:
        unread.append(_unread(name, error))


def _kind(name: str, begin: bytes) -> str | None:
    """Of a file of tables: which; an empty one has nothing, and any other is bytes alone."""
    if not begin:
        return None
    if name.endswith(".parquet") or begin.startswith(_PARQUET):
        return "parquet"
    return "arrow" if name.endswith(".arrow") or begin.startswith(_ARROW) else None


def _in_rows(rows: pa.Table, sought: Sought, *, is_book: bool) -> tuple[str, int]:
    """In which columns, and in how many rows."""
    columns = _columns(rows, sought.holds_anywhere if is_book else sought.holds)
    if is_book:
        return ", ".join(columns), len(rows) if columns else 0
    return ", ".join(columns) or "key", int(sought.rows(rows, mentions=True).sum())


def _typed(rows: pa.Table, unread: Sequence[bytes]) -> Iterator[str]:
    """Why it cannot be known whether a table has one of these keys: its own are read by a serde."""
    kinds = [str(rows[name].type) for name in KEY_COLUMNS if name in rows.column_names and not _is_bytes(rows[name])]
    if kinds:
        key = ", ".join(one.hex() for one in unread)
        yield f"it cannot be proved, since keys are {kinds[0]} here, and what {key} is as one is not known"


def _is_bytes(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type))


def _table(name: str) -> str:
    """The folder of a file's table, which is above those of its partitions."""
    return "/".join(takewhile(lambda folder: "=" not in folder, name.split("/")[:-1]))


def _is_book(name: str) -> bool:
    """Whether a file is of a ledger, of the registry of branches, or of a log."""
    folders = name.split("/")[:-1]
    is_ledger = folders[1:2] == [LEDGER] or (folders[:1] == [LANDING] and folders[2:3] == [LEDGER])
    return is_ledger or folders[:1] == [BRANCHES] or _LOG in folders


def _columns(rows: pa.Table, is_there: Callable[[pa.Array], np.ndarray]) -> list[str]:
    """Those with text or bytes of which ``is_there`` is true."""
    return [
        name
        for name in rows.column_names
        if any(bool(is_there(leaf).any()) for leaf, _ in leaves(rows[name]) if is_text(leaf.type))
    ]


def _tables(source: pa.NativeFile, kind: str | None) -> Iterator[pa.Table]:
    """Rows of a file of Parquet or Arrow."""
    if kind == "parquet":
        for batch in pq.ParquetFile(source).iter_batches():
            yield pa.Table.from_batches([batch])
    elif kind == "arrow":
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            yield pa.Table.from_batches([reader.get_batch(number)])


def _is_in_bytes(filesystem: fs.FileSystem, path: str, compression: str | None, sought: Sought) -> bool:
    """Also where they begin in one block and end in the next. Raises ValueError for what Arrow cannot uncompress."""
    if compression == _OTHER:
        raise ValueError("it is compressed in a way that Arrow does not read")
    if not sought.anywhere:
        return False
    most = max(map(len, sought.anywhere))
    end = b""
    with filesystem.open_input_stream(path, compression=compression) as stream:
        while block := stream.read(_BLOCK):
            if sought.is_in(end + block):
                return True
            # One byte less than the longest pattern: one that lies whole in what is kept was seen already.
            end = (end + block)[1 - most :]
    return False


def _is_in_blocks(filesystem: fs.FileSystem, path: str, begin: bytes, sought: Sought) -> bool:
    """Of a file of Avro, whose blocks may be compressed. Raises ContainerError for one that is damaged."""
    if not (begin.startswith(_AVRO) and sought.anywhere):
        return False
    with filesystem.open_input_file(path) as source:
        return any(sought.is_in(block.data) for block in Container(source).blocks())
