"""A task of a landing from files: the second pass over some slices, which writes or checks their records.

Owns the rows of the landed table. Rule: without an order, records land as they lie in the files, by flushes of about
FILE_BYTES. With an order, the rows of a task are sorted together in memory, unless they lie in their order already.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.tables.data_files import DataFile
from ...state.tables.in_place import no_headers
from ...state.tables.parquet_writer import write_task_file
from ...state.tables.warehouse import LANDED_SCHEMA
from .bad_rows import dead_letters
from .file_source import FileSource
from .files.kept_records import KeptRecords
from .files.key_spans import as_key, as_scalar
from .files.known_files import PlanOutdated
from .files.ordered_tasks import Range
from .files.reading import SliceReading, as_they_stand
from .files.records import FileRecords, read_slice
from .files.side_by_side import THREADS, SideBySide
from .files.streams import FileSlice, is_as_planned
from .landing_rules import RowRules
from .settling import LandedBefore, Settled, Settling

FILE_BYTES = 128 << 20
"""About the size in memory of what goes into the files of one flush, and of rows that are sorted together."""

_WRITERS = min(2, THREADS)
"""So many files are written at once, and one more flush waits."""


@dataclass(frozen=True)
class Order:
    """How a task orders its rows. ``ranges``: (partition, from key, to key) of those that it takes, None: all;
    ``streams``: they are in order where they are.
    """

    ranges: Sequence[Range] | None
    streams: bool

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"ranges": None if self.ranges is None else list(map(list, self.ranges)), "streams": self.streams}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Order":
        """The reverse of ``to_dict``."""
        ranges = fields["ranges"]
        return cls(None if ranges is None else [(p, begin, end) for p, begin, end in ranges], fields["streams"])

    def masks(self, records: FileRecords) -> Iterator[np.ndarray]:
        """Of each range, which of ``records`` are in it."""
        assert self.ranges is not None
        assert records.order is not None
        for p, begin, end in self.ranges:
            mask = records.partition == p
            for key, compare in ((begin, pc.greater_equal), (end, pc.less)):
                if key is not None and mask.any():
                    mask &= compare(records.order, as_scalar(key)).to_numpy(zero_copy_only=False)
            yield mask


class _NumberedRows(NamedTuple):
    """Rows of one file and their offsets."""

    partition: int
    rows: pa.Table
    offset: np.ndarray


@dataclass(frozen=True)
class WriteTask:
    """A task that writes the records of its slices, and their dead letters; ``first``: the next offset of each
    partition; ``directories``: of both tables. ``order`` None: they land as they lie there. ``landed``: of a check, to
    compare with. ``kept``: records of the first pass, where this process has them.
    """

    source: FileSource
    slices: Sequence[FileSlice]
    rules: RowRules
    first: dict[int, int]
    directories: tuple[str, str]
    increment: int
    name: str
    order: Order | None = None
    landed: LandedBefore | None = None
    kept: KeptRecords | None = None

    def run(self) -> dict[str, Any]:
        """Written files, of both tables; `changed` names a file that is not as planned."""
        letters: list[pa.Table] = []
        try:
            written = SideBySide(self._numbered(letters), self._write, _WRITERS, first_alone=False)
            files = [file for _, file in written]
        except PlanOutdated as changed:
            return {"changed": str(changed)}
        kept = []
        # The generator fills `letters` while the files are written, so they are whole only behind them.
        if letters:
            table = pa.concat_tables(letters)
            kept.append(write_task_file(self.directories[1], table, partition=0, name=self.name))
        return {
            "changed": None,
            "files": [file.to_dict() for file in files],
            "dead_letters": [file.to_dict() for file in kept],
        }

    def _numbered(self, letters: list[pa.Table]) -> Iterator[_NumberedRows]:
        """What is written, file by file."""
        following = dict(self.first)
        for p, settled in self._settled(letters):
            if len(settled.rows):
                yield _NumberedRows(p, settled.rows, self._numbers(settled.rows, p, following))

    def _write(self, rows: _NumberedRows) -> DataFile:
        table = _landed_rows(rows.rows, rows.partition, rows.offset, self.increment)
        return write_task_file(self.directories[0], table, partition=rows.partition, name=self.name)

    def check(self) -> dict[str, Any]:
        """What would be written: `landing`, by partition number, least and largest key; how many rows come `twice` or
        have `landed`; by partition offsets of landed ones that are `others` now, where they are not refused.
        """
        landing: dict[str, list[Any]] = {}
        changed: dict[str, list[int]] = {}
        twice = landed = 0
        try:
            for p, settled in self._settled([]):
                twice, landed = twice + settled.twice, landed + settled.landed
                if settled.changed:
                    changed.setdefault(str(p), []).extend(settled.changed)
                if rows := len(settled.rows):
                    order = settled.rows["offset"]
                    ends = as_key(order[0]), as_key(order[rows - 1])
                    # Pieces of a partition come in their order: the first
                    # has the least key, the last one so far the largest.
                    count, least, _ = landing.get(str(p), [0, *ends])
                    landing[str(p)] = [count + rows, least, ends[1]]
        except PlanOutdated as changed:
            return {"changed": str(changed)}
        return {"changed": None, "landing": landing, "twice": twice, "landed": landed, "others": changed}

    def _numbers(self, rows: pa.Table, p: int, following: dict[int, int]) -> np.ndarray:
        """Offsets of ``rows``; ``following`` moves on."""
        if self.source.offset is not None:
            return np.asarray(rows["offset"].combine_chunks())
        first = following[p]
        following[p] += len(rows)
        return np.arange(first, following[p], dtype=np.int64)

    def _settled(self, letters: list[pa.Table]) -> Iterator[tuple[int, Settled]]:
        """Rows that land, of one partition, piece by piece in their order; none is empty."""
        is_whole = self.order is not None and not self.order.streams
        for held in _flushes(self._blocks(letters), None if is_whole else FILE_BYTES):
            for p, masks in self._masks([records for _, records in held]):
                own = [(number, records.filter(mask)) for (number, records), mask in zip(held, masks, strict=True)]
                settled = self._settle(p, _table([each for each in own if len(each[1].partition)] or own[:1]))
                if len(settled.rows) or settled.landed or settled.changed:
                    yield p, settled

    def _masks(self, blocks: Sequence[FileRecords]) -> Iterator[tuple[int, list[np.ndarray]]]:
        """(a partition, which of its records in each block go together)."""
        if self.order is not None and self.order.ranges is not None:
            of_blocks = [list(self.order.masks(records)) for records in blocks]
            for number, (p, _, _) in enumerate(self.order.ranges):
                yield p, [masks[number] for masks in of_blocks]
        else:
            for p in np.unique(np.concatenate([records.partition for records in blocks])).tolist():
                yield p, [records.partition == p for records in blocks]

    def _settle(self, p: int, rows: pa.Table) -> Settled:
        if self.order is None:
            return Settled(rows)
        if self.source.offset is None:
            # Arrow sorts stably, so rows of equal keys stay in the order of names.
            return Settled(rows if self.order.streams else rows.take(pc.sort_indices(rows, [("offset", "ascending")])))
        names = [piece.name for piece in self.slices]
        settling = Settling(
            self.source.path, names, p, self.first[p], self.landed, has_headers=self.source.headers is not None,
            reports=self.source.reports_changes,
        )  # fmt: skip
        return settling.settle(rows, is_sorted=self.order.streams)

    def _blocks(self, letters: list[pa.Table]) -> Iterator[tuple[int, FileRecords]]:
        """Records with the number of their slice, those that the task takes."""
        for number, piece in enumerate(self.slices):
            for records in self._read(piece, letters):
                if self.order is not None and self.order.ranges is not None:
                    mask = np.zeros(len(records.partition), np.bool_)
                    for each in self.order.masks(records):
                        mask |= each
                    if mask.any():
                        yield number, records.filter(mask)
                else:
                    yield number, records

    def _read(self, piece: FileSlice, letters: list[pa.Table]) -> Iterator[FileRecords]:
        """Records of a slice; then its dead letters are among ``letters``. PlanOutdated when the file changed."""
        # Also where its records were kept: they are of the file as it was counted, and the plan is of that one.
        if not is_as_planned(self.source, piece):
            raise PlanOutdated(piece.name)
        if self.kept is not None and (kept := self.kept.of(piece)) is not None:
            yield from kept
            return
        reading = SliceReading(self.source, piece, self.rules, takes_digests=False, keeps=None)
        yield from read_slice(reading)
        # A slice may be read by several tasks of ranges; its bad rows
        # are written by the one task with no range (`with_order`).
        if reading.bad and not (self.order is not None and self.order.ranges):
            rows = as_they_stand(self.source, piece, reading.bad)
            letters.append(dead_letters(rows, reading.bad, piece.name, self.increment))
        # A file may have changed while it was read, so it is asked again behind its last row.
        if not is_as_planned(self.source, piece):
            raise PlanOutdated(piece.name)


def _flushes(blocks: Iterator[tuple[int, FileRecords]], most: int | None) -> Iterator[list[tuple[int, FileRecords]]]:
    """Consecutive blocks of about ``most`` bytes; None: all of them."""
    held: list[tuple[int, FileRecords]] = []
    size = 0
    for number, block in blocks:
        held.append((number, block))
        size += block.nbytes
        if most is not None and size >= most:
            yield held
            held, size = [], 0
    if held:
        yield held


def _table(held: Sequence[tuple[int, FileRecords]]) -> pa.Table:
    """Records as rows: time, type of the time, key, value, headers; their key of order as `offset`, the number of
    their slice as `file`.
    """
    blocks = [records for _, records in held]
    rows = [len(records.partition) for records in blocks]
    columns = {
        "timestamp": pa.array(np.concatenate([records.time_ms for records in blocks])),
        "timestamp_type": pa.chunked_array(
            [
                pa.repeat("CreateTime", count) if records.timestamp_type is None else records.timestamp_type
                for records, count in zip(blocks, rows, strict=True)
            ]
        ),
        "key": pa.chunked_array([records.key for records in blocks]),
        "value": pa.chunked_array([records.value for records in blocks]),
        "headers": pa.chunked_array(
            [
                no_headers(count) if records.headers is None else records.headers
                for records, count in zip(blocks, rows, strict=True)
            ]
        ),
    }
    if blocks[0].order is not None:
        columns["offset"] = pa.chunked_array([records.order for records in blocks])
        columns["file"] = pa.array(np.repeat(np.array([number for number, _ in held], np.int32), rows))
    return pa.table(columns)


def _landed_rows(rows: pa.Table, partition: int, offset: np.ndarray, increment: int) -> pa.Table:
    columns = {
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), len(rows)),
        "offset": offset,
        **{name: rows[name] for name in ("timestamp", "timestamp_type", "key", "value", "headers")},
        "increment": pa.repeat(pa.scalar(increment, pa.int64()), len(rows)),
    }
    return pa.table(columns).cast(LANDED_SCHEMA)
