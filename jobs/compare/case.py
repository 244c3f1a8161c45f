"""A comparison while causes are looked for: both sides, the verdicts, and of every difference its cause so far.

Owns the causes. Rule: a difference has one cause, the first whose evidence is there; what has none is "not explained".
A missing row has it on our side, every other difference on the side of production.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

import numpy as np

from ...state.tables.ledger_rows import DoneRow
from ...state.tables.warehouse import Warehouse
from .alignment import Alignment, RowVerdict
from .compared_output import ComparedOutput
from .sides import ProductionTopic, Side


class Cause(IntEnum):
    """Why a row differs. Its text is what reports say."""

    NOT_EXPLAINED = 0
    RESTART = 1
    PUBLISHED_TWICE = 2
    PROCESSED_TWICE = 3
    RECORD_CACHE = 4
    PARTITION_COUNT = 5
    PARTITIONER = 6
    COMPACTED = 7
    RETENTION = 8
    TOMBSTONES = 9
    NOT_YET = 10
    INTERLEAVING = 11
    APPEND_TIME = 12
    UNREADABLE = 13
    CRASH = 14
    CODE_VERSION = 15
    WALL_CLOCK = 16

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


@dataclass(eq=False)
class Case:
    """``done``: the increment of the pipeline whose rows are ``ours``; ``has_cache``: production may have record
    caches. ``theirs_cause`` and ``ours_cause``: a Cause a row. ``theirs_evidence``, ``ours_evidence``: a row that
    proves it, -1 without: with RESTART and CRASH a row of the late ones, with PUBLISHED_TWICE and PROCESSED_TWICE the
    earlier row of production, with RECORD_CACHE and COMPACTED the later one.
    """

    output: ComparedOutput
    warehouse: Warehouse
    pipeline: str
    done: DoneRow
    landed: ProductionTopic
    ours: Side
    theirs: Side
    alignment: Alignment
    has_cache: bool = True
    ours_cause: np.ndarray = field(init=False)
    theirs_cause: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.ours_cause = np.zeros(len(self.ours), np.int8)
        self.theirs_cause = np.zeros(len(self.theirs), np.int8)

    @cached_property
    def ours_evidence(self) -> np.ndarray:
        """See above."""
        return np.full(len(self.ours), -1)

    @cached_property
    def theirs_evidence(self) -> np.ndarray:
        """See above."""
        return np.full(len(self.theirs), -1)

    @property
    def is_equal(self) -> bool:
        """No row differs."""
        return not (self.alignment.ours.any() or self.alignment.theirs.any())  # EQUAL is 0

    def unexplained(self, *verdicts: RowVerdict) -> np.ndarray:
        """Rows with one of the verdicts that have no cause yet: with MISSING alone of ours, else of production."""
        if verdicts == (RowVerdict.MISSING,):
            return np.flatnonzero((self.alignment.ours == RowVerdict.MISSING) & (self.ours_cause == 0))
        return np.flatnonzero(np.isin(self.alignment.theirs, verdicts) & (self.theirs_cause == 0))

    def give(self, rows: np.ndarray, cause: Cause, evidence: np.ndarray | None = None) -> None:
        """``rows`` of production differ because of ``cause``."""
        self.theirs_cause[rows] = cause
        if evidence is not None:
            self.theirs_evidence[rows] = evidence

    def give_ours(self, rows: np.ndarray, cause: Cause, evidence: np.ndarray | None = None) -> None:
        """``rows`` of ours are missing because of ``cause``."""
        self.ours_cause[rows] = cause
        if evidence is not None:
            self.ours_evidence[rows] = evidence

    def record_of(self, row: int) -> str | None:
        """TOPIC:PARTITION:OFFSET of the record that our ``row`` is of; None: not known, or no row (-1)."""
        topic = self.output.cause_topic
        if row < 0 or topic is None or self.ours.cause[row] < 0:
            return None
        return f"{topic}:{self.ours.partition[row]}:{self.ours.cause[row]}"

    @property
    def partitions(self) -> int:
        """Of the tasks that write the output."""
        return self.done.partitions.get(str(self.output.sub_topology.id), 0)
