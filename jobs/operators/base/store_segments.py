"""Segments of persistent window and session stores (AbstractSegments): they forget a whole segment at a time."""

SEGMENT_MS_MIN = 60_000


def segment_ms(retention_ms: int, is_persistent: bool) -> int:
    """Length of a segment, 0 for a store in memory, which has none."""
    return max(retention_ms // 2, SEGMENT_MS_MIN) if is_persistent else 0


def is_put_expired(position_ms: int, limit_ms: int, segment_ms: int) -> bool:
    """Whether a store counts a put as expired whose window starts, or session ends, at ``position_ms``: in memory
    (``segment_ms`` 0) to the millisecond, in a persistent one by whole segments.
    """
    if segment_ms == 0:
        return position_ms <= limit_ms
    return position_ms // segment_ms < (limit_ms // segment_ms if limit_ms >= 0 else 0)
