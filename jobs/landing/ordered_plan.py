"""The plan of rows that columns order: which tasks, how many records, up to which offsets, with which gaps.

Owns what a landing with known offsets promises before anything is written. Rule: a partition begins at its first
offset; offsets that no row has before the first new one are a gap, those between are none (compaction, transactions).
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...state.tables.ledger_rows import LandingPlanRow
from .file_writing import Order
from .files.counting import CountedSlice
from .files.key_spans import KeySpan
from .files.ordered_tasks import OrderedTask
from .files.streams import FileSlice


class OrderedPlan:
    """A task of ordered rows that is being planned. ``checked``: what was found in rows that overlap."""

    def __init__(self, slices: Sequence[CountedSlice], task: OrderedTask) -> None:
        self.task = task
        self.counted = [slices[number] for number in task.slices]
        self.checked: dict[str, Any] | None = None

    @property
    def slices(self) -> list[FileSlice]:
        """In natural order."""
        return [each.piece for each in self.counted]

    def order(self) -> Order:
        """Which rows it takes, and how."""
        return Order(self.task.ranges, self.task.streams)

    def is_below(self, begins: Mapping[int, int]) -> bool:
        """Whether some of its offsets are below ``begins``."""
        return any(span.least < begins[p] for each in self.counted for p, span in each.keys.items())

    def needs_check(self, begins: Mapping[int, int] | None) -> bool:
        """Whether spans do not say how many of its records will land. ``begins`` None: no offsets are known."""
        if begins is None:
            return self.task.ranges is not None
        return self.task.ranges is not None or self.is_below(begins) or not self._is_disjoint()

    def _is_disjoint(self) -> bool:
        by_partition: dict[int, list[KeySpan]] = {}
        for each in self.counted:
            for p, span in each.keys.items():
                by_partition.setdefault(p, []).append(span)
        for spans in by_partition.values():
            spans.sort(key=lambda span: span.least)
            if not all(span.rises for span in spans):
                return False
            if any(one.largest >= other.least for one, other in itertools.pairwise(spans)):
                return False
        return True

    def with_letters(self) -> list[CountedSlice]:
        """Slices whose bad rows it leaves to another task."""
        return [each for each in self.counted if each.bad_rows] if self.task.ranges is not None else []

    def landing(self) -> dict[str, list[int]]:
        """Partition to number of records, least and largest key of those that land."""
        if self.checked is not None:
            return dict(self.checked["landing"])
        found: dict[str, list[int]] = {}
        for each in self.counted:
            for p, span in each.keys.items():
                count, least, largest = found.get(str(p), [0, span.least, span.largest])
                found[str(p)] = [count + span.records, min(least, span.least), max(largest, span.largest)]
        return found

    def to_dict(self) -> dict[str, Any]:
        """As a plan keeps it."""
        return {
            "slices": [piece.to_list() for piece in self.slices],
            "counts": {p: count for p, (count, _, _) in self.landing().items()},
            "order": self.order().to_dict(),
        }


def with_offsets(
    plan: LandingPlanRow, tasks: Sequence[OrderedPlan], checks: Sequence[Mapping[str, Any]]
) -> LandingPlanRow:
    """``plan`` with the cut and the gaps that its offsets make. A partition begins at its first offset."""
    first: dict[str, int] = {}
    cut_to, is_first = dict(plan.cut_from), not any(plan.cut_from.values())
    for task in tasks:
        for p, (_, least, largest) in task.landing().items():
            first[p] = min(first.get(p, least), least)
            cut_to[p] = max(cut_to[p], largest + 1)
    cut_from = {p: first.get(p, 0) for p in cut_to} if is_first else plan.cut_from
    gaps = {p: [cut_from[p], offset] for p, offset in sorted(first.items()) if offset > cut_from[p]}
    repeated = {name: sum(check[name] for check in checks) for name in ("twice", "landed")}
    return replace(
        plan, cut_from=cut_from, cut_to=cut_to, gaps=gaps, repeated=repeated if any(repeated.values()) else None
    )
