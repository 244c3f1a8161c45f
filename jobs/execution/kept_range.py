"""The range of a backfill, and which of its rows stay.

Rule: a row belongs to the range when its own record time lies in it.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

TIME, CAUSE = "record_time_ms", "cause_offset"
NO_CAUSE = -1
"""``cause_offset`` of a row whose cause has another offset elsewhere."""


@dataclass(frozen=True, slots=True)
class Range:
    """Times ``[from_ms, to_ms)``."""

    from_ms: int
    to_ms: int

    def has(self, rows: pa.Table) -> pa.ChunkedArray:
        """Which rows of an output, of drops or dead letters are of the range."""
        times = rows[TIME]
        return pc.and_(pc.greater_equal(times, self.from_ms), pc.less(times, self.to_ms))


@dataclass(frozen=True, slots=True)
class KeptRange:
    """Which rows of a backfill's outputs, drops and dead letters stay: those of ``range``, or none (None), while it
    warms up. ``without_cause``: tables whose rows name no cause.
    """

    range: Range | None
    without_cause: frozenset[str] = frozenset()
