"""The proof that no file of a warehouse holds a key or certain bytes.

Owns the search. Rule: it looks at files and believes no log: every file below the root, whoever wrote it, and its name.
The bytes are searched for as they are, and in what Parquet and Arrow files have compressed or encoded, column by
column. Fewer bytes than ``LONG`` are found anywhere by chance: of such a key whole values are looked for, in tables
and not in ledgers and logs, which hold numbers, names and settings.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...state.tables.kept_below import files_below
from ...state.tables.names import BRANCHES, LANDING, LEDGER
from ...state.tables.object_stores import open_filesystem
from ...state.tables.sought import Sought, is_text, leaves

_BLOCK = 8 << 20
_LOG = "_delta_log"


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
    """Every place below ``root`` with something of what is sought, by file."""
    for name in sorted(files_below(root)):
        # Writers of Delta percent-encode the values of partition columns in the names of folders.
        if sought.is_in(name.encode()) or sought.is_in(unquote(name).encode()):
            yield Remains(name, "its name")
        in_columns = list(_in_columns(root, name, sought))
        yield from in_columns
        if not in_columns and _is_in_bytes(root, name, sought):
            yield Remains(name, "its bytes")


def _in_columns(root: str, name: str, sought: Sought) -> Iterator[Remains]:
    counts: dict[str, int] = {}
    is_book = _is_book(name)
    for rows in _tables(root, name):
        has_it = sought.rows(rows, mentions=True) if not is_book else np.zeros(0, np.bool_)
        columns = _columns(rows, sought.holds_anywhere if is_book else sought.holds)
        count = len(rows) if is_book and columns else int(has_it.sum())
        where = ", ".join(columns) or "key"
        counts |= {where: counts.get(where, 0) + count} if count else {}
    for column, count in counts.items():
        yield Remains(name, f"column {column} of {count:,} {'row' if count == 1 else 'rows'}")


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


def _tables(root: str, name: str) -> Iterator[pa.Table]:
    """Rows of a Parquet or an Arrow file; of another, or of one that is not whole: none, its bytes are searched."""
    filesystem, path = open_filesystem(f"{root}/{name}")
    try:
        if name.endswith(".parquet"):
            with filesystem.open_input_file(path) as source:
                for batch in pq.ParquetFile(source).iter_batches():
                    yield pa.Table.from_batches([batch])
        elif name.endswith(".arrow"):
            with filesystem.open_input_file(path) as source:
                reader = pa.ipc.open_file(source)
                for number in range(reader.num_record_batches):
                    yield pa.Table.from_batches([reader.get_batch(number)])
    except (pa.ArrowException, OSError, ValueError):
        return


def _is_in_bytes(root: str, name: str, sought: Sought) -> bool:
    """Also where they begin in one block and end in the next."""
    if not sought.anywhere:
        return False
    filesystem, path = open_filesystem(f"{root}/{name}")
    most = max((len(pattern) for pattern in sought.anywhere), default=0)
    end = b""
    try:
        with filesystem.open_input_stream(path, compression=None) as stream:
            while block := stream.read(_BLOCK):
                if sought.is_in(end + block):
                    return True
                # One byte less than the longest pattern: one that lies whole in what is kept was seen already.
                end = (end + block)[1 - most :]
    except FileNotFoundError:  # deleted since it was listed
        return False
    return False
