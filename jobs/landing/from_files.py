"""Landing from a directory of files: the source of a laptop, of tests, and of history that Kafka no longer has.

Owns which files are new, and the offsets of their records. Rule: the order of records is (landing, file name, place in
the file); offsets follow it without a gap in each partition. Files are read twice: once to check every row and count,
before anything is planned, so that a bad row leaves nothing behind; once to write, into exactly the offsets planned. A
file that was landed must never change.

The work is cut into tasks of consecutive slices; Spark runs them, and the driver commits their files as one increment.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs
from pyspark.sql import SparkSession

from ...state.errors import LandingError
from ...state.tables.commit import commit_files
from ...state.tables.data_files import DataFile
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow, LandingPlanRow
from ...state.tables.parquet_writer import write_task_file
from ...state.tables.warehouse import LANDED_SCHEMA, Warehouse, open_filesystem
from .file_reader import SLICE_BYTES, FileRecords, FileSlice, read_slice, slices_of
from .file_source import FileSource

FILE_BYTES = 128 << 20
"""About the size in memory of what goes into the files of one flush."""


@dataclass(frozen=True)
class _Found:
    """A file of the directory. ``name``: relative to it, with slashes."""

    name: str
    bytes: int
    mtime_ns: int | None


@dataclass(frozen=True)
class FileLander:
    """Lands the files of ``source`` that no plan names yet. ``spark`` None reads in this process."""

    spark: SparkSession | None
    warehouse: Warehouse
    topic: str
    source: FileSource
    kind: str = "files"

    def next_plan(
        self, last: LedgerRow[LandingDoneRow] | None, planned: Callable[[], list[LedgerRow[LandingPlanRow]]]
    ) -> LandingPlanRow | None:
        """Check and count the new files; None when there are none and the topic has been landed before."""
        if last is not None:
            self._refuse_other_partitions(last.content.partitions)
        landed = {file["name"]: file for row in planned() for file in row.content.files}
        found = self._find()
        for file in found:
            if file.name in landed:
                self._refuse_changed(file, landed[file.name])
        new = [file for file in found if file.name not in landed]
        if last is not None and not new:
            return None
        with ThreadPoolExecutor() as pool:
            digests = list(pool.map(lambda file: _digest(self.source.path, file.name), new))
        tasks = self._count(new)
        cut_from = {str(p): 0 for p in range(self.source.partitions)} if last is None else last.content.cut_to
        return LandingPlanRow(
            partitions=self.source.partitions,
            cut_from=cut_from,
            cut_to={p: first + sum(task["counts"].get(p, 0) for task in tasks) for p, first in cut_from.items()},
            source={"kind": self.kind, "mapping": self.source.to_dict()},
            files=[
                {"name": file.name, "bytes": file.bytes, "mtime_ns": file.mtime_ns, "digest": digest}
                for file, digest in zip(new, digests, strict=True)
            ],
            tasks=tasks,
        )

    def write(self, row: LedgerRow[LandingPlanRow], app_id: str) -> dict[str, Any]:
        """Write the planned files' records into their planned offsets, by the mapping of the plan; commit them."""
        plan = row.content
        source = FileSource.from_dict(self.source.path, plan.source["mapping"])
        present = self._unchanged(plan.files)
        first = {int(p): offset for p, offset in plan.cut_from.items()}
        directory = self.warehouse.landed(self.topic)
        work = []
        for number, task in enumerate(plan.tasks or ()):
            slices = [FileSlice.from_list(values) for values in task["slices"]]
            slices = [replace(piece, mtime_ns=present[piece.name].mtime_ns) for piece in slices]
            name = f"{row.increment:08d}-{number:05d}"
            work.append(_Write(source, slices, dict(first), directory, row.increment, name))
            first = {p: offset + task["counts"].get(str(p), 0) for p, offset in first.items()}
        assert {str(p): offset for p, offset in first.items()} == plan.cut_to
        written = _run_tasks(self.spark, [task.run for task in work])
        files = [DataFile.from_dict(fields) for task in written for fields in task]
        _check_cut(self.topic, files, plan)
        commit_files(
            directory,
            LANDED_SCHEMA,
            files,
            app_id=app_id,
            increment=row.increment,
            storage_options=self.warehouse.storage_options,
        )
        return {"files": len(plan.files)}

    def _find(self) -> list[_Found]:
        """Files of the directory, by name."""
        filesystem, root = open_filesystem(self.source.path)
        if filesystem.get_file_info(root).type != fs.FileType.Directory:
            raise LandingError(f"topic {self.topic}", "a directory of files", self.source.path, "correct the path")
        found = []
        for entry in filesystem.get_file_info(fs.FileSelector(root, recursive=True)):
            name = entry.path[len(root) :].lstrip("/")
            hidden = any(part.startswith((".", "_")) for part in name.split("/"))
            if entry.type == fs.FileType.File and not hidden and fnmatch(entry.base_name, self.source.pattern):
                found.append(_Found(name, entry.size, entry.mtime_ns))
        return sorted(found, key=lambda file: file.name)

    def _count(self, files: Sequence[_Found]) -> list[dict[str, Any]]:
        """Tasks of about SLICE_BYTES each, in order, with the number of records in each partition."""
        groups: list[list[FileSlice]] = []
        weight = 0
        for file in files:
            for piece in slices_of(self.source, file.name, file.bytes, file.mtime_ns):
                if not groups or weight + piece.bytes > SLICE_BYTES:
                    groups.append([])
                    weight = 0
                groups[-1].append(piece)
                weight += piece.bytes
        counts = _run_tasks(self.spark, [_Count(self.source, group).run for group in groups])
        return [
            {"slices": [piece.to_list() for piece in group], "counts": count}
            for group, count in zip(groups, counts, strict=True)
        ]

    def _unchanged(self, planned: Sequence[dict[str, Any]]) -> dict[str, _Found]:
        """The planned files as they lie there now; LandingError when one is gone or has other bytes."""
        found = {file.name: file for file in self._find()}
        for file in planned:
            if file["name"] not in found:
                raise self._changed(file["name"], "no file")
            self._refuse_changed(found[file["name"]], file)
        return found

    def _refuse_changed(self, file: _Found, landed: dict[str, Any]) -> None:
        """Another time alone is not another content; then the digest decides."""
        if file.bytes != landed["bytes"]:
            raise self._changed(file.name, f"{file.bytes} bytes instead of {landed['bytes']}")
        if file.mtime_ns != landed["mtime_ns"] and _digest(self.source.path, file.name) != landed["digest"]:
            raise self._changed(file.name, "other bytes")

    def _changed(self, name: str, got: str) -> LandingError:
        return LandingError(
            f"topic {self.topic}, file {self.source.path}/{name}",
            "the file as it was when it was planned",
            got,
            "put the old file back and land what is new under a new name",
        )

    def _refuse_other_partitions(self, partitions: int) -> None:
        if self.source.partitions != partitions:
            raise LandingError(
                f"topic {self.topic}",
                f"{partitions} partitions, as in its first landing",
                str(self.source.partitions),
                "declare the same number, or land into a topic of another name: keys would change their partition",
            )


@dataclass(frozen=True)
class _Count:
    """A task that checks every row of its slices and counts the records of each partition."""

    source: FileSource
    slices: Sequence[FileSlice]

    def run(self) -> dict[str, int]:
        counts = np.zeros(self.source.partitions, np.int64)
        for piece in self.slices:
            for records in read_slice(self.source, piece):
                counts += np.bincount(records.partition, minlength=self.source.partitions)
        return {str(p): int(count) for p, count in enumerate(counts) if count}


@dataclass(frozen=True)
class _Write:
    """A task that writes the records of its slices; ``first``: the next offset of each partition."""

    source: FileSource
    slices: Sequence[FileSlice]
    first: dict[int, int]
    directory: str
    increment: int
    name: str

    def run(self) -> list[dict[str, Any]]:
        files: list[DataFile] = []
        following = dict(self.first)
        for blocks in _flushes(records for piece in self.slices for records in read_slice(self.source, piece)):
            files += self._write(blocks, following)
        return [file.to_dict() for file in files]

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
            files.append(write_task_file(self.directory, table, partition=p, name=self.name))
            following[p] += len(rows)
        return files


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


def _run_tasks(spark: SparkSession | None, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Results of ``tasks`` in their order; the first LandingError in that order is raised."""
    if spark is None:
        return [task() for task in tasks]
    if not tasks:
        return []

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                answer = json.dumps(_answer(tasks[number]))
                yield pa.RecordBatch.from_arrays([pa.array([number]), pa.array([answer])], ["task", "answer"])

    numbers = spark.range(0, len(tasks), 1, len(tasks))
    rows = numbers.mapInArrow(run, "task long, answer string").collect()  # type: ignore[arg-type]
    answers = [json.loads(row["answer"]) for row in sorted(rows, key=lambda row: row["task"])]
    for answer in answers:
        if "error" in answer:
            raise LandingError(*answer["error"])
    return [answer["result"] for answer in answers]


def _answer(task: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"result": task()}
    except LandingError as error:
        return {"error": [error.place, error.expected, error.got, error.next_step]}


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


def _digest(directory: str, name: str) -> str:
    filesystem, root = open_filesystem(directory)
    digest = hashlib.sha256()
    with filesystem.open_input_file(f"{root}/{name}") as stream:
        while part := stream.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()
