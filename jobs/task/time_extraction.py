"""The timestamp extractor of a topic at work on one partition: rows of the landed topic in, the same with other times
out. And what becomes of records whose time is not valid (RecordQueue).

Rule: a record that cannot be read is not asked, and has no time; it becomes a dead letter with the time that it landed
with. A record with a negative time is dropped before any operator sees it, and moves no stream time.
"""

import numpy as np
import pyarrow as pa

from ...state.records.batches import Chunk, Drops
from ...state.records.drop_reasons import DropReason
from ...state.tables.task_entry import TaskEntry
from ...state.times import NO_TIMESTAMP_MS, known_times
from ..functions.timestamp_extractors import ConsumedRecords
from ..graph.graph import Node
from ..tape.task_input import LANDED_TIME, integers
from ..topology.topology import SubTopology
from .decoding import Decoder
from .exits import refusing_exits


class TimeExtraction:
    """Of a source and a partition. ``partition_time_ms``: the largest time of a record so far; kept up."""

    def __init__(self, source: Node, partition: int, partition_time_ms: int = NO_TIMESTAMP_MS) -> None:
        assert source.time_step is not None, f"{source.name} has no extractor"
        self.source, self.partition, self.partition_time_ms = source, partition, partition_time_ms
        self.extractor = source.time_step

    def fork(self) -> "TimeExtraction":
        """Another one that has got as far."""
        return TimeExtraction(self.source, self.partition, self.partition_time_ms)

    @refusing_exits()
    def __call__(self, rows: pa.Table) -> pa.Table:
        """``rows`` with ``timestamp`` as extracted, and LANDED_TIME.

        Raises InvalidTimestamp or TaskFailed with ``cause_row``, the row of the first record that fails.
        """
        # The time that a record landed with may be any; what counts is the one that is extracted here.
        batch, bad, _ = Decoder().decode(self.source, rows, np.arange(len(rows)), judges_time=False)
        read = np.flatnonzero(~bad)
        seen = "context_offset" if "context_offset" in rows.column_names else "offset"
        offset = integers(rows, seen, NO_TIMESTAMP_MS)[read]
        records = ConsumedRecords(batch.where(~bad), self.source.topic_of_records, self.partition, offset)
        times = np.full(len(rows), NO_TIMESTAMP_MS, np.int64)
        try:
            times[read] = self.extractor.times(records, self.partition_time_ms)
        except Exception as error:
            if getattr(error, "cause_row", -1) >= 0:
                error.cause_row = int(read[error.cause_row])  # type: ignore[attr-defined]
            raise
        self.partition_time_ms = int(known_times(times).max(initial=self.partition_time_ms))
        column, landed = rows.column_names.index("timestamp"), rows["timestamp"]
        return rows.set_column(column, "timestamp", pa.array(times)).append_column(LANDED_TIME, landed)


def extractions(sub: SubTopology, partition: int, before: TaskEntry) -> dict[int, TimeExtraction]:
    """Of a task's sources that have an extractor, by number. ``before``: the task's entry of the last done row."""
    known = before.partition_times
    return {
        number: TimeExtraction(source, partition, known.get(source.topic, NO_TIMESTAMP_MS))
        for number, source in enumerate(sub.sources)
        if source.time_step is not None
    }


def refuse_invalid_times(chunk: Chunk, sub: SubTopology, readable: np.ndarray) -> None:
    """Of the records ``readable`` (rows of a chunk), those with a negative time are dropped by the sources of ``sub``
    that they came from.
    """
    for number, source in enumerate(sub.sources):
        here = readable & (chunk.source == number)
        chunk.come(source.name, int(here.sum()))
        rows = np.flatnonzero(here & (chunk.time_ms < 0)).astype(np.int32)
        if len(rows):
            chunk.turn_away(source.name, len(rows))
            chunk.refused[rows] = True
            drops = Drops(DropReason.NEGATIVE_TIMESTAMP, rows, np.ones(len(rows), np.bool_), chunk.stream_time_ms[rows])
            chunk.drops.append((source.name, rows, drops))
