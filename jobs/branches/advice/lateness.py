"""How far records were behind an operator's stream time when they came to it, by partition, and of which keys.

Owns the counting. Rule: a record is so late as its time is below the largest time that the operator had seen before it,
0 when it is not below; a grace of that much takes it. Percentiles are exact (nearest rank), over all records that have
a key, those that are not late included.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....state.records.batches import Batch
from ....state.times import NO_TIMESTAMP_MS
from ...graph.graph import Node
from ...operators.base.forward_order import merge_in_forward_order

PERCENTILES = (50.0, 90.0, 99.0, 99.9)


@dataclass(frozen=True)
class Lateness:
    """Of one partition, None: of all. ``records``: with a key; ``records_behind``: late by 1 ms or more; ``keys``:
    those that came, ``keys_behind``: those with a record that was late. Percentiles by PERCENTILES in ms.
    """

    partition: int | None
    records: int
    records_behind: int
    percentiles_ms: dict[float, int]
    max_ms: int
    keys: int
    keys_behind: int


class LatenessCount:
    """Of one node in one task, while it runs. 8 bytes a record that is late, 2 a key."""

    def __init__(self) -> None:
        self.records = 0
        self.late: list[np.ndarray] = []
        """Milliseconds of those that were late, batch by batch."""
        self._seen, self._behind = np.zeros(0, np.bool_), np.zeros(0, np.bool_)

    @property
    def keys(self) -> tuple[int, int]:
        """Keys that came, and those with a late record."""
        return int(self._seen.sum()), int(self._behind.sum())

    def add(self, node: Node, inputs: Sequence[Batch], clocks_ms: Sequence[int]) -> None:
        """Enter what came to ``node``. ``clocks_ms``: its stream time before; one an input where each has its own."""
        groups = [inputs] if len(clocks_ms) == 1 else [[batch] for batch in inputs]
        for clock_ms, batches in zip(clocks_ms, groups, strict=True):
            self._add(node, batches, clock_ms)

    def _add(self, node: Node, batches: Sequence[Batch], clock_ms: int) -> None:
        merged = merge_in_forward_order(batches)
        starts = np.cumsum([0, *(len(batch) for batch in batches[:-1])])
        rows = starts[merged.which] + merged.row
        key, time_ms, valid = (
            np.concatenate([getattr(batch, name) for batch in batches])[rows] for name in ("key", "time_ms", "valid")
        )
        moves, counts = key >= 0, key >= 0
        if node.nulls_move_time:
            moves, counts = np.ones(len(key), np.bool_), counts & valid
        reached = np.maximum.accumulate(np.concatenate([[clock_ms], np.where(moves, time_ms, NO_TIMESTAMP_MS)]))
        late_ms, key = np.maximum(reached[:-1] - time_ms, 0)[counts], key[counts]
        self.records += len(key)
        self.late.append(late_ms[late_ms > 0])
        self._mark(key, key[late_ms > 0])

    def _mark(self, came: np.ndarray, behind: np.ndarray) -> None:
        most = int(came.max(initial=-1)) + 1
        if most > len(self._seen):
            more = np.zeros(max(most, 2 * len(self._seen)) - len(self._seen), np.bool_)
            self._seen, self._behind = np.concatenate([self._seen, more]), np.concatenate([self._behind, more])
        self._seen[came] = True
        self._behind[behind] = True


def lateness_of(counts: Mapping[int, LatenessCount]) -> list[Lateness]:
    """Of all partitions together, then of each. A key that comes to several partitions counts in each of them."""
    return [_total(None, counts.values()), *(_total(number, [counts[number]]) for number in sorted(counts))]


def _total(partition: int | None, counts: Iterable[LatenessCount]) -> Lateness:
    listed = list(counts)
    late = np.sort(np.concatenate([np.zeros(0, np.int64), *(piece for count in listed for piece in count.late)]))
    records = sum(count.records for count in listed)
    keys = [count.keys for count in listed]
    return Lateness(
        partition,
        records,
        len(late),
        {percent: _percentile(late, records, percent) for percent in PERCENTILES},
        int(late[-1]) if len(late) else 0,
        sum(came for came, _ in keys),
        sum(behind for _, behind in keys),
    )


def _percentile(late: np.ndarray, records: int, percent: float) -> int:
    """Nearest rank; ``late``: those above 0, sorted, and the rest of ``records`` is 0."""
    rank = math.ceil(round(percent * records / 100, 9))
    index = rank - 1 - (records - len(late))
    return int(late[index]) if 0 <= index < len(late) else 0
