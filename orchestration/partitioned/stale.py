"""Which partitions a changed past makes stale: an asset check that says it, since Dagster does not.

Owns the comparison of Dagster's materializations, by partition, with the ledger. Rule: a partition is stale when the
increment that it was reported with is withdrawn, or when rows of its time were replaced by a promoted backfill after
it was reported. Assets that read it before have read rows that are not there any more. Without a
restore or a promotion Dagster is not queried.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import dagster as dg

from ...jobs.branches.restatement import in_force
from ...jobs.replay.heartbeats import beating
from ...state.errors import LedgerError
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import TableName
from ..pipeline import Pipeline
from ..reported_increments import WAREHOUSE, Reported, newest_by_partition
from .windows import NAMED_MAX, Reached, Window, reached, windows_of

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
            f"{words}: {_named(keys)}"
            for words, keys in (
                ("Withdrawn since they were reported", self.withdrawn),
                ("With rows that were replaced since", self.replaced),
            )
            if keys
        ]
        if not said:
            return STALE_RULE
        return f"{'. '.join(said)}. Run them again, up to the last one, and what reads them."


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
    withdrawn = [window.key for window in windows if newest[window.key].increment != _increment(so_far, window)]
    promoted = [row for row in in_force(rows) if row.content.range_ms is not None]
    replaced = [window.key for window in windows if _is_replaced(window, newest[window.key], promoted)]
    return Stale(tuple(withdrawn), tuple(replaced))


def _increment(so_far: Reached, window: Window) -> int | None:
    """The one with which a partition is reported now: 0 before any record, None where it is to run (again)."""
    if so_far.until_ms is None or so_far.until_ms < window.end_ms:
        return None
    return max((numbers[-1] for end, numbers in so_far.increments.items() if end <= window.end_ms), default=0)


def _is_replaced(window: Window, newest: Reported, promoted: list[LedgerRow[DoneRow]]) -> bool:
    for row in promoted:
        assert row.content.range_ms is not None
        from_ms, to_ms = row.content.range_ms
        if from_ms < window.end_ms and window.start_ms < to_ms and newest.at_ms < row.written_at_ms:
            return True
    return False


def _result(pipeline: Pipeline, instance: dg.DagsterInstance, table: TableName) -> dg.AssetCheckResult:
    key, said = pipeline.key(table), {WAREHOUSE: pipeline.warehouse.root}
    try:
        found = stale_partitions(pipeline, instance, table)
    except LedgerError as error:
        return dg.AssetCheckResult(
            asset_key=key, check_name=STALE, passed=False, severity=dg.AssetCheckSeverity.WARN,
            description=str(error), metadata=said,
        )  # fmt: skip
    stale = [*found.withdrawn, *found.replaced]
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=STALE,
        passed=not stale,
        severity=dg.AssetCheckSeverity.WARN,
        description=str(found),
        metadata=said | {"partitions_stale": len(set(stale)), "stale": ", ".join(sorted(set(stale)))},
    )


def _named(keys: tuple[str, ...]) -> str:
    more = len(keys) - NAMED_MAX
    return ", ".join(keys[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
