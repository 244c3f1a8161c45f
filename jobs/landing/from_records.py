"""Landing of records that are already in memory, perhaps with their arrivals: a recorded live order, or a scenario.

Rule: as for every landing (jobs/landing/landing.py): planned, committed once, offsets without gaps. The plan keeps a
digest of the records, so that what an unfinished landing left behind is only finished with the same ones.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.errors import LandingError
from ...state.tables.commit import commit_files
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow, LandingPlanRow
from ...state.tables.parquet_writer import write_task_file
from ...state.tables.warehouse import HEADERS, LANDED_SCHEMA, Warehouse
from .files.columns import LATEST_OFFSET

RECORDS_SCHEMA = LANDED_SCHEMA.append(pa.field("arrival", pa.int64())).append(pa.field("context_offset", pa.int64()))
"""A landed table with the number of every record among those of all topics, and the offset that operators see."""


@dataclass(frozen=True)
class RecordLander:
    """``records``: partition int32, timestamp int64 (ms), key and value binary, perhaps headers, arrival,
    context_offset. Perhaps offset, rising in each partition and behind what has landed; else they follow on one
    another.
    """

    warehouse: Warehouse
    topic: str
    records: pa.Table
    partitions: int

    kind = "records"
    schema = RECORDS_SCHEMA
    known_offsets = None

    def next_plan(
        self, last: LedgerRow[LandingDoneRow] | None, _planned: object, _clock_ms: int, *, must: bool, warn: object
    ) -> LandingPlanRow | None:
        """All of ``records``; they are landed once for each call."""
        if last is not None and not len(self.records) and not must:
            return None
        self._refuse_misfits()
        if last is not None and last.content.partitions != self.partitions:
            expected = f"{last.content.partitions} partitions, as landed before"
            raise LandingError(f"topic {self.topic}", expected, str(self.partitions), "land as many partitions")
        cut_from = {str(p): 0 for p in range(self.partitions)} if last is None else last.content.cut_to
        if "offset" in self.records.column_names:
            # At the same offsets they are the same records, which the last call has landed.
            if last is not None and not must and last.content.source.get("digest") == self._digest:
                return None
            self._refuse_offsets(cut_from)
        counts = np.bincount(self.records["partition"].to_numpy(), minlength=self.partitions)
        return LandingPlanRow(
            partitions=self.partitions,
            cut_from=cut_from,
            cut_to=self._ends(cut_from, counts),
            source={"kind": self.kind, "digest": self._digest},
        )

    def has(self, plan: LandingPlanRow) -> bool:
        """Whether a plan is of these records."""
        return bool(plan.source.get("digest") == self._digest)

    def _refuse_misfits(self) -> None:
        """Raises LandingError where a column has no number, or one of another kind, or a partition is none."""
        if not len(self.records):
            return
        for name, kind in (("partition", "int32"), ("timestamp", "int64 (ms)"), ("offset", "int64")):
            column = self.records[name] if name in self.records.column_names else None
            place = f"topic {self.topic}, column {name}"
            if column is not None and not pa.types.is_integer(column.type):
                raise LandingError(place, kind, str(column.type), "cast it, of times to milliseconds since 1970")
            if column is not None and column.null_count:
                got = f"{column.null_count:,} without"
                raise LandingError(place, "a number in every record", got, "fill it in, or leave these records out")
        for least_or_most in pc.min_max(self.records["partition"]).as_py().values():
            if not 0 <= least_or_most < self.partitions:
                expected, got = f"partitions below {self.partitions}, and 0 or more", str(least_or_most)
                raise LandingError(f"topic {self.topic}", expected, got, "correct the column partition")

    def _refuse_offsets(self, begins: Mapping[str, int]) -> None:
        """Raises LandingError for one that does not rise in its partition, from ``begins`` on."""
        partition, offset = (self.records[name].to_numpy().astype(np.int64) for name in ("partition", "offset"))
        order = np.argsort(partition, kind="stable")
        partition, offset = partition[order], offset[order]
        before = np.append(0, offset[:-1])
        is_first = np.append(True, partition[1:] != partition[:-1])
        least = np.where(is_first, [begins[str(p)] for p in partition.tolist()], before + 1)
        for n in np.flatnonzero((offset < least) | (offset > LATEST_OFFSET))[:1].tolist():
            place, got = f"topic {self.topic}, partition {partition[n]}", str(offset[n])
            is_late = offset[n] > LATEST_OFFSET
            expected = f"an offset up to {LATEST_OFFSET}" if is_late else f"an offset of {least[n]} or more"
            next_step = "correct it" if is_late else "sort the records by offset, and leave out what has landed"
            raise LandingError(place, expected, got, next_step)

    def _ends(self, begins: Mapping[str, int], counts: np.ndarray) -> dict[str, int]:
        """The next offset of each partition."""
        if "offset" not in self.records.column_names:
            return {p: first + int(counts[int(p)]) for p, first in begins.items()}
        ends = dict(begins)
        for last in self.records.group_by("partition").aggregate([("offset", "max")]).to_pylist():
            ends[str(last["partition"])] = last["offset_max"] + 1
        return ends

    def write(self, row: LedgerRow[LandingPlanRow], app_id: str) -> dict[str, Any]:
        """Commit the records. Raises LandingError when they are not those of the plan."""
        if row.content.source["digest"] != self._digest:
            expected = f"the records of the unfinished increment {row.increment}"
            raise LandingError(f"topic {self.topic}", expected, "others", "land those again first")
        directory = self.warehouse.landed(self.topic)
        partition = self.records["partition"].to_numpy()
        files = [
            write_task_file(
                directory,
                self._rows(np.flatnonzero(partition == p), p, row.content.cut_from[str(p)], row.increment),
                partition=p,
                name=f"{row.increment:08d}-{p:05d}",
            )
            for p in np.unique(partition).tolist()
        ]
        commit_files(directory, RECORDS_SCHEMA, files, app_id=app_id, increment=row.increment)
        return {}

    def _rows(self, rows: np.ndarray, partition: int, first: int, increment: int) -> pa.Table:
        chosen, n = self.records.take(pa.array(rows)), len(rows)
        has_offsets = "offset" in chosen.column_names
        offset = chosen["offset"].to_numpy() if has_offsets else np.arange(first, first + n, dtype=np.int64)
        given = {name: chosen[name] for name in ("timestamp", "key", "value")}
        for name, default in (
            ("headers", pa.nulls(n, HEADERS)),
            ("arrival", pa.nulls(n, pa.int64())),
            ("context_offset", pa.array(offset)),
        ):
            given[name] = chosen[name] if name in chosen.column_names else default
        columns = {
            "partition": pa.repeat(pa.scalar(partition, pa.int32()), n),
            "offset": offset,
            "timestamp_type": pa.repeat("CreateTime", n),
            "increment": pa.repeat(pa.scalar(increment, pa.int64()), n),
            **given,
        }
        return pa.table([columns[name] for name in RECORDS_SCHEMA.names], names=RECORDS_SCHEMA.names).cast(
            RECORDS_SCHEMA
        )

    @cached_property
    def _digest(self) -> str:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.records.schema) as writer:
            writer.write_table(self.records)
        return hashlib.sha256(sink.getvalue()).hexdigest()
