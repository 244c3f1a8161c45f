"""Which results of a join of two versioned tables a change corrects (KIP-914, "Attempt 2").

Rule: a version that is put is valid up to the next one of its key. It is joined with the version that the other table
showed at its beginning, and with every version of the other table that began in that time. Each of them is one result,
at the time at which the later of the two began, the oldest first. Where the other table no longer keeps its version of
so long ago, the first result is at the oldest time that it keeps. A last one is what follows at the version's end.

Arrays: ``merged`` is a tuple of which int8 and row int64 (changes of both,). ``changes``: a tuple of Puts for each
side, ``stores``: of VersionColumns; ``retentions``: a tuple of two numbers. ``versions`` has the fields of
VersionColumns, and so have ``mine`` and ``other``; ``journal`` those of Journal, ``results`` those of JoinResults.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....state.compilation.kernel_compilation import inner_kernel, kernel
from ....state.stores.slots import OBSERVED_MS
from ....state.stores.versions import LATEST, TOMBSTONE, VersionColumns
from ...kernels.aggregate_buffers import empty
from ..tables.versioned_store_kernel import IS_LATEST, NOT_PUT, Journal, Puts, find, last_after, put


class JoinResults(NamedTuple):
    """Of each result, in order, shape (results,); times in ms, references TOMBSTONE and times -1 for nothing."""

    at: NDArray[np.int64]
    """Index of the change among the merged rows."""
    time: NDArray[np.int64]
    before: NDArray[np.int64]
    before_time: NDArray[np.int64]
    """Version of the changed side before the change."""
    other: NDArray[np.int64]
    other_time: NDArray[np.int64]
    """Version that the other side shows."""
    is_newest: NDArray[np.bool_]
    """Of its key."""
    follows: NDArray[np.bool_]
    """It is what follows at the end of the version that was put."""


@kernel
def join_versions(merged, begin, changes, retentions, stores, journal, results):  # type: ignore[no-untyped-def]
    """Put changes from index ``begin`` of ``merged`` (which, row) on; (index reached, number of results).

    It stops before a change for which there may be no room. ``changes``, ``retentions``, ``stores``: of both sides.
    Fields of Puts, VersionColumns, Journal and JoinResults.
    """
    changes = Puts(*changes[0]), Puts(*changes[1])
    stores = VersionColumns(*stores[0]), VersionColumns(*stores[1])
    journal, results = Journal(*journal), JoinResults(*results)
    which, row = merged
    at, n = begin, 0
    while at < which.shape[0]:
        side, r = which[at], row[at]
        mine, other = (stores[0], stores[1]) if side == 0 else (stores[1], stores[0])
        key, time, reference = changes[side].key[r], changes[side].time[r], changes[side].reference[r]
        # The version will be valid up to the next one of its key. The bound: each version of the other table that
        # begins in that time may cause a result where it begins and one where it ends, beside the first and the last.
        next_own = last_after(key, time, mine)
        latest_end = LATEST if next_own < 0 else mine.start[next_own]
        if n + 3 + 2 * begun_between(key, time, latest_end, other) > results.at.shape[0]:
            break
        # Before the put: afterwards the old version would no longer be shown at this time.
        before, before_time = shown_at(key, time, retentions[side], mine)
        until = put(key, time, reference, retentions[side], mine, journal)
        if until != NOT_PUT:
            first = n
            n = add_results(key, time, LATEST if until == IS_LATEST else until, retentions[1 - side], other, results, n)
            for i in range(first, n):
                results.at[i], results.before[i], results.before_time[i] = at, before, before_time
                # Results go by rising time, so of a latest version the last one is what the key shows now.
                results.is_newest[i], results.follows[i] = until == IS_LATEST and i == n - 1, False
            # A version out of order, which ends where the next one of its key begins: what both tables show there is a
            # last result, behind those that the put corrects.
            if until != IS_LATEST:
                add_what_follows(at, key, until, retentions[side], retentions[1 - side], mine, other, results, n)
                n += 1
        at += 1
    return at, n


@inner_kernel
def add_what_follows(at, key, time, retention, other_retention, mine, other, results, n):  # type: ignore[no-untyped-def]
    """What both tables show at the end of a version."""
    results.at[n], results.time[n], results.is_newest[n], results.follows[n] = at, time, False, True
    results.before[n], results.before_time[n] = shown_at(key, time, retention, mine)
    results.other[n], results.other_time[n] = shown_at(key, time, other_retention, other)


@inner_kernel
def shown_at(key, time, retention, versions):  # type: ignore[no-untyped-def]
    """Reference and time of the version as of a time, TOMBSTONE and -1 when there is none."""
    slot = find(key, time, retention, versions)
    if slot < 0:
        return np.int64(TOMBSTONE), np.int64(-1)
    return versions.reference[slot], versions.start[slot]


@inner_kernel
def begun_between(key, time, until, versions):  # type: ignore[no-untyped-def]
    """How many versions of a key began after ``time`` and before ``until``, and one more."""
    start, older, heads = versions.start, versions.older, versions.heads
    newer = last_after(key, until - 1, versions)
    count, slot = 1, heads[key] if newer < 0 else older[newer]
    while slot >= 0 and start[slot] > time:
        count += 1
        slot = older[slot]
    return count


@inner_kernel
def add_results(key, time, until, retention, versions, results, n):  # type: ignore[no-untyped-def]
    """Times in ``[time, until)`` at which the other table began to show something else; number of results then."""
    _, start, end, reference, older, _, _, counts, heads, _ = versions
    first, shown, shown_time = begin_of(key, time, until, retention, versions)
    results.time[n], results.other[n], results.other_time[n] = first, shown, shown_time
    n += 1
    newer = last_after(key, until - 1, versions)  # what begins at the end or later shows nothing here
    bottom, next_start, slot = n, LATEST, heads[key]
    if newer >= 0:
        next_start, slot = start[newer], older[newer]
    # From the newest to the oldest, which is how versions are linked; the results are turned round afterwards.
    known = max(first, counts[OBSERVED_MS] - retention)  # what ended before may be gone already
    while slot >= 0 and end[slot] > known:
        # A gap before the next version: the other table showed nothing from here on, a result of its own. A mark (start
        # == end) is no version.
        if first < end[slot] < min(next_start, until) and start[slot] < end[slot]:
            results.time[n], results.other[n], results.other_time[n] = end[slot], TOMBSTONE, -1
            n += 1
        if first < start[slot] < until and start[slot] < end[slot]:
            results.time[n], results.other[n], results.other_time[n] = start[slot], reference[slot], start[slot]
            n += 1
        next_start = start[slot]
        slot = older[slot]
    top = n - 1
    while bottom < top:
        for column in (results.time, results.other, results.other_time):
            column[bottom], column[top] = column[top], column[bottom]
        bottom, top = bottom + 1, top - 1
    return n


@inner_kernel
def begin_of(key, time, until, retention, versions):  # type: ignore[no-untyped-def]
    """(time of the first result, reference and time of what the other table shows then)."""
    limit = versions.counts[OBSERVED_MS] - retention
    reference, since = shown_at(key, time, retention, versions)
    # The other table has forgotten what it showed then. Its oldest time that can still be asked for is the limit, and
    # what it showed there had begun before, so the result is at the limit.
    if since < 0 and time < limit < until:
        known, known_since = shown_at(key, limit, retention, versions)
        if 0 <= known_since < limit:
            return limit, known, known_since
    return time, reference, since


def room(results: int) -> JoinResults:
    """Room for so many."""
    return empty(JoinResults, results)
