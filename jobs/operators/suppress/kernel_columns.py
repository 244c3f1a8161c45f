"""Arrays that the kernels of a suppress buffer take and give, by name, a dtype a field.

Python hands them over as plain tuples (state/compilation/kernel_compilation.py). Entries beside these are slots
(state/stores/slots.py).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Changes(NamedTuple):
    """Changes of a table in order, shape (changes,); times in ms. Keys without a window have start and end 0."""

    key: NDArray[np.int32]
    """ONLY_TIME: the row is no change."""
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    due: NDArray[np.int64]
    """The buffer time, if the key does not wait yet."""
    time: NDArray[np.int64]
    valid: NDArray[np.bool_]
    """False: a deletion."""


class Sizes(NamedTuple):
    """Bytes that Kafka counts for each change, shape (changes,), or (0,) when bytes are not counted."""

    fixed: NDArray[np.int64]
    new: NDArray[np.int64]
    old: NDArray[np.int64]
    """-1: there is no old value."""
    old_hash: NDArray[np.int64]


class KeyBytes(NamedTuple):
    """Bytes of the interned keys: those of code c are ``data[offsets[c]:offsets[c + 1]]``."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]


class EntryColumns(NamedTuple):
    """What kernels see of the entries beside SlotColumns, shape (capacity,).

    The reference of row r of a call is ``-(r + 2)``, and so is that of its old value in ``prior``.
    """

    due: NDArray[np.int64]
    """The buffer time, in ms."""
    reference: NDArray[np.int64]
    prior: NDArray[np.int64]
    number: NDArray[np.int64]
    """Of the entry in a call: its index in ``Held``."""
    bytes: NDArray[np.int64]
    prior_bytes: NDArray[np.int64]
    prior_hash: NDArray[np.int64]


class Held(NamedTuple):
    """Entries of a call by number: those from before, then those that came; shape (entries,)."""

    slot: NDArray[np.int32]
    """-1: it came in this call."""
    first: NDArray[np.int32]
    latest: NDArray[np.int32]
    """First and latest change of this call; -1: none."""
    leaves: NDArray[np.int32]
    """Row after which it leaves; the number of rows: it stays."""


class Staying(NamedTuple):
    """Entries that came in a call and stay, shape (entries,)."""

    first: NDArray[np.int32]
    latest: NDArray[np.int32]
    weighed: NDArray[np.int64]
    """Bytes, bytes of the prior value and its hash, shape (entries, 3); (0, 3) when bytes are not counted."""


class Leaving(NamedTuple):
    """What leaves a buffer, in order, shape (changes,); times in ms."""

    row: NDArray[np.int32]
    """That evicted it."""
    slot: NDArray[np.int32]
    """-1: it had none."""
    key: NDArray[np.int32]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    due: NDArray[np.int64]
    """Its buffer time."""
    time: NDArray[np.int64]
    reference: NDArray[np.int64]
    stream_time: NDArray[np.int64]


class Heap(NamedTuple):
    """A binary heap of live slots by buffer time and serialized key, with room for all, shape (capacity,)."""

    due: NDArray[np.int64]
    slot: NDArray[np.int32]
