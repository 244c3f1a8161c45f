"""A part of the landed records, replayed by itself, for a judgement that does not take them all.

Owns what is chosen. Rule: a chosen record keeps its partition and its offset, and both sides begin with empty state.
The tasks of the pipeline read these records again in a folder of their own, and Kafka's tasks read the same.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ...state.errors import ConfigError
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.warehouse import Warehouse
from ...state.times import UNBOUNDED
from ..execution.task_run import LocalRunner
from ..landing.landing import land_records
from ..replay.pipeline_run import replay
from ..tape.landed_topic import Landed
from ..topology.topology import Topology

_CHUNK = 1 << 16
_COLUMNS = ("offset", "timestamp", "key", "value", "headers", "context_offset")


@dataclass(frozen=True)
class ChosenRecords:
    """Record times ``[since_ms, until_ms)``, partitions of all topics, and the first ``max_records`` of what is left in
    the order of the tape; None: no bound.
    """

    since_ms: int | None = None
    until_ms: int | None = None
    partitions: Collection[int] | None = None
    max_records: int | None = None

    def __post_init__(self) -> None:
        if self.max_records is not None and self.max_records < 1:
            raise ConfigError("judge, max_records", "1 or more", str(self.max_records), "leave it out, or take more")

    @property
    def is_all(self) -> bool:
        """Nothing is left out."""
        return self == ChosenRecords()


def replay_chosen(
    scratch: Warehouse, warehouse: Warehouse, topology: Topology, done: DoneRow, chosen: ChosenRecords, pipeline: str
) -> None:
    """Land in ``scratch`` what is chosen of the records that ``pipeline`` of ``warehouse`` has read up to ``done``, and
    replay it there under the same name. Raises ConfigError where nothing is chosen.
    """
    count = 0
    for topic in topology.source_topics():
        records, partitions = _records(Landed.of(warehouse, topic), done.cut_to.get(topic, {}), chosen)
        land_records(scratch, topic, records, partitions=partitions)
        count += len(records)
    if not count:
        expected, got = "records that the pipeline has read", "none in these times and partitions"
        raise ConfigError(f"judge, pipeline {pipeline!r}", expected, got, "choose other times or partitions")
    # ``max_records`` is a bound of each increment; only the first one has the first records of the tape.
    increments = None if chosen.max_records is None else 1
    again = replay(
        scratch, topology, pipeline=pipeline, runner=LocalRunner(), max_records=chosen.max_records,
        increments=increments, idle="proceed", kafka_version=done.kafka_version,
    )  # fmt: skip
    for _ in again:
        pass


def _records(landed: Landed, cut: dict[str, int], chosen: ChosenRecords) -> tuple[pa.Table, int]:
    """As `land_records` takes them, and the number of partitions."""
    parts: list[pa.Table] = []
    for partition in landed.ends:
        if chosen.partitions is None or int(partition) in chosen.partitions:
            chunks = landed.slice(partition, 0, cut.get(partition, 0)).chunks(_CHUNK)
            parts.extend(_within(rows, int(partition), chosen) for rows in chunks)
    nothing = pa.table({
        "partition": pa.array([], pa.int32()), "offset": pa.array([], pa.int64()),
        "timestamp": pa.array([], pa.int64()), "key": pa.array([], pa.binary()), "value": pa.array([], pa.binary()),
    })  # fmt: skip
    # Partitions that are left out are landed empty: their number decides how many tasks there are, and where keys go.
    return _together([nothing, *parts]), len(landed.ends)


def _within(rows: pa.Table, partition: int, chosen: ChosenRecords) -> pa.Table:
    since = -UNBOUNDED if chosen.since_ms is None else chosen.since_ms
    until = UNBOUNDED if chosen.until_ms is None else chosen.until_ms
    times = rows["timestamp"]
    kept = rows.filter(pc.and_(pc.greater_equal(times, since), pc.less(times, until)))
    kept = kept.select([name for name in _COLUMNS if name in kept.column_names])
    return kept.append_column("partition", pa.repeat(pa.scalar(partition, pa.int32()), len(kept)))


def _together(parts: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts, promote_options="default").combine_chunks()
