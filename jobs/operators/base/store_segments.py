"""Segments of persistent window and session stores (AbstractSegments): they forget a whole segment at a time."""

import numpy as np

SEGMENT_MS_MIN = 60_000


def segment_ms(retention_ms: int, is_persistent: bool) -> int:
    """Length of a segment, 0 for a store in memory, which has none."""
    return max(retention_ms // 2, SEGMENT_MS_MIN) if is_persistent else 0


def first_kept_ms(store_time_ms: np.ndarray, retention_ms: int, segment_ms: int) -> np.ndarray:
    """The earliest position that stores of these times still have, int64 by store: in memory that is the earliest that
    they show. A persistent one loses whole segments, before the one that its time less the retention is in, and keeps
    what it does not show (AbstractSegments.cleanupExpiredSegments).
    """
    if segment_ms == 0:
        return store_time_ms - retention_ms + 1
    return np.maximum(store_time_ms - retention_ms, 0) // segment_ms * segment_ms


def is_put_expired(position_ms: int, limit_ms: int, segment_ms: int) -> bool:
    """Whether a store counts a put as expired whose window starts, or session ends, at ``position_ms``: in memory
    (``segment_ms`` 0) to the millisecond, in a persistent one by whole segments.
    """
    if segment_ms == 0:
        return position_ms <= limit_ms
    return position_ms // segment_ms < (limit_ms // segment_ms if limit_ms >= 0 else 0)
