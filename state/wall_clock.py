"""The machine's clock, for the times that ledgers and landed tables keep. No result of a replay depends on it."""

import time


def now_ms() -> int:
    """Wall-clock time in milliseconds, for the ledger."""
    return time.time_ns() // 1_000_000
