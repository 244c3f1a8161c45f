"""Which results of a join of two versioned tables a change corrects (KIP-914, "Attempt 2").

Rule: a version that is put is valid up to the next one of its key, and in that time it meets what the other table
showed at its beginning, and every version of the other table that began in it. Each of them is one result, at the time
at which the later of the two began, the oldest first. Where the other table no longer tells what it showed so long ago,
the first result is at the oldest time for which it does. A last one is what follows at the version's end.
"""

import numpy as np

from ....state.compilation.kernel_compilation import inner_kernel, kernel
from ....state.stores.slots import OBSERVED_MS
from ....state.stores.versions import LATEST, TOMBSTONE
from ..tables.versioned_store_kernel import IS_LATEST, NOT_PUT, find, last_after, put


@kernel
def meet_versions(merged, begin, changes, retentions, stores, journal, results):  # type: ignore[no-untyped-def]
    """Put changes from place ``begin`` of ``merged`` (which, row) on; (place reached, number of results).

    It stops before a change for which there may be no room. ``changes``, ``retentions``, ``stores``: of both sides, a
    change is (key, time, reference). ``results``: (place, time, reference and time of this side's value before, the
    same of the other side's value, whether it is the newest result of its key, whether it is what follows).
    """
    which, row = merged
    place, n = begin, 0
    while place < which.shape[0]:
        side, r = which[place], row[place]
        mine, other = (stores[0], stores[1]) if side == 0 else (stores[1], stores[0])
        key, time, reference = changes[side][0][r], changes[side][1][r], changes[side][2][r]
        next_own = last_after(key, time, mine)
        latest_end = LATEST if next_own < 0 else mine[1][next_own]
        if n + 3 + 2 * begun_between(key, time, latest_end, other) > results[0].shape[0]:
            break
        before, before_time = shown_at(key, time, retentions[side], mine)
        until = put(key, time, reference, retentions[side], mine, journal)
        if until != NOT_PUT:
            first = n
            n = add_results(key, time, LATEST if until == IS_LATEST else until, retentions[1 - side], other, results, n)
            for i in range(first, n):
                results[0][i], results[2][i], results[3][i] = place, before, before_time
                results[6][i], results[7][i] = until == IS_LATEST and i == n - 1, False
            if until != IS_LATEST:
                add_what_follows(place, key, until, retentions[side], retentions[1 - side], mine, other, results, n)
                n += 1
        place += 1
    return place, n


@inner_kernel
def add_what_follows(place, key, time, retention, other_retention, mine, other, results, n):  # type: ignore[no-untyped-def]
    """What both tables show at the end of a version."""
    results[0][n], results[1][n], results[6][n], results[7][n] = place, time, False, True
    results[2][n], results[3][n] = shown_at(key, time, retention, mine)
    results[4][n], results[5][n] = shown_at(key, time, other_retention, other)


@inner_kernel
def shown_at(key, time, retention, versions):  # type: ignore[no-untyped-def]
    """Reference and time of the version as of a time, TOMBSTONE and -1 when there is none."""
    slot = find(key, time, retention, versions)
    if slot < 0:
        return np.int64(TOMBSTONE), np.int64(-1)
    return versions[3][slot], versions[1][slot]


@inner_kernel
def begun_between(key, time, until, versions):  # type: ignore[no-untyped-def]
    """How many versions of a key began after ``time`` and before ``until``, and one more."""
    start, older, heads = versions[1], versions[4], versions[8]
    newer = last_after(key, until - 1, versions)
    count, slot = 1, heads[key] if newer < 0 else older[newer]
    while slot >= 0 and start[slot] > time:
        count += 1
        slot = older[slot]
    return count


@inner_kernel
def add_results(key, time, until, retention, versions, results, n):  # type: ignore[no-untyped-def]
    """Moments in ``[time, until)`` at which the other table began to show something else; number of results then."""
    _, start, end, reference, older, _, _, counts, heads, _ = versions
    first, shown, shown_time = begin_of(key, time, until, retention, versions)
    results[1][n], results[4][n], results[5][n] = first, shown, shown_time
    n += 1
    newer = last_after(key, until - 1, versions)  # what begins at the end or later shows nothing here
    bottom, next_start, slot = n, LATEST, heads[key]
    if newer >= 0:
        next_start, slot = start[newer], older[newer]
    known = max(first, counts[OBSERVED_MS] - retention)  # what ended before may be gone already
    while slot >= 0 and end[slot] > known:
        if first < end[slot] < min(next_start, until) and start[slot] < end[slot]:
            results[1][n], results[4][n], results[5][n] = end[slot], TOMBSTONE, -1
            n += 1
        if first < start[slot] < until and start[slot] < end[slot]:
            results[1][n], results[4][n], results[5][n] = start[slot], reference[slot], start[slot]
            n += 1
        next_start = start[slot]
        slot = older[slot]
    top = n - 1
    while bottom < top:
        for column in (results[1], results[4], results[5]):
            column[bottom], column[top] = column[top], column[bottom]
        bottom, top = bottom + 1, top - 1
    return n


@inner_kernel
def begin_of(key, time, until, retention, versions):  # type: ignore[no-untyped-def]
    """(time of the first result, reference and time of what the other table shows then)."""
    limit = versions[7][OBSERVED_MS] - retention
    reference, since = shown_at(key, time, retention, versions)
    if since < 0 and time < limit < until:
        known, known_since = shown_at(key, limit, retention, versions)
        if 0 <= known_since < limit:
            return limit, known, known_since
    return time, reference, since


def room(results: int) -> tuple[np.ndarray, ...]:
    """Empty ``results``."""
    return (*(np.empty(results, np.int64) for _ in range(6)), *(np.empty(results, np.bool_) for _ in range(2)))
