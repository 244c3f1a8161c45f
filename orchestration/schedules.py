"""When a pipeline runs: one job over all that it materializes, and a schedule of it.

Owns the job, the schedule and the judgement whether a run lives. Rule: a tick either finds nothing running and starts
the job, or leaves the work to the next tick, since two runs of one pipeline would only refuse each other. A run that
shows no sign of life, or is at it for longer than its `max_runtime`, is not waited for.
"""

import datetime as dt
import logging
from dataclasses import dataclass

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.launcher.base import WorkerStatus
from dagster._core.storage.dagster_run import RunRecord

from ..jobs.replay.heartbeats import LOST_SECONDS, Heartbeat, forget, heartbeat_of
from ..state.tables.names import TableName
from ..state.wall_clock import now_ms
from .partition_windows import next_or_why_not
from .pipeline import PUBLISHED, REFUSALS, Pipeline
from .quality.freshness import FRESH
from .text_tables import utc

UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]
WAREHOUSE_TAG = "replay/warehouse"
"""Of a run: two warehouses may have a pipeline of one name, hence jobs of one name."""
MAX_RUNTIME_TAG = "dagster/max_runtime"
"""Seconds after which Dagster's run monitoring ends a run."""
START_SECONDS = 900.0
"""A run that was launched so long ago and has not begun is lost."""


@dataclass(frozen=True)
class RunJudgement:
    """``is_waited_for``: the tick leaves the work to this run. ``is_lost``: nobody is at work on it. ``words``: why."""

    words: str
    is_waited_for: bool = False
    is_lost: bool = False


def replay_job(pipeline: Pipeline) -> UnresolvedAssetJobDefinition:
    """Land, replay, check and publish; with partitions, replay and check one. Steps share one process, since a second
    one would start a second JVM.
    """
    names = [*(table.name for _, table in pipeline.all_tables()), *REFUSALS]
    tables = [pipeline.key(name) for name in names]
    if pipeline.partitions is None:
        tables += [pipeline.key(f"{PUBLISHED}/{output}") for output in pipeline.publish]
    if pipeline.partitions is not None:
        words = f"Replays a partition of {pipeline.name} and checks what came out."
        return _job(pipeline, f"{pipeline.word}_replay", tables, words)
    words = f"Lands what is new, replays it and checks what came out: one increment of {pipeline.name}."
    return _job(pipeline, f"{pipeline.word}_replay", [*_landed(pipeline), *tables], words)


def landing_job(pipeline: Pipeline) -> UnresolvedAssetJobDefinition:
    """Land what is new, where the tables run by partition."""
    words = f"Lands what is new in the topics of {pipeline.name}."
    return _job(pipeline, f"{pipeline.word}_land", _landed(pipeline), words)


def freshness_job(pipeline: Pipeline) -> UnresolvedAssetJobDefinition:
    """Only whether outputs are fresh, for when nothing runs. It reads the ledger, which takes milliseconds."""
    outputs = [sink.topic for sub in pipeline.topology.sub_topologies for sink in sub.sinks]
    keys = [dg.AssetCheckKey(pipeline.key(TableName.output(output)), FRESH) for output in outputs]
    return dg.define_asset_job(
        f"{pipeline.word}_freshness",
        selection=dg.AssetSelection.checks(*keys),
        description=f"Says whether the outputs of {pipeline.name} are fresh.",
        executor_def=dg.in_process_executor,
        tags=warehouse_tag(pipeline),
    )


def freshness_schedule(job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """Each quarter of an hour; off until it is switched on."""
    return dg.ScheduleDefinition(
        name=f"{job.name}_schedule", job=job, cron_schedule="*/15 * * * *", execution_timezone="UTC"
    )


def _landed(pipeline: Pipeline) -> list[dg.AssetKey]:
    return [pipeline.key(TableName.landed(topic)) for topic in pipeline.sources]


def _job(pipeline: Pipeline, name: str, keys: list[dg.AssetKey], words: str) -> UnresolvedAssetJobDefinition:
    tags = warehouse_tag(pipeline)
    if pipeline.max_runtime_ms is not None:
        tags[MAX_RUNTIME_TAG] = str(max(pipeline.max_runtime_ms // 1000, 1))
    return dg.define_asset_job(
        name,
        selection=dg.AssetSelection.assets(*keys),
        description=words,
        executor_def=dg.in_process_executor,
        tags=tags,
    )


def warehouse_tag(pipeline: Pipeline) -> dict[str, str]:
    """Of its runs; none where the warehouse is not known while definitions load."""
    return {} if pipeline.known_root is None else {WAREHOUSE_TAG: pipeline.known_root}


def replay_schedule(
    pipeline: Pipeline, job: UnresolvedAssetJobDefinition, cron: str, zone: str | None
) -> dg.ScheduleDefinition:
    """The job by ``cron`` in the time zone ``zone``, None: that of the partitions, else UTC; off until it is switched
    on. Of a job with partitions a tick runs the first one that was not run, once it has landed whole.
    """

    @dg.schedule(
        name=f"{job.name.removesuffix('_replay')}_schedule",
        job=job,
        cron_schedule=cron,
        execution_timezone=zone or (pipeline.partitions.timezone if pipeline.partitions is not None else "UTC"),
        description=f"Replays {pipeline.name} unless a run is still at work.",
    )
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        waited_for = waits_for(pipeline, context.instance, job.name, context.log)
        if waited_for is not None:
            return dg.SkipReason(waited_for)
        return _next_partition(pipeline) if job.name == f"{pipeline.word}_replay" else dg.RunRequest()

    return tick


def waits_for(pipeline: Pipeline, instance: dg.DagsterInstance, job_name: str, log: logging.Logger) -> str | None:
    """Which run of a job is waited for, in words; None: nobody is at it. Runs that are lost are marked as failed."""
    mine = dg.RunsFilter(job_name=job_name, statuses=UNFINISHED, tags=warehouse_tag(pipeline))
    words = None
    for record in instance.get_run_records(mine):
        judgement = judged(pipeline, instance, record, now_ms())
        if judgement.is_waited_for:
            words = words or judgement.words
            continue
        log.warning(judgement.words)
        if judgement.is_lost:
            instance.report_run_failed(record.dagster_run, judgement.words)
            # Else corrected code that takes over the increment would wait for this run until its heartbeat is old.
            forget(pipeline.own, record.dagster_run.run_id)
    return words


def _next_partition(pipeline: Pipeline) -> dg.RunRequest | dg.SkipReason:
    """Of a pipeline without partitions just a run."""
    if pipeline.partitions is None:
        return dg.RunRequest()
    window = next_or_why_not(pipeline)
    return dg.SkipReason(window) if isinstance(window, str) else dg.RunRequest(partition_key=window.key)


def judged(pipeline: Pipeline, instance: dg.DagsterInstance, record: RunRecord, at_ms: int) -> RunJudgement:
    """Whether an unfinished run lives, and is to be waited for."""
    run = record.dagster_run
    name, age_ms = f"run {run.run_id}", at_ms - int(record.create_timestamp.timestamp() * 1000)
    # Before `_lost`: a run in the queue has no process, hence no heartbeat, and may wait there for any time.
    if run.status is dg.DagsterRunStatus.QUEUED:
        return RunJudgement(f"{name} is still in the queue", is_waited_for=True)
    beat = heartbeat_of(pipeline.own, run.run_id)
    lost = _lost(instance, record, beat, at_ms, age_ms)
    if lost is not None:
        return RunJudgement(f"{name} is lost: {lost}", is_lost=True)
    if pipeline.max_runtime_ms is not None and age_ms > pipeline.max_runtime_ms:
        most = dt.timedelta(milliseconds=pipeline.max_runtime_ms)
        return RunJudgement(f"{name} is at work for longer than {most}, and is not waited for: terminate it")
    at = "" if beat is None else f": {beat.said} (heartbeat of {utc(beat.written_at_ms)})"
    return RunJudgement(f"{name} is still at work{at}", is_waited_for=True)


def _lost(
    instance: dg.DagsterInstance, record: RunRecord, beat: Heartbeat | None, at_ms: int, age_ms: int
) -> str | None:
    """Why a run is lost; None: it is not known to be lost."""
    if beat is not None and at_ms - beat.written_at_ms > LOST_SECONDS * 1000:
        return f"its last heartbeat is of {utc(beat.written_at_ms)}, when it was at: {beat.said}"
    has_begun = record.dagster_run.status is dg.DagsterRunStatus.STARTED
    if not has_begun and age_ms > START_SECONDS * 1000:
        return f"it was launched at {record.create_timestamp:%Y-%m-%d %H:%M:%S} and has not begun"
    launcher = instance.run_launcher
    if has_begun and launcher.supports_check_run_worker_health:
        health = launcher.check_run_worker_health(record.dagster_run)
        if health.status in (WorkerStatus.FAILED, WorkerStatus.NOT_FOUND):
            return f"the run launcher says {health.status.value} {health.msg or ''}".rstrip()
    return None
