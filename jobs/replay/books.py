"""The books of an increment: what became of every record that was read.

Rule: ``read = applied + dropped + undecodable``, for each task, each sub-topology and the increment.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Books:
    """Verdicts on the records read: ``read = applied + dropped + undecodable``; ``dropped_by_reason`` sums to
    ``dropped``.
    """

    read: int
    applied: int
    dropped: int
    undecodable: int
    dropped_by_reason: dict[str, int]
    windows_refused: int = 0
    """Windows that refused a record which other windows took."""

    @property
    def balance(self) -> bool:
        return self.read == self.applied + self.dropped + self.undecodable


def add_books(counts: list[dict[str, Any]]) -> dict[str, Any]:
    """Sums; ``read`` is what tasks counted. The increment's own ``read`` is put in by the plan, which counted
    tables.
    """
    total: dict[str, Any] = {
        name: sum(count[name] for count in counts)
        for name in ("read", "applied", "dropped", "undecodable", "windows_refused")
    }
    reasons: dict[str, int] = {}
    for count in counts:
        for reason, number in count["dropped_by_reason"].items():
            reasons[reason] = reasons.get(reason, 0) + number
    return total | {"dropped_by_reason": reasons}
