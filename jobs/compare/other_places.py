"""Rows that production has in another partition, or in another order.

Owns the evidence. A key is hashed as known partitioners do, over the partitions of the landed topic: Kafka's murmur2
(of the key without its window, or with it), librdkafka's CRC32, FNV-1a of Go's clients. The first that gives the
partitions of all rows is the partitioner. Rows of different keys have an order only where one task made them of one
topic partition. Where records of several topics cause them, or of a topic that several tasks write, their order is an
interleaving.
"""

import zlib
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.distinct_numbers import are_among
from ...state.records.murmur2 import murmur2_partitions
from ...state.tables.data_files import read_rows
from .alignment import RowVerdict
from .case import Case, Cause

MURMUR2 = "Kafka's murmur2 of the key"

_SAMPLE = 4096


def explain_places(case: Case) -> str | None:
    """Give PARTITION_COUNT and PARTITIONER; returns the partitioner of production, None where none is known."""
    rows = case.unexplained(RowVerdict.OTHER_PARTITION)
    if not len(rows):
        return None
    keys = _keys(case, rows)
    known = np.flatnonzero(keys.is_valid().to_numpy(zero_copy_only=False))
    # CRC32 and FNV-1a take a Python call a key, so a partitioner has to give a sample first.
    partitions, some = case.theirs.partition[rows], known[:: max(1, len(known) // _SAMPLE)]
    for name, hashed in _partitioners(case):
        if len(some) and np.array_equal(hashed(keys.take(pa.array(some))), partitions[some]):
            fits = known[hashed(keys.take(pa.array(known))) == partitions[known]]
            is_count = name == MURMUR2 and case.landed.partitions != case.partitions
            case.give(rows[fits], Cause.PARTITION_COUNT if is_count else Cause.PARTITIONER)
            return name
    return None


def explain_order(case: Case) -> None:
    """Give INTERLEAVING where the rules say no order of the rows, and CRASH among rows that a crash wrote again: these
    are around a row in either order.
    """
    rows = case.unexplained(RowVerdict.OTHER_ORDER)
    if not case.output.has_one_order(case.done.partitions):
        case.give(rows, Cause.INTERLEAVING)
        return
    is_twice = np.isin(case.theirs_cause, (Cause.PUBLISHED_TWICE, Cause.PROCESSED_TWICE))
    case.give(rows[np.isin(case.theirs.partition[rows], case.theirs.partition[is_twice])], Cause.CRASH)


def explain_append_time(case: Case) -> None:
    """Give APPEND_TIME where the broker stamped what production wrote."""
    rows = case.unexplained(RowVerdict.OTHER_TIME)
    if len(rows):
        schema = pa.schema([("timestamp_type", pa.string())])
        stamped = read_rows(case.landed.path, case.landed.files[:1], schema)["timestamp_type"]
        if pc.all(pc.equal(stamped, "LogAppendTime")).as_py():
            case.give(rows, Cause.APPEND_TIME)


def _keys(case: Case, rows: np.ndarray) -> pa.BinaryArray:
    """The bytes of the keys of ``rows`` of production."""
    partitions, offsets = case.theirs.partition[rows], case.theirs.offset[rows]
    schema = pa.schema([("offset", pa.int64()), ("key", pa.binary())])
    parts: list[pa.Array] = []
    order: list[np.ndarray] = []
    for file in case.landed.files:
        here = np.flatnonzero(partitions == file.partition)
        read = read_rows(case.landed.path, [file], schema) if len(here) else schema.empty_table()
        known = read["offset"].to_numpy()
        here = here[are_among(offsets[here], known)]
        if len(here):
            by_offset = np.argsort(known)
            at = by_offset[np.searchsorted(known, offsets[here], sorter=by_offset)]
            parts.append(read["key"].take(pa.array(at)).combine_chunks())
            order.append(here)
    assert sum(map(len, order)) == len(rows), "a row of the landed topic is gone"
    back = np.argsort(np.concatenate(order))
    keys: pa.BinaryArray = pa.concat_arrays(parts).take(pa.array(back))
    return keys


def _partitioners(case: Case) -> list[tuple[str, Callable[[pa.BinaryArray], np.ndarray]]]:
    """By name functions of keys that are not null, which give partitions of the landed topic."""
    partitions, window = case.landed.partitions, case.output.key_serde.codec.window_bytes

    def inner(keys: pa.BinaryArray) -> pa.BinaryArray:
        return pc.binary_slice(keys, 0, -window) if window else keys

    def each(hashed: Callable[[bytes], int]) -> Callable[[pa.BinaryArray], np.ndarray]:
        return lambda keys: np.array([hashed(key) % partitions for key in keys.to_pylist()], np.int32)

    partitioners: list[tuple[str, Callable[[pa.BinaryArray], np.ndarray]]] = [
        (MURMUR2, lambda keys: murmur2_partitions(inner(keys), partitions))
    ]
    if window:
        partitioners.append(
            ("Kafka's murmur2 of the key with its window", lambda keys: murmur2_partitions(keys, partitions))
        )
    return [
        *partitioners,
        ("CRC32 of the key (librdkafka's consistent)", each(zlib.crc32)),
        ("FNV-1a of the key (Sarama's hash partitioner)", each(_fnv1a)),
    ]


def _fnv1a(key: bytes) -> int:
    """32 bits, read with a sign, without it: as Sarama takes it."""
    digest = 0x811C9DC5
    for byte in key:
        digest = ((digest ^ byte) * 0x01000193) & 0xFFFFFFFF
    return digest if digest < 2**31 else 2**32 - digest
