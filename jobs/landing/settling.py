"""Rows of one partition that have offsets of Kafka: sorted, and each offset once.

Owns what an offset that comes again means. Rule: with the same bytes (key, value, time, headers) it lands once and is
counted, whether the other is in these files or has landed. With other bytes it is refused, and so is an offset below
what has landed that has not landed itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.errors import LandingError
from ...state.tables.data_files import DataFile, read_rows
from ...state.tables.warehouse import LANDED_SCHEMA

_COMPARED = {"timestamp": "time", "key": "key", "value": "value", "headers": "headers"}


@dataclass(frozen=True)
class Settled:
    """``rows``: those that land. ``twice``: how many came again in the same files; ``landed``: had landed before;
    ``changed``: offsets of landed ones that have other bytes now, where they are not refused.
    """

    rows: pa.Table
    twice: int = 0
    landed: int = 0
    changed: tuple[int, ...] = ()


@dataclass(frozen=True)
class LandedBefore:
    """What has landed: live files of the table in the directory ``path``. ``erased``: by partition, offsets of records
    whose content is gone, so that any bytes are taken for theirs.
    """

    path: str
    files: Sequence[DataFile]
    erased: Mapping[int, Sequence[int]] = field(default_factory=dict)

    def rows(self, partition: int, first: int, last: int) -> pa.Table:
        """Of the offsets from ``first`` to ``last``."""
        files = [f for f in self.files if f.partition == partition and f.may_hold("offset", first, last)]
        rows = read_rows(self.path, files, LANDED_SCHEMA)
        within = pc.and_(pc.greater_equal(rows["offset"], first), pc.less_equal(rows["offset"], last))
        return rows.filter(within).sort_by("offset").combine_chunks()


@dataclass(frozen=True)
class Settling:
    """Rows of ``partition``, of the files ``names`` of the directory ``path``. ``begin``: the offset after the last
    landed one. ``landed``: to compare with; None: it has been compared. ``has_headers``: files say them.
    ``reports``: other bytes than those that have landed are reported, and not refused.
    """

    path: str
    names: Sequence[str]
    partition: int
    begin: int
    landed: LandedBefore | None
    has_headers: bool
    reports: bool = False

    def settle(self, rows: pa.Table, *, is_sorted: bool) -> Settled:
        """``rows``: as of the landed table, with the number of their file as `file`. Raises LandingError."""
        offset = rows["offset"].to_numpy()
        if not is_sorted and (offset[1:] < offset[:-1]).any():
            rows = rows.take(pc.sort_indices(rows, [("offset", "ascending")]))
            offset = rows["offset"].to_numpy()
        again = np.flatnonzero(offset[1:] == offset[:-1]) + 1
        if len(again):
            rows = rows.combine_chunks()
            # Each repetition is compared with the row before it: where none differs, all rows of an offset are equal.
            other = _first(self._differing(rows.take(pa.array(again - 1)), rows.take(pa.array(again))))
            if other is not None:
                self._refuse_other(rows, int(again[other[0]]), other[1])
            rows = rows.take(pa.array(np.delete(np.arange(len(rows)), again)))
            offset = rows["offset"].to_numpy()
        below = int(np.searchsorted(offset, self.begin))
        changed: tuple[int, ...] = ()
        if below and self.landed is not None:
            changed = self._compare(rows.slice(0, below).combine_chunks(), self.landed)
        return Settled(rows.slice(below), len(again), below - len(changed), changed)

    def _compare(self, rows: pa.Table, landed: LandedBefore) -> tuple[int, ...]:
        """Offsets of those that are others now, if they are reported."""
        offset = rows["offset"].to_numpy()
        there = landed.rows(self.partition, int(offset[0]), int(offset[-1]))
        known = there["offset"].to_numpy()
        indices = np.searchsorted(known, offset)
        is_known = indices < len(known)
        is_known[is_known] = known[indices[is_known]] == offset[is_known]
        if not is_known.all():
            row = int(np.flatnonzero(~is_known)[0])
            expected = f"offsets of partition {self.partition} from {self.begin} on, or records that have landed"
            got = f"offset {offset[row]}, with which no record has landed"
            self._refuse(rows, row, expected, got)
        is_there = ~np.isin(offset, np.asarray(landed.erased.get(self.partition, ()), np.int64))
        pairs = self._differing(there.take(pa.array(indices)), rows)
        differs = {word: mask & is_there for word, mask in pairs.items()}
        if self.reports:
            return tuple(offset[np.logical_or.reduce(list(differs.values()))].tolist())
        if (other := _first(differs)) is not None:
            row, word = other
            expected = f"the record of offset {offset[row]} of partition {self.partition} that has landed"
            self._refuse(rows, row, expected, f"another {word}")
        return ()

    def _differing(self, one: pa.Table, other: pa.Table) -> dict[str, np.ndarray]:
        """What two tables may differ in, and which rows do."""
        masks = {}
        for column, word in _COMPARED.items():
            if column == "headers":
                pairs = zip(one[column].to_pylist(), other[column].to_pylist(), strict=True) if self.has_headers else ()
                # Kafka has no null headers, so null and an empty list are the same ones.
                differs = np.array([(a or []) != (b or []) for a, b in pairs], np.bool_)
                differs = differs if self.has_headers else np.zeros(len(one), np.bool_)
            else:
                a, b = one[column], other[column]
                equal = pc.fill_null(pc.equal(a, b), False)
                differs = ~pc.or_(equal, pc.and_(pc.is_null(a), pc.is_null(b))).to_numpy(zero_copy_only=False)
            masks[word] = differs
        return masks

    def _refuse_other(self, rows: pa.Table, row: int, field: str) -> NoReturn:
        before = self.names[rows["file"][row - 1].as_py()]
        expected = f"offset {rows['offset'][row]} of partition {self.partition} once, or again with the same bytes"
        self._refuse(rows, row, expected, f"another {field} than in {before}")

    def _refuse(self, rows: pa.Table, row: int, expected: str, got: str) -> NoReturn:
        name = self.names[rows["file"][row].as_py()]
        next_step = (
            "take out the file that is wrong; where the folder has several topics, name the column of the topic "
            "(--topic-column)"
        )
        raise LandingError(f"{self.path}/{name}", expected, got, next_step)


def _first(differs: Mapping[str, np.ndarray]) -> tuple[int, str] | None:
    """The first row that differs, and in what; of several the first."""
    firsts = [(int(np.argmax(mask)), word) for word, mask in differs.items() if mask.any()]
    return min(firsts, key=lambda each: each[0], default=None)
