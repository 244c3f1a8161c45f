"""The books of an increment: what became of every record that was read.

Rule: ``read = applied + left_out + dropped + undecodable``, for each task, each sub-topology and the increment. What
was refused is counted apart, by operator: a record that one of them refused another may have taken.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Refusals = Mapping[str, Mapping[str, list[int]]]
"""Operator → reason → [records, refusals]."""


@dataclass(frozen=True)
class Books:
    """Verdicts on the records read: ``read = applied + left_out + dropped + undecodable``; ``dropped_by_reason`` sums
    to ``dropped``. Applied: an output, a store, another task or a function that keeps it has something of the record.
    """

    read: int
    applied: int
    dropped: int
    undecodable: int
    dropped_by_reason: dict[str, int]
    windows_refused: int = 0
    """Windows that refused a record which other windows took."""
    left_out: int = 0
    """Records of which nothing was kept, as a step wanted it: a filter, a join without a match, a duplicate."""
    refused: Refusals = field(default_factory=dict)
    """Of all that was read, below a repartition too, whatever else became of the records."""
    by_operator: Mapping[str, list[int]] = field(default_factory=dict)
    """Of a sub-topology: operator → [records that came to it, those of them that it refused whole]."""

    @property
    def balance(self) -> bool:
        return self.read == self.applied + self.left_out + self.dropped + self.undecodable


def is_nothing_applied(read: int, applied: int, left_out: int) -> bool:
    """Whether records were read and none of them had an effect or was left out on purpose: then a run is no success."""
    return read > 0 and not applied and not left_out


def add_books(counts: list[dict[str, Any]]) -> dict[str, Any]:
    """Sums; ``read`` is what tasks counted. The increment's own ``read`` is put in by the plan, which counted
    tables.
    """
    total: dict[str, Any] = {
        name: sum(count.get(name, 0) for count in counts)
        for name in ("read", "applied", "left_out", "dropped", "undecodable", "windows_refused")
    }
    reasons: dict[str, int] = {}
    for count in counts:
        for reason, number in count["dropped_by_reason"].items():
            reasons[reason] = reasons.get(reason, 0) + number
    known = all("refused" in count for count in counts)
    refused = {"refused": add_refusals([count["refused"] for count in counts])} if known else {}
    has_operators = all("by_operator" in count for count in counts)
    operators = {"by_operator": _add_operators([count["by_operator"] for count in counts])} if has_operators else {}
    return total | {"dropped_by_reason": reasons} | refused | operators


def _add_operators(counts: Iterable[Mapping[str, list[int]]]) -> dict[str, list[int]]:
    total: dict[str, list[int]] = {}
    for count in counts:
        for node, (came, refused) in count.items():
            before = total.get(node, [0, 0])
            total[node] = [before[0] + came, before[1] + refused]
    return total


def add_refusals(counts: Iterable[Refusals]) -> dict[str, dict[str, list[int]]]:
    """Sums by operator and reason."""
    total: dict[str, dict[str, list[int]]] = {}
    for count in counts:
        for node, reasons in count.items():
            for reason, numbers in reasons.items():
                so_far = total.setdefault(node, {}).setdefault(reason, [0, 0])
                total[node][reason] = [one + more for one, more in zip(so_far, numbers, strict=True)]
    return total
