"""Topics of any size, number of partitions, number of keys and skew, to see how time grows with each.

Rule: as ``clicks`` of landed_data, but the topic as a whole has a record every millisecond, whatever its partitions. So
only one thing varies: keys and times, and with them sessions and windows, are as many in 1 partition as in 64. One
partition is in memory at a time, about 35 bytes a record.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstreams_replay.state.records.murmur2 import murmur2_partitions

from .landed_data import SET_BACK_MS_MAX, SET_BACK_SHARE, VALUES, LandedColumns

SKEWS = ("zipf", "uniform", "hot-key", "hot-partition")
"""Of keys: a Zipf tail; all alike; a Zipf tail and one key with half of all records; a Zipf tail and one partition with
nine tenths of all records.
"""
HOT_KEY_SHARE, HOT_PARTITION_SHARE = 0.5, 0.9
_AT_ONCE = 2_000_000


def clicks(records: int, *, partitions: int, keys: int, skew: str, seed: int = 7) -> Iterator[LandedColumns]:
    """Records of every partition, 0 first. ``skew``: one of SKEWS; there is a key for every partition."""
    generator = np.random.default_rng(seed)
    names = pc.binary_join_element_wise("user-", pa.array(np.arange(keys)).cast(pa.string()), "").cast(pa.binary())
    partition_of = murmur2_partitions(names, partitions)
    weights = _weights(keys, skew)
    counts = _counts(records, np.bincount(partition_of, weights, partitions), skew)
    for partition, count in enumerate(counts.tolist()):
        mine = np.flatnonzero(partition_of == partition).astype(np.int32)
        numbers = _drawn(mine, weights, count, generator)
        yield LandedColumns(names.take(pa.array(numbers)), *_times_and_values(records, count, generator))


def _weights(keys: int, skew: str) -> np.ndarray:
    """How often each key comes; the sum is 1."""
    weights = np.ones(keys) if skew == "uniform" else 1.0 / np.arange(1, keys + 1)
    if skew == "hot-key":
        weights[0] = weights[1:].sum() * HOT_KEY_SHARE / (1 - HOT_KEY_SHARE)
    shares: np.ndarray = weights / weights.sum()
    return shares


def _counts(records: int, shares: np.ndarray, skew: str) -> np.ndarray:
    """Records of each partition; ``shares``: of its keys."""
    if skew == "hot-partition" and len(shares) > 1:
        rest = 1 - shares[0]
        shares = shares * (1 - HOT_PARTITION_SHARE) / rest
        shares[0] = HOT_PARTITION_SHARE
    ends = np.rint(np.cumsum(shares) * records).astype(np.int64)
    return np.diff(ends, prepend=0)


def _drawn(mine: np.ndarray, weights: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """``count`` of the key numbers ``mine``."""
    upto, drawn = np.cumsum(weights[mine]), np.empty(count, np.int32)
    for first in range(0, count, _AT_ONCE):
        part = drawn[first : first + _AT_ONCE]
        indices = np.searchsorted(upto, generator.random(len(part)) * upto[-1], side="right")
        part[:] = mine[np.minimum(indices, len(mine) - 1)]
    return drawn


def _times_and_values(records: int, count: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Evenly over as many milliseconds as there are ``records``, a fifth of them set back by up to 30 s."""
    time_ms, values = np.empty(count, np.int64), np.empty(count, np.int64)
    for first in range(0, count, _AT_ONCE):
        part = time_ms[first : first + _AT_ONCE]
        part[:] = (np.arange(first, first + len(part)) + 1) * records // max(count, 1) + SET_BACK_MS_MAX
        late = generator.random(len(part)) < SET_BACK_SHARE
        part[late] -= generator.integers(0, SET_BACK_MS_MAX, int(late.sum()))
        values[first : first + len(part)] = generator.integers(0, VALUES, len(part))
    return time_ms, values
