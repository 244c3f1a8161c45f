"""Rows of records that were processed again after a crash, as at_least_once has it.

Owns the evidence. Rules: a row that production has once more than we, with the key, the window, the value and the time
of an earlier one, was published twice. Where the store had the record already, it counted twice. Then the row has
another value, at a time that is not later than what the key and the window had reached before. From there
on the values of that key and window are others, and some are taken for later rows of ours.
"""

import numpy as np

from ...state.distinct_numbers import are_among
from .alignment import RowVerdict
from .case import Case, Cause
from .sides import combined


def find_twins(case: Case) -> np.ndarray:
    """By row of production the first one that is the same and was there before, -1 for none; of extra rows alone."""
    theirs, twins = case.theirs, np.full(len(case.theirs), -1)
    rows = np.flatnonzero((case.alignment.theirs == RowVerdict.EXTRA) & ~theirs.is_unreadable)
    if not len(rows):
        return twins
    exact = combined(theirs.partition, theirs.identity, theirs.value, theirs.time)
    earlier = np.flatnonzero(
        np.isin(case.alignment.theirs, (RowVerdict.EQUAL, RowVerdict.OTHER_ORDER, RowVerdict.EXTRA))
    )
    earlier = earlier[are_among(exact[earlier], exact[rows])]
    known, first = np.unique(exact[earlier], return_index=True)
    at = np.searchsorted(known, exact[rows])
    is_there = earlier[first[at]] < rows
    twins[rows[is_there]] = earlier[first[at[is_there]]]
    return twins


def find_repeated(case: Case, twins: np.ndarray) -> np.ndarray:
    """By row of production an earlier row of its key and window that it may repeat, -1 for none. That is its twin, or
    the one before, if that is at its time or later and has another value. Of extra rows, and of those out of order.
    """
    theirs, repeated = case.theirs, twins.copy()
    rows = np.flatnonzero(
        np.isin(case.alignment.theirs, (RowVerdict.EXTRA, RowVerdict.OTHER_ORDER)) & ~theirs.is_unreadable
    )
    if not len(rows) or not case.output.is_stateful:
        return repeated
    here, begins = _histories(case, rows)
    previous = np.concatenate([here[:1], here[:-1]])
    is_again = ~begins & (theirs.time[here] <= theirs.time[previous]) & (theirs.value[here] != theirs.value[previous])
    is_again &= are_among(here, rows) & (repeated[here] < 0)
    repeated[here[is_again]] = previous[is_again]
    return repeated


def explain_repeats(case: Case, twins: np.ndarray, repeated: np.ndarray, candidates: np.ndarray) -> None:
    """Give PUBLISHED_TWICE and PROCESSED_TWICE, and CRASH to ``candidates``, which may be of refused records, too."""
    rows = case.unexplained(RowVerdict.EXTRA)
    rows = rows[twins[rows] >= 0]
    case.give(rows, Cause.PUBLISHED_TWICE, twins[rows])
    rows = case.unexplained(RowVerdict.EXTRA)
    rows = rows[repeated[rows] >= 0]
    case.give(rows, Cause.PROCESSED_TWICE, repeated[rows])
    if len(rows):
        _explain_others(case, rows)
    is_twice = np.isin(case.theirs_cause, (Cause.PUBLISHED_TWICE, Cause.PROCESSED_TWICE))
    has_crash = np.isin(case.theirs.partition[candidates], case.theirs.partition[is_twice])
    is_open = is_twice[candidates] | (has_crash & (case.theirs_cause[candidates] == Cause.NOT_EXPLAINED))
    case.give(candidates[is_open], Cause.CRASH)


def _explain_others(case: Case, counted: np.ndarray) -> None:
    """Of a key and window that counted a record twice all other rows that differ: their values are others, and some
    look like later rows of ours. So do those that we do not have at all, or in another order, where they come behind.
    """
    here, begins = _histories(case, counted)
    group = np.cumsum(begins) - 1
    verdict, is_open = case.alignment.theirs[here], case.theirs_cause[here] == Cause.NOT_EXPLAINED
    at = np.flatnonzero(are_among(here, counted))
    first = np.full(int(group[-1]) + 1, len(here))
    np.minimum.at(first, group[at], at)
    other = np.isin(verdict, (RowVerdict.OTHER_VALUE, RowVerdict.OTHER_TIME))
    other |= np.isin(verdict, (RowVerdict.EXTRA, RowVerdict.OTHER_ORDER)) & (np.arange(len(here)) > first[group])
    other &= is_open
    case.give(here[other], Cause.PROCESSED_TWICE, here[first[group[other]]])


def _histories(case: Case, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All rows of production of the keys and windows of ``rows``, history after history; where each begins."""
    identity = combined(case.theirs.partition, case.theirs.identity)
    here = np.flatnonzero(are_among(identity, identity[rows]))
    here = here[np.argsort(identity[here], kind="stable")]
    return here, np.concatenate([[True], identity[here][1:] != identity[here][:-1]])[: len(here)]
