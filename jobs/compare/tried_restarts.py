"""Restarts that are found by trial: a task runs again in memory, with a restart at each place that may change a row.

Owns the search. Rule: a difference is explained when the task, with the restarts so far, writes all rows of
production's partition up to it: the same keys, windows, values and times in the same order. A restart matters to a
record that is late by the stream time of the task's life so far, by the times that it takes away, and to what waits in
an outer join. So for each such record one place is tried of those that take away the same, and the place is kept with
which most rows agree. Nothing is tried where records have another order than by time, or where other code made the rows
that are compared.
"""

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...state.errors import TaskFailed
from ..operators.joins.stream_join_node import StreamJoinNode
from .alignment import RowVerdict
from .case import Cause
from .restarts import Restart
from .trials import DIFFERENT, Run, TrialTask

RESTARTS_MAX = 256
"""Of a partition."""
LATE_MAX, BEFORE_MAX = 512, 1 << 14
"""So many late records before a row that differs may have caused it, and so many records before each are looked at."""


@dataclass(frozen=True, eq=False)
class TriedRestarts:
    """Of a ``partition``. ``restarts``, in order, at ``places`` of the tape, each with the first row of production that
    it explains (``begins``) and the first of ours that it may change (``begins_ours``). An earlier restart may explain
    only a later row.
    """

    partition: int
    places: tuple[int, ...]
    restarts: tuple[Restart, ...]
    begins: tuple[int, ...]
    begins_ours: tuple[int, ...]
    is_whole: bool
    """All rows of production are explained."""

    def of_row(self, number: int) -> Restart:
        """The one that explains row ``number`` of production."""
        begins = np.array(self.begins)
        return self.restarts[int(np.argmax(np.where(begins <= number, begins, -1)))]

    def of_our_row(self, number: int) -> Restart:
        """The one that explains why production does not have our row ``number``."""
        return self.restarts[max(0, int(np.searchsorted(self.begins_ours, number, side="right")) - 1)]


def find_restarts(task: TrialTask) -> TriedRestarts | None:
    """Give RESTART to what restarts of a task explain; None where they explain nothing, or cannot be."""
    return _RestartSearch(task).search()


class _SearchPath(NamedTuple):
    """Restarts at ``places`` of the tape, and of each the number of the row of production from which it ``begins`` to
    explain; ``score``: as of _TriedTask.
    """

    score: tuple[int, int]
    places: tuple[int, ...]
    begins: tuple[int, ...]


class _RestartSearch:
    def __init__(self, task: TrialTask) -> None:
        self.task, self.case = task, task.case

    def search(self) -> TriedRestarts | None:
        task, base = self.task, self.task.base
        self._best = _SearchPath(task.score(base), (), ())
        self._continue(self._best, base)
        score, places, begins = self._best
        if not places:
            return None
        run = self.task.run(places)
        self._give(run, score[0])
        begins_ours = np.searchsorted(base.place, places)
        return TriedRestarts(
            self.task.description.partition, places, tuple(self._restarts(places, run)),
            tuple(_row_numbers(self.task.theirs, begins)), tuple(_row_numbers(self.task.ours, begins_ours)),
            is_whole=score[0] == len(self.task.wanted),
        )  # fmt: skip

    def _continue(self, path: "_SearchPath", run: Run) -> bool:
        """Look for restarts besides those of ``path``, which give ``run``; whether all rows agree then. Of two places
        with the same rows so far one may be wrong, which shows behind it: so each is tried until that one is found.
        """
        if path.score == self.task.best_score:
            return True
        for step in self._steps(path, run):
            self._best = max(self._best, step, key=lambda each: each.score)
            if not self.task.has_room or len(step.places) > RESTARTS_MAX:
                return False
            if self._continue(step, self.task.run(step.places)):
                return True
        return False

    def _steps(self, path: "_SearchPath", run: Run) -> Iterator["_SearchPath"]:
        """With one more restart, by falling score, which is above that of ``path``; those with equal rows once."""
        for some in self._places(path.places, run, path.score[0]):
            by_rows = dict[int, _SearchPath]()
            for place in some:
                if not self.task.has_room:
                    return
                at = bisect(path.places, place)
                places = *path.places[:at], place, *path.places[at:]
                try:
                    tried = self.task.run(places)
                except TaskFailed:  # as production did not, so it did not restart here
                    continue
                score = self.task.score(tried)
                if score > path.score:
                    # Likelier places come first, so of those that give equal rows the first is kept.
                    same = hash(tried.rows.tobytes())
                    begins = *path.begins[:at], path.score[0], *path.begins[at:]
                    by_rows.setdefault(same, _SearchPath(score, places, begins))
                if score == self.task.best_score:
                    break
            yield from sorted(by_rows.values(), key=lambda each: each.score, reverse=True)

    # --- places ----------------------------------------------------------------------------------------------

    def _places(self, given: Sequence[int], run: Run, agreed: int) -> Iterator[Sequence[int]]:
        """Places before which a restart may be besides those ``given``, the most likely first. Behind these, those that
        matter to a late record which may have caused the first row that differs. Then to any late one before it, whose
        result may leave later. Below a left or outer join of streams the others, too: it also forgets that records
        wait. Last those before a given one: by themselves they had changed no row.
        """
        last = given[-1] if given else -1
        until = int(run.place[agreed]) if agreed < len(run.place) else len(self.task.time_ms) - 1
        first = int(run.place[agreed - 1]) if agreed else 0
        near = self._near(last, max(first, last + 1), until)
        yield near
        known = {*near}
        before = [place for place in self._near(last, last + 1, first) if place not in known]
        yield before
        if any(isinstance(node, StreamJoinNode) and node.kind != "inner" for node in self.case.output.above):
            known |= {*before}
            others = range(until, max(last, until - LATE_MAX), -1)
            yield [place for place in others if place not in known and self.task.is_own[place]]
        yield [place for place in self._near(-1, 0, last) if place not in given]

    def _near(self, last: int, first: int, until: int) -> list[int]:
        """Those that matter to late records from place ``first`` to ``until``, the last first."""
        begin = max(last, 0)
        life = self.task.time_ms[begin : until + 1]
        late = begin + 1 + np.flatnonzero(life[1:] < np.maximum.accumulate(life)[:-1])
        late = late[late >= first][-LATE_MAX:]
        near = {*late.tolist()}
        for at in late.tolist():
            near.update(self._ends(max(begin, at - BEFORE_MAX), at))
        return sorted((place for place in near if place > last and self.task.is_own[place]), reverse=True)

    def _ends(self, begin: int, at: int) -> Iterator[int]:
        """Positions from ``begin`` to ``at`` whose time is later than all behind it of its source: what a restart takes
        away changes there.
        """
        for source in np.unique(self.task.source[begin:at]).tolist():
            own = begin + np.flatnonzero(self.task.source[begin:at] == source)[::-1]
            highest = np.maximum.accumulate(self.task.time_ms[own])
            yield from own[np.append(True, highest[1:] > highest[:-1])].tolist()

    def _restarts(self, places: Sequence[int], run: Run) -> Iterator[Restart]:
        """``records``: those that are refused without restarts, and not with them, up to the next one."""
        let_in = np.setdiff1d(self.task.base.dropped, run.dropped)
        for place, end in zip(places, [*places[1:], len(self.task.time_ms)], strict=True):
            earlier = self.task.offset[:place][self.task.source[:place] == self.task.source[place]]
            yield Restart(
                str(self.task.sources[int(self.task.source[place])].landed_topic), self.task.description.partition,
                int(earlier[-1]) if len(earlier) else -1, int(self.task.offset[place]),
                int(np.count_nonzero((let_in >= place) & (let_in < end))),
            )  # fmt: skip

    def _give(self, run: Run, agreed: int) -> None:
        """Give the cause to what has none, up to the first row that still differs: the ``agreed`` one of ``run``. Where
        all rows of production agree, nothing else was the cause of any.
        """
        case, theirs = self.case, self.task.theirs[:agreed]
        is_whole = agreed == len(self.task.wanted)
        end = int(run.place[agreed]) if agreed < len(run.rows) else len(self.task.time_ms)
        ours = self.task.ours[self.task.base.place < end]
        theirs = theirs[np.isin(case.alignment.theirs[theirs], DIFFERENT)]
        theirs = theirs[_is_open(case.theirs_cause[theirs], is_whole)]
        ours = ours[case.alignment.ours[ours] == RowVerdict.MISSING]
        ours = ours[_is_open(case.ours_cause[ours], is_whole)]
        # No late record is the evidence (-1), so the sentence names the restart that was tried (CauseSentences).
        case.give(theirs, Cause.RESTART, np.full(len(theirs), -1))
        case.give_ours(ours, Cause.RESTART, np.full(len(ours), -1))


def _is_open(causes: np.ndarray, is_whole: bool) -> np.ndarray:
    is_open: np.ndarray = causes != Cause.RESTART if is_whole else causes == Cause.NOT_EXPLAINED
    return is_open


def _row_numbers(rows: np.ndarray, at: Sequence[int] | np.ndarray) -> Iterator[int]:
    """Of ``rows`` those at these indices, the last for one behind them; 0 where there are none."""
    yield from (int(rows[min(int(index), len(rows) - 1)]) if len(rows) else 0 for index in at)
