"""Rows of records that were processed again after a crash, as at_least_once has it.

Owns the evidence. Rules: a row that production has once more than we, with the key, the window, the value and the time
of an earlier one, was published twice. Where the store had the record already, it counted twice: the row has another
value, at a time that is not later than the key and the window have got to, since no new record moved it on. From there
on the values of that key and window are others.
"""

import numpy as np

from .alignment import Verdict
from .case import Case, Cause
from .sides import combined


def find_twins(case: Case) -> np.ndarray:
    """By row of production the first one that is the same and was there before, -1 for none; of extra rows alone."""
    theirs, found = case.theirs, np.full(len(case.theirs), -1)
    rows = np.flatnonzero((case.found.theirs == Verdict.EXTRA) & ~theirs.is_unreadable)
    if not len(rows):
        return found
    exact = combined(theirs.partition, theirs.identity, theirs.value, theirs.time)
    partners = np.flatnonzero(np.isin(case.found.theirs, (Verdict.EQUAL, Verdict.OTHER_ORDER)))
    partners = partners[np.isin(exact[partners], exact[rows])]
    if not len(partners):
        return found
    known, first = np.unique(exact[partners], return_index=True)
    at = np.minimum(np.searchsorted(known, exact[rows]), len(known) - 1)
    is_there = (known[at] == exact[rows]) & (partners[first[at]] < rows)
    found[rows[is_there]] = partners[first[at[is_there]]]
    return found


def explain_repeats(case: Case, twins: np.ndarray) -> None:
    """Give PUBLISHED_TWICE and PROCESSED_TWICE."""
    rows = case.unexplained(Verdict.EXTRA)
    rows = rows[twins[rows] >= 0]
    case.give(rows, Cause.PUBLISHED_TWICE, twins[rows])
    if case.output.is_stateful:
        _explain_counted(case)


def _explain_counted(case: Case) -> None:
    theirs = case.theirs
    rows = case.unexplained(Verdict.EXTRA, Verdict.OTHER_VALUE)
    if not len(rows):
        return
    identity = combined(theirs.partition, theirs.identity)
    here = np.flatnonzero(np.isin(identity, identity[rows]))
    here = here[np.argsort(identity[here], kind="stable")]  # within one, by offset
    begins = np.concatenate([[True], identity[here][1:] != identity[here][:-1]])
    group = np.cumsum(begins) - 1
    times, previous = theirs.time[here], np.concatenate([[-1], here[:-1]])
    is_again = ~begins & (times <= np.concatenate([[0], times[:-1]]))
    is_open = case.theirs_cause[here] == Cause.NOT_EXPLAINED
    counted = is_again & is_open & (case.found.theirs[here] == Verdict.EXTRA)
    counted &= theirs.value[here] != theirs.value[previous]
    case.give(here[counted], Cause.PROCESSED_TWICE, previous[counted])
    first = np.full(int(group[-1]) + 1, len(here))
    np.minimum.at(first, group[counted], np.flatnonzero(counted))
    later = (
        is_open & ~counted & (np.arange(len(here)) > first[group]) & (case.found.theirs[here] == Verdict.OTHER_VALUE)
    )
    case.give(here[later], Cause.PROCESSED_TWICE, here[first[group[later]]])
