"""A table of a lake as of one version: its files, what of them counts, and what changed since another version.

Owns these words, the same for Delta and Iceberg. Rule: the rows of a table are those that its own log says: the files
of the version without the rows that were deleted in them, with the values that only the log has.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .kept_paths import own_name, refuse_elsewhere
from .table_columns import TableColumns

Bounds = Mapping[str, tuple[Any, Any]]
"""Column (a.b: field b of a) to a least and a largest value of it in a file, which none of its rows is beyond.
They are of columns of integers and text, and of times where every row has one. Some may be missing.
"""


def numbers_of(bounds: Bounds, column: str | None) -> tuple[int, int] | None:
    """The bounds of a column of integers; None: they are not known, or are of text, whose order is another one."""
    least, most = bounds.get(column or "", (None, None))
    return (least, most) if isinstance(least, int) and isinstance(most, int) else None


@dataclass(frozen=True, slots=True)
class LakeFile:
    """``name``: below the table's root; of a file below another folder of the table, ``root``, its whole path.
    ``records``: with those deleted; None: the log does not say. ``constants``: columns that the log has of all its
    rows. ``deleted``: numbers of rows from 0, rising; None: none.
    """

    name: str
    bytes: int
    records: int | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    deleted: np.ndarray | None = None
    bounds: Bounds = field(default_factory=dict)
    root: str | None = None

    @property
    def own_name(self) -> str:
        """Below its folder."""
        return own_name(self.name, self.root)


@dataclass(frozen=True, slots=True)
class LakeChanges:
    """What was done between two versions. ``added``: names of files of the newer one with rows that came; ``moved``:
    those whose rows were in other files before. ``passed``: bounds of files that came and are gone again, since their
    rows moved. ``touched``: bounds of files of which rows were deleted or changed.
    ``did``: the statements that did, in words. ``unknown``: why nothing of all this is known; None: it is.
    ``is_other_table``: it was deleted and created again since.
    """

    added: frozenset[str] = frozenset()
    moved: frozenset[str] = frozenset()
    passed: tuple[Bounds, ...] = ()
    touched: tuple[Bounds, ...] = ()
    did: tuple[str, ...] = ()
    unknown: str | None = None
    is_other_table: bool = False

    @property
    def is_nothing(self) -> bool:
        """Whether no row came, moved, changed or went."""
        return not (self.added or self.moved or self.touched or self.unknown)


@dataclass(frozen=True)
class LakeTable:
    """``place``: as a user calls it; ``root``: below which names of files are. ``id``: by which it is known though it
    moves. ``version``: number of Delta's, or Iceberg's snapshot. ``upserts``: asks by what it is known that it
    keeps the last value of a key alone; None: by nothing. ``since``: what changed since a version that had files of the
    given digest (None: it is not known). ``is_before``: whether it came before a version that the table still has.
    ``other_roots``: further folders that its files may be below. Raises LandingError for a file that is below none of
    them.
    """

    format: str
    place: str
    root: str
    id: str
    version: int
    columns: TableColumns
    files: tuple[LakeFile, ...]
    since: Callable[[int, str | None], LakeChanges]
    upserts: Callable[[], str | None]
    is_before: Callable[[int], bool]
    other_roots: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        place, roots = f"{self.format} table {self.place}", (self.root, *self.other_roots)
        for file in self.files:
            refuse_elsewhere(place, roots, file.name, file.root)

    @cached_property
    def files_digest(self) -> str:
        """Of its files: what a version of this number has to have again, to be this one."""
        return digest_of(self.files)

    @property
    def version_word(self) -> str:
        """What its versions are called."""
        return "snapshot" if self.format == "Iceberg" else "version"


def digest_of(files: Iterable[LakeFile]) -> str:
    """Of the names and lengths of files, in whatever order they come."""
    known = sorted((file.name, file.bytes) for file in files)
    return hashlib.blake2b(repr(known).encode(), digest_size=8).hexdigest()
