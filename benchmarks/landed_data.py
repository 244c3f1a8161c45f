"""The benchmark's topic, landed: records with a Zipf tail of keys, a fifth of them out of order.

Data: per partition one record every 4 ms; 20 % are set back by up to 30 s; keys ``user-<n>`` (string), values long.
Written as landing writes them, without Spark, so that preparing 10 M records takes seconds.
"""

import numpy as np
import pyarrow as pa

from jobs.kernels.murmur2 import murmur2_partitions
from state.commit import commit_files
from state.files import TaskFile
from state.ledger import Ledger
from state.serdes import Serde
from state.tables import LANDED_SCHEMA, Warehouse

STEP_MS = 4
SET_BACK_SHARE, SET_BACK_MS_MAX = 0.2, 30_000
ROWS_A_FILE = 2_500_000


def zipf_keys(records: int, keys: int, generator: np.random.Generator, *, uniform: bool = False) -> np.ndarray:
    """Key numbers in ``[0, keys)``: a Zipf tail (exponent 1), or all alike."""
    if uniform:
        return generator.integers(0, keys, records)
    weights = np.cumsum(1.0 / np.arange(1, keys + 1))
    return np.searchsorted(weights, generator.random(records) * weights[-1])


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
    """Land ``records`` as increment 1 of ``topic``."""
    generator = np.random.default_rng(seed)
    numbers = zipf_keys(records, keys, generator, uniform=uniform)
    names = pa.array([f"user-{n}" for n in range(keys)]).cast(pa.binary())
    partition_of = murmur2_partitions(names, partitions)
    files, ends = [], {}
    for partition in range(partitions):
        mine = numbers[partition_of[numbers] == partition]
        count = len(mine)
        ends[str(partition)] = count
        time_ms = np.arange(count, dtype=np.int64) * STEP_MS + SET_BACK_MS_MAX
        late = generator.random(count) < SET_BACK_SHARE
        time_ms[late] -= generator.integers(0, SET_BACK_MS_MAX, int(late.sum()))
        values = generator.integers(0, 1_000, count)
        for first in range(0, count, ROWS_A_FILE):
            part = slice(first, min(first + ROWS_A_FILE, count))
            rows = len(mine[part])
            table = pa.table(
                {
                    "offset": np.arange(part.start, part.stop),
                    "timestamp": time_ms[part],
                    "timestamp_type": pa.array(["CreateTime"] * rows),
                    "key": names.take(pa.array(mine[part])),
                    "value": Serde.long().encode(pa.array(values[part])),
                    "headers": pa.array([[]] * rows, LANDED_SCHEMA.field("headers").type),
                    "increment": np.full(rows, 1),
                }
            )
            file = TaskFile(warehouse.landed(topic), partition=partition, name="00000001")
            file.write(table)
            written = file.close()
            assert written is not None
            files.append(written)
    version = commit_files(warehouse.landed(topic), LANDED_SCHEMA, files, app_id=f"landing/{topic}/0", increment=1)
    ledger = Ledger(warehouse.landing_ledger(topic))
    zero = dict.fromkeys(ends, 0)
    ledger.plan(1, {"cut_from": zero, "cut_to": ends}, written_at_ms=0)
    content = {"partitions": partitions, "cut_from": zero, "cut_to": ends, "records": records, "table_version": version}
    ledger.done(1, content, written_at_ms=0)
