"""When a pipeline runs: one job over all that it materializes, and a schedule of it.

Owns the job and the schedule. Rule: a tick either finds nothing running and starts the job, or leaves the work to the
next tick, since two runs of one pipeline would only refuse each other.
"""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from ..state.tables.names import TableName
from .pipeline import Pipeline

UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]


def replay_job(pipeline: Pipeline) -> UnresolvedAssetJobDefinition:
    """Land, replay and check. Steps share one process, since a second one would start a second JVM."""
    landed = [pipeline.key(TableName.landed(topic)) for topic in pipeline.sources]
    tables = [pipeline.key(table.name) for sub in pipeline.topology.sub_topologies for table in pipeline.tables(sub)]
    return dg.define_asset_job(
        f"{pipeline.word}_replay",
        selection=dg.AssetSelection.assets(*landed, *tables),
        description=f"Lands what is new, replays it and checks what came out: one increment of {pipeline.name}.",
        executor_def=dg.in_process_executor,
    )


def replay_schedule(pipeline: Pipeline, job: UnresolvedAssetJobDefinition, cron: str) -> dg.ScheduleDefinition:
    """The job by ``cron``, in UTC; off until it is switched on."""

    @dg.schedule(
        name=f"{pipeline.word}_schedule",
        job=job,
        cron_schedule=cron,
        execution_timezone="UTC",
        description=f"Replays {pipeline.name} unless a run is still at work.",
    )
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        running = context.instance.get_runs(dg.RunsFilter(job_name=job.name, statuses=UNFINISHED), limit=1)
        if running:
            return dg.SkipReason(f"run {running[0].run_id} is still at work")
        return dg.RunRequest()

    return tick
