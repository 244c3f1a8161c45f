"""What one run of Dagster was asked for, and its messages about what it did not do.

Owns the way from a run's config to the pipeline of that run, its dry run, and the one sentence with which a step fails.
Rule: what contradicts fails before anything is done; what was not selected is observed, and reported when it is asked
for.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dagster as dg

from ..jobs.landing.recorded_time import record_time
from ..state.error_page import error_sections
from ..state.errors import (
    BufferFull,
    CommitLost,
    LedgerConflict,
    MachineError,
    PublishInterrupted,
    ReplayError,
    StorageError,
    TaskFailed,
)
from .metadata import Metadata, quiet_metadata
from .pipeline import REFUSALS, Pipeline
from .reported_increments import NOTHING_NEW
from .settings.dry_run import dry_run_of
from .settings.run_settings import RequestedRun, RunSettings, asked_of, refuse_without_tables
from .text_tables import utc
from .what_waits import sentences_of

DRY_RUN, NOT_SELECTED = "dry_run", "not_selected"

MAY_PASS = (PublishInterrupted, LedgerConflict, CommitLost, TaskFailed, StorageError, MachineError)
"""Errors that may be gone when Dagster retries: another runner, a full disk, a store that did not answer."""

StepEvents = Iterator[dg.MaterializeResult[Any] | dg.AssetObservation | dg.AssetCheckEvaluation]


def as_asked(
    context: dg.AssetExecutionContext, pipeline: Pipeline, config: RunSettings
) -> tuple[Pipeline, RequestedRun]:
    """The pipeline with the resources and the settings of this run, and those settings. What is wrong with them fails
    the step in one sentence.
    """
    with failing_in_one_sentence():
        if not any(pipeline.key(name) in context.selected_asset_keys for name in written_tables(pipeline)):
            refuse_without_tables(config)
        asked = asked_of(
            config, max_records=pipeline.max_records, increments=pipeline.increments, idle=pipeline.idle,
            topics=pipeline.topics(),
        )  # fmt: skip
        return pipeline.in_run(context.resources).with_settings(asked), asked


def written_tables(pipeline: Pipeline) -> list[str]:
    """Names of all tables that an increment writes."""
    return [*(table.name for _, table in pipeline.all_tables()), *REFUSALS]


def advance_topics(context: dg.AssetExecutionContext, pipeline: Pipeline, asked: RequestedRun) -> None:
    """Record the times that the run's settings name."""
    for topic, time_ms in asked.advance.items():
        with failing_in_one_sentence():
            recorded = record_time(pipeline.warehouse, topic, time_ms)
        context.log.info(
            f"{topic}: stream time {utc(time_ms)} recorded in {len(recorded)} partitions"
            if recorded
            else f"{topic}: {utc(time_ms)} or later was recorded before"
        )


def observe_the_others(context: dg.AssetExecutionContext, pipeline: Pipeline, partition: str | None = None) -> None:
    """The increment ran whole: say so of the tables that were not selected. It is reported to them when they are
    asked.
    """
    last = pipeline.ledger.last_done()
    for name in written_tables(pipeline):
        if last is not None and pipeline.key(name) not in context.selected_asset_keys:
            said = quiet_metadata(pipeline, name, last) | {NOTHING_NEW: False, NOT_SELECTED: True}
            context.log_event(dg.AssetObservation(pipeline.key(name), metadata=said, partition=partition))


def report_dry_run(
    context: dg.AssetExecutionContext,
    pipeline: Pipeline,
    asked: RequestedRun,
    *,
    ends: Sequence[int] = (),
    after: int | None = None,
    first: Sequence[str] = (),
) -> StepEvents:
    """What a run would do, in the log and as an observation of each selected table: what it would do ``first``, and
    then with what has landed (``ends``, ``after``: as ``dry_run_of`` takes them).
    """
    with failing_in_one_sentence():
        dry_run = dry_run_of(
            pipeline.warehouse, pipeline.topology, pipeline=pipeline.name, asked=asked, ends=ends, after=after
        )
    sentences = [*first, *dry_run.sentences, *sentences_of(dry_run.waits, pipeline.warehouse.root)]
    for sentence in sentences:
        context.log.info(sentence)
    said: Metadata = {
        DRY_RUN: dg.MetadataValue.md("\n".join(f"- {sentence}" for sentence in sentences)),
        "records_to_read": dry_run.records,
        "increments_to_run": dry_run.increments,
        "is_refused": dry_run.refusal is not None,
        "records_waiting": sum(each.records for each in dry_run.waits),
    }
    for name in written_tables(pipeline):
        if pipeline.key(name) in context.selected_asset_keys:
            yield dg.AssetObservation(pipeline.key(name), metadata=said)


@contextmanager
def failing_in_one_sentence() -> Iterator[None]:
    """Errors raised on purpose fail the step with their sentence; only those that may be gone at a second try are
    retried.
    """
    try:
        yield
    except ReplayError as error:
        can_mend = isinstance(error, MAY_PASS) and not isinstance(error, BufferFull)
        parts: Metadata = {"place": error.place, "expected": error.expected, "got": error.got}
        parts["next step"] = error.next_step
        parts["what to do"] = dg.MetadataValue.md(error_sections()[type(error).__name__])
        notes = {"notes": "\n".join(error.__notes__)} if hasattr(error, "__notes__") else {}
        raise dg.Failure(str(error), metadata=parts | notes, allow_retries=can_mend) from error
