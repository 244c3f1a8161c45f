"""Landing from a directory of files: the source of a laptop, of tests, and of history that Kafka no longer has.

Owns the offsets of their records. Rule: the order of records is (landing, file name in natural order, place in the
file); offsets follow it without a gap in each partition. Files are read twice. The first time checks every row, counts
and takes digests before anything is planned, so that a wrong mapping leaves nothing behind. The second time writes,
into exactly the planned offsets. A file that changed in between makes another plan necessary.

The work is cut into tasks of consecutive slices; Spark runs them, and the driver commits their files as one increment.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ...state.errors import LandingError
from ...state.tables.commit import commit_files
from ...state.tables.data_files import DataFile
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow, LandingPlanRow
from ...state.tables.parquet_writer import write_task_file
from ...state.tables.warehouse import LANDED_SCHEMA, Warehouse
from .bad_rows import commit_dead_letters, dead_letters, refuse_too_many
from .file_source import FileSource
from .files.counting import CountedFiles
from .files.file_order import find_disorder
from .files.known_files import (
    FoundFile,
    KnownFiles,
    PlanOutdated,
    find_files,
    mapping_changes,
    refuse_no_match,
)
from .files.reading import SliceReading, as_they_stand
from .files.records import FileRecords, read_slice
from .files.spark_tasks import run_tasks
from .files.streams import FileSlice, is_as_planned
from .files.verified_files import read_verified, write_verified
from .first_record import FirstRecord, first_record
from .landing_rules import DEAD_LETTER, STOP, LandingRules, RowRules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_BYTES = 128 << 20
"""About the size in memory of what goes into the files of one flush."""
_ATTEMPTS = 3


@dataclass(frozen=True)
class FileLander:
    """Lands the files of ``source`` that no plan names yet. ``spark`` None reads in this process. ``show`` is called
    with the first new record before anything is planned.
    """

    spark: "SparkSession | None"
    warehouse: Warehouse
    topic: str
    source: FileSource
    rules: LandingRules = field(default_factory=LandingRules)
    show: Callable[[FirstRecord], None] | None = None
    kind: str = "files"
    schema = LANDED_SCHEMA

    def next_plan(
        self,
        last: LedgerRow[LandingDoneRow] | None,
        planned: Callable[[], list[LedgerRow[LandingPlanRow]]],
        clock_ms: int,
        *,
        must: bool,
        warn: Callable[[str], None],
    ) -> LandingPlanRow | None:
        """Check and count the new files; None when there are none, the topic has been landed before and nothing
        ``must`` be planned. ``warn`` gets a line for files that are left out.
        """
        plans, verified_files = planned(), self.warehouse.verified_files(self.topic)
        for _ in range(_ATTEMPTS):
            listing = find_files(self.source, self.topic)
            found, others = listing.files, listing.unmatched
            source = self.source.with_format_of(file.name for file in found)
            changes = self._mapping_changes(source, last)
            is_new_pattern = last is None or self._has_other_pattern(last)
            if not found and others and is_new_pattern and not self.rules.allow_empty:
                refuse_no_match(source, self.topic, others)
            verified, allowed = read_verified(verified_files), self.rules.allow_same_content
            known = KnownFiles(source, self.topic, plans, allow_same_content=allowed, verified=verified)
            new = known.new(found)
            if last is not None and not new and not must:
                _warn_of(known, warn)
                if known.verified() != verified:
                    write_verified(verified_files, known.verified())
                return None
            if self.show is not None and (first := first_record(source, new)) is not None:
                self.show(first)
            rows = RowRules(self.rules.on_bad_row == DEAD_LETTER, self.rules.latest_ms(clock_ms))
            counted = CountedFiles.of(self.spark, self.warehouse, source, rows, new)
            if counted is not None:
                disorder = find_disorder([(file.found.name, file.spans) for file in counted.files])
                if disorder is not None and self.rules.on_disorder == STOP:
                    disorder.refuse(self.topic, source.path)
                plan = self._plan(source, rows, last, plans, known, counted, changes)
                _warn_of(known, warn)
                if (hidden := listing.sentence(self.topic)) is not None:
                    warn(hidden)
                if disorder is not None:
                    warn(disorder.sentence(self.topic))
                return plan
        raise LandingError(
            f"topic {self.topic}, directory {self.source.path}",
            "files that are whole",
            f"files that changed while they were read, {_ATTEMPTS} times",
            "write a file under a name that begins with '.' and rename it when it is whole",
        )

    def _plan(
        self,
        source: FileSource,
        rows: RowRules,
        last: LedgerRow[LandingDoneRow] | None,
        plans: Sequence[LedgerRow[LandingPlanRow]],
        known: KnownFiles,
        counted: CountedFiles,
        changes: dict[str, list[Any]],
    ) -> LandingPlanRow:
        for file in counted.files:
            if file.bad_rows:
                refuse_too_many(
                    source, file.found.name, file.rows, file.bad_rows, file.first_bad, self.rules.max_bad_share
                )
        counted.refuse_absent_columns(source, plans)
        entries = [file.entry() for file in counted.files]
        if not self.rules.allow_same_content:
            known.refuse_same_content(entries)
        cut_from = dict.fromkeys(map(str, range(source.partitions)), 0)
        if last is not None and any(last.content.cut_to.values()):
            cut_from = last.content.cut_to
        return LandingPlanRow(
            partitions=source.partitions,
            cut_from=cut_from,
            cut_to={
                p: first + sum(task["counts"].get(p, 0) for task in counted.tasks) for p, first in cut_from.items()
            },
            source={"kind": self.kind, "mapping": source.to_dict()},
            folder=known.folder,
            files=entries,
            files_again=known.again or None,
            tasks=counted.tasks,
            rules=rows.to_dict(),
            seen=sorted({name for file in counted.files for name in file.seen}),
            mapping_changes=changes or None,
        )

    def write(self, row: LedgerRow[LandingPlanRow], app_id: str) -> dict[str, Any]:
        """Write the planned files' records into their planned offsets, by the mapping of the plan; commit them.

        Raises PlanOutdated when a file is gone or has changed since.
        """
        plan = row.content
        source = FileSource.from_dict(self.source.path, plan.source["mapping"])
        present = self._present(source, row)
        rules = RowRules.from_dict(plan.rules or {})
        first = {int(p): offset for p, offset in plan.cut_from.items()}
        directories = self.warehouse.landed(self.topic), self.warehouse.landed_dead_letter(self.topic)
        work = []
        for number, task in enumerate(plan.tasks or ()):
            slices = [FileSlice.from_list(values) for values in task["slices"]]
            slices = [replace(piece, mtime_ns=present[piece.name].mtime_ns) for piece in slices]
            name = f"{row.increment:08d}-{number:05d}"
            work.append(_Write(source, slices, rules, dict(first), directories, row.increment, name))
            first = {p: offset + task["counts"].get(str(p), 0) for p, offset in first.items()}
        assert {str(p): offset for p, offset in first.items()} == plan.cut_to
        written = run_tasks(self.spark, self.warehouse, [task.run for task in work])
        for task in written:
            if task["changed"] is not None:
                raise PlanOutdated(f"{task['changed']} changed while it was read")
        files = [DataFile.from_dict(fields) for task in written for fields in task["files"]]
        _check_cut(self.topic, files, plan)
        letters = [DataFile.from_dict(fields) for task in written for fields in task["dead_letters"]]
        commit_dead_letters(self.warehouse, self.topic, letters, app_id, row.increment)
        commit_files(directories[0], LANDED_SCHEMA, files, app_id=app_id, increment=row.increment)
        return {"files": len(plan.files)}

    def _present(self, source: FileSource, row: LedgerRow[LandingPlanRow]) -> dict[str, FoundFile]:
        """The planned files as they lie there now, with the content that was planned."""
        found = {file.name: file for file in find_files(source, self.topic).files}
        planned = KnownFiles(source, self.topic, [replace(row, content=replace(row.content, folder=None))])
        for file in row.content.files:
            if file["name"] not in found:
                raise PlanOutdated(f"{file['name']} is gone")
            try:
                planned.new([found[file["name"]]])
            except LandingError as error:
                raise PlanOutdated(f"{file['name']} has {error.got}") from error
        return found

    def _mapping_changes(self, source: FileSource, last: LedgerRow[LandingDoneRow] | None) -> dict[str, list[Any]]:
        if last is None:
            return {}
        if source.partitions != last.content.partitions and any(last.content.cut_to.values()):
            raise LandingError(
                f"topic {self.topic}",
                f"{last.content.partitions} partitions, as in its first landing",
                str(source.partitions),
                "declare the same number, or land into a topic of another name: keys would change their partition",
            )
        changes = mapping_changes(last.content.source["mapping"], source)
        if changes and not self.rules.new_mapping:
            raise LandingError(
                f"topic {self.topic}",
                "the mapping of its last landing, "
                + ", ".join(f"{name} {before!r}" for name, (before, _) in changes.items()),
                ", ".join(f"{name} {now!r}" for name, (_, now) in changes.items()),
                "correct the mapping, land into a topic of another name, or continue with the new one (--new-mapping)",
            )
        return changes

    def _has_other_pattern(self, last: LedgerRow[LandingDoneRow]) -> bool:
        return bool(last.content.source["mapping"]["pattern"] != self.source.pattern)


@dataclass(frozen=True)
class _Write:
    """A task that writes the records of its slices, and their dead letters; ``first``: the next offset of each
    partition; ``directories``: of both tables.
    """

    source: FileSource
    slices: Sequence[FileSlice]
    rules: RowRules
    first: dict[int, int]
    directories: tuple[str, str]
    increment: int
    name: str

    def run(self) -> dict[str, Any]:
        files: list[DataFile] = []
        letters: list[pa.Table] = []
        following = dict(self.first)
        try:
            for blocks in _flushes(records for piece in self.slices for records in self._read(piece, letters)):
                files += self._write(blocks, following)
        except PlanOutdated as changed:
            return {"changed": str(changed)}
        written = []
        if letters:
            table = pa.concat_tables(letters)
            written.append(write_task_file(self.directories[1], table, partition=0, name=self.name))
        return {
            "changed": None,
            "files": [file.to_dict() for file in files],
            "dead_letters": [file.to_dict() for file in written],
        }

    def _read(self, piece: FileSlice, letters: list[pa.Table]) -> Iterator[FileRecords]:
        """Records of a slice; then its dead letters are among ``letters``. PlanOutdated when the file changed."""
        if not is_as_planned(self.source, piece):
            raise PlanOutdated(piece.name)
        reading = SliceReading(self.source, piece, self.rules, takes_digests=False, keeps=None)
        yield from read_slice(reading)
        if reading.bad:
            rows = as_they_stand(self.source, piece, reading.bad)
            letters.append(dead_letters(rows, reading.bad, piece.name, self.increment))
        if not is_as_planned(self.source, piece):
            raise PlanOutdated(piece.name)

    def _write(self, blocks: Sequence[FileRecords], following: dict[int, int]) -> list[DataFile]:
        """One file a partition; ``following`` moves on."""
        key = pa.concat_arrays([block.key for block in blocks])
        value = pa.concat_arrays([block.value for block in blocks])
        time_ms = np.concatenate([block.time_ms for block in blocks])
        partition = np.concatenate([block.partition for block in blocks])
        files = []
        for p in np.unique(partition).tolist():
            rows = np.flatnonzero(partition == p)
            table = _landed_rows(key.take(rows), value.take(rows), time_ms[rows], p, following[p], self.increment)
            files.append(write_task_file(self.directories[0], table, partition=p, name=self.name))
            following[p] += len(rows)
        return files


def _warn_of(known: KnownFiles, warn: Callable[[str], None]) -> None:
    for sentence in known.sentences():
        warn(sentence)


def _flushes(blocks: Iterator[FileRecords]) -> Iterator[list[FileRecords]]:
    held: list[FileRecords] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += block.key.nbytes + block.value.nbytes + 12 * len(block.partition)
        if size >= FILE_BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held


def _landed_rows(
    key: pa.Array, value: pa.Array, time_ms: np.ndarray, partition: int, first: int, increment: int
) -> pa.Table:
    rows = len(time_ms)
    headers = LANDED_SCHEMA.field("headers").type
    no_headers = pa.ListArray.from_arrays(pa.array(np.zeros(rows + 1, np.int32)), pa.array([], headers.value_type))
    columns = {
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), rows),
        "offset": np.arange(first, first + rows, dtype=np.int64),
        "timestamp": time_ms,
        "timestamp_type": pa.repeat("CreateTime", rows),
        "key": key,
        "value": value,
        "headers": no_headers,
        "increment": pa.repeat(pa.scalar(increment, pa.int64()), rows),
    }
    return pa.table(columns).cast(LANDED_SCHEMA)


def _check_cut(topic: str, files: Sequence[DataFile], plan: LandingPlanRow) -> None:
    """The files hold exactly the planned offsets, each once; else LandingError."""
    following = {int(p): offset for p, offset in plan.cut_from.items()}
    is_dense = True
    for file in sorted(files, key=lambda file: (file.partition, file.min_offset or 0)):
        bounds = following[file.partition], following[file.partition] + file.records - 1
        is_dense = is_dense and (file.min_offset, file.max_offset) == bounds
        following[file.partition] += file.records
    if not is_dense or {str(p): offset for p, offset in following.items()} != plan.cut_to:
        raise LandingError(
            f"topic {topic}",
            f"every offset up to {plan.cut_to} once, as counted for the plan",
            str(following),
            "a file changed while it was read: put the planned one back, then land the topic again",
        )
