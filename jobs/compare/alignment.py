"""Which row of production is which of ours, and what is different about it.

Owns the verdicts. Rules, in this order; a row that has a partner keeps it:

1. the same key, window, value and time in the partition where it belongs: equal;
2. the same key, window and time there: other value;
3. the same key, window and value there: other time;
4. the same key, window, value and time in another partition: other partition;
5. what is left of ours is missing in production, what is left of production is extra.

Of several that are alike, the first is the partner of the first. Equal rows that are in another order are the fewest
that have to be moved: those outside a longest rising sequence, among the rows of one task in one partition. A
changelog is compared by the last row of every key and window; a key whose last row is a tombstone is not there.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

import numpy as np
import polars as pl

from ...state.distinct_numbers import are_among
from .sides import Side, combined

Pairs = tuple[np.ndarray, np.ndarray]
"""Rows of ours and, of the same length, their partners of production."""


class RowVerdict(IntEnum):
    """Of a row, or of a pair; its text is what reports say."""

    EQUAL = 0
    MISSING = 1
    EXTRA = 2
    OTHER_VALUE = 3
    OTHER_TIME = 4
    OTHER_ORDER = 5
    OTHER_PARTITION = 6

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, eq=False)
class Alignment:
    """By row of each side its partner on the other, -1 without, and the verdict (a ``RowVerdict``); a pair has one."""

    ours_mate: np.ndarray
    theirs_mate: np.ndarray
    ours: np.ndarray
    theirs: np.ndarray

    def with_verdict(self, pairs: Pairs, verdict: RowVerdict) -> None:
        """Make partners of rows."""
        ours, theirs = pairs
        self.ours_mate[ours], self.theirs_mate[theirs] = theirs, ours
        self.ours[ours] = self.theirs[theirs] = verdict

    def part(self, theirs: np.ndarray) -> None:
        """Rows of production are extra after all, and their partners missing."""
        partners = self.theirs_mate[theirs]
        partners = partners[partners >= 0]
        self.ours_mate[partners], self.theirs_mate[theirs] = -1, -1
        self.ours[partners], self.theirs[theirs] = RowVerdict.MISSING, RowVerdict.EXTRA


def align(ours: Side, theirs: Side, *, ignores_time: bool = False, ignores_order: bool = False) -> Alignment:
    """Every row of both sides. ``ignores_time``: times are not compared; ``ignores_order``: nor is the order."""
    time = () if ignores_time else ("time",)
    # Where little differs, this spares most of the sorting. Pairs are the same without it: a head that is equal has as
    # many of each row on both sides, and the k-th goes with the k-th.
    head = _equal_head(ours, theirs, ("target", "identity", "value", *time))
    alignment = _with_head(ours, theirs, head)
    steps: list[tuple[tuple[str, ...], RowVerdict]] = [
        (("target", "identity", "value", *time), RowVerdict.EQUAL),
        (("target", "identity", "time"), RowVerdict.OTHER_VALUE),
        (("target", "identity", "value"), RowVerdict.OTHER_TIME),
        (("identity", "value", *time), RowVerdict.OTHER_PARTITION),
    ]
    for columns, verdict in steps:
        rows = np.flatnonzero(alignment.ours_mate < 0), np.flatnonzero(alignment.theirs_mate < 0)
        if not len(rows[0]) or not len(rows[1]):
            break
        mine, other = (
            combined(*(getattr(side, name)[at] for name in columns))
            for side, at in zip((ours, theirs), rows, strict=True)
        )
        pairs = matched(mine, other)
        alignment.with_verdict((rows[0][pairs[0]], rows[1][pairs[1]]), verdict)
    if not ignores_order:
        moved = _moved(alignment, ours, theirs, head)
        alignment.ours[alignment.theirs_mate[moved]] = alignment.theirs[moved] = RowVerdict.OTHER_ORDER
    return alignment


def _equal_head(ours: Side, theirs: Side, columns: Sequence[str]) -> int:
    """How many rows are equal on both sides from the first one on: where nothing differs, all of them."""
    head = min(len(ours), len(theirs))
    for name in columns:
        differs = getattr(ours, name)[:head] != getattr(theirs, name)[:head]
        head = int(np.argmax(differs)) if differs.any() else head
    return head


def _with_head(ours: Side, theirs: Side, head: int) -> Alignment:
    """The first ``head`` rows are equal, the others have no partner yet."""
    sides = ((ours, RowVerdict.MISSING), (theirs, RowVerdict.EXTRA))
    # Nothing is written to what is equal, so that both sides can have one array.
    is_whole = head == len(ours) == len(theirs)
    mates = [np.arange(head)] * 2 if is_whole else [np.arange(len(side)) for side, _ in sides]
    verdicts = [np.zeros(len(side), np.int8) for side, _ in sides]  # EQUAL
    for own, verdict, (_, alone) in zip(mates, verdicts, sides, strict=True):
        own[head:], verdict[head:] = -1, alone
    return Alignment(*mates, *verdicts)


def matched(ours: np.ndarray, theirs: np.ndarray) -> Pairs:
    """Positions of equal digests: the k-th of ours with the k-th of theirs."""
    mine, yours = np.argsort(ours, kind="stable"), np.argsort(theirs, kind="stable")
    sorted_ours, sorted_theirs = ours[mine], theirs[yours]
    begins = np.concatenate([[True], sorted_ours[1:] != sorted_ours[:-1]])[: len(ours)]
    number = np.arange(len(ours))
    number = number - np.maximum.accumulate(np.where(begins, number, 0))
    at = np.searchsorted(sorted_theirs, sorted_ours) + number
    is_there = at < len(theirs)
    is_there[is_there] = sorted_theirs[at[is_there]] == sorted_ours[is_there]
    return mine[is_there], yours[at[is_there]]


# --- order ---------------------------------------------------------------------------------------------------


def _moved(alignment: Alignment, ours: Side, theirs: Side, head: int) -> np.ndarray:
    """Rows of production that are out of order: of each partition and task the fewest that have to be moved. Both heads
    are before all that is behind them.
    """
    pairs = head + np.flatnonzero(alignment.theirs[head:] == RowVerdict.EQUAL)
    mates = alignment.theirs_mate[pairs]
    if np.all(mates[1:] > mates[:-1]):
        return pairs[:0]
    group = combined(theirs.partition[pairs], ours.partition[mates])
    order = np.argsort(group, kind="stable")
    ends = np.flatnonzero(np.diff(group[order].astype(np.int64))) + 1
    moved = [part[outside_rising(alignment.theirs_mate[pairs[part]])] for part in np.split(order, ends)]
    return np.sort(pairs[np.concatenate(moved)])


def outside_rising(numbers: np.ndarray) -> np.ndarray:
    """Indices of distinct ``numbers`` outside a longest rising sequence: what has to be moved so that all rise.

    Numbers above all before and below all behind are in every such sequence, so only the runs between them are looked
    at one by one.
    """
    if not len(numbers) or np.all(np.diff(numbers) > 0):
        return np.zeros(0, np.int64)
    highest = np.maximum.accumulate(numbers)
    lowest = np.minimum.accumulate(numbers[::-1])[::-1]
    settled = (highest == numbers) & (lowest == numbers)
    runs = np.flatnonzero(~settled)
    ends = np.flatnonzero(np.diff(runs) > 1) + 1
    return np.concatenate([run[_outside_rising(numbers[run].tolist())] for run in np.split(runs, ends)])


def _outside_rising(numbers: Sequence[int]) -> np.ndarray:
    """By patience sorting, in n log n steps."""
    tops: list[int] = []
    at_top: list[int] = []
    before = [-1] * len(numbers)
    for index, number in enumerate(numbers):
        pile = bisect_left(tops, number)
        if pile == len(tops):
            tops.append(number)
            at_top.append(index)
        else:
            tops[pile], at_top[pile] = number, index
        before[index] = at_top[pile - 1] if pile else -1
    kept, index = np.zeros(len(numbers), np.bool_), at_top[-1]
    while index >= 0:
        kept[index] = True
        index = before[index]
    return np.flatnonzero(~kept)


# --- as a table ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NewestRows:
    """Of keys and windows that may differ: the row of each side, -1 where it is not, and the verdict. ``same``: of all
    keys and windows, those that are there and equal.
    """

    ours: np.ndarray
    theirs: np.ndarray
    verdict: np.ndarray
    same: int


def compare_newest(ours: Side, theirs: Side) -> NewestRows:
    """The newest row of every key and window. Where a key is in several partitions, that of the latest time counts."""
    # A key or window that is in the equal heads alone has the same rows on both sides.
    head = _equal_head(ours, theirs, ("partition", "target", "identity", "value", "time"))
    behind = np.concatenate([ours.identity[head:], theirs.identity[head:]])
    may_differ = are_among(ours.identity, behind)
    mine, other = newest(ours, may_differ), newest(theirs, are_among(theirs.identity, behind))
    same = _number_there(ours, ~may_differ)
    at = matched(ours.identity[mine], theirs.identity[other])
    rows, partners = mine[at[0]], other[at[1]]
    gone = ours.is_tombstone[rows], theirs.is_tombstone[partners]
    # The last assignment counts: another value says more than another time, and that the key is gone more than both.
    verdict = np.full(len(rows), RowVerdict.EQUAL, np.int8)
    verdict[ours.target[rows] != theirs.target[partners]] = RowVerdict.OTHER_PARTITION
    verdict[ours.time[rows] != theirs.time[partners]] = RowVerdict.OTHER_TIME
    verdict[ours.value[rows] != theirs.value[partners]] = RowVerdict.OTHER_VALUE
    verdict[~gone[0] & gone[1]] = RowVerdict.MISSING
    verdict[gone[0] & ~gone[1]] = RowVerdict.EXTRA
    same += int(np.count_nonzero((verdict == RowVerdict.EQUAL) & ~gone[0]))
    verdict[gone[0] & gone[1]] = RowVerdict.EQUAL
    single = _others(mine, at[0]), _others(other, at[1])
    only_ours, only_theirs = single[0][~ours.is_tombstone[single[0]]], single[1][~theirs.is_tombstone[single[1]]]
    return NewestRows(
        np.concatenate([rows, only_ours, np.full(len(only_theirs), -1)]),
        np.concatenate([partners, np.full(len(only_ours), -1), only_theirs]),
        np.concatenate([
            verdict, np.full(len(only_ours), RowVerdict.MISSING, np.int8),
            np.full(len(only_theirs), RowVerdict.EXTRA, np.int8),
        ]),
        same,
    )  # fmt: skip


def _others(rows: np.ndarray, at: np.ndarray) -> np.ndarray:
    """``rows`` but for those at the indices ``at``."""
    is_other = np.ones(len(rows), np.bool_)
    is_other[at] = False
    return rows[is_other]


def _number_there(side: Side, rows: np.ndarray) -> int:
    """How many keys and windows of ``rows`` (a mask) are there: their newest row is no tombstone."""
    if np.any(side.is_tombstone & rows):
        return int(np.count_nonzero(~side.is_tombstone[newest(side, rows)]))
    return pl.Series(side.identity[rows]).n_unique()


def newest(side: Side, rows: np.ndarray) -> np.ndarray:
    """Of ``rows`` (a mask) the newest one of every key and window."""
    looked_at = np.flatnonzero(rows)
    partition, identity = side.partition[looked_at], side.identity[looked_at]
    begins = np.append(np.flatnonzero(np.diff(partition, prepend=-1)), len(looked_at))
    # One partition after the other, since a small table of digests stays in the processor's cache.
    is_last = [pl.Series(identity[begin:end]).is_last_distinct().to_numpy() for begin, end in pairwise(begins.tolist())]
    at = np.flatnonzero(np.concatenate(is_last)) if is_last else np.zeros(0, np.int64)
    last, identity = looked_at[at], identity[at]
    if len(is_last) <= 1 or pl.Series(identity).n_unique() == len(last):
        return last
    by_time = np.lexsort((side.partition[last], side.time[last], identity))
    last, identity = last[by_time], identity[by_time]
    newest_of_all: np.ndarray = last[np.append(identity[1:] != identity[:-1], True)]
    return newest_of_all
