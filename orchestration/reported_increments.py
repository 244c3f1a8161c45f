"""What Dagster has been told already, and so which increments an asset or a check still has to speak of.

Owns the reading of Dagster's event log. Rule: the ledger says what happened, the event log only what was reported; an
asset reports every increment between the two once and in order. So a step that died after its commit, a subset of
assets, or a run of the command line in between loses no number and reports none twice.
"""

from collections.abc import Collection, Iterable
from typing import Any

import dagster as dg
from dagster import AssetCheckKey, AssetKey, DagsterEventType, DagsterInstance, EventLogEntry
from dagster._core.storage.asset_check_execution_record import COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES

INCREMENT = "increment"
HOLDS_UP_TO = "holds_up_to"
NOTHING_NEW = "nothing_new"


def reported_increment(instance: DagsterInstance, key: AssetKey) -> int | None:
    """The increment of the asset's newest materialization; None when it has none."""
    return _increment(instance.get_latest_materialization_event(key))


def ran_in_run(instance: DagsterInstance, run_id: str, keys: Collection[AssetKey]) -> list[int] | None:
    """Increments that assets of ``keys`` have reported in this Dagster run; None when none has reported anything."""
    events = instance.all_logs(run_id, of_type=DagsterEventType.ASSET_MATERIALIZATION)
    mine = [event.asset_materialization for event in events]
    materialized = [event for event in mine if event is not None and event.asset_key in keys]
    if not materialized:
        return None
    new = [event for event in materialized if NOTHING_NEW not in event.metadata]
    return sorted({int(_value(event.metadata[INCREMENT])) for event in new})


def increments_to_report(known: int | None, ran: Iterable[int], last: int) -> range:
    """After what is ``known`` up to the ``last`` done one.

    Where Dagster knows nothing of the asset (or of another warehouse's), history stays in the ledger: what this run
    ``ran``, or else the last increment.
    """
    if known is None or known > last:
        return range(min(ran, default=last), last + 1)
    return range(known + 1, last + 1)


def increments_to_check(instance: DagsterInstance, key: AssetCheckKey, run_id: str) -> range:
    """After the last increment up to which the guarantee held, up to what the asset has reported.

    So a guarantee that was broken stays broken until its increment is repaired, however many good ones follow. What is
    known to hold is checked once more when nothing is new.
    """
    last = reported_increment(instance, key.asset_key) or 0
    held = _held_up_to(instance, key)
    if held is None or held > last:
        first = min(ran_in_run(instance, run_id, {key.asset_key}) or [last])
    else:
        first = min(held + 1, last)
    return range(max(first, 1), last + 1)


def _held_up_to(instance: DagsterInstance, key: AssetCheckKey) -> int | None:
    records = instance.event_log_storage.get_asset_check_execution_history(
        key, limit=1, status=COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES
    )
    for record in records:
        event = None if record.event is None else record.event.dagster_event
        evaluation = None if event is None else event.event_specific_data
        if isinstance(evaluation, dg.AssetCheckEvaluation) and HOLDS_UP_TO in evaluation.metadata:
            return int(_value(evaluation.metadata[HOLDS_UP_TO]))
    return None


def _increment(event: EventLogEntry | None) -> int | None:
    materialization = None if event is None else event.asset_materialization
    if materialization is None or INCREMENT not in materialization.metadata:
        return None
    return int(_value(materialization.metadata[INCREMENT]))


def _value(metadata: dg.MetadataValue) -> Any:
    return metadata.value
