"""Order of causes: every landed record has its place, and all that it causes, in every sub-topology, comes before the
next one (order="arrival", the order of Kafka's TopologyTestDriver).

Owns the tree of causes of one run. Rule: a record's place is (arrival, sequence): the number of the landed record, and
its number among the records that this one caused, 0 for itself.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jobs.kernels.arrivals import number_caused

LANDED = -1
"""``parent`` of what a landed record sent itself; one less for each task between that handed a recorded time on."""
MOMENT_SEQUENCES = 2**40
"""What a recorded time causes is numbered from here on for every task that it was handed on by."""


class _Sent(NamedTuple):
    arrival: np.ndarray
    parent: np.ndarray
    send: np.ndarray
    time: np.ndarray
    queue: np.ndarray


_BITS, _LEVELS = 20, 2


def sends(cause: Sequence[np.ndarray], rank: Sequence[np.ndarray], base: np.ndarray, level: int) -> list[np.ndarray]:
    """Which of the records that one record causes was sent first, comparable over the parts of a sub-topology.

    ``cause``: by table, the chunk's rows that caused its rows; ``rank``: which of all these rows was sent first, in the
    chunk. ``base``: of the chunk's rows, their own ``sends`` if an earlier part handed them on, else 0; ``level``: of
    this part.
    """
    first = np.full(len(base), np.iinfo(np.int64).max)
    for rows, ranks in zip(cause, rank, strict=True):
        np.minimum.at(first, rows, ranks)
    shift = _BITS * max(_LEVELS - level, 0)
    return [base[rows] + ((ranks - first[rows] + 1) << shift) for rows, ranks in zip(cause, rank, strict=True)]


class Causes:
    """Records of repartition topics, numbered from 0 as they are added."""

    def __init__(self) -> None:
        self._pieces: list[_Sent] = []
        self._count = 0
        self._queues: dict[str, int] = {}
        self._sequence = np.zeros(0, np.int64)

    def add(
        self, topic: str, arrival: np.ndarray, parent: np.ndarray, send: np.ndarray, time: np.ndarray
    ) -> np.ndarray:
        """Enter records sent to ``topic``; returns their numbers.

        ``arrival`` of the landed record that caused each; ``parent``: number of the record whose processing sent it, or
        LANDED or below; ``send``: which of its parent's records was sent first, comparable over topics; ``time`` in ms.
        """
        queue = np.full(len(arrival), self._queues.setdefault(topic, len(self._queues)))
        self._pieces.append(_Sent(arrival, parent, send, time, queue))
        numbers = np.arange(self._count, self._count + len(arrival))
        self._count += len(arrival)
        return numbers

    def sequence(self, numbers: np.ndarray) -> np.ndarray:
        """Place of records among what their landed record caused, by what is known so far; 0 for LANDED."""
        if len(self._sequence) != self._count:
            self._number()
        known = self._sequence[np.maximum(numbers, 0)] if self._count else 0
        return np.where(numbers < 0, (LANDED - numbers) * MOMENT_SEQUENCES, known)

    def _number(self) -> None:
        sent = _Sent(*(np.concatenate(columns) for columns in zip(*self._pieces, strict=True)))
        order = np.lexsort((sent.send, sent.parent, sent.arrival))
        arrival, parent = sent.arrival[order], sent.parent[order]
        begin, end = np.zeros(self._count, np.int64), np.zeros(self._count, np.int64)
        place = np.empty(self._count, np.int64)
        place[order] = np.arange(self._count)
        starts = np.flatnonzero(np.concatenate([[True], (np.diff(arrival) != 0) | (np.diff(parent) != 0)]))
        ends = np.append(starts[1:], self._count)
        is_first = parent[starts] <= LANDED
        begin[place[parent[starts[~is_first]]]] = starts[~is_first]
        end[place[parent[starts[~is_first]]]] = ends[~is_first]
        sequence = np.zeros(self._count, np.int64)
        rest = sent.queue[order], sent.time[order], len(self._queues)
        for level in np.unique(parent[starts[is_first]]).tolist():
            roots, found = is_first & (parent[starts] == level), np.zeros(self._count, np.int64)
            number_caused(starts[roots], ends[roots], begin, end, *rest, found)
            sequence += np.where(found > 0, found + (LANDED - level) * MOMENT_SEQUENCES, 0)
        self._sequence = np.empty(self._count, np.int64)
        self._sequence[order] = sequence
