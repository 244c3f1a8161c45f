"""Rows of ours that production does not have.

Owns the evidence, in this order. *Retention*: the partition of the landed topic begins above offset 0, and the row is
before the first that is there. *Merged away*: see below. *Tombstones*: production has none at all. *Record cache*: a
later row of the same key and window is there, and the missing ones between are updates that the cache held until the
commit. *Compaction*: the same where no cache can be, and the offsets of the topic have room for what is missing. *Not
yet*: the row is later than everything in its partition.

The cache is taken only where commits can have been. An update that is missing and the next that is there are in one
commit interval, and two updates of one key that are both there are not. Where these contradict each other, no cache
swallowed the row. A session that was made and merged away between two commits leaves nothing at all, so its row and
its tombstone are both missing.
"""

import numpy as np

from .alignment import RowVerdict
from .case import Case, Cause
from .sides import combined


def explain_missing(case: Case) -> None:
    """Give the causes of missing rows, and NOT_YET to rows of production that are later than all of ours."""
    may_be_cached = case.has_cache and case.output.may_be_cached
    _explain_retention(case)
    if may_be_cached:
        _explain_merged_away(case)
    _explain_tombstones(case)
    later = _later_rows(case)
    if may_be_cached:
        _explain_cache(case, later)
    _explain_compaction(case, later)
    _explain_not_yet(case)


def _explain_retention(case: Case) -> None:
    rows = case.unexplained(RowVerdict.MISSING)
    first = case.landed.first_offsets()
    for partition in [partition for partition, offset in first.items() if offset > 0]:
        mates = case.alignment.theirs_mate[case.theirs.partition == partition]
        there = mates[mates >= 0]
        begin = int(there.min()) if len(there) else 0
        case.give_ours(rows[(case.ours.target[rows] == partition) & (rows < begin)], Cause.RETENTION)


def _explain_tombstones(case: Case) -> None:
    ours, theirs = case.ours, case.theirs
    rows = case.unexplained(RowVerdict.MISSING)
    if len(theirs) and not theirs.is_tombstone.any():
        case.give_ours(rows[ours.is_tombstone[rows]], Cause.TOMBSTONES)
    extra = case.unexplained(RowVerdict.EXTRA)
    if len(ours) and not ours.is_tombstone.any():
        case.give(extra[theirs.is_tombstone[extra]], Cause.TOMBSTONES)


def _later_rows(case: Case) -> np.ndarray:
    """By row of ours the next one of its key and window that production has, -1 where there is none."""
    ours, later = case.ours, np.full(len(case.ours), -1)
    rows = case.unexplained(RowVerdict.MISSING)
    if not len(rows):
        return later
    identity = combined(ours.target, ours.identity)
    here = np.flatnonzero(np.isin(identity, identity[rows]))
    here = here[np.argsort(identity[here], kind="stable")]
    last = np.append(np.flatnonzero(identity[here][1:] != identity[here][:-1]), len(here) - 1)
    end = np.repeat(last, np.diff(np.concatenate([[-1], last])))
    indices = np.where(case.alignment.ours_mate[here] >= 0, np.arange(len(here)), len(here))
    following = np.minimum.accumulate(indices[::-1])[::-1]
    is_there = following <= end
    later[here[is_there]] = here[following[is_there]]
    return later


# --- a cache -------------------------------------------------------------------------------------------------


def _explain_cache(case: Case, later: np.ndarray) -> None:
    rows = case.unexplained(RowVerdict.MISSING)
    rows = rows[later[rows] >= 0]
    if not len(rows):
        return
    pairs = _published_pairs(case)
    rows = rows[~_covers(pairs, rows, later[rows])]
    if not len(rows):
        return
    # Spans without a commit that overlap are in one commit interval. Two published rows of a key in the joined span
    # contradict all of them, though none of them alone.
    begin, end, of = _joined(case, rows, later[rows])
    rows = rows[~_covers(pairs, begin, end)[of]]
    case.give_ours(rows, Cause.RECORD_CACHE, case.alignment.ours_mate[later[rows]])


def _published_pairs(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ours that production has, each with the one before of its key and window; by the second of them. Before
    each of the second there is a commit.
    """
    there = np.flatnonzero(case.alignment.ours_mate >= 0)
    identity = combined(case.ours.target[there], case.ours.identity[there])
    order = np.argsort(identity, kind="stable")
    is_same = identity[order][1:] == identity[order][:-1]
    first, second = there[order[:-1][is_same]], there[order[1:][is_same]]
    by_second = np.argsort(second)
    return first[by_second], second[by_second]


def _covers(pairs: tuple[np.ndarray, np.ndarray], begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Whether two published rows of one key are within ``[begin, end]``, between which no commit was."""
    first, second = pairs
    highest = np.maximum.accumulate(first) if len(first) else first
    count = np.searchsorted(second, end, side="right")
    covers = np.zeros(len(begin), np.bool_)
    some = count > 0
    covers[some] = highest[count[some] - 1] >= begin[some]
    return covers


def _joined(case: Case, begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Spans without a commit that overlap are one; and of each given span the number of the joined one."""
    order = np.argsort(begin, kind="stable")
    reached = np.maximum.accumulate(end[order])
    starts = np.concatenate([[True], begin[order][1:] > reached[:-1]])[: len(order)]
    number = np.cumsum(starts) - 1
    of = np.empty(len(order), np.int64)
    of[order] = number
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(order)) - 1
    return begin[order][first], reached[last], of


def _explain_merged_away(case: Case) -> None:
    """Windows whose missing rows end with a tombstone, and of which nothing was there before them."""
    ours = case.ours
    rows = case.unexplained(RowVerdict.MISSING)
    if not len(rows):
        return
    identity = combined(ours.target, ours.identity)
    here = np.flatnonzero(np.isin(identity, identity[rows]))
    here = here[np.argsort(identity[here], kind="stable")]
    ends = np.append(identity[here][1:] != identity[here][:-1], True)
    group = np.concatenate([[0], np.cumsum(ends)[:-1]])
    count = int(group[-1]) + 1
    is_open = (case.alignment.ours[here] == RowVerdict.MISSING) & (case.ours_cause[here] == Cause.NOT_EXPLAINED)
    last_there = np.full(count, -1)
    np.maximum.at(last_there, group[~is_open], np.flatnonzero(~is_open))
    was_there = np.zeros(count, np.bool_)
    known = last_there >= 0
    was_there[known] = ~ours.is_tombstone[here[last_there[known]]]
    is_gone = ours.is_tombstone[here[np.flatnonzero(ends)]] & ~was_there
    after = np.arange(len(here)) > last_there[group]
    case.give_ours(here[is_open & is_gone[group] & after], Cause.RECORD_CACHE)


# --- others --------------------------------------------------------------------------------------------------


def _explain_compaction(case: Case, later: np.ndarray) -> None:
    """The hole before the first row of production that follows has to have room for all that is missing there."""
    rows = case.unexplained(RowVerdict.MISSING)
    rows = rows[later[rows] >= 0]
    if not len(rows):
        return
    mates = case.alignment.ours_mate
    there = np.flatnonzero(mates >= 0)
    at = np.searchsorted(there, rows)
    is_between = at < len(there)
    rows, at = rows[is_between], at[is_between]
    following = mates[there[at]]
    is_first = np.concatenate([[True], case.theirs.partition[1:] != case.theirs.partition[:-1]])
    before = np.where(is_first, -1, np.concatenate([[-1], case.theirs.offset[:-1]]))
    room = case.theirs.offset - before - 1
    _, back, missing = np.unique(following, return_inverse=True, return_counts=True)
    fits = room[following] >= missing[back]
    case.give_ours(rows[fits], Cause.COMPACTED, mates[later[rows[fits]]])


def _explain_not_yet(case: Case) -> None:
    """Nothing is as late on the other side, in the partition."""
    for verdict, mine, other in (
        (RowVerdict.MISSING, case.ours, case.theirs),
        (RowVerdict.EXTRA, case.theirs, case.ours),
    ):
        rows = case.unexplained(verdict)
        for partition in np.unique(mine.target[rows]).tolist():
            here = rows[mine.target[rows] == partition]
            times = other.time[other.target == partition]
            later = here[mine.time[here] > (times.max() if len(times) else -1)]
            (case.give_ours if verdict is RowVerdict.MISSING else case.give)(later, Cause.NOT_YET)
