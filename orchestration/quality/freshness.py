"""Whether an output is fresh: its stream time against the clock of this machine, and Dagster's own policy beside it.

Owns the comparison. Rule: stream time is what the records say (the largest of the tasks behind it), so an output is
stale when its input is, also while every run succeeds. A task whose time is further ahead of the clock than is fresh
does not count: one record with a wrong time has moved it there, and it stays. Dagster's policy asks when an output was
last materialized, which a run with nothing new does not do.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field

import dagster as dg

from ...state.errors import ConfigError
from ...state.tables.names import OUTPUTS, TableName, TaskId
from ..facts import facts_of_output
from ..pipeline import Pipeline
from ..text_tables import utc

FRESH = "stream_time_is_fresh"
POLICY_MS_MIN = 60_000
"""Dagster takes no shorter window."""


@dataclass(frozen=True)
class Freshness:
    """``stream_time_ms``: of the tasks that are not ``ahead``, None before any record. ``behind_ms``: the clock's lead
    over it. ``ahead``: stream time in ms of tasks that are further ahead of the clock than ``within_ms``.
    """

    stream_time_ms: int | None
    at_ms: int
    within_ms: int
    ahead: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, times: Mapping[str, int], at_ms: int, within_ms: int) -> "Freshness":
        """Of the stream ``times`` of tasks, -1 for one without a record."""
        ahead = {name: time for name, time in sorted(times.items()) if time - at_ms > within_ms}
        time_ms = max((time for name, time in times.items() if time >= 0 and name not in ahead), default=None)
        return cls(time_ms, at_ms, within_ms, ahead)

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
        tasks = ", ".join(f"{task} ({utc(time_ms)})" for task, time_ms in self.ahead.items())
        are, them = ("Task {} is", "it") if len(self.ahead) == 1 else ("Tasks {} are", "them")
        wrong = f"{are.format(tasks)} ahead of the clock, as a record with a wrong time makes {them}" if tasks else ""
        if self.stream_time_ms is None or self.behind_ms is None:
            if wrong:
                return f"{wrong}, and no other task says how fresh the output is."
            return f"Nothing has been replayed yet; at most {most} behind the clock is fresh."
        said = f"Stream time is {utc(self.stream_time_ms)}"
        if self.behind_ms >= 0:
            behind = f"{dt.timedelta(seconds=self.behind_ms // 1000)} behind"
        else:
            behind = f"{dt.timedelta(seconds=-self.behind_ms // 1000)} ahead of"
        return f"{said}, {behind} the clock; at most {most} is fresh.{f' {wrong}, and not counted.' if wrong else ''}"


def freshness_of(pipeline: Pipeline, output: str, at_ms: int) -> Freshness:
    """Of an output as of the last increment; the pipeline says within which time it is fresh."""
    assert pipeline.fresh_within_ms is not None
    last = pipeline.ledger.last_done()
    behind = {sub.id for sub in facts_of_output(pipeline.topology, output).sub_topologies}
    tasks = {} if last is None else last.content.tasks
    times = {name: task.stream_time_ms for name, task in tasks.items() if TaskId.of(name).sub_topology in behind}
    return Freshness.of(times, at_ms, pipeline.fresh_within_ms)


def freshness_policy_of(pipeline: Pipeline, table: TableName) -> dg.FreshnessPolicy | None:
    """Of an output, where the pipeline has policies: it fails when nothing new came within the time of the check."""
    if not pipeline.freshness_policy or table.kind != OUTPUTS:
        return None
    assert pipeline.fresh_within_ms is not None
    return dg.FreshnessPolicy.time_window(dt.timedelta(milliseconds=pipeline.fresh_within_ms))


def refuse_policy(pipeline: Pipeline) -> None:
    """ConfigError for policies without a time, or with one that Dagster does not take."""
    within_ms = pipeline.fresh_within_ms
    if pipeline.freshness_policy and (within_ms is None or within_ms < POLICY_MS_MIN):
        got = "none" if within_ms is None else f"{within_ms} ms"
        raise ConfigError("freshness_policy", "fresh_within beside it, of a minute or more", got, "set fresh_within")
