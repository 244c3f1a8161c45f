"""Assets of a pipeline with partitions: its topics are landed by themselves, its tables run partition by partition.

Owns what the two steps do. Rule: a partition is reported with the increment that ended it, whoever ran it, as soon as
it is committed; one without a record is reported too, with the tables as they were. A backfill is one run, which goes
through its partitions in order, since each continues the one before. Dagster does not know that a table depends
on itself (it would make a run of each level of its graph, each of all partitions): a partition whose time has not come
is refused.
"""

import dagster as dg

from ...jobs.branches.restatement import refuse_restore
from ...jobs.replay.heartbeats import Heart, beating
from ...jobs.replay.landed_times import LandedTimes
from ...state.errors import ReplayError
from ...state.tables.names import TableName
from ..asked_runs import (
    StepEvents,
    advance_topics,
    as_asked,
    failing_in_one_sentence,
    observe_the_others,
    report_dry_run,
    written_tables,
)
from ..assets import check_planned, external_specs, land_topics, landed_spec, refusals_spec, replay_landed, table_spec
from ..partition_windows import (
    Window,
    planner_after,
    reached,
    refuse_half,
    refuse_read_over,
    refuse_what_cannot_run,
    windows_of,
)
from ..pipeline import REFUSALS, Pipeline
from ..quiet_partitions import record_quiet
from ..settings.run_settings import PartitionConfig
from .reporting import outputs, report_partition
from .restoring import go_back, withdrawal_of
from .stale import stale_partitions


def partitioned_assets(pipeline: Pipeline) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """Everything a pipeline reads and writes; its tables with the pipeline's partitions."""
    landing = [_landing(pipeline)] if pipeline.sources else []
    return [*external_specs(pipeline), *landing, _tables(pipeline)]


def _landing(pipeline: Pipeline) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name=f"{pipeline.word}_landing",
        description=f"Lands what is new in the topics of {pipeline.name}.",
        specs=[landed_spec(pipeline, topic) for topic in pipeline.sources],
        can_subset=True,
        required_resource_keys=pipeline.resource_keys,
        retry_policy=pipeline.retry_policy,
        pool=f"{pipeline.word}_landing",
    )
    def landing(context: dg.AssetExecutionContext) -> StepEvents:
        with failing_in_one_sentence():
            in_run = pipeline.in_run(context.resources)
        with beating(in_run.own, context.run.run_id, "landing") as heart:
            yield from land_topics(context, in_run, heart)

    return landing


def _tables(pipeline: Pipeline) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name=f"{pipeline.word}_increments",
        description=f"Replays what has landed of {pipeline.name}, partition by partition.",
        specs=[
            *(table_spec(pipeline, sub, table) for sub, table in pipeline.all_tables()),
            *(refusals_spec(pipeline, name) for name in REFUSALS),
        ],
        can_subset=True,
        required_resource_keys=pipeline.resource_keys,
        retry_policy=pipeline.retry_policy,
        pool=pipeline.word,
        partitions_def=pipeline.partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def increments(context: dg.AssetExecutionContext, config: PartitionConfig) -> StepEvents:
        in_run, asked = as_asked(context, pipeline, config)
        assert in_run.partitions is not None
        windows = windows_of(in_run.partitions, list(context.partition_keys))
        if asked.dry_run:
            with failing_in_one_sentence():
                back = withdrawal_of(in_run, windows[0]) if config.restore else None
                if back is not None:
                    refuse_restore(in_run.warehouse, in_run.name, back.stays)
            yield from report_dry_run(
                context, in_run, asked,
                ends=[window.end_ms for window in windows],
                after=None if back is None else back.stays,
                first=[] if back is None else [back.sentence],
            )  # fmt: skip
            return
        with beating(in_run.own, context.run.run_id, "replaying") as heart, failing_in_one_sentence():
            if config.restore:
                go_back(context, in_run, windows)
            advance_topics(context, in_run, asked)
            yield from _replay_windows(context, in_run, heart, windows)

    return increments


def _replay_windows(
    context: dg.AssetExecutionContext, pipeline: Pipeline, heart: Heart, windows: list[Window]
) -> StepEvents:
    """One after the other. Those at the begin that are done are reported again, where the run continues from there.
    When one cannot run, those before it are reported and checked.
    """
    done_ms = reached(pipeline).until_ms
    goes_on = done_ms is not None and (windows[-1].end_ms >= done_ms or _are_replaced(context, pipeline, windows))
    times, reported = LandedTimes(), 0
    try:
        for window in windows:
            heart.say(f"partition {window.key}")
            context.log.info(f"partition {window.key}")
            is_done = goes_on and done_ms is not None and window.end_ms < done_ms
            _replay_window(context, pipeline, heart, window, times, is_done=is_done)
            report_partition(context, pipeline, window, _late(pipeline, window, times))
            reported += 1
    except (ReplayError, dg.Failure):
        if reported:
            heart.say("checks")
            yield from check_planned(context, pipeline)
        raise
    yield from outputs(context, pipeline)


def _replay_window(
    context: dg.AssetExecutionContext,
    pipeline: Pipeline,
    heart: Heart,
    window: Window,
    times: LandedTimes,
    *,
    is_done: bool,
) -> None:
    """Run what has landed of it, unless it ``is_done``. A ReplayError when it cannot run now."""
    so_far = reached(pipeline)
    if is_done:
        refuse_read_over(pipeline, window, so_far, times)
    if so_far.until_ms != window.end_ms and not is_done:
        refuse_what_cannot_run(pipeline, window, so_far, times)
        record_quiet(context, pipeline, window, times)
    ran, _ = ([], []) if is_done else replay_landed(context, pipeline, heart, until_ms=window.end_ms, times=times)
    refuse_half(pipeline, window, times)
    if ran:
        observe_the_others(context, pipeline, window.key)


def _are_replaced(context: dg.AssetExecutionContext, pipeline: Pipeline, windows: list[Window]) -> bool:
    """Whether a promoted backfill has put other rows into each of them since it was reported, so that nothing but the
    report is to be made again.
    """
    asked = [name for name in written_tables(pipeline) if pipeline.key(name) in context.selected_asset_keys]
    replaced = [set(stale_partitions(pipeline, context.instance, TableName(name)).replaced) for name in asked]
    return {window.key for window in windows} <= set[str]().union(*replaced)


def _late(pipeline: Pipeline, window: Window, times: LandedTimes) -> int:
    """Records of the partition's increments whose time is before its begin: they came late for an earlier one."""
    so_far, late = reached(pipeline), 0
    for increment in so_far.of(window):
        planned = pipeline.ledger.rows_of(increment).planned
        assert planned is not None, f"increment {increment} was planned"
        late += planner_after(pipeline, so_far.previous[increment], times).records_before(
            planned.content, window.start_ms
        )
    return late
