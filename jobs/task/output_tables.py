"""Tables that a task hands out: outputs, repartitions, exports, drops and dead letters, as Arrow columns.

Owns their columns. Rule: ``cause`` is the row of the chunk that caused a row; who keeps positions (the task's files,
the test driver) looks them up there.
"""

import numpy as np
import pyarrow as pa

from ...state.records.batches import NO_OFFSET, Batch, Chunk, Drops
from ...state.records.drop_reasons import DropReason
from ...state.records.murmur2 import murmur2_partitions
from ...state.tables.warehouse import DROPPED_SCHEMA, HEADERS
from ..functions.expressions import python_keys
from ..graph.nodes import RepartitionNode, SourceNode
from ..tape.task_input import LANDED_TIME


def output_table(batch: Batch, chunk: Chunk, topics: list[str] | None = None) -> pa.Table:
    """Records for a sink: cause, cause_offset, [topic, of ``topics``], key (as ``Keys.as_dictionary``), [window
    bounds], value, record_time_ms, stream_time_ms, headers.
    """
    stream_time = chunk.stream_time_ms[batch.cause] if batch.stream_time_ms is None else batch.stream_time_ms
    window = {}
    if batch.window_start_ms is not None:
        window = {"window_start_ms": batch.window_start_ms, "window_end_ms": batch.window_end_ms}
    return pa.table(
        {
            "cause": batch.cause,
            "cause_offset": chunk.offset[batch.cause],
            **({} if topics is None else {"topic": pa.array(topics, pa.string())}),
            "key": batch.keys.as_dictionary(batch.key),
            **window,
            "value": batch.value.all(),
            "record_time_ms": batch.time_ms,
            "stream_time_ms": stream_time,
            "headers": _headers(batch),
        }
    )


def sent_records(node: RepartitionNode, batch: Batch, chunk: Chunk, partitions: int) -> tuple[Batch, np.ndarray]:
    """Records of ``batch`` as they are sent to ``node``, and the partition of each, int32.

    Where a partitioner gives several partitions a record is sent to each; where it gives an empty set the record is
    refused (RecordCollectorImpl.send).
    """
    if node.target_of is not None:
        value = batch.value.all()
        target = value.flatten()[value.type.get_field_index(node.target_of)].to_numpy().astype(np.int32)
    else:
        target = murmur2_partitions(node.hashed(batch.keys.take(batch.key)), partitions)
        # Kafka's producer puts null keys into any partition. The task's own one is the same in every run.
        target[batch.key < 0] = chunk.partition % partitions
    if not node.has_partitioner:
        return batch, target
    records = zip(python_keys(node.shape, batch), node.shape.value.to_python(batch.value.all()), strict=True)
    chosen = [node.partitions_of(*record, partitions) for record in records]
    several = [
        [by_key] if numbers is None else numbers for by_key, numbers in zip(target.tolist(), chosen, strict=True)
    ]
    times = np.array([len(numbers) for numbers in several], np.int64)
    nowhere = np.flatnonzero(times == 0).astype(np.int32)
    chunk.drop(node.name, batch, Drops(DropReason.NO_PARTITION, nowhere, np.ones(len(nowhere), np.bool_)))
    sent = batch if (times == 1).all() else batch.take(np.repeat(np.arange(len(batch)), times))
    return sent, np.array([one for numbers in several for one in numbers], np.int32)


def repartition_table(node: RepartitionNode, batch: Batch, chunk: Chunk, target: np.ndarray) -> pa.Table:
    """Serialized records: cause, ``target`` (partition), timestamp, key, value, headers, and ``old`` of a change."""
    key = batch.keys.take(batch.key)
    value = batch.value.all()
    columns = {
        "cause": batch.cause,
        "target": target,
        "timestamp": batch.time_ms,
        "key": key.cast(pa.binary()),
        "value": node.shape.value.encode(value),
        "headers": _headers(batch),
    }
    if node.is_replay_only and not node.has_own_offsets:
        topic, offset = batch.coordinates(chunk)
        names = pa.array(chunk.context_topics, pa.string())
        columns |= {"context_offset": _nullable(offset, offset), "context_topic": names.take(_nullable(topic, offset))}
    if node.carries_change:
        columns["old"] = (
            pa.nulls(len(batch), pa.binary()) if batch.old is None else node.shape.value.encode(batch.old.all())
        )
    return pa.table(columns)


def export_table(batch: Batch, chunk: Chunk) -> pa.Table:
    """Records for a later part of the same task: cause, timestamp, key, value and what else the batch has; and the
    place and time of the record of a topic that caused it.
    """
    topic, offset = batch.coordinates(chunk)
    columns = {
        "cause": batch.cause,
        "timestamp": batch.time_ms,
        "key": batch.keys.take(batch.key).cast(pa.binary()),
        "value": batch.value.all(),
        "headers": _headers(batch),
        "offset": chunk.offset[batch.cause],
        "origin_topic": pa.array(chunk.topics, pa.string()).take(pa.array(chunk.origin[batch.cause])),
        "origin_time_ms": chunk.time_ms[batch.cause],
        "context_offset": _nullable(offset, offset),
        "context_topic": pa.array(chunk.context_topics, pa.string()).take(_nullable(topic, offset)),
    }
    if batch.old is not None:
        columns["old"] = batch.old.all()
    for name in ("latest", "window_start_ms", "window_end_ms"):
        if getattr(batch, name) is not None:
            columns[name] = getattr(batch, name)
    return pa.table(columns)


def _nullable(numbers: np.ndarray, offset: np.ndarray) -> pa.Array:
    """``numbers``, null for records that are from no topic."""
    return pa.array(numbers, mask=offset == NO_OFFSET)


def _headers(batch: Batch) -> pa.Array:
    return pa.nulls(len(batch), HEADERS) if batch.headers is None else batch.headers


_DROPPED = pa.schema([c for c in DROPPED_SCHEMA if c.name not in ("partition", "increment", "sub_topology", "arrival")])


def dropped_table(chunk: Chunk) -> pa.Table:
    """Every refusal, as DROPPED_SCHEMA, and its cause."""
    dropped = chunk.refused & ~chunk.applied
    schema = _DROPPED.append(pa.field("cause", pa.int32()))
    pieces = [schema.empty_table()]
    topics = pa.array(chunk.topics, pa.string())
    for node, cause, drops in chunk.drops:
        n = len(cause)
        numbers = (drops.limit_ms, drops.window_start_ms, drops.window_end_ms)
        stream_time = chunk.stream_time_ms[cause] if drops.stream_time_ms is None else drops.stream_time_ms
        columns = [
            pa.array([node] * n, pa.string()),
            pa.array([drops.reason.value] * n, pa.string()),
            topics.take(pa.array(chunk.origin[cause])),
            pa.array(chunk.offset[cause]),
            pa.array(chunk.time_ms[cause]),
            pa.array(stream_time),
            *(pa.nulls(n, pa.int64()) if column is None else pa.array(column) for column in numbers),
            pa.array(drops.is_record & dropped[cause] & chunk.is_record[cause]),
            pa.array(cause.astype(np.int32)),
        ]
        pieces.append(pa.table(columns, schema=schema))
    return pa.concat_tables(pieces)


def dead_letter_table(
    records: pa.Table, cause: np.ndarray, source: SourceNode | RepartitionNode, reasons: dict[int, str]
) -> pa.Table:
    """Undecodable records of one source, by row of ``records``."""
    rows = records.take(pa.array(list(reasons), pa.int64()))
    n = len(reasons)
    return pa.table(
        {
            "node": pa.array([source.name] * n, pa.string()),
            "reason": pa.array(list(reasons.values()), pa.string()),
            "topic": pa.array([source.topic] * n, pa.string()),
            "offset": rows["offset"],
            "record_time_ms": rows[LANDED_TIME if LANDED_TIME in rows.column_names else "timestamp"],
            "key": rows["key"].cast(pa.binary()),
            "value": rows["value"].cast(pa.binary()),
            "cause": pa.array(cause[list(reasons)].astype(np.int32)),
        }
    )


def failed_step_table(
    records: pa.Table, cause: np.ndarray, source: SourceNode | RepartitionNode, chunk: Chunk
) -> pa.Table:
    """Records of one source on which a step failed, as they came, with the step and what it said."""
    here = np.flatnonzero(np.isin(cause, list(chunk.failures)))
    rows = {int(row): chunk.failures[int(cause[row])] for row in here}
    letters = dead_letter_table(records, cause, source, {row: reason for row, (_, reason) in rows.items()})
    return letters.set_column(0, "node", pa.array([node for node, _ in rows.values()], pa.string()))
