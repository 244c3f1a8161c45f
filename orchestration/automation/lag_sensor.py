"""The sensor on lag: it starts a run as soon as enough is new, and never two at a time.

Owns the decision of a tick. Rule: a run is asked for once for what is there. What it leaves (records that wait for
another partition, a landing that fails) does not start it again and again: the next run comes with something new, or
when the schedule or a person asks. The cursor says for what the last run was asked, and since when too little is there.
"""

import json
from dataclasses import asdict, dataclass

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from ...state.times import Duration, duration_ms
from ...state.wall_clock import now_ms
from ..partition_windows import next_or_why_not
from ..pipeline import Pipeline
from ..schedules import waits_for
from .lag import Lag, lag_of


@dataclass(frozen=True)
class LagSensor:
    """When a run is started by what is new.

    ``min_records``: a run begins when this many records wait, counted by offsets at the broker and landed records;
    those of files are not known before they land. ``min_files``: or this many new files. ``max_wait``: fewer records
    or files wait no longer than this. ``every``: the time between two looks. ``starts_on``: whether it is on when
    definitions are loaded.
    """

    min_records: int = 1
    min_files: int = 1
    max_wait: Duration = "1h"
    every: Duration = "1m"
    starts_on: bool = False


@dataclass(frozen=True)
class _Cursor:
    """``asked``: for which lag the last run was asked for; ``since_ms``: since when there is too little for a run."""

    asked: str = ""
    since_ms: int | None = None

    @classmethod
    def of(cls, text: str | None) -> "_Cursor":
        return cls(**json.loads(text)) if text else cls()

    def __str__(self) -> str:
        return json.dumps(asdict(self))


def lag_sensor(
    pipeline: Pipeline, settings: LagSensor, jobs: list[UnresolvedAssetJobDefinition]
) -> dg.SensorDefinition:
    """``jobs``: the pipeline's, that lands among them where its tables have partitions."""
    by_name = {job.name: job for job in jobs}

    @dg.sensor(
        name=f"{pipeline.word}_lag_sensor",
        jobs=jobs,
        minimum_interval_seconds=max(duration_ms(settings.every, "every") // 1000, 1),
        default_status=dg.DefaultSensorStatus.RUNNING if settings.starts_on else dg.DefaultSensorStatus.STOPPED,
        description=f"Runs {pipeline.name} when enough is new: in folders, at the broker, or landed and not replayed.",
    )
    def tick(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        for name in by_name:
            waited_for = waits_for(pipeline, context.instance, name, context.log)
            if waited_for is not None:
                return dg.SkipReason(waited_for)
        lag, cursor = lag_of(pipeline), _Cursor.of(context.cursor)
        decided = _decide(lag, cursor, settings, now_ms())
        if isinstance(decided, _Cursor):
            said = f"{lag}: too little for a run" if decided.since_ms is not None else str(lag)
            return dg.SensorResult(skip_reason=said, cursor=str(decided))
        if lag.seen == cursor.asked:
            # With partitions the same lag may be enough later: the next partition ends as time passes.
            next_run = "a run was started for it, and left it" if pipeline.partitions is None else _partition(pipeline)
            if isinstance(next_run, str):
                return dg.SkipReason(f"{lag}: {next_run}")
            return dg.SensorResult(run_requests=[next_run], cursor=str(cursor))
        return _started(pipeline, lag)

    return tick


def _decide(lag: Lag, cursor: _Cursor, settings: LagSensor, at_ms: int) -> _Cursor | None:
    """None: it is enough for a run; else the next cursor."""
    if lag.is_nothing:
        return _Cursor(lag.seen)
    is_enough = lag.records >= settings.min_records or sum(lag.files.values()) >= settings.min_files
    since_ms = at_ms if cursor.since_ms is None else cursor.since_ms
    if lag.seen == cursor.asked or is_enough or at_ms - since_ms >= duration_ms(settings.max_wait, "max_wait"):
        return None
    return _Cursor(cursor.asked, since_ms)


def _started(pipeline: Pipeline, lag: Lag) -> dg.SensorResult | dg.SkipReason:
    # Dagster starts one run a run key, so a tick that dies before its cursor is kept asks for no second run.
    cursor = str(_Cursor(lag.seen))
    tags = {"replay/lag": str(lag)}
    if pipeline.partitions is None:
        job = f"{pipeline.word}_replay"
        return dg.SensorResult(run_requests=[dg.RunRequest(lag.seen, job_name=job, tags=tags)], cursor=cursor)
    if lag.is_outside:
        job = f"{pipeline.word}_land"
        return dg.SensorResult(run_requests=[dg.RunRequest(lag.seen, job_name=job, tags=tags)], cursor=cursor)
    next_run = _partition(pipeline)
    if isinstance(next_run, str):
        return dg.SensorResult(skip_reason=f"{lag}: {next_run}", cursor=cursor)
    return dg.SensorResult(run_requests=[next_run], cursor=cursor)


def _partition(pipeline: Pipeline) -> dg.RunRequest | str:
    """Of the next partition, once it has landed whole; in words why there is none now."""
    window, last = next_or_why_not(pipeline), pipeline.ledger.last_done()
    if isinstance(window, str):
        return window
    # In the run key, since a withdrawn partition runs again and Dagster would skip a key that it has had.
    done = 0 if last is None else last.increment
    return dg.RunRequest(
        f"{window.key} after increment {done}", job_name=f"{pipeline.word}_replay", partition_key=window.key
    )
