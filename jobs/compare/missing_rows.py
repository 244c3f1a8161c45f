"""Rows of ours that production does not have.

Owns the evidence, in this order. *Retention*: the partition of the landed topic begins above offset 0, the row is
before the first that is there, and no more rows are gone than offsets. *Merged away*: see below. *Tombstones*:
production has none at all. *Record cache*: a later row of the same key and window is there, and the missing ones
between are updates that the cache held until the commit. *Compaction*: the same where no cache can be, and the offsets
of the topic have room for what is missing. Compaction goes over a partition from its beginning, so no key is there
twice before that later row. *Not yet*: the row is later than everything in its partition, and behind all of its task
that is there.

The cache is taken only where commits can have been. An update that is missing and the next that is there are in one
commit interval, and two updates of one key that are both there are not. Where these contradict each other, no cache
swallowed the row. A session that was made and merged away between two commits leaves nothing at all, so its row and
its tombstone are both missing.
"""

import numpy as np

from ...state.distinct_numbers import are_among
from ...state.tables.names import TaskId
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
    if not len(rows):
        return
    for partition, gone in case.landed.first_offsets().items():
        is_here = case.theirs.partition == partition
        mates = case.alignment.theirs_mate[is_here]
        there = mates[mates >= 0]
        begin = int(there.min()) if len(there) else 0 if is_here.any() else len(case.ours)
        # Each of them had an offset of its own, so of more rows than offsets the last have another cause.
        expired = rows[(case.ours.target[rows] == partition) & (rows < begin)][:gone]
        case.give_ours(expired, Cause.RETENTION)


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
    here = np.flatnonzero(are_among(identity, identity[rows]))
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
    here = np.flatnonzero(are_among(identity, identity[rows]))
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
    at = np.flatnonzero(is_open & is_gone[group] & after)
    # Of each row the tombstone with which its life ends: between them was no commit.
    stones = np.flatnonzero(ours.is_tombstone[here])
    end = np.searchsorted(stones, at)
    first = np.concatenate([[True], end[1:] != end[:-1]])[: len(at)]
    life = np.cumsum(first) - 1
    has_commit = _covers(_published_pairs(case), here[at[first]], here[stones[end[first]]])
    case.give_ours(here[at[~has_commit[life]]], Cause.RECORD_CACHE)


# --- others --------------------------------------------------------------------------------------------------


def _explain_compaction(case: Case, later: np.ndarray) -> None:
    """The hole before the first row of production that follows has to have room for all that is missing there."""
    rows = case.unexplained(RowVerdict.MISSING)
    mates, theirs = case.alignment.ours_mate, case.theirs
    rows = rows[later[rows] >= 0]
    there = np.flatnonzero(mates >= 0)
    at = np.searchsorted(there, rows)
    rows, at = rows[at < len(there)], at[at < len(there)]
    if not len(rows):
        return
    following, kept = mates[there[at]], mates[later[rows]]
    is_first = np.concatenate([[True], theirs.partition[1:] != theirs.partition[:-1]])
    before = np.where(is_first, -1, np.concatenate([[-1], theirs.offset[:-1]]))
    room = theirs.offset - before - 1
    _, back, missing = np.unique(following, return_inverse=True, return_counts=True)
    target = case.ours.target[rows]
    fits = (room[following] >= missing[back]) & (theirs.partition[following] == target)
    fits &= (theirs.partition[kept] == target) & (kept >= following) & (kept < _first_repeat(case)[kept])
    case.give_ours(rows[fits], Cause.COMPACTED, kept[fits])


def _first_repeat(case: Case) -> np.ndarray:
    """By row of production the first one of its partition whose key and window are there before."""
    theirs = case.theirs
    identity = combined(theirs.partition, theirs.identity)
    is_repeat = np.ones(len(theirs), np.bool_)
    is_repeat[np.unique(identity, return_index=True)[1]] = False
    repeats = np.append(np.flatnonzero(is_repeat), len(theirs))
    begins = np.searchsorted(theirs.partition, theirs.partition, side="left")
    first: np.ndarray = repeats[np.searchsorted(repeats, begins)]
    return first


def _explain_not_yet(case: Case) -> None:
    """Nothing is as late on the other side, in the partition, and nothing of the task that is there is behind it."""
    ours, theirs, mates = case.ours, case.theirs, case.alignment
    for verdict, mine, other, own_mates in (
        (RowVerdict.MISSING, ours, theirs, mates.ours_mate), (RowVerdict.EXTRA, theirs, ours, mates.theirs_mate),
    ):  # fmt: skip
        rows = case.unexplained(verdict)
        if verdict is RowVerdict.MISSING and case.landed.is_complete:
            continue
        if verdict is RowVerdict.EXTRA:
            rows = rows[theirs.time[rows] > _read_ms(case)]
        if not len(rows):
            continue
        place = combined(mine.target, mine.partition)
        there = np.flatnonzero(own_mates >= 0)
        for one in np.unique(place[rows]):
            here = rows[place[rows] == one]
            here = here[here > there[place[there] == one].max(initial=-1)]
            if not len(here):
                continue
            # With other numbers of partitions, nobody knows in which of them the other side has it.
            is_known = case.landed.partitions == case.partitions or case.output.moves_keys
            is_there = (other.target == mine.target[here[0]]) | (not is_known)
            is_later = mine.time[here] > other.time[is_there].max(initial=-1)
            # A task takes its records in one order, so what is behind such a row is not there either.
            later = here[np.logical_or.accumulate(is_later)]
            (case.give_ours if verdict is RowVerdict.MISSING else case.give)(later, Cause.NOT_YET)


def _read_ms(case: Case) -> int:
    """The time up to which every task of the output has read; -1 where its results may wait for a later one."""
    if any(node.holds_back or node.waits_for_close for node in case.output.above):
        return -1
    sub = case.output.sub_topology.id
    return min((case.done.task(TaskId(sub, p)).tape_time_ms for p in range(case.partitions)), default=-1)
