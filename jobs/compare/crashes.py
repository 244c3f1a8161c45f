"""Causes of rows after a crash: of records that were processed again, and of late ones that the crash let in.

Owns causes where the order of processing is known row by row (``processing_order``). Rules: a row of a record that our
task refused has the cause "restart". One of a record that was on time and processed before was published twice where an
earlier row is the same, else processed twice. So is a first one in a window that has counted some record twice. Where
a row can be of a refused record and of another, its cause is "crash".

It needs an output with a row for every record and window: below an aggregate of time windows, of a topic that is
landed, without a record cache. Where the order is not found, nothing is changed here, and the rules of ``restarts`` and
``repeated_rows`` hold.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..graph.graph import Node
from ..graph.windows import TimeWindows
from .alignment import RowVerdict
from .case import Case, Cause
from .late_records import LateRecords, record_times
from .processing_order import Rows, Units, processed_units
from .sides import combined


@dataclass(frozen=True, eq=False)
class ExplainedRows:
    """Rows of production whose causes are known, in partitions whose order of processing is; ``let_in``: of each row
    the refusal that it is of, -1 for none.
    """

    partitions: tuple[int, ...]
    let_in: np.ndarray


def explain_crashes(case: Case, late: LateRecords, repeated: np.ndarray) -> ExplainedRows:
    """Pair rows again, and give causes, in partitions where a row may repeat an earlier one (``repeated``: by row, -1
    for none).
    """
    let_in, done = np.full(len(case.theirs), -1), list[int]()
    node = _counting_node(case, late)
    for number in np.unique(case.theirs.partition[repeated >= 0]).tolist() if node is not None else ():
        assert node is not None
        partition = _CrashedPartition(case, late, node, number)
        if partition.is_whole and partition.explain(let_in):
            done.append(number)
    return ExplainedRows(tuple(done), let_in)


def _counting_node(case: Case, late: LateRecords) -> Node | None:
    """The aggregate of time windows that forwards one row to the output for every record and window."""
    output = case.output
    # Only with as many partitions as tasks are the rows of a partition those of one task, in the order of its records.
    if output.landed_cause_topic is None or output.windows != "time" or case.landed.partitions != case.partitions:
        return None
    for node in output.own_path:
        if isinstance(node.windowed_by, TimeWindows):
            refuses_alone = set(late.rows["node"].unique().to_pylist()) <= {node.name}
            is_plain = node.is_table and not node.waits_for_close and late.sees_all(output.sources[0], node.name)
            return node if refuses_alone and is_plain else None
        if not node.forwards_one or node.changes_keys:
            return None
    return None


@dataclass(frozen=True, eq=False)
class _CrashedPartition:
    case: Case
    late: LateRecords
    node: Node
    partition: int

    @cached_property
    def rows(self) -> np.ndarray:
        """Of production."""
        return np.flatnonzero(self.case.theirs.partition == self.partition)

    @cached_property
    def ours(self) -> np.ndarray:
        return np.flatnonzero(self.case.ours.partition == self.partition)

    @cached_property
    def refused(self) -> np.ndarray:
        return np.flatnonzero(self.late.numbers("partition") == self.partition)

    @property
    def is_whole(self) -> bool:
        """All of it can be read and is where it belongs, and the record behind each row of ours is known."""
        elsewhere = self.case.alignment.theirs[self.rows], self.case.alignment.ours[self.ours]
        is_here = not any((verdicts == RowVerdict.OTHER_PARTITION).any() for verdicts in elsewhere)
        is_known = not (self.case.ours.cause[self.ours] < 0).any()
        return is_here and is_known and not self.case.theirs.is_unreadable[self.rows].any()

    @cached_property
    def order(self) -> np.ndarray:
        """Of units by record and window: numbers of ``ours``, then of ``refused``."""
        record = np.concatenate([self.case.ours.cause[self.ours], self.late.numbers("offset")[self.refused]])
        start = np.concatenate([self.case.ours.start[self.ours], self.late.numbers("window_start_ms")[self.refused]])
        return np.lexsort((start, record))

    @cached_property
    def units(self) -> Units:
        case, late, here = self.case, self.late, self.refused
        windows = self.node.windowed_by
        assert isinstance(windows, TimeWindows)
        offsets, times = record_times(case, case.output.sources[0], self.partition)
        causes = case.ours.cause[self.ours]
        columns = (
            (causes, late.numbers("offset")[here]),
            (case.ours.identity[self.ours], combined(late.keys[here], late.numbers("window_start_ms")[here])),
            (case.ours.end[self.ours], late.numbers("window_end_ms")[here]),
            (times[np.searchsorted(offsets, causes)], late.numbers("record_time_ms")[here]),
        )
        record, identity, end, time = (np.concatenate(column)[self.order] for column in columns)
        return Units(record, identity, end, time, windows.grace_ms)

    def explain(self, let_in: np.ndarray) -> bool:
        """Whether the order of processing is known; then causes and ``let_in`` are given."""
        theirs = self.case.theirs
        differs = self.case.alignment.theirs[self.rows] != RowVerdict.EQUAL
        units_by_row = processed_units(self.units, Rows(theirs.identity[self.rows], theirs.time[self.rows], differs))
        if units_by_row is None:
            return False
        mine = np.concatenate([self.ours, np.full(len(self.refused), -1)])[self.order]
        refusal = np.concatenate([np.full(len(self.ours), -1), self.refused])[self.order]
        self._pair(units_by_row, mine)
        history = _History(self.case)
        for row, units in zip(self.rows.tolist(), units_by_row, strict=True):
            on_time = [unit for unit in sorted(units) if refusal[unit] < 0]
            if self.case.alignment.theirs[row] != RowVerdict.EQUAL:
                if not on_time:
                    let_in[row] = refusal[min(units)]
                history.give(row, on_time, len(units))
            history.add(row, on_time)
        return True

    def _pair(self, units_by_row: Sequence[set[int]], mine: np.ndarray) -> None:
        """A row of ours is the first one of production that its record gave."""
        case = self.case
        case.alignment.part(self.rows)
        for row, unit in self._firsts(units_by_row, mine):
            ours = mine[unit]
            is_same = case.theirs.value[row] == case.ours.value[ours], case.theirs.time[row] == case.ours.time[ours]
            verdict = (
                RowVerdict.EQUAL if all(is_same) else RowVerdict.OTHER_TIME if is_same[0] else RowVerdict.OTHER_VALUE
            )
            case.alignment.with_verdict((np.array([ours]), np.array([row])), verdict)

    def _firsts(self, units_by_row: Sequence[set[int]], mine: np.ndarray) -> Iterator[tuple[int, int]]:
        taken = set[int]()
        for row, units in zip(self.rows.tolist(), units_by_row, strict=True):
            unit = min((unit for unit in units if mine[unit] >= 0 and unit not in taken), default=None)
            if unit is not None:
                taken.add(unit)
                yield row, unit


class _History:
    """Rows of production so far, by what they are of."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._by_unit: dict[int, int] = {}
        self._by_content: dict[tuple[int, ...], int] = {}
        self._counted_twice: dict[int, int] = {}
        """By key and window the first row of a record that was counted again."""

    def add(self, row: int, on_time: Sequence[int]) -> None:
        for unit in on_time:
            self._by_unit.setdefault(unit, row)
        self._by_content.setdefault(self._content(row), row)

    def give(self, row: int, on_time: Sequence[int], units: int) -> None:
        """The cause of a row that differs, which may be of ``units``, of which those ``on_time`` are no refusals."""
        one, identity = np.array([row]), int(self._case.theirs.identity[row])
        again = min((self._by_unit[unit] for unit in on_time if unit in self._by_unit), default=None)
        if not on_time:
            self._case.give(one, Cause.RESTART)
        elif len(on_time) < units:
            self._case.give(one, Cause.CRASH)
        elif again is not None:
            self._counted_twice.setdefault(identity, row)
            twin = self._by_content.get(self._content(row))
            cause = Cause.PROCESSED_TWICE if twin is None else Cause.PUBLISHED_TWICE
            self._case.give(one, cause, np.array([again if twin is None else twin]))
        elif identity in self._counted_twice:
            self._case.give(one, Cause.PROCESSED_TWICE, np.array([self._counted_twice[identity]]))

    def _content(self, row: int) -> tuple[int, ...]:
        theirs = self._case.theirs
        return int(theirs.identity[row]), int(theirs.value[row]), int(theirs.time[row])
