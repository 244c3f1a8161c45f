"""The plan of rows that columns order: which tasks, how many records, up to which offsets, with which gaps.

Owns what a landing with known offsets promises before anything is written. Rule: a partition begins at its first
offset; offsets that no row has before the first new one are a gap, those between are none (compaction, transactions).
Slices whose rows overlap are read once more for it, to count and to compare what comes twice (settling.py).
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...state.distinct_numbers import distinct
from ...state.tables.branch_files import landed_files
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow, LandingPlanRow
from ...state.tables.out_of_play import erased_offsets
from ...state.tables.warehouse import Warehouse
from . import file_writing
from .file_source import FileSource
from .file_writing import Order, WriteTask
from .files import streams
from .files.counting import CountedSlice
from .files.kept_records import KeptRecords
from .files.key_spans import KeySpan
from .files.ordered_tasks import OrderedTask, ordered_tasks
from .files.spark_tasks import run_tasks, runs_here
from .files.streams import FileSlice
from .landing_rules import RowRules
from .planned_writing import records_by_partition
from .settling import LandedBefore

if TYPE_CHECKING:
    from .files.spark_tasks import Spark


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
            # Offsets that do not rise within a slice may come twice in it, so how many land is not known by counting.
            if not all(span.rises for span in spans):
                return False
            if any(one.largest >= other.least for one, other in itertools.pairwise(spans)):
                return False
        return True

    def landing(self) -> dict[str, list[int]]:
        """Partition to number of records, least and largest key of those that land."""
        if self.checked is not None:
            return dict(self.checked["landing"])
        landing: dict[str, list[int]] = {}
        for each in self.counted:
            for p, span in each.keys.items():
                count, least, largest = landing.get(str(p), [0, span.least, span.largest])
                landing[str(p)] = [count + span.records, min(least, span.least), max(largest, span.largest)]
        return landing

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
    others: dict[str, list[int]] = {}
    for check in checks:
        for p, offsets in check["others"].items():
            others.setdefault(p, []).extend(offsets)
    changed = {p: joined_ranges(offsets) for p, offsets in sorted(others.items())}
    return replace(
        plan, cut_from=cut_from, cut_to=cut_to, gaps=gaps, repeated=repeated if any(repeated.values()) else None,
        changed={"others": changed} if changed else None,
    )  # fmt: skip


def joined_ranges(offsets: Sequence[int] | np.ndarray) -> list[list[int]]:
    """Ranges `[from, to)` that have these offsets and no others."""
    rising = distinct(np.asarray(offsets, np.int64))
    breaks = np.flatnonzero(np.diff(rising) > 1)
    first, last = np.append(0, breaks + 1), np.append(breaks, len(rising) - 1)
    return [[int(rising[a]), int(rising[b]) + 1] for a, b in zip(first, last, strict=True)] if len(rising) else []


def with_order(
    plan: LandingPlanRow,
    spark: "Spark | None",
    warehouse: Warehouse,
    topic: str,
    source: FileSource,
    rows: RowRules,
    slices: Sequence[CountedSlice],
    last: LedgerRow[LandingDoneRow] | None,
    kept: KeptRecords,
) -> LandingPlanRow | None:
    """``plan`` with tasks by which rows land in the order of their offsets, or of the columns that order them; None
    where a file changed meanwhile. ``last``: the topic's last done row; ``kept``: records of ``slices``. Raises
    LandingError for offsets that come again with other bytes.
    """
    weights = [each.piece.bytes for each in slices]
    cut = {int(p): offset for p, offset in plan.cut_from.items()}
    tasks = [
        OrderedPlan(slices, task)
        for task in ordered_tasks([each.keys for each in slices], weights, file_writing.FILE_BYTES, streams.SLICE_BYTES)
    ]
    begins = cut if source.offset is not None else None
    to_check = [task for task in tasks if task.needs_check(begins)]
    # Offsets below the cut are allowed to be repetitions of landed records alone, and only those make these files read.
    landed = LandedBefore(warehouse.landed(topic), ())
    if last is not None and begins is not None and any(task.is_below(begins) for task in to_check):
        landed = LandedBefore(landed.path, landed_files(warehouse, topic, last), erased_offsets(warehouse, topic))
    directories = warehouse.landed(topic), warehouse.landed_dead_letter(topic)
    checks = [
        WriteTask(
            source.for_files({piece.name for piece in task.slices}), task.slices, rows, cut, directories, 0, "",
            task.order(), landed, kept if runs_here(spark, len(to_check)) else None,
        )
        for task in to_check
    ]  # fmt: skip
    results = run_tasks(spark, warehouse, [check.check for check in checks])
    if any(check["changed"] is not None for check in results):
        return None
    for task, check in zip(to_check, results, strict=True):
        task.checked = check
    written = [task.to_dict() for task in tasks]
    whole = {number for task in tasks if task.task.ranges is None for number in task.task.slices}
    # A task of ranges writes no bad rows, since others may read the slice too; a slice of bad rows alone is in none.
    if letters := [each.piece.to_list() for n, each in enumerate(slices) if each.bad_rows and n not in whole]:
        written.append({"slices": letters, "counts": {}, "order": {"ranges": [], "streams": False}})
    if source.offset is None:
        counts = records_by_partition(written)
        cut_to = {p: first + counts[p] for p, first in plan.cut_from.items()}
        return replace(plan, tasks=written, cut_to=cut_to)
    return with_offsets(replace(plan, tasks=written), tasks, results)
