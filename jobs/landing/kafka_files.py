"""Files of a landed topic out of planned ranges of a broker's offsets.

Owns the rows, and the threads that write while this one reads. Rule: a file has records of one partition in the order
of their offsets; nobody sees one before it is committed. What is held in memory does not grow with the topic.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ...state.kafka.committed_records import CommittedRecords, ReadFailedError, Records
from ...state.tables.data_files import DataFile
from ...state.tables.parquet_writer import TaskFile, write_task_file
from ...state.tables.warehouse import LANDED_DEAD_LETTER_SCHEMA, LANDED_SCHEMA
from .files.columns import time_text
from .kafka_offsets import connect
from .kafka_source import KafkaSource

__all__ = ["ReadFailedError", "WrittenRanges", "write_ranges"]

ROWS_PER_FILE = 5_000_000
_PIECE_ROWS, _PIECE_BYTES = 1 << 16, 8 << 20
"""Of one partition: so much is handed to a thread at once."""
_THREADS = max(1, min(4, os.cpu_count() or 1) - 1)
_WAITING = 2 * _THREADS
_ROWS_SCHEMA = pa.schema([each for each in LANDED_SCHEMA if each.name != "partition"])


@dataclass(frozen=True)
class WrittenRanges:
    """Files of both tables, not committed yet."""

    files: Sequence[DataFile]
    dead_letters: Sequence[DataFile]


def write_ranges(
    source: KafkaSource,
    topic: str,
    ranges: Mapping[int, tuple[int, int]],
    directories: tuple[str, str],
    increment: int,
    latest_ms: int | None,
) -> WrittenRanges:
    """Read ``ranges``, (from, to) by partition, of the broker's ``topic``, and write them to the ``directories`` of the
    landed table and of its dead letters, which take what is later than ``latest_ms``.

    Raises ReadFailedError when the broker does not give all of it, ConfigError for a client's setting that it lacks.
    """
    connection, letters = connect(source), list[pa.Table]()
    writing = _Writing(directories[0], increment)
    with (
        ThreadPoolExecutor(_THREADS) as threads,
        CommittedRecords(connection.plain, topic, ranges, connection.patience_s) as records,
    ):
        for taken in records:
            rows = _rows(taken, increment)
            if latest_ms is not None and taken.time_ms.max() > latest_ms:
                is_late = pa.array(taken.time_ms > latest_ms)
                letters.append(_dead_letters(taken.partition, rows.filter(is_late), increment, latest_ms))
                rows = rows.filter(pc.invert(is_late))
            writing.add(threads, taken.partition, rows)
        files = writing.finish(threads)
    name = f"{increment:08d}-00000"
    tables = [table for table in letters if len(table)]
    late = [write_task_file(directories[1], pa.concat_tables(tables), partition=0, name=name)] if tables else []
    return WrittenRanges(files, late)


def _rows(records: Records, increment: int) -> pa.Table:
    columns = [
        records.offset, records.time_ms, records.kind, records.key, records.value, records.headers,
        pa.repeat(pa.scalar(increment, pa.int64()), len(records.offset)),
    ]  # fmt: skip
    return pa.table(columns, names=_ROWS_SCHEMA.names).cast(_ROWS_SCHEMA)


def _dead_letters(partition: int, late: pa.Table, increment: int, latest_ms: int) -> pa.Table:
    """Rows of `landed_dead_letter/<topic>`: ``line`` is the offset."""
    count, expected = len(late), f"expected a time up to {time_text(latest_ms)}, got "
    columns = {
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
        "increment": late["increment"],
        "file": pa.nulls(count, pa.string()),
        "line": late["offset"],
        "bytes": late["value"],
        "reason": pa.array([expected + time_text(ms) for ms in late["timestamp"].to_pylist()], pa.string()),
        **{name: late[name] for name in ("timestamp", "key", "headers")},
    }
    return pa.table([columns[name] for name in LANDED_DEAD_LETTER_SCHEMA.names], LANDED_DEAD_LETTER_SCHEMA)


@dataclass
class _LandingPartition:
    """What waits for a thread, the file that is being written, and what is done."""

    file: TaskFile | None = None
    rows: int = 0
    pieces: list[pa.Table] = field(default_factory=list)
    bytes: int = 0
    busy: "Future[None] | None" = None
    done: list[DataFile] = field(default_factory=list)


class _Writing:
    def __init__(self, directory: str, increment: int) -> None:
        self._directory, self._increment = directory, increment
        self._partitions: dict[int, _LandingPartition] = {}
        self._running: set[Future[None]] = set()

    def add(self, threads: ThreadPoolExecutor, partition: int, rows: pa.Table) -> None:
        """Behind the rows of the partition that came before. Raises what failed in a thread."""
        own = self._partitions.setdefault(partition, _LandingPartition())
        own.pieces.append(rows)
        own.bytes += rows.nbytes
        if sum(map(len, own.pieces)) >= _PIECE_ROWS or own.bytes >= _PIECE_BYTES:
            self._hand_over(threads, partition, own, is_last=False)

    def finish(self, threads: ThreadPoolExecutor) -> list[DataFile]:
        """All files, by partition and offset."""
        for partition, own in self._partitions.items():
            self._hand_over(threads, partition, own, is_last=True)
        for future in self._running:
            future.result()
        return [file for _, own in sorted(self._partitions.items()) for file in own.done]

    def _hand_over(self, threads: ThreadPoolExecutor, partition: int, own: _LandingPartition, *, is_last: bool) -> None:
        if own.busy is not None:
            own.busy.result()  # pieces of a partition stay in their order
        # A broker that gives more than the disk takes is made to wait, else all of it would be held in memory.
        while len(self._running) >= _WAITING:
            done, self._running = wait(self._running, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
        pieces, own.pieces, own.bytes = own.pieces, [], 0
        own.busy = threads.submit(self._write, partition, own, pieces, is_last)
        self._running.add(own.busy)

    def _write(self, partition: int, own: _LandingPartition, pieces: list[pa.Table], is_last: bool) -> None:
        for rows in pieces:
            if own.file is None:
                name = f"{self._increment:08d}-{partition:05d}"
                own.file, own.rows = TaskFile(self._directory, partition=partition, name=name), 0
            own.file.write(rows)
            own.rows += len(rows)
            if own.rows >= ROWS_PER_FILE:
                self._close(own)
        if is_last:
            self._close(own)

    def _close(self, own: _LandingPartition) -> None:
        written = None if own.file is None else own.file.close()
        own.file = None
        if written is not None:
            own.done.append(written)
