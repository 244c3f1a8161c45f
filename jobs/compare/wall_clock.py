"""Rows that a processor of production forwarded when the wall clock called it (PunctuationType.WALL_CLOCK_TIME).

Rule: a replay calls such schedules by recorded ticks alone (docs/recorded-time.md). Where none is recorded, no row of
ours is of the clock, so a row that production alone has may be. It may be a second result of a record instead, which a
crash brought. Nothing in the rows decides which, unless an equal row is there.
"""

import numpy as np

from ..operators.processor.process_node import ProcessNode
from ..operators.processor.punctuation import WALL_CLOCK, Ticks
from .alignment import RowVerdict
from .case import Case, Cause


def explain_wall_clock(case: Case) -> list[str]:
    """Give WALL_CLOCK to what production alone has, and has no better cause. Returns the processors."""
    silent = _silent_clocks(case)
    if silent:
        is_in_doubt = np.isin(case.theirs_cause, (Cause.NOT_EXPLAINED, Cause.PROCESSED_TWICE))
        case.give(np.flatnonzero((case.alignment.theirs == RowVerdict.EXTRA) & is_in_doubt), Cause.WALL_CLOCK)
    return silent


def _silent_clocks(case: Case) -> list[str]:
    """Processors above the output that have a schedule by the wall clock and were never called by it."""
    silent = list[str]()
    for node in case.output.above:
        if isinstance(node, ProcessNode):
            of_tasks = [entry.counters.get(node.store, {}) for entry in case.done.tasks.values()]
            has_ticked = any(WALL_CLOCK in counters for counters in of_tasks)
            if not has_ticked and any(name.startswith(Ticks.name) for counters in of_tasks for name in counters):
                silent.append(node.name)
    return silent
