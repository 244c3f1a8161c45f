"""Which partitions a changed past makes stale: an asset check that says it, since Dagster does not.

Owns the comparison of Dagster's materializations, by partition, with the ledger. Rule: a partition is stale when the
increment that it was reported with is withdrawn, or when rows of its time were replaced by a promoted backfill after
it was reported. Assets that read it before have read rows that are not there any more. Without a
restore or a promotion Dagster is not queried.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import dagster as dg

from ...jobs.replay.heartbeats import beating
from ...state.errors import LedgerError
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import TableName
from ...state.tables.rows_in_force import in_force
from ..partition_windows import NAMED_MAX, Reached, Window, last_increment, reached, windows_of
from ..pipeline import Pipeline
from ..reported_increments import WAREHOUSE, newest_by_partition

STALE = "reported_partitions_are_current"
STALE_RULE = "Nothing of a partition was withdrawn or replaced after it was reported."


@dataclass(frozen=True)
class Stale:
    """Keys of partitions, in order. ``withdrawn``: by a restore; ``replaced``: rows of theirs, by a promotion."""

    withdrawn: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()

    def __str__(self) -> str:
        """In sentences."""
        said = [
            f"{words}: {_named(keys)}. {what_to_do}, and then what reads them."
            for words, keys, what_to_do in (
                ("Withdrawn since they were reported", self.withdrawn, "Run them again, up to the last one"),
                (
                    "With rows that a promoted backfill has replaced since", self.replaced,
                    "Run just them, without `restore`: they are reported again, nothing is withdrawn",
                ),
            )
            if keys
        ]  # fmt: skip
        return " ".join(said) or STALE_RULE


def stale_checks(pipeline: Pipeline) -> list[dg.AssetChecksDefinition]:
    """One step with a check of each output; none without partitions."""
    outputs = [TableName.output(sink.topic) for sub in pipeline.topology.sub_topologies for sink in sub.sinks]
    if pipeline.partitions is None or not outputs:
        return []

    @dg.multi_asset_check(
        name=f"{pipeline.word}_stale_partitions",
        description=f"Which partitions of {pipeline.name} a changed past makes stale.",
        specs=[dg.AssetCheckSpec(STALE, asset=pipeline.key(table), description=STALE_RULE) for table in outputs],
        can_subset=True,
        required_resource_keys=pipeline.resource_keys - {pipeline.engine_key},
    )
    def checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        mine, keys = pipeline.in_run(context.resources), context.selected_asset_check_keys
        with beating(mine.own, context.run.run_id, STALE):
            for table in outputs:
                if dg.AssetCheckKey(mine.key(table), STALE) in keys:
                    yield _result(mine, context.instance, table)

    return [checks]


def stale_partitions(pipeline: Pipeline, instance: dg.DagsterInstance, table: TableName) -> Stale:
    """Of the partitions of a table that were reported. LedgerError when an increment is no partition's."""
    rows = pipeline.ledger.done_rows()
    if all(row.content.restates is None for row in rows):
        return Stale()
    assert pipeline.partitions is not None
    newest = newest_by_partition(instance, pipeline.key(table), pipeline.path(table))
    windows, so_far = windows_of(pipeline.partitions, list(newest)), reached(pipeline)
    withdrawn = [window.key for window in windows if newest[window.key].increment != increment_of(so_far, window)]
    replaced = [
        window.key for window in windows if replaced_in(rows, window, since_ms=newest[window.key].at_ms) is not None
    ]
    return Stale(tuple(withdrawn), tuple(replaced))


def replaced_in(rows: list[LedgerRow[DoneRow]], window: Window, *, since_ms: int = -1) -> int | None:
    """Of the done ``rows`` of a ledger, the last increment that promoted other rows of the partition after the wall
    clock said ``since_ms``; None: none did.
    """
    for row in reversed(in_force(rows)):
        if row.content.range_ms is not None and since_ms < row.written_at_ms:
            from_ms, to_ms = row.content.range_ms
            if from_ms < window.end_ms and window.start_ms < to_ms:
                return row.increment
    return None


def increment_of(so_far: Reached, window: Window) -> int | None:
    """The one with which a partition is reported now: 0 before any record, None where it is to run (again)."""
    if so_far.until_ms is None or so_far.until_ms < window.end_ms:
        return None
    return last_increment(so_far, window) or 0


def _result(pipeline: Pipeline, instance: dg.DagsterInstance, table: TableName) -> dg.AssetCheckResult:
    key, said = pipeline.key(table), {WAREHOUSE: pipeline.warehouse.root}
    try:
        partitions = stale_partitions(pipeline, instance, table)
    except LedgerError as error:
        return dg.AssetCheckResult(
            asset_key=key, check_name=STALE, passed=False, severity=dg.AssetCheckSeverity.WARN,
            description=str(error), metadata=said,
        )  # fmt: skip
    stale = [*partitions.withdrawn, *partitions.replaced]
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=STALE,
        passed=not stale,
        severity=dg.AssetCheckSeverity.WARN,
        description=str(partitions),
        metadata=said | {"partitions_stale": len(set(stale)), "stale": ", ".join(sorted(set(stale)))},
    )


def _named(keys: tuple[str, ...]) -> str:
    more = len(keys) - NAMED_MAX
    return ", ".join(keys[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
