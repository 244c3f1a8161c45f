"""Whether an output is fresh: its stream time against the clock of this machine.

Owns the comparison. Rule: stream time is what the records say (the largest of the tasks behind it), so an output is
stale when its input is, also while every run succeeds.
"""

import datetime as dt
from dataclasses import dataclass

from ...state.tables.names import TaskId
from ..facts import facts_of_output
from ..pipeline import Pipeline
from ..text_tables import utc

FRESH = "stream_time_is_fresh"


@dataclass(frozen=True)
class Freshness:
    """``stream_time_ms``: None before any record. ``behind_ms``: the clock's lead over it."""

    stream_time_ms: int | None
    at_ms: int
    within_ms: int

    @property
    def behind_ms(self) -> int | None:
        return None if self.stream_time_ms is None else self.at_ms - self.stream_time_ms

    @property
    def is_fresh(self) -> bool:
        """Before any record it is not."""
        return self.behind_ms is not None and self.behind_ms <= self.within_ms

    def __str__(self) -> str:
        """One sentence."""
        most = dt.timedelta(milliseconds=self.within_ms)
        if self.stream_time_ms is None or self.behind_ms is None:
            return f"Nothing has been replayed yet; at most {most} behind the clock is fresh."
        behind = dt.timedelta(seconds=self.behind_ms // 1000)
        said = f"Stream time is {utc(self.stream_time_ms)}"
        return f"{said}, {behind} behind the clock; at most {most} is fresh."


def freshness_of(pipeline: Pipeline, output: str, at_ms: int) -> Freshness:
    """Of an output as of the last increment; the pipeline says within which time it is fresh."""
    assert pipeline.fresh_within_ms is not None
    last = pipeline.ledger.last_done()
    behind = {sub.id for sub in facts_of_output(pipeline.topology, output).sub_topologies}
    tasks = {} if last is None else last.content.tasks
    times = [task.stream_time_ms for name, task in tasks.items() if TaskId.of(name).sub_topology in behind]
    time_ms = max((time for time in times if time >= 0), default=None)
    return Freshness(time_ms, at_ms, pipeline.fresh_within_ms)
