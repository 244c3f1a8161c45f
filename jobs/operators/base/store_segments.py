"""Segments of persistent window and session stores (AbstractSegments): they forget a whole segment at a time."""

SEGMENT_MS_MIN = 60_000


def segment_ms(retention_ms: int, is_persistent: bool) -> int:
    """Length of a segment, 0 for a store in memory, which has none."""
    return max(retention_ms // 2, SEGMENT_MS_MIN) if is_persistent else 0
