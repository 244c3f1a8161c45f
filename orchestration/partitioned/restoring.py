"""Running a partition again that was run before: it and all later ones are withdrawn first, once.

Owns what is withdrawn, and that a launch does it once. Rule: a run that has withdrawn them writes that into Dagster's
event log. When it is tried or launched again, it continues from there, and withdraws nothing that was run since. So
does the next run of the same backfill, and a run of other assets that Dagster still shows as they were before: their
rows were made again already.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import dagster as dg

from ...jobs.branches.restatement import restore
from ...state.errors import ConfigError
from ..asked_runs import written_tables
from ..assets import BACKFILL
from ..partition_windows import Window, later_partitions, reached, windows_of
from ..pipeline import REFUSALS, Pipeline
from ..reported_increments import newest_by_partition
from .stale import increment_of

RESTORED_TO = "restored_to"
LAUNCHED_AGAIN = "dagster/parent_run_id"
"""Dagster's tag of a run: the run that it launches again, by hand or by itself."""


@dataclass(frozen=True)
class Withdrawal:
    """``partitions`` are withdrawn, so that the pipeline continues after the increment ``stays``."""

    partitions: int
    stays: int

    @property
    def sentence(self) -> str:
        """In words."""
        return (
            f"{self.partitions} partitions are withdrawn, which must then run again: the pipeline continues after "
            f"increment {self.stays}"
        )


def withdrawal_of(pipeline: Pipeline, window: Window) -> Withdrawal:
    """What running ``window`` again withdraws. ConfigError when it was not run before."""
    withdrawal = _withdrawal_of(pipeline, window)
    if withdrawal is None:
        raise ConfigError(
            f"pipeline {pipeline.name!r}, partition {window.key}", "one that was run before", "one that was not",
            "launch it without `restore`",
        )  # fmt: skip
    return withdrawal


def _withdrawal_of(pipeline: Pipeline, window: Window) -> Withdrawal | None:
    so_far = reached(pipeline)
    withdrawn = so_far.ends_from(window)
    partitions = bool(so_far.of(window)) + later_partitions(pipeline, so_far, window)
    return Withdrawal(partitions, so_far.before[withdrawn[0]]) if withdrawn else None


def go_back(context: dg.AssetExecutionContext, pipeline: Pipeline, windows: list[Window]) -> None:
    """Withdraw the first of ``windows``, which was run before, and all later partitions, unless this run has done so
    before it died.

    ConfigError when the partition was not run before; or when a run that is launched again has withdrawn it already,
    and later ones were run since.
    """
    window = windows[0]
    withdrawal = _withdrawal_of(pipeline, window)
    if withdrawal is None and _was_just_withdrawn(pipeline, window):
        return  # by a try of this run that died after it
    before = _withdrawn_by(context)
    if before is None and _withdrawn_by_backfill(context, pipeline, window):
        return
    if before is None and _only_to_report(context, pipeline, windows):
        context.log.warning(
            f"partition {window.key} was withdrawn and run again since the selected assets reported it: they report it "
            "now, and nothing is withdrawn. If it is meant to be withdrawn once more, launch it again"
        )
        return
    if before is None:
        withdrawal = withdrawal_of(pipeline, window)
        context.log.warning(withdrawal.sentence)
        # The ledger first: a run that dies before the event finds the restatement there when it is tried again.
        restore(pipeline.warehouse, pipeline.name, withdrawal.stays)
        said = {RESTORED_TO: withdrawal.stays}
        context.log_event(dg.AssetObservation(pipeline.key(REFUSALS[0]), metadata=said, partition=window.key))
        return
    so_far = reached(pipeline).until_ms
    if before != context.run.run_id and so_far is not None and so_far > window.end_ms:
        raise ConfigError(
            f"pipeline {pipeline.name!r}, partition {window.key}", "a run of its own",
            f"run {before} launched again, which has withdrawn the partition already; later ones were run since",
            "launch the partition again, if it is meant to be withdrawn once more",
        )  # fmt: skip
    context.log.info(
        f"run {before} has withdrawn the partition and all later ones before it died: continuing from there"
    )


def _was_just_withdrawn(pipeline: Pipeline, window: Window) -> bool:
    """Whether the last increment is a restatement, and one that it went back behind had read some of the partition."""
    ledger = pipeline.ledger
    last = ledger.last_done()
    if last is None or last.content.restates is None:
        return False
    done = {row.increment for row in ledger.done_rows(last.content.restates + 1, last.increment - 1)}
    ends = [row.content.until_ms for row in ledger.plans(last.content.restates + 1) if row.increment in done]
    return any(end is not None and end > window.start_ms for end in ends)


def _withdrawn_by(context: dg.AssetExecutionContext) -> str | None:
    """This run, or the one that it launches again, where it has withdrawn partitions already."""
    return next((run_id for run_id in _tries(context) if _first_withdrawn(context.instance, run_id) is not None), None)


def _withdrawn_by_backfill(context: dg.AssetExecutionContext, pipeline: Pipeline, window: Window) -> bool:
    """Whether another run of the same backfill has withdrawn the partition: Dagster makes a run of each stretch of
    days without a gap.
    """
    backfill = context.run.tags.get(BACKFILL)
    others = [] if backfill is None else context.instance.get_runs(dg.RunsFilter(tags={BACKFILL: backfill}))
    firsts = [_first_withdrawn(context.instance, run.run_id) for run in others]
    assert pipeline.partitions is not None
    return any(
        each.start_ms <= window.start_ms
        for each in windows_of(pipeline.partitions, [first for first in firsts if first is not None])
    )


def _only_to_report(context: dg.AssetExecutionContext, pipeline: Pipeline, windows: list[Window]) -> bool:
    """Whether all selected tables have reported the first of ``windows`` with an increment that is withdrawn, and the
    pipeline has run all that came after it in ``windows`` again: by a run of other assets.
    """
    so_far, first = reached(pipeline), windows[0]
    now = increment_of(so_far, first)
    if now is None or so_far.until_ms is None or so_far.until_ms > windows[-1].end_ms:
        return False
    names = [name for name in written_tables(pipeline) if pipeline.key(name) in context.selected_asset_keys]
    reported = [newest_by_partition(context.instance, pipeline.key(name), pipeline.path(name)) for name in names]
    return all(first.key in each and each[first.key].increment != now for each in reported)


def _first_withdrawn(instance: dg.DagsterInstance, run_id: str) -> str | None:
    """From which partition on a run has withdrawn them; None: it has not."""
    for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_OBSERVATION):
        observation = entry.asset_observation
        if observation is not None and RESTORED_TO in observation.metadata:
            return observation.partition
    return None


def _tries(context: dg.AssetExecutionContext) -> Iterator[str]:
    """Ids of this run and of those that it launches again, newest first."""
    run: dg.DagsterRun | None = context.run
    while run is not None:
        yield run.run_id
        parent = run.tags.get(LAUNCHED_AGAIN)
        run = None if parent is None else context.instance.get_run_by_id(parent)
