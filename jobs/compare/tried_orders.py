"""Another order of a task's topics, found by trial: a join looked up before or after an update of its table.

Owns the search. The order within a topic's partition is fixed. Which of two topics a task takes first depends on what
its consumer had fetched. So an order is, for each record that may cause rows, how many updates of the table were taken
before it, a number that never falls. A record sees the last update of its own key, so of these numbers only those
between two such updates differ. Record by record the smallest number is kept with which the task writes more of
production's rows, from the first one on: it leaves most to those that follow. Where none does, records before it that
took too many by an equal value take fewer. For all others the number is the nearest one to that of the order by time.

Rule: rows have this cause where the task writes all rows of production's partition. Where it does not, a key's rows
have it up to the last one, before the first that still differs, that is right without it. So an update that production
lost is none that came late.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...state.errors import TaskFailed
from ..operators.joins.stream_table_join_nodes import StreamTableJoinNode
from .alignment import RowVerdict
from .case import Case, Cause
from .trials import DIFFERENT, Run, TrialTask

MOVES_MAX = 256
"""Of a partition."""
UPDATES = 16
"""So many updates of a key are tried, before and behind the smallest number."""
RECORDS, PAIRS_MAX = 64, 64
"""Before a row that differs; so many pairs of one of these records and an update."""
PLACES_MAX = 8
"""Between two updates, for the records before the one that is moved."""


@dataclass(frozen=True, order=True)
class TakenPair:
    """Production took ``record`` before ``update``, or behind it, and a replay the other way round. Both are
    TOPIC:PARTITION:OFFSET.
    """

    record: str
    update: str
    is_before: bool


def may_differ_in_order(case: Case) -> bool:
    """Whether a task of the output looks into a table that it makes of another topic."""
    nodes = case.output.sub_topology.nodes
    return any(isinstance(node, StreamTableJoinNode) and node in nodes for node in case.output.above)


def find_order(task: TrialTask, restarts: Sequence[int], pairs: list[TakenPair]) -> None:
    """Give INTERLEAVING to what another order of the task's topics explains, besides ``restarts`` (places of its tape).
    The evidence of a row is the number of its pair, which is added to ``pairs``.
    """
    if not any(queue.is_global for queue in task.description.queues):
        _OrderSearch(task, restarts, pairs).search()


class _Bounds(NamedTuple):
    """By record and topic of updates, how many of these were taken before the record: at least and at most. Of the
    first ``known`` records, between which updates of its key.
    """

    low: np.ndarray
    high: np.ndarray
    known: int


class _TriedOrder(NamedTuple):
    """An order: ``taken``, updates by record and topic, within ``bounds``. ``score``: as of TrialTask. ``at``: the
    number of the record that caused the first row that differs. ``moves``: so many records were moved.
    """

    score: tuple[int, int]
    at: int
    taken: np.ndarray
    bounds: _Bounds
    moves: int


class _OrderSearch:
    def __init__(self, task: TrialTask, restarts: Sequence[int], pairs: list[TakenPair]) -> None:
        self.task, self.case, self.restarts, self.pairs = task, task.case, restarts, pairs
        causing = [source.name for source in self.case.output.causing]
        self._causes = np.array([source.name in causing for source in task.sources])
        self._of_key = _by_key(task.key)
        self._records = np.flatnonzero(self._causes[task.source])
        others = np.flatnonzero(~self._causes).tolist()
        self._updates = [np.flatnonzero(task.source == source) for source in others]
        self._updates_of_key = [_by_key(task.key[updates]) for updates in self._updates]
        counts = [np.searchsorted(updates, self._records) for updates in self._updates]
        self._by_time = np.array(counts, np.int64).reshape(len(others), -1).T
        _, code = np.unique(task.key, return_inverse=True)
        self._code = code[self._records]
        """Keys as small numbers."""
        self._codes = [
            np.concatenate([[-1], np.sort(code[updates] * (len(updates) + 1) + np.arange(len(updates))), [sys.maxsize]])
            for updates in self._updates
        ]
        """Of each topic the numbers of its updates, by key."""
        self._keys = dict[int, set[int]]()
        """Of a row's key those of the records that caused such rows."""
        for row_key, key in np.unique([self.case.ours.key[task.ours], task.key[task.base.place]], axis=1).T.tolist():
            self._keys.setdefault(row_key, set()).add(key)
        self._again = set[tuple[int, int, int]]()
        """What was let take fewer: the first record and the last, and how many at most."""
        self._least = dict[tuple[tuple[int, int], int], int]()
        """By how far an order came, the fewest updates with which one did."""

    def search(self) -> None:
        run = self.task.run(self.restarts) if self.restarts else self.task.base
        high = np.broadcast_to([len(updates) for updates in self._updates], self._by_time.shape)
        start = self._best = self._path(run, self._by_time, _Bounds(np.zeros_like(high), high, 0), 0)
        self._continue(start, run)
        if self._best.score > start.score:
            self._give(self._best)

    def _path(self, run: Run, taken: np.ndarray, bounds: _Bounds, moves: int) -> _TriedOrder:
        score = self.task.score(run)
        at = len(self._records)
        if score[0] < len(run.place):
            at = self._record(self._order(taken), run.place[score[0]])
        return _TriedOrder(score, at, taken, bounds, moves)

    def _continue(self, path: _TriedOrder, run: Run) -> bool:
        """Look for an order besides that of ``path``, which gives ``run``; whether all rows agree then. What writes the
        same rows so far may be wrong, which shows behind it: so the next one is tried then.
        """
        if path.score == self.task.best_score:
            return True
        gone = list[tuple[_TriedOrder, Run]]()
        for step, tried in self._tried(path, self._moves(path, run)):
            if step.score == path.score and step.at > path.at:
                gone.append((step, tried))  # the row that differs is not written, and the next one differs, too
            elif step.score > path.score and self._is_new(step):
                self._best = max(self._best, step, key=lambda each: each.score)
                if self._continue(step, tried):
                    return True
        return any(self._is_new(step) and self._continue(step, tried) for step, tried in gone) or any(
            self._continue(step, tried) for step, tried in self._tried(path, self._fewer(path))
        )

    def _tried(self, path: _TriedOrder, orders: Iterator[_Bounds]) -> Iterator[tuple[_TriedOrder, Run]]:
        for bounds in orders:
            if not self.task.has_room or path.moves >= MOVES_MAX:
                return
            taken = self._within(bounds)
            if taken is None:
                continue
            try:
                run = self.task.run(self.restarts, self._order(taken))
            except TaskFailed:  # as production did not
                continue
            yield self._path(run, taken, bounds, path.moves + 1), run

    def _fewer(self, path: _TriedOrder) -> Iterator[_Bounds]:
        """Bounds in which records before the first row that differs are free again up to one update of its key: they
        saw another one with an equal value.
        """
        low, high, _ = self._settled(path)
        record = min(path.at, len(self._records) - 1)
        for topic in range(len(self._updates)):
            updates, least = self._seen(record, topic), int(low[: record + 1, topic].max())
            for most in updates[updates < least][::-1][:UPDATES].tolist():
                first = int(np.flatnonzero(low[: record + 1, topic] > most)[0])
                if (first, record, most) not in self._again:
                    self._again.add((first, record, most))
                    again = _Bounds(low.copy(), high.copy(), first)
                    again.low[first : record + 1, topic] = 0
                    again.high[first:, topic] = len(self._updates[topic])
                    again.high[first : record + 1, topic] = most
                    yield again

    def _is_new(self, step: _TriedOrder) -> bool:
        """Whether its records take fewer updates, all together, than those of any order that came as far."""
        least = int(self._settled(step).low.sum())
        if least >= self._least.get((step.score, step.at), sys.maxsize):
            return False
        self._least[step.score, step.at] = least
        return True

    def _moves(self, path: _TriedOrder, run: Run) -> Iterator[_Bounds]:
        """Bounds with a record that may have caused the first row that differs between two other updates of its key.
        The last record and the fewest updates come first; then those for which records before it have to take fewer.
        """
        settled, agreed, until = self._settled(path), path.score[0], min(path.at, len(self._records) - 1)
        first = self._record(self._order(path.taken), run.place[agreed - 1]) if agreed else 0
        before = np.maximum.accumulate(np.concatenate([np.zeros_like(settled.low[:1]), settled.low]))
        moves = []
        for record in self._suspects(agreed, first, until):
            for topic in range(len(self._updates)):
                updates = self._seen(record, topic)
                now, least = np.searchsorted(updates, (path.taken[record, topic], before[record, topic])).tolist()
                numbers = range(max(0, least - UPDATES), min(len(updates), least + UPDATES) + 1)
                moves += [
                    (number < least, until - record, abs(number - least), number, topic)
                    for number in numbers
                    if number != now
                ]
        for _, back, _, number, topic in sorted(moves)[:PAIRS_MAX]:
            yield from self._moved(path.bounds, settled, until - back, topic, number)

    def _settled(self, path: _TriedOrder) -> _Bounds:
        """Its bounds, with those of all records before the one that caused the first row that differs."""
        low, high, known = path.bounds
        low, high = low.copy(), high.copy()
        agree = np.arange(known, path.at)
        for topic in range(len(self._updates)):
            low[agree, topic], most = self._between(agree, topic, path.taken[agree, topic])
            high[agree, topic] = np.minimum(most, high[agree, topic])
        return _Bounds(low, high, max(known, path.at))

    def _suspects(self, agreed: int, first: int, until: int) -> list[int]:
        """Records that may have caused the first row that differs: the one that caused ours, and those before it that
        caused none. Of these only those with the key of production's row, where it is known.
        """
        records = np.arange(max(first, until - RECORDS), until)
        if agreed < len(self.task.wanted):
            keys = self._keys.get(int(self.case.theirs.key[self.task.theirs[agreed]]))
            if keys is not None:
                records = records[np.isin(self.task.key[self._records[records]], list(keys))]
        return [until, *records[::-1].tolist()]

    def _moved(self, bounds: _Bounds, settled: _Bounds, record: int, topic: int, number: int) -> Iterator[_Bounds]:
        """With the record behind so many updates of its key. Records before it that took more than it may take as many:
        which updates of their keys they see depends on the place between the two of its own.
        """
        updates = self._seen(record, topic)
        least = int(updates[number - 1]) + 1 if number else 0
        most = int(updates[number]) if number < len(updates) else len(self._updates[topic])
        late = np.flatnonzero(settled.low[:record, topic] > most).tolist()
        places = {most}
        for updates in {int(self.task.key[self._records[each]]): self._seen(each, topic) for each in late}.values():
            places.update(updates[(updates >= least) & (updates < most)].tolist())
        for place in sorted(places, reverse=True)[:PLACES_MAX]:
            low, high = bounds.low.copy(), bounds.high.copy()
            low[:record], high[:record] = settled.low[:record], settled.high[:record]
            low[record, topic], high[record, topic] = least, place
            others = np.flatnonzero(low[:record, topic] > place)
            low[others, topic], high[others, topic] = self._between(others, topic, place)
            yield _Bounds(low, high, record + 1)

    def _seen(self, record: int, topic: int) -> np.ndarray:
        """Numbers of the updates of its key."""
        key = int(self.task.key[self._records[record]])
        return self._updates_of_key[topic].get(key, np.zeros(0, np.int64))

    def _between(self, records: np.ndarray, topic: int, taken: "np.ndarray | int") -> tuple[np.ndarray, np.ndarray]:
        """Of each record at least and at most how many updates are taken if it sees the same one of its key as with
        ``taken``.
        """
        count, codes = len(self._updates[topic]), self._codes[topic]
        begin = self._code[records] * (count + 1)
        at = np.searchsorted(codes, begin + taken)
        before, behind = codes[at - 1] - begin, codes[at] - begin
        # Of other keys, what is before is negative, and what is behind is too much.
        return np.where(before >= 0, before + 1, 0), np.minimum(behind, count)

    def _within(self, bounds: _Bounds) -> np.ndarray | None:
        """What is nearest to the order by time; None where no order is within the bounds."""
        low = np.maximum.accumulate(bounds.low)
        high = np.minimum.accumulate(bounds.high[::-1])[::-1]
        return np.clip(self._by_time, low, high) if np.all(low <= high) else None

    def _order(self, taken: np.ndarray) -> np.ndarray:
        """Places of the tape: each update before the first record that has more of its topic before it."""
        places, before = [self._records], [np.arange(len(self._records))]
        for topic, updates in enumerate(self._updates):
            places.append(updates)
            before.append(np.searchsorted(taken[:, topic], np.arange(len(updates)), side="right"))
        place, slot = np.concatenate(places), np.concatenate(before)
        is_record = np.arange(len(place)) < len(self._records)
        order: np.ndarray = place[np.lexsort((place, is_record, slot))]
        return order

    def _record(self, order: np.ndarray, place: int) -> int:
        """The number of the record that is at ``place`` of the order."""
        return int(np.searchsorted(self._records, order[place]))

    # --- what it explains ------------------------------------------------------------------------------------

    def _give(self, path: _TriedOrder) -> None:
        case, task, order, agreed = self.case, self.task, self._order(path.taken), path.score[0]
        run, rank = task.run(self.restarts, order), _ranks(order)
        theirs, ours = task.theirs[:agreed], task.ours
        place, our_place = order[run.place[:agreed]], task.base.place
        is_theirs = np.isin(case.alignment.theirs[theirs], DIFFERENT)
        is_ours = case.alignment.ours[ours] == RowVerdict.MISSING
        if agreed < len(run.rows):  # what follows differs for another reason, or production has not come to it
            is_ours &= rank[our_place] < run.place[agreed]
        if path.score == task.best_score:
            is_theirs &= case.theirs_cause[theirs] != Cause.RESTART
            is_ours &= case.ours_cause[ours] != Cause.RESTART
        else:
            right = theirs[case.alignment.theirs[theirs] == RowVerdict.EQUAL]
            for side, rows, known, differs, causes in (
                (case.theirs, theirs, right, is_theirs, case.theirs_cause),
                (case.ours, ours, case.alignment.theirs_mate[right], is_ours, case.ours_cause),
            ):
                last = dict(zip(side.key[known].tolist(), known.tolist(), strict=True))
                differs &= rows < np.array([last.get(key, -1) for key in side.key[rows].tolist()], np.int64)
                differs &= causes[rows] == Cause.NOT_EXPLAINED
        theirs, ours = theirs[is_theirs], ours[is_ours]
        evidence = self._evidence(np.concatenate([place[is_theirs], our_place[is_ours]]), rank)
        evidence_ours = evidence[len(theirs) :]
        evidence = evidence[: len(theirs)]
        case.give(theirs[evidence >= 0], Cause.INTERLEAVING, evidence[evidence >= 0])
        case.give_ours(ours[evidence_ours >= 0], Cause.INTERLEAVING, evidence_ours[evidence_ours >= 0])

    def _evidence(self, places: np.ndarray, rank: np.ndarray) -> np.ndarray:
        """Numbers of the pairs that decided what the records at these places of the tape caused: their own, or the last
        one of their key, since what it changed may be kept; -1 without one.
        """
        numbers = np.full(len(places), -1)
        for key, rows in _by_key(self.task.key[places]).items():
            decided = sorted(self._decided(key, rank))
            first = len(self.pairs)
            self.pairs.extend(pair for _, pair in decided)
            at = np.searchsorted([place for place, _ in decided], places[rows], side="right") - 1
            numbers[rows] = np.where(at >= 0, first + at, -1)
        return numbers

    def _decided(self, key: int, rank: np.ndarray) -> Iterator[tuple[int, TakenPair]]:
        """Places of records that were taken on another side of updates of their key, each with the update that decided.
        That is the first one before which the record was taken, or the last one behind which it was.
        """
        same = self._of_key[key]
        source = self.task.source[same]
        for topic in np.flatnonzero(self._causes).tolist():
            records = same[source == topic]
            for other in np.unique(source[source != topic]).tolist():
                updates = same[source == other]
                before, after = np.searchsorted(updates, records), np.searchsorted(rank[updates], rank[records])
                for row in np.flatnonzero(before != after).tolist():
                    is_before = bool(after[row] < before[row])
                    update = int(updates[after[row] - (0 if is_before else 1)])
                    place = int(records[row])
                    yield place, TakenPair(self._name(place), self._name(update), is_before)

    def _name(self, place: int) -> str:
        topic = self.task.sources[int(self.task.source[place])].landed_topic
        return f"{topic}:{self.task.description.partition}:{self.task.offset[place]}"


def _by_key(keys: np.ndarray) -> dict[int, np.ndarray]:
    """Of each key its indices, rising."""
    order = np.argsort(keys, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)
    return {int(keys[part[0]]): part for part in parts if len(part)}


def _ranks(order: np.ndarray) -> np.ndarray:
    """Of each place of the tape where it is in the order."""
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
