"""Order of causes: landed records are processed one by one, and all that one causes, in every sub-topology, comes
before the next one (order="arrival", the order of Kafka's TopologyTestDriver).

Owns the tree of causes. Rule: a row's place is (arrival, sequence): the number of the landed record, and its number
among the rows that this one caused, 0 for itself. What goes to another task through no topic of Kafka's (*inlined*) is
taken in the middle of the record that sent it, depth first.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...state.errors import TaskFailed
from ...state.times import UNBOUNDED
from ..kernels.causal_order import INLINED, number_caused

if TYPE_CHECKING:
    from ..topology.topology import Topology

LANDED = -1
"""``parent`` of what a landed record sent itself; one less for each task between that handed a recorded time on."""
ADVANCE_SEQUENCES = 2**40
"""What a recorded time causes is numbered from here on for every task that it was handed on by."""
RUNS_MAX = 100
"""So often at most the same records are run until their order is settled; two or three times are usual."""
_NEW = -1
"""Number of a row that was not sent before."""


class _SentRow(NamedTuple):
    arrival: np.ndarray
    parent: np.ndarray
    send: np.ndarray
    time: np.ndarray
    topic: np.ndarray


class CausalOrder:
    """Rows that some landed records cause and that go from task to task, numbered from 0 as they are added.

    Processing a record can move records that were processed before it. Then all stages run again (``again``), with the
    previous run's sends in place of sends not yet produced. Each run fixes at least one more record's final position,
    so the reruns end. A row keeps its number: it is identified by its parent, its topic and its number among the rows
    that the parent sends there.
    """

    def __init__(self) -> None:
        none = np.zeros(0, np.int64)
        self._sent = [_SentRow(none, none, none, none, none)]
        self._run, self._runs = 0, [none]
        """Of every row the last run in which it was sent, as ``_sent`` has them."""
        self._count = 0
        self._topics: dict[str, int] = {}
        self._is_inlined: list[bool] = []
        """By topic."""
        self._ended: set[int] = set()
        self._sequence: np.ndarray | None = None

    def add(
        self, topic: str, arrival: np.ndarray, parent: np.ndarray, send: np.ndarray, time: np.ndarray | None
    ) -> np.ndarray:
        """Enter rows sent to ``topic``, the next that their parents send there; returns their numbers.

        ``arrival`` of the landed record that caused each; ``parent``: number of the row whose processing sent it, or
        LANDED or below; ``send``: the order among its parent's rows, over all topics. ``time`` in ms, None: these are
        inlined.
        """
        if not len(arrival):
            return np.zeros(0, np.int64)
        number = self._topics.setdefault(topic, len(self._topics))
        if number == len(self._is_inlined):
            self._is_inlined.append(time is None)
        time = np.zeros(len(arrival), np.int64) if time is None else time
        sent = _SentRow(arrival, parent, send, time, np.full(len(arrival), number))
        numbers = np.full(len(arrival), _NEW) if self._run == 0 else self._known(sent, number)
        is_new = numbers == _NEW
        numbers[is_new] = self._count + np.arange(np.count_nonzero(is_new))
        self._count += int(np.count_nonzero(is_new))
        self._sent.append(_SentRow(*(column[is_new] for column in sent)))
        self._runs.append(np.full(np.count_nonzero(is_new), self._run))
        self._sequence = None
        if not is_new.all():
            self._renew(numbers[~is_new], _SentRow(*(column[~is_new] for column in sent)))
        return numbers

    def end(self, topics: Iterable[str]) -> None:
        """No more is sent to ``topics`` in this run."""
        self._ended |= {self._topics[topic] for topic in topics if topic in self._topics}
        if self._run:  # in the first run nothing stands in for what is not sent yet
            self._sequence = None

    def refuse_endless(self) -> None:
        """Raises TaskFailed where records were run RUNS_MAX times and their order is still not settled."""
        if self._run + 1 >= RUNS_MAX:
            raise TaskFailed(
                "order of causes",
                f"to be settled after {RUNS_MAX} runs of the same records",
                "tasks that send something else every time",
                "look for a callable that answers differently each time; else take fewer records an increment",
            )

    def again(self) -> None:
        """Begin another run over the same landed records."""
        self._run, self._ended, self._sequence = self._run + 1, set(), None

    def sequence(self, numbers: np.ndarray) -> np.ndarray:
        """Place of rows among what their landed record caused, by what is known so far; 0 for LANDED."""
        if self._sequence is None:
            self._sequence = self._numbered()
        known = self._sequence[np.maximum(numbers, 0)] if self._count else 0
        # A recorded time that was handed on by k tasks has the number LANDED - k. It comes behind all that its landed
        # record causes, and the k-th behind the one before it, so each k has ADVANCE_SEQUENCES numbers of its own.
        sequence: np.ndarray = np.where(numbers < 0, (LANDED - numbers) * ADVANCE_SEQUENCES, known)
        return sequence

    def end_of(self, arrival: int, number: int) -> int:
        """The highest place that belongs to the record taken last at or before row ``number``: its own, or of what is
        inlined in it.
        """
        if not self._count:
            return 0
        sent, _ = self._all()
        sequences = self.sequence(np.flatnonzero((sent.arrival == arrival) & ~self._inlined(sent)))
        later = sequences[sequences > self.sequence(np.array([number]))[0]]
        return int(later.min(initial=UNBOUNDED)) - 1

    def _inlined(self, sent: _SentRow) -> np.ndarray:
        is_inlined: np.ndarray = np.array(self._is_inlined, np.bool_)[sent.topic]
        return is_inlined

    def _known(self, sent: _SentRow, topic: int) -> np.ndarray:
        """Numbers of the rows that were sent in an earlier run, and _NEW."""
        known, runs = self._all()
        before = np.flatnonzero((known.topic == topic) & (runs < self._run))
        both = [
            np.concatenate([column[before], own]) for column, own in zip(known[:3], sent[:3], strict=True)
        ]  # arrival, parent, send
        n = len(before)
        is_own = np.arange(len(both[0])) >= n
        arrival, parent = both[:2]
        ordinal = np.empty(len(is_own), np.int64)
        # A row is the same as in an earlier run if it is the n-th that its parent sends to the topic, whatever its send
        # number is among the rows of other topics. So both lists are numbered within their parents, and equal numbers
        # are paired.
        for mine in (~is_own, is_own):
            rows = np.flatnonzero(mine)
            order = rows[np.lexsort([column[rows] for column in reversed(both)])]
            ordinal[order] = _within(_changes(arrival[order], parent[order]))
        # Equal rows of both lists are neighbours now, the earlier run's first.
        order = np.lexsort((is_own, ordinal, parent, arrival))
        twice = np.flatnonzero(~_changes(arrival[order], parent[order], ordinal[order]))
        numbers = np.full(len(sent.arrival), _NEW)
        numbers[order[twice] - n] = before[order[twice - 1]]
        return numbers

    def _renew(self, numbers: np.ndarray, sent: _SentRow) -> None:
        """Rows were sent once more, perhaps at another time."""
        known, runs = self._all()
        for column, new in zip(known, sent, strict=True):
            column[numbers] = new
        runs[numbers] = self._run

    def _all(self) -> tuple[_SentRow, np.ndarray]:
        """All rows by number, and in which run they were sent last."""
        if len(self._sent) != 1:
            self._sent = [_SentRow(*(np.concatenate(columns) for columns in zip(*self._sent, strict=True)))]
            self._runs = [np.concatenate(self._runs)]
        return self._sent[0], self._runs[0]

    def _numbered(self) -> np.ndarray:
        """By number the place among what the landed record caused; 0 for a row that is not there."""
        if not self._count:
            return np.zeros(0, np.int64)
        sent, runs = self._all()
        is_open = ~np.isin(sent.topic, list(self._ended))
        # Rows of this run; and for a topic to which more may be sent, those of the last run stand in for what is
        # missing yet.
        there = np.flatnonzero((runs == self._run) | (is_open & (runs == self._run - 1)))
        order = there[np.lexsort((sent.send[there], sent.parent[there], sent.arrival[there]))]
        # In order of (landed record, parent, send), so that what one row sends is a range: ``starts`` to ``ends``.
        parent, n = sent.parent[order], len(order)
        index = np.full(self._count, _NEW)
        index[order] = np.arange(n)
        starts = np.flatnonzero(_changes(sent.arrival[order], parent))
        ends = np.append(starts[1:], n)
        begin, end = np.zeros(n, np.int64), np.zeros(n, np.int64)
        # A range whose parent is a landed record, or a recorded time that was handed on, has no row above it.
        is_first = parent[starts] <= LANDED
        above = index[parent[starts]]
        has_parent = ~is_first & (above != _NEW)
        begin[above[has_parent]], end[above[has_parent]] = starts[has_parent], ends[has_parent]
        queue = np.where(self._inlined(sent), INLINED, sent.topic)[order]
        sequence, rest = np.zeros(n, np.int64), (queue, sent.time[order], len(self._topics))
        # Each level of recorded times is numbered on its own, behind the levels before it, as in ``sequence``.
        for level in np.unique(parent[starts[is_first]]).tolist():
            roots, caused = is_first & (parent[starts] == level), np.zeros(n, np.int64)
            number_caused(starts[roots], ends[roots], begin, end, *rest, caused)
            sequence += np.where(caused > 0, caused + (LANDED - level) * ADVANCE_SEQUENCES, 0)
        numbered = np.zeros(self._count, np.int64)
        numbered[order] = sequence
        return numbered


def _changes(*columns: np.ndarray) -> np.ndarray:
    """Of sorted rows, those that differ from the one before."""
    is_change = np.ones(len(columns[0]), np.bool_)
    is_change[1:] = np.logical_or.reduce([np.diff(column) != 0 for column in columns])
    return is_change


def _within(is_first: np.ndarray) -> np.ndarray:
    """Number of every row within its group, from 0."""
    rows = np.arange(len(is_first))
    begun: np.ndarray = rows - np.maximum.accumulate(np.where(is_first, rows, 0))
    return begun


def are_in_order(arrival: np.ndarray, sequence: np.ndarray) -> bool:
    """Whether the rows of a task, as it took them, are in the order of causes."""
    later = np.diff(arrival)
    return bool(np.all((later > 0) | ((later == 0) & (np.diff(sequence) >= 0))))


def is_known_late(topology: "Topology") -> bool:
    """Whether the order of records that a task takes may depend on what is sent after it ran.

    Two queues of a heap keep their order whatever is in them; a third may change it, where times are equal.
    """
    topics = {node.topic for sub in topology.sub_topologies for node in sub.repartitions if not node.is_replay_only}
    return len(topics) > 2
