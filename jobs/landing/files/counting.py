"""What is in the new files of a landing: records by partition, bad rows, columns, digests.

Owns the first of the two passes over files, after which a plan can be made. Rule: every row is read as it will be
landed, and a file that changes meanwhile is counted again.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ....state.errors import LandingError
from ....state.tables.ledger import LedgerRow
from ....state.tables.ledger_rows import LandingPlanRow
from ....state.tables.warehouse import Warehouse
from ..bad_rows import refuse_too_many
from ..file_source import FileSource
from ..landing_rules import RowRules
from . import streams
from .column_types import ColumnType, TypeChange, type_changes
from .file_order import LateBefore, Spans, TimeSpan, joined_spans, spans_of
from .kept_records import KeptRecords
from .key_spans import KeySpan, KeySpans, SpanBuilder
from .known_files import file_entry
from .reading import SliceReading
from .records import read_slice, slices_of
from .spark_tasks import run_tasks, runs_here
from .streams import FileSlice, FoundFile, is_as_planned, whole_digest

if TYPE_CHECKING:
    from .spark_tasks import Spark

_NAMED_MOST = 20
"""Columns of a file that an error names."""
_FIRST_BAD = 1
"""Bad rows of a slice that are looked up for the error, should they be too many."""


@dataclass(frozen=True)
class CountedFile:
    """What was found in a new file. ``beside``: digests of files beside it, by kind. ``first_bad``: line or row, what
    was expected, what was got. ``not_finite``: by
    column, keys and values that are NaN or infinite and became null. ``naive``, ``zoned``: how many times have no zone
    though none is declared, and how many name one. ``types``: of keys and values, where the file has
    types.
    """

    listed: FoundFile
    digest: str
    content: str
    beside: Mapping[str, str]
    rows: int
    bad_rows: int
    left_out: int
    first_bad: tuple[int, str, str]
    seen: frozenset[str]
    columns: tuple[str, ...]
    spans: Spans
    not_finite: Mapping[str, int]
    naive: int
    zoned: int
    types: Mapping[str, ColumnType]

    def entry(self) -> dict[str, Any]:
        """As a plan keeps it."""
        entry = {
            **file_entry(self.listed, self.digest, self.content, self.beside),
            "records": self.records,
        }
        return entry if not self.bad_rows else {**entry, "dead_letters": self.bad_rows}

    @property
    def records(self) -> int:
        """Rows that are records."""
        return self.rows - self.bad_rows - self.left_out

    def got_columns(self) -> str:
        """The columns of its first row, for an error."""
        return f"columns {', '.join(self.columns[:_NAMED_MOST])}"

    def near_name(self, column: str) -> str | None:
        """The column of its first row whose name is ``column`` but for case, separators and underscores."""
        return next((name for name in self.columns if _letters(name) == _letters(column) != ""), None)


@dataclass(frozen=True, slots=True)
class CountedSlice:
    """A slice of a new file; ``keys``: by which its rows are ordered, {} where they are not."""

    piece: FileSlice
    keys: KeySpans
    bad_rows: int


@dataclass(frozen=True)
class CountedFiles:
    """New files, their slices in natural order, and the tasks that will land them in this order: slices, and records
    by partition.
    """

    files: list[CountedFile]
    slices: list[CountedSlice]
    tasks: list[dict[str, Any]]

    @classmethod
    def of(
        cls,
        spark: "Spark | None",
        warehouse: Warehouse,
        source: FileSource,
        rules: RowRules,
        files: Sequence[FoundFile],
        *,
        kept: KeptRecords,
        counting: FileSource | None = None,
        takes_digests: bool = True,
    ) -> "CountedFiles | None":
        """Read ``files``; None when one changed meanwhile. Without digests: of files that are never written again.
        ``kept`` takes records for the second pass, in this process; by ``counting`` (None: ``source``) those are read
        that are only counted.
        """
        kept.clear()
        groups: list[list[FileSlice]] = []
        weight = 0
        for file in files:
            for piece in slices_of(source, file):
                if not groups or weight + piece.bytes > streams.SLICE_BYTES:
                    groups.append([])
                    weight = 0
                groups[-1].append(piece)
                weight += piece.bytes
        tasks_of, in_process = [], kept if runs_here(spark, len(groups)) else None
        for group in groups:
            names = {piece.name for piece in group}
            own, own_counting = source.for_files(names), (counting or source).for_files(names)
            tasks_of.append(_CountTask(own, own_counting, group, rules, takes_digests, in_process))
        counts = run_tasks(spark, warehouse, [task.run for task in tasks_of])
        if any(count["changed"] is not None for count in counts):
            return None
        slices: dict[str, list[dict[str, Any]]] = {}
        counted: list[CountedSlice] = []
        for group, count in zip(groups, counts, strict=True):
            for piece, counts_of_slice in zip(group, count["slices"], strict=True):
                slices.setdefault(counts_of_slice["name"], []).append(counts_of_slice)
                keys = {int(p): KeySpan.from_list(span) for p, span in counts_of_slice["keys"].items()}
                counted.append(CountedSlice(piece, keys, counts_of_slice["bad_rows"]))
        tasks = [
            {"slices": [piece.to_list() for piece in group], "counts": count["counts"]}
            for group, count in zip(groups, counts, strict=True)
        ]
        return cls([_counted_file(file, slices[file.name]) for file in files], counted, tasks)

    def late_records(
        self,
        spark: "Spark | None",
        warehouse: Warehouse,
        source: FileSource,
        rules: RowRules,
        late_before: LateBefore,
    ) -> int | None:
        """Records of these files with times below those of ``late_before``, whose files are read once more for it; None
        when one changed meanwhile.
        """
        tasks = [
            _LateTask(source.for_files({counted.piece.name}), counted.piece, rules, late_before[counted.piece.name])
            for counted in self.slices
            if counted.piece.name in late_before
        ]
        counts = run_tasks(spark, warehouse, [task.run for task in tasks])
        return None if any(count is None for count in counts) else sum(counts)

    @property
    def records(self) -> int:
        """Of all files."""
        return sum(file.records for file in self.files)

    def refuse_bad(self, source: FileSource, most: float) -> None:
        """Raises LandingError when more than the share ``most`` of a file's rows do not fit."""
        for file in self.files:
            if file.bad_rows:
                refuse_too_many(source, file.listed.name, file.rows, file.bad_rows, file.first_bad, most)

    def refuse_absent_columns(
        self, source: FileSource, plans: Sequence[LedgerRow[LandingPlanRow]], columns: Sequence[str]
    ) -> None:
        """Raises LandingError when one of ``columns`` of the mapping is in no row of the files, nor did in those from
        before; of plans from before, which do not say, all did.
        """
        seen = {name for file in self.files for name in file.seen}
        for plan in plans:
            mapping = FileSource.from_dict(source.path, plan.content.source["mapping"])
            if plan.content.cut_from != plan.content.cut_to:
                seen |= set(mapping.named_columns() if plan.content.seen is None else plan.content.seen)
        absent = [name for name in columns if name not in seen]
        with_rows = [file for file in self.files if file.rows > file.left_out and file.columns]
        if absent and with_rows:
            raise LandingError(
                f"{source.path}/{with_rows[0].listed.name}",
                f"a column {absent[0]}",
                with_rows[0].got_columns(),
                "correct the mapping (a.b is the field b of the object a); a column that comes later can be named then "
                "(--new-mapping)",
            )

    def absent_columns(self, source: FileSource) -> dict[str, list[CountedFile]]:
        """Column of the mapping to the files with records of which no row has it."""
        absent: dict[str, list[CountedFile]] = {}
        for file in self.files:
            for name in source.named_columns(file.listed.name) if file.records else ():
                if name not in file.seen:
                    absent.setdefault(name, []).append(file)
        return absent

    def refuse_renamed_columns(self, source: FileSource) -> None:
        """Raises LandingError for a file of which no row has a column of the mapping, but a column of nearly that name,
        unless both are columns of the mapping or of another file.
        """
        mapped = set(source.named_columns())
        for column, files in self.absent_columns(source).items():
            for file in files:
                near = file.near_name(column)
                if near is None or near in mapped or any({column, near} <= set(each.columns) for each in self.files):
                    continue
                raise LandingError(
                    f"{source.path}/{file.listed.name}",
                    f"a column {column}, as in other files",
                    f"{near} ({file.got_columns()})",
                    "rename it in the file, or leave the file out (--pattern) and land it by its own names "
                    "(--new-mapping)",
                )

    def type_changes(
        self, plans: Sequence[LedgerRow[LandingPlanRow]]
    ) -> tuple[list[TypeChange], dict[str, ColumnType]]:
        """Columns of keys and values whose text changes with their type, from file to file and since the files of
        ``plans``; and the types that are not in these yet.
        """
        known: dict[str, ColumnType] = {}
        for plan in plans:
            known |= {column: ColumnType(*kept) for column, kept in (plan.content.column_types or {}).items()}
        return type_changes(known, [file.types for file in self.files])

    def of_other_types(self, first: str) -> list[FoundFile]:
        """Of files with records, one for each set of types of keys and values that file ``first`` has not."""
        known = {_type_set(file) for file in self.files if file.listed.name == first}
        others = []
        for file in self.files:
            if file.records and (types := _type_set(file)) not in known:
                known.add(types)
                others.append(file.listed)
        return others


def _type_set(file: CountedFile) -> frozenset[tuple[str, str]]:
    return frozenset((column, each.type) for column, each in file.types.items())


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


def _counted_file(file: FoundFile, slices: Sequence[Mapping[str, Any]]) -> CountedFile:
    digest = whole_digest([part for piece in slices for part in piece["digests"]])
    inside = [part for piece in slices for part in piece["content"] or ()]
    not_finite = Counter[str]()
    for piece in slices:
        not_finite.update(piece["not_finite"])
    return CountedFile(
        listed=file,
        digest=digest,
        # Only compressed files have a content of their own, and these are one slice.
        content=whole_digest(inside) if slices[0]["content"] is not None else digest,
        beside=slices[0]["beside"],  # such a file is one slice
        rows=sum(piece["rows"] for piece in slices),
        bad_rows=sum(piece["bad_rows"] for piece in slices),
        left_out=sum(piece["left_out"] for piece in slices),
        first_bad=next((tuple(piece["first_bad"]) for piece in slices if piece["first_bad"]), (0, "", "")),
        seen=frozenset(name for piece in slices for name in piece["seen"]),
        columns=next((tuple(piece["columns"]) for piece in slices if piece["columns"]), ()),
        spans=joined_spans({p: TimeSpan(*span) for p, *span in piece["spans"]} for piece in slices),
        not_finite=not_finite,
        naive=sum(piece["naive"] for piece in slices),
        zoned=sum(piece["zoned"] for piece in slices),
        types={
            column: ColumnType(spelled, kind, file.name)
            for piece in slices
            for column, (spelled, kind, _) in piece["types"].items()
        },
    )


@dataclass(frozen=True)
class _CountTask:
    """A task that checks every row of its slices, counts the records of each partition and takes digests."""

    source: FileSource
    counting: FileSource
    slices: Sequence[FileSlice]
    rules: RowRules
    takes_digests: bool
    kept: KeptRecords | None

    def run(self) -> dict[str, Any]:
        counts = np.zeros(self.source.partitions, np.int64)
        counted = []
        for piece in self.slices:
            if not is_as_planned(self.source, piece):
                return {"changed": piece.name}
            kept = self.kept if self.kept is not None and self.kept.has_room() else None
            # Records that are kept will land, so they are read with keys and values, which counting does without.
            source = self.counting if kept is None else self.source
            reading = SliceReading(source, piece, self.rules, takes_digests=self.takes_digests, keeps=_FIRST_BAD)
            spans: Spans = {}
            keys = SpanBuilder(may_equal=self.source.offset is None)
            for records in read_slice(reading):
                if kept is not None:
                    kept.add(piece, records)
                counts += np.bincount(records.partition, minlength=self.source.partitions)
                if records.order is not None:
                    rows = len(records.partition)
                    size = records.nbytes if reading.row_bytes is None else reading.row_bytes * rows
                    keys.add(records.order, records.partition, size)
                spans = joined_spans([spans, spans_of(records.time_ms, records.partition)])
            # Bad rows are not kept, and the second pass needs their bytes for dead letters.
            if kept is not None and reading.bad_rows:
                kept.drop(piece)
            times = [[p, span.least_ms, span.largest_ms, span.back_ms] for p, span in spans.items()]
            key_spans = {str(p): span.to_list() for p, span in keys.spans().items()}
            counted.append({"name": piece.name, "spans": times, "keys": key_spans, **reading.summary()})
            if not is_as_planned(self.source, piece):
                return {"changed": piece.name}
        by_partition = {str(p): int(count) for p, count in enumerate(counts) if count}
        return {"changed": None, "counts": by_partition, "slices": counted}


@dataclass(frozen=True, slots=True)
class _LateTask:
    """A task that counts the records of a slice with times below those of ``before_ms``, by partition."""

    source: FileSource
    piece: FileSlice
    rules: RowRules
    before_ms: Mapping[int, int]

    def run(self) -> int | None:
        if not is_as_planned(self.source, self.piece):
            return None
        reading = SliceReading(self.source, self.piece, self.rules, takes_digests=False, keeps=0)
        late = sum(
            int(np.count_nonzero((records.partition == number) & (records.time_ms < time_ms)))
            for records in read_slice(reading)
            for number, time_ms in self.before_ms.items()
        )
        return late if is_as_planned(self.source, self.piece) else None
