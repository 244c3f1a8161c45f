"""Versions of a key: puts and lookups (RocksDBVersionedStore and its segment formatter, KIP-889).

Rule: the newest version of a key by time is its *latest* when it is no tombstone; versions before it are its *history*,
which has no gaps up to the end of its newest version. A put older than ``stream time - history retention`` is refused.
Of equal times the later put replaces the earlier. A lookup as of a time before ``stream time - history retention``
finds only a latest version that is old enough. Kafka's store keeps no trace of a tombstone at the very time of the
latest version unless history ends there. Of a tombstone on an empty key it keeps a *mark* ``[t, t)``, which is removed
when a version joins it. Both are kept here.

Arrays: ``rows`` and ``puts`` have the fields of Puts, ``versions`` of VersionColumns, ``journal`` of Journal.
``answers`` int64 and ``old`` int64 (puts,). ``merged`` is a tuple of which int8 and row int64 (all rows,). ``asked`` is
a tuple of key int32 and time int64 (lookups,), ``shown`` one of two int64 (lookups,). ``column`` int64 is one of the
columns of ``versions`` (slots,), or of the heads (keys,).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....state.compilation.kernel_compilation import inner_kernel, kernel
from ....state.stores.skip_lists import enter, last_above, leave
from ....state.stores.slots import CHANGED, FREE_TOP, LIVE, LIVE_COUNT, OBSERVED_MS
from ....state.stores.versions import LATEST, NO_SLOT, TOMBSTONE, VersionColumns
from ...kernels.slot_lifecycle import vacate

IS_LATEST, NOT_PUT = -1, -(2**63)
"""Answers of a put beside the end of the version that was put (VersionedKeyValueStore.PUT_RETURN_CODE_*)."""
SKIPPED = NOT_PUT + 1
"""Answer for a tombstone that was not put since there was nothing to delete."""

HEAD, OLDER, END, REFERENCE = 0, 1, 2, 3
"""What a journal's entry is about."""


class Puts(NamedTuple):
    """Versions to put, in order, shape (puts,); times in ms."""

    key: NDArray[np.int32]
    time: NDArray[np.int64]
    reference: NDArray[np.int64]
    """Of the value in the heap, or TOMBSTONE."""


class Journal(NamedTuple):
    """What was changed, so that it can be taken back; without room for entries nothing is noted."""

    entries: NDArray[np.int64]
    """(HEAD, OLDER, END or REFERENCE; slot or key; the previous value), shape (room, 3)."""
    length: NDArray[np.int64]
    """How many there are, shape (1,)."""


@kernel
def put_all(rows, skips_nothing, retention, versions, journal, answers, old):  # type: ignore[no-untyped-def]
    """Put ``rows`` in order. ``answers``: of each put; ``old``: reference of the latest before it. Fields of Puts,
    VersionColumns and Journal.
    """
    key, time, reference = Puts(*rows)
    versions, journal = VersionColumns(*versions), Journal(*journal)
    for row in range(key.shape[0]):
        latest = find(key[row], LATEST, retention, versions)
        old[row] = TOMBSTONE if latest < 0 else versions.reference[latest]
        # KTableFilter with old values: there was nothing and there is nothing, so it forwards nothing and puts nothing.
        if skips_nothing and latest < 0 and reference[row] == TOMBSTONE:
            answers[row] = SKIPPED
        else:
            answers[row] = put(key[row], time[row], reference[row], retention, versions, journal)


@kernel
def put_and_find(merged, puts, asked, retention, versions, journal, answers, shown):  # type: ignore[no-untyped-def]
    """Run ``puts`` and lookups ``(key int32, as of int64)`` in the order of ``merged``: (which, row), 0 for a put.

    ``answers``: of each put. ``shown``: (reference, time) of each lookup; TOMBSTONE and -1 if there is nothing. Fields
    of Puts, VersionColumns and Journal.
    """
    puts, versions, journal = Puts(*puts), VersionColumns(*versions), Journal(*journal)
    which, row = merged
    for i in range(which.shape[0]):
        r = row[i]
        if which[i] == 0:
            answers[r] = put(puts.key[r], puts.time[r], puts.reference[r], retention, versions, journal)
        else:
            slot = find(asked[0][r], asked[1][r], retention, versions)
            shown[0][r] = TOMBSTONE if slot < 0 else versions.reference[slot]
            shown[1][r] = -1 if slot < 0 else versions.start[slot]


@kernel
def lookup(key, as_of, retention, versions):  # type: ignore[no-untyped-def]
    """As ``find``, for Python: ``versions`` are fields of VersionColumns."""
    return find(key, as_of, retention, VersionColumns(*versions))


@inner_kernel
def find(key, as_of, retention, versions):  # type: ignore[no-untyped-def]
    """Slot of the version of ``key`` as of a time (LATEST: of its latest), or -1 when there is none or a tombstone."""
    _, start, end, reference, _, _, _, counts, heads, _ = versions
    # A key that is null, or was never seen, has the code -1 and no version.
    slot = heads[key] if key >= 0 else NO_SLOT
    # The latest version lies in a store of its own (latestValueStore), which no retention clears: it is found as of any
    # time from its beginning on.
    if slot >= 0 and end[slot] == LATEST:
        if start[slot] <= as_of:
            return slot
    # "history retention exceeded": null, even if the version is still in a segment.
    if slot < 0 or as_of < counts[OBSERVED_MS] - retention:
        return NO_SLOT
    slot = first_from(key, as_of, versions)
    # The newest version that began by then may have ended before: in a gap there is none.
    return slot if slot >= 0 and as_of < end[slot] and reference[slot] != TOMBSTONE else NO_SLOT


@inner_kernel
def last_after(key, time, versions):  # type: ignore[no-untyped-def]
    """Slot of the oldest version of ``key`` that begins after ``time``, or NO_SLOT."""
    _, start, _, _, older, _, _, _, heads, skip_lists = versions
    return last_above(heads, older, skip_lists, key, start, time)


@inner_kernel
def first_from(key, time, versions):  # type: ignore[no-untyped-def]
    """Slot of the newest version of ``key`` that begins at ``time`` or before, or NO_SLOT."""
    newer = last_after(key, time, versions)
    return versions.heads[key] if newer < 0 else versions.older[newer]


@inner_kernel
def put(key, time, reference, retention, versions, journal):  # type: ignore[no-untyped-def]
    """Put one version; IS_LATEST, NOT_PUT, or the end of the version."""
    _, start, end, references, older, _, _, counts, heads, _ = versions
    # The grace period of the store is its history retention. A refused put does not move the stream time.
    if time < counts[OBSERVED_MS] - retention:
        return NOT_PUT
    counts[OBSERVED_MS] = max(counts[OBSERVED_MS], time)
    head = heads[key]
    # No latest version: the key is new, or its newest version was deleted.
    if head < 0 or end[head] != LATEST:
        return put_before(key, time, reference, NO_SLOT, versions, journal)
    # Out of order: only the history changes, the latest version stays.
    if time < start[head]:
        return put_before(key, time, reference, head, versions, journal)
    # maybePutToLatestValueStore. The latest version moves into the history and ends here. The history must reach up to
    # its beginning first, since it has no gaps: where the key was deleted before, a deleted version fills the gap.
    if time > start[head]:
        write(older, head, join(older[head], start[head], versions, journal), OLDER, journal)
        change(end, head, time, END, versions, journal)
        if reference != TOMBSTONE:
            write(heads, key, add(key, time, LATEST, reference, head, versions), HEAD, journal)
    # Of equal times the later put replaces the earlier.
    elif reference != TOMBSTONE:
        change(references, head, reference, REFERENCE, versions, journal)
    # deleteLatestValue without a version in a segment: the history becomes the newest again, as if there had never been
    # a version at this time.
    else:
        write(heads, key, older[head], HEAD, journal)
        remove(head, versions, journal)
    return IS_LATEST


@inner_kernel
def put_before(key, time, reference, latest, versions, journal):  # type: ignore[no-untyped-def]
    """Put what is older than slot ``latest``, or anything when there is none (NO_SLOT)."""
    _, start, end, _, older, _, _, _, heads, _ = versions
    past = heads[key] if latest < 0 else older[latest]
    # maybePutToSegments: a segment whose next timestamp is later has the put's place.
    if past >= 0 and end[past] > time:
        return put_into_history(key, time, reference, latest, past, versions, journal)
    # Between the history and the latest version: valid up to where that begins.
    if latest >= 0:
        before = join(past, time, versions, journal)
        fresh = add(key, time, start[latest], reference, before, versions)
        write(older, latest, fresh, OLDER, journal)
        return start[latest]
    # No latest version, and nothing later: this one becomes it. The gap before it is filled once it moves into the
    # history.
    if reference != TOMBSTONE:
        write(heads, key, add(key, time, LATEST, reference, past, versions), HEAD, journal)
    # finishPut of a tombstone for a key without versions: Kafka inserts an empty record into the segment, with the same
    # time as beginning and end. It is the mark that a later put out of order ends at.
    elif past < 0:
        write(heads, key, add(key, time, time, TOMBSTONE, NO_SLOT, versions), HEAD, journal)
    # A tombstone behind the history: the deletion is known up to here.
    elif end[past] < time:
        write(heads, key, join(past, time, versions, journal), HEAD, journal)
    return IS_LATEST


@inner_kernel
def put_into_history(key, time, reference, latest, past, versions, journal):  # type: ignore[no-untyped-def]
    """Put what is older than the end of the history, whose newest version is slot ``past``."""
    _, start, end, references, older, _, _, _, heads, _ = versions
    newer = latest
    # A mark is alone in its history.
    if start[past] == end[past]:  # a mark: the new version ends where it stands, and takes its place
        fresh = add(key, time, end[past], reference, NO_SLOT, versions)
        remove(past, versions, journal)
    else:
        newer = last_after(key, time, versions)
        slot = past if newer < 0 else older[newer]
        # The same time again: updateRecord.
        if slot >= 0 and start[slot] == time:
            change(references, slot, reference, REFERENCE, versions, journal)
            return end[slot]
        # Within a version: it is cut in two, and the new one takes the later part. Before the oldest version: up to its
        # beginning.
        until = start[newer] if slot < 0 else end[slot]
        fresh = add(key, time, until, reference, slot, versions)
        if slot >= 0:
            change(end, slot, time, END, versions, journal)
    # No version is newer, not even a latest one: the new version heads its key's list.
    if newer < 0:
        write(heads, key, fresh, HEAD, journal)
    else:
        write(older, newer, fresh, OLDER, journal)
    return end[fresh]


@inner_kernel
def join(past, time, versions, journal):  # type: ignore[no-untyped-def]
    """Let the history whose newest version is ``past`` reach up to ``time``; its newest version now."""
    key, start, end, _, _, _, _, _, _, _ = versions
    # There is nothing to reach from, or the history ends there already.
    if past < 0 or (end[past] == time and start[past] < time):
        return past
    first, before = end[past], past
    # A mark is no version: the deleted one that takes its place begins where it stands.
    if start[past] == first:
        before = NO_SLOT
        remove(past, versions, journal)
    # A mark at ``time`` itself leaves no gap, so no deleted version takes its place.
    return add(key[past], first, time, TOMBSTONE, before, versions) if first < time else before


@inner_kernel
def add(key, start, end, reference, older, versions):  # type: ignore[no-untyped-def]
    """Slot of a new version."""
    v_key, v_start, v_end, v_reference, v_older, flags, free, counts, _, skip_lists = versions
    counts[FREE_TOP] -= 1
    counts[LIVE_COUNT] += 1
    slot = np.int64(free[counts[FREE_TOP]])
    v_key[slot], v_start[slot], v_end[slot] = key, start, end
    v_reference[slot], v_older[slot], flags[slot] = reference, older, LIVE | CHANGED
    enter(skip_lists, key, v_start, slot)
    return slot


@inner_kernel
def remove(slot, versions, journal):  # type: ignore[no-untyped-def]
    """Take a version that nothing leads to any more out of the store; with a journal it stays until it expires."""
    key, start, end, reference, _, flags, free, counts, _, skip_lists = versions
    leave(skip_lists, key[slot], start, slot)
    # A journal may take the put back, so the slot must not be given to another version. It becomes a version of no
    # length, which nothing leads to.
    if journal.entries.shape[0]:
        write(end, slot, start[slot], END, journal)
        return
    # The heap keeps what some version refers to, so the reference goes with the version.
    reference[slot] = TOMBSTONE
    vacate(flags, free, counts, slot)


@inner_kernel
def change(column, slot, number, what, versions, journal):  # type: ignore[no-untyped-def]
    """As write, of what the durable row shows too."""
    versions.flags[slot] |= CHANGED
    write(column, slot, number, what, journal)


@inner_kernel
def write(column, at, number, what, journal):  # type: ignore[no-untyped-def]
    """Set ``column[at]``, and note the previous value when there is a journal."""
    entries, length = journal
    if entries.shape[0]:
        entries[length[0], 0], entries[length[0], 1], entries[length[0], 2] = what, at, column[at]
        length[0] += 1
    column[at] = number


@kernel
def take_back(versions, journal):  # type: ignore[no-untyped-def]
    """Undo everything that the journal has noted, the last first; skip lists are to be cleared. Fields of
    VersionColumns and Journal.
    """
    _, _, end, reference, older, _, _, _, heads, _ = VersionColumns(*versions)
    entries, length = Journal(*journal)
    for i in range(length[0] - 1, -1, -1):
        what, at, number = entries[i, 0], entries[i, 1], entries[i, 2]
        if what == HEAD:
            heads[at] = number
        elif what == OLDER:
            older[at] = number
        elif what == END:
            end[at] = number
        else:
            reference[at] = number
    length[0] = 0


# A put after the latest version writes most: the end of a mark, an older, an end and a head.
WRITES_PER_PUT = 4
NO_JOURNAL = np.zeros((0, 3), np.int64), np.zeros(1, np.int64)
"""Fields of Journal, for puts that are never taken back."""


def journal_of(puts: int) -> tuple[np.ndarray, np.ndarray]:
    """Fields of Journal, with room for what ``puts`` may change."""
    return np.empty((WRITES_PER_PUT * max(puts, 1), 3), np.int64), np.zeros(1, np.int64)
