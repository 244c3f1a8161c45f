"""How a kernel is compiled that makes no array of its own.

Owns one decorator. Rule: a loop over records makes no array; who needs room takes it from the caller. Numba then counts
no references: where arrays are handed on in tuples, to count them for every record costs more than the record (measured
on sessions: four times as much). A function that makes one all the same does not compile (NRTRequired).
"""

from numba import njit

allocation_free = njit(cache=True, _nrt=False)  # type: ignore[call-overload]
"""``njit`` for functions that make no array. ``_nrt`` is Numba's own name for it; its version is pinned."""
