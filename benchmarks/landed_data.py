"""The benchmark's topics, landed: a stream of clicks with a Zipf tail of keys, and tables that it is joined with.

Rule: the same arguments give the same rows; what is in a topic says its docstring. Written as landing writes them,
without Spark, so that preparing 10 M records takes seconds. No two topics have a record of one time, so
merging them has one order.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kstreams_replay.state.records.murmur2 import murmur2_partitions
from kstreams_replay.state.serdes import Serde
from kstreams_replay.state.tables.commit import commit_files
from kstreams_replay.state.tables.data_files import DataFile
from kstreams_replay.state.tables.ledger import LandingLedger
from kstreams_replay.state.tables.ledger_rows import LandingDoneRow, LandingPlanRow
from kstreams_replay.state.tables.parquet_writer import TaskFile
from kstreams_replay.state.tables.warehouse import LANDED_SCHEMA, Warehouse

STEP_MS = 4
SET_BACK_SHARE, SET_BACK_MS_MAX = 0.2, 30_000
UPDATE_STEP_MS = 20
DAY_MS = 86_400_000
CLOSING = "closing-"
"""Beginning of the keys of the records that close windows."""
VALUES = 1_000
"""Values are whole numbers from 0 to one less, all alike; as many are the items."""
ROWS_A_FILE = 2_500_000
ROWS_AT_ONCE = 250_000
"""Values are made for so many."""


@dataclass(frozen=True)
class LandedColumns:
    """Records of one partition in order of offset. ``keys``: their bytes; ``time_ms`` and ``values``: int64."""

    keys: pa.Array
    time_ms: np.ndarray
    values: np.ndarray


def zipf_keys(records: int, keys: int, generator: np.random.Generator, *, uniform: bool = False) -> np.ndarray:
    """Key numbers in ``[0, keys)``: a Zipf tail (exponent 1), or all alike."""
    if uniform:
        return generator.integers(0, keys, records)
    weights = np.cumsum(1.0 / np.arange(1, keys + 1))
    numbers: np.ndarray = np.searchsorted(weights, generator.random(records) * weights[-1])
    return numbers


def click_numbers(records: int, partitions: int, keys: int, seed: int, *, uniform: bool) -> list[np.ndarray]:
    """Key numbers of the clicks of every partition, in order; key ``n`` is ``user-<n>``."""
    numbers = zipf_keys(records, keys, np.random.default_rng(seed), uniform=uniform)
    partition_of = murmur2_partitions(_names("user", keys), partitions)
    return [numbers[partition_of[numbers] == partition] for partition in range(partitions)]


def clicks(
    records: int, *, partitions: int = 4, keys: int = 500_000, seed: int = 7, uniform: bool = False
) -> Iterator[LandedColumns]:
    """Per partition one record every 4 ms, a fifth of them set back by up to 30 s; times are even. Behind them a
    record of a key of its own, a day after the last of the topic, which closes all windows.
    """
    generator = np.random.default_rng(seed + 1)
    names, numbers = _names("user", keys), click_numbers(records, partitions, keys, seed, uniform=uniform)
    closing_ms = closing_time_ms(numbers)
    for partition, mine in enumerate(numbers):
        count = len(mine)
        time_ms = np.arange(count, dtype=np.int64) * STEP_MS + SET_BACK_MS_MAX
        late = generator.random(count) < SET_BACK_SHARE
        time_ms[late] -= generator.integers(0, SET_BACK_MS_MAX // 2, int(late.sum())) * 2
        yield LandedColumns(
            pa.concat_arrays([names.take(pa.array(mine)), _closing_key(partition, partitions)]),
            np.append(time_ms, closing_ms),
            np.append(generator.integers(0, VALUES, count), 0),
        )


def closing_time_ms(numbers: list[np.ndarray]) -> int:
    """Time of the record that closes a partition: a day after all clicks."""
    return max(len(mine) for mine in numbers) * STEP_MS + SET_BACK_MS_MAX + DAY_MS


def users(records: int, *, partitions: int = 4, keys: int = 500_000, seed: int = 7) -> Iterator[LandedColumns]:
    """Updates of a table beside ``clicks`` of the same arguments: a fifth as many, one every 20 ms and partition, each
    of any of the partition's distinct keys; in order; times are odd.
    """
    generator = np.random.default_rng(seed + 2)
    names = _names("user", keys)
    for mine in click_numbers(records, partitions, keys, seed, uniform=False):
        count = len(mine) * STEP_MS // UPDATE_STEP_MS
        chosen = generator.choice(np.unique(mine), count) if count else np.empty(0, np.int64)
        time_ms = np.arange(count, dtype=np.int64) * UPDATE_STEP_MS + SET_BACK_MS_MAX + 1
        yield LandedColumns(names.take(pa.array(chosen)), time_ms, generator.integers(0, VALUES, count))


def items(records: int, *, partitions: int = 4, seed: int = 7) -> Iterator[LandedColumns]:
    """``item-0`` to ``item-999``, each once before all else and once in the middle of ``records`` clicks."""
    generator = np.random.default_rng(seed + 3)
    names = _names("item", VALUES)
    partition_of = murmur2_partitions(names, partitions)
    middle_ms = SET_BACK_MS_MAX + records // partitions * STEP_MS // 2 // UPDATE_STEP_MS * UPDATE_STEP_MS
    for partition in range(partitions):
        mine = np.flatnonzero(partition_of == partition)
        time_ms = np.repeat([1, middle_ms + 3], len(mine)).astype(np.int64)
        yield LandedColumns(
            names.take(pa.array(np.tile(mine, 2))), time_ms, generator.integers(0, VALUES, 2 * len(mine))
        )


def land(
    warehouse: Warehouse,
    topic: str,
    *,
    records: int,
    partitions: int = 4,
    keys: int = 500_000,
    seed: int = 7,
    uniform: bool = False,
) -> None:
    """Land ``clicks`` as increment 1 of ``topic``."""
    land_rows(warehouse, topic, clicks(records, partitions=partitions, keys=keys, seed=seed, uniform=uniform))


def long_values(rows: LandedColumns, part: slice) -> pa.BinaryArray:
    """The values of the rows ``part`` as Kafka's longs."""
    return Serde.long().encode(pa.array(rows.values[part]))


def land_rows(
    warehouse: Warehouse,
    topic: str,
    partitions: Iterable[LandedColumns],
    *,
    rows_a_file: int = ROWS_A_FILE,
    values_of: Callable[[LandedColumns, slice], pa.BinaryArray] = long_values,
) -> None:
    """Land rows, partition 0 first, as increment 1 of ``topic``. ``values_of``: bytes of the values of some rows."""
    files, ends = [], []
    for partition, rows in enumerate(partitions):
        ends.append(len(rows.keys))
        for first in range(0, ends[-1], rows_a_file):
            file = TaskFile(warehouse.landed(topic), partition=partition, name="00000001")
            after = min(first + rows_a_file, ends[-1])
            for start in range(first, after, ROWS_AT_ONCE):
                part = slice(start, min(start + ROWS_AT_ONCE, after))
                times = pa.array(rows.time_ms[part])
                file.write(_as_landed(rows.keys[part], times, values_of(rows, part), start))
            written = file.close()
            assert written is not None
            files.append(written)
    _commit(warehouse, topic, files, ends)


def land_tables(warehouse: Warehouse, topic: str, tables: Iterable[pa.Table], *, partitions: int = 4) -> None:
    """Land ``partition``, ``key``, ``timestamp`` and ``value`` (bytes) in their order as increment 1 of ``topic``."""
    writers = [TaskFile(warehouse.landed(topic), partition=number, name="00000001") for number in range(partitions)]
    ends = [0] * partitions
    for table in tables:
        numbers = table["partition"].to_numpy()
        for number, writer in enumerate(writers):
            mine = table.filter(pa.array(numbers == number))
            writer.write(_as_landed(mine["key"], mine["timestamp"], mine["value"], ends[number]))
            ends[number] += len(mine)
    _commit(warehouse, topic, [file for file in (writer.close() for writer in writers) if file is not None], ends)


def _commit(warehouse: Warehouse, topic: str, files: list[DataFile], counts: list[int]) -> None:
    """Commit data and ledger; ``counts``: records by partition."""
    ends = {str(partition): count for partition, count in enumerate(counts)}
    version = commit_files(warehouse.landed(topic), LANDED_SCHEMA, files, app_id=f"landing/{topic}/0", increment=1)
    ledger = LandingLedger(warehouse.landing_ledger(topic))
    zero = dict.fromkeys(ends, 0)
    ledger.plan(1, LandingPlanRow(cut_from=zero, cut_to=ends), written_at_ms=0)
    done = LandingDoneRow(
        partitions=len(ends), cut_from=zero, cut_to=ends, records=sum(ends.values()), table_version=version
    )
    ledger.done(1, done, written_at_ms=0)


def _as_landed(keys: pa.Array, time_ms: pa.Array, values: pa.Array, first: int) -> pa.Table:
    """Rows of LANDED_SCHEMA but for the partition, from offset ``first`` on."""
    count = len(keys)
    return pa.table(
        {
            "offset": np.arange(first, first + count),
            "timestamp": time_ms,
            "timestamp_type": pa.array(["CreateTime"] * count),
            "key": keys,
            "value": values,
            "headers": pa.array([[]] * count, LANDED_SCHEMA.field("headers").type),
            "increment": np.full(count, 1),
        }
    )


def _names(kind: str, count: int) -> pa.Array:
    return pa.array([f"{kind}-{number}" for number in range(count)]).cast(pa.binary())


def _closing_key(partition: int, partitions: int) -> pa.Array:
    """The first ``closing-<n>`` that Kafka's partitioner sends to ``partition``, as an array of one."""
    names = _names(CLOSING.rstrip("-"), 64 * partitions)
    return names.slice(int(np.flatnonzero(murmur2_partitions(names, partitions) == partition)[0]), 1)
