"""Assets of a pipeline with partitions: its topics are landed by themselves, its tables run partition by partition.

Owns what the two steps do. Rule: a partition is reported with the increment that ended it, whoever ran it; one without
a record is reported too, with the tables as they were. A backfill is one run, which goes through its partitions in
order, since each continues the one before.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import dagster as dg

from ...jobs.replay.heartbeats import Heart, beating
from ...jobs.replay.landed_times import LandedTimes
from ..asked_runs import (
    StepEvents,
    advance_topics,
    as_asked,
    failing_in_one_sentence,
    observe_the_others,
    report_dry_run,
)
from ..assets import external_specs, land_topics, landed_spec, refusals_spec, replay_landed, table_spec
from ..metadata import Metadata, data_version, increment_metadata, quiet_metadata, refusals_metadata
from ..pipeline import REFUSALS, Pipeline
from ..settings.run_settings import PartitionConfig
from .restoring import go_back, withdrawal_of
from .windows import Window, planner_after, reached, refuse_half, refuse_what_cannot_run, windows_of

LATE = "records_late_for_earlier_partitions"


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
            _after_itself(spec)
            for spec in (
                *(table_spec(pipeline, sub, table) for sub, table in pipeline.all_tables()),
                *(refusals_spec(pipeline, name) for name in REFUSALS),
            )
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
                more = [withdrawal_of(in_run, windows[0]).sentence] if config.restore else []
            yield from report_dry_run(context, in_run, replace(asked, until_ms=windows[-1].end_ms), more)
            return
        with beating(in_run.own, context.run.run_id, "replaying") as heart, failing_in_one_sentence():
            if config.restore:
                go_back(context, in_run, windows[0])
            advance_topics(context, in_run, asked)
            yield from _replay_windows(context, in_run, heart, windows)

    return increments


def _replay_windows(
    context: dg.AssetExecutionContext, pipeline: Pipeline, heart: Heart, windows: list[Window]
) -> StepEvents:
    """One after the other. Those at the begin that are done are reported again, where the run continues from there."""
    done_ms = reached(pipeline).until_ms
    goes_on = done_ms is not None and windows[-1].end_ms >= done_ms
    late, times = dict[str, int](), LandedTimes()
    for window in windows:
        heart.say(f"partition {window.key}")
        context.log.info(f"partition {window.key}")
        so_far = reached(pipeline)
        is_done = goes_on and done_ms is not None and window.end_ms < done_ms
        if so_far.until_ms != window.end_ms and not is_done:
            refuse_what_cannot_run(pipeline, window, so_far, times)
        ran, _ = ([], []) if is_done else replay_landed(context, pipeline, heart, until_ms=window.end_ms, times=times)
        refuse_half(pipeline, window, times)
        late[window.key] = _late(pipeline, window, times)
        if ran:
            observe_the_others(context, pipeline, window.key)
    yield from _report(context, pipeline, windows, late)


def _after_itself(spec: dg.AssetSpec) -> dg.AssetSpec:
    """A partition continues the one before."""
    before = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)
    deps = [*spec.deps, dg.AssetDep(spec.key, partition_mapping=before)]
    return spec.replace_attributes(deps=deps)


def _late(pipeline: Pipeline, window: Window, times: LandedTimes) -> int:
    """Records of the partition's increments whose time is before its begin: they came late for an earlier one."""
    so_far, late = reached(pipeline), 0
    for increment in so_far.increments.get(window.end_ms, ()):
        planned = pipeline.ledger.rows_of(increment).planned
        assert planned is not None, f"increment {increment} was planned"
        late += planner_after(pipeline, so_far.previous[increment], times).records_before(
            planned.content, window.start_ms
        )
    return late


def _summed(metadata_of: Callable[[int], Metadata], increments: list[int]) -> Metadata:
    """Of the last increment, with the records of all of them."""
    each = [metadata_of(increment) for increment in increments]
    counted = {name for one in each for name in one if name.startswith("records_")} - {"records_waiting"}
    return each[-1] | {name: sum(one.get(name) or 0 for one in each) for name in counted}


def _report(
    context: dg.AssetExecutionContext, pipeline: Pipeline, windows: list[Window], late: dict[str, int]
) -> StepEvents:
    """One materialization a table and partition, with the numbers of the increment that ended it."""
    so_far, ledger = reached(pipeline), pipeline.ledger
    tables = [
        (sub, table) for sub, table in pipeline.all_tables() if pipeline.key(table.name) in context.selected_asset_keys
    ]
    asked = {table.name: partial(increment_metadata, pipeline, sub, table) for sub, table in tables}
    asked |= {
        name: partial(refusals_metadata, pipeline, name)
        for name in REFUSALS
        if pipeline.key(name) in context.selected_asset_keys
    }
    for name, metadata_of in asked.items():
        version = None
        for window in windows:
            of_window = so_far.increments.get(window.end_ms)
            last = max(
                (numbers[-1] for end, numbers in so_far.increments.items() if end <= window.end_ms), default=None
            )
            row = None if last is None else ledger.rows_of(last).done
            said: Metadata = _summed(metadata_of, of_window) if of_window else quiet_metadata(pipeline, name, row)
            version = data_version(row)
            context.add_asset_metadata(
                said | {LATE: late[window.key]}, asset_key=pipeline.key(name), partition_key=window.key
            )
        yield dg.MaterializeResult(asset_key=pipeline.key(name), data_version=version)
