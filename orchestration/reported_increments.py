"""What was reported to Dagster already, and so which increments an asset or a check still has to report.

Owns the reading of Dagster's event log. Rule: the ledger says what happened, the event log only what was reported; an
asset reports every increment between the two once and in order. So a step that died after its commit, a subset of
assets, or a run of the command line in between loses no number and reports none twice. Two warehouses may have a
pipeline of one name, hence assets of one key: what was reported of another one's table counts for nothing.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg
from dagster import AssetCheckKey, AssetKey, DagsterEventType, DagsterInstance
from dagster._core.event_api import EventLogRecord
from dagster._core.storage.asset_check_execution_record import COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES

INCREMENT = "increment"
HOLDS_UP_TO = "holds_up_to"
NOTHING_NEW = "nothing_new"
TABLE = "dagster/table_name"
WAREHOUSE = "warehouse"
_PAGE = 100


def reported_increment(instance: DagsterInstance, key: AssetKey, path: str) -> int | None:
    """The increment of the newest materialization of the table at ``path``; None when it has none."""
    for record in _materializations(instance, key):
        materialization = record.asset_materialization
        if materialization is not None and INCREMENT in materialization.metadata:
            table = materialization.metadata.get(TABLE)
            if table is None or table.value == path:
                return int(_value(materialization.metadata[INCREMENT]))
    return None


@dataclass(frozen=True)
class Reported:
    """A partition's materialization: of which ``increment``, 0 for none, and when, by the wall clock."""

    increment: int
    at_ms: int


def newest_by_partition(instance: DagsterInstance, key: AssetKey, path: str) -> dict[str, Reported]:
    """Of each partition the newest materialization of the table at ``path``."""
    newest: dict[str, Reported] = {}
    for record in _materializations(instance, key):
        said = record.asset_materialization
        if said is None or said.partition is None or INCREMENT not in said.metadata:
            continue
        table = said.metadata.get(TABLE)
        if said.partition not in newest and (table is None or table.value == path):
            newest[said.partition] = Reported(int(_value(said.metadata[INCREMENT])), int(record.timestamp * 1000))
    return newest


def _materializations(instance: DagsterInstance, key: AssetKey) -> Iterator[EventLogRecord]:
    """Newest first."""
    cursor, has_more = None, True
    while has_more:
        page = instance.fetch_materializations(key, limit=_PAGE, cursor=cursor)
        yield from page.records
        cursor, has_more = page.cursor, page.has_more


def ran_in_run(instance: DagsterInstance, run_id: str, keys: Collection[AssetKey]) -> list[int]:
    """Increments that assets of ``keys`` have reported in this Dagster run."""
    events = instance.all_logs(run_id, of_type=DagsterEventType.ASSET_MATERIALIZATION)
    mine = [event.asset_materialization for event in events]
    reported = [event for event in mine if event is not None and event.asset_key in keys]
    return sorted({int(_value(event.metadata[INCREMENT])) for event in reported})


def planned_checks(instance: DagsterInstance, run_id: str) -> set[AssetCheckKey]:
    """Checks that this Dagster run was to make when it began."""
    events = instance.all_logs(run_id, of_type=DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED)
    planned = [
        None if event.dagster_event is None else event.dagster_event.asset_check_planned_data for event in events
    ]
    return {each.asset_check_key for each in planned if each is not None}


def increments_to_report(known: int | None, ran: Iterable[int], last: int) -> range:
    """After what is ``known`` up to the ``last`` done one.

    Where Dagster knows nothing of the table (or of one that lay there before), history stays in the ledger: what this
    run ``ran``, or else the last increment.
    """
    if known is None or known > last:
        return range(min(ran, default=last), last + 1)
    return range(known + 1, last + 1)


def increments_to_check(instance: DagsterInstance, key: AssetCheckKey, run_id: str, path: str, warehouse: str) -> range:
    """After the last increment up to which the guarantee held, up to what the table at ``path`` has reported.

    So a guarantee that was broken stays broken until its increment is repaired, however many good ones follow. What is
    known to hold is checked once more when nothing is new.
    """
    last = reported_increment(instance, key.asset_key, path) or 0
    held = _held_up_to(instance, key, warehouse)
    if held is None or held > last:
        first = min(ran_in_run(instance, run_id, {key.asset_key}) or [last])
    else:
        first = min(held + 1, last)
    return range(max(first, 1), last + 1)


def _held_up_to(instance: DagsterInstance, key: AssetCheckKey, warehouse: str) -> int | None:
    said = last_evaluation(instance, key, warehouse)
    return None if said is None or HOLDS_UP_TO not in said else int(_value(said[HOLDS_UP_TO]))


def last_evaluation(
    instance: DagsterInstance, key: AssetCheckKey, warehouse: str
) -> Mapping[str, dg.MetadataValue[Any]] | None:
    """What the check said when it was last made for this ``warehouse``; None when it never was."""
    cursor: int | None = None
    while records := instance.event_log_storage.get_asset_check_execution_history(
        key, limit=_PAGE, cursor=cursor, status=COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES
    ):
        for record in records:
            event = None if record.event is None else record.event.dagster_event
            evaluation = None if event is None else event.event_specific_data
            if isinstance(evaluation, dg.AssetCheckEvaluation):
                root = evaluation.metadata.get(WAREHOUSE)
                if root is None or root.value == warehouse:
                    return evaluation.metadata
        cursor = records[-1].id
    return None


def _value(metadata: dg.MetadataValue[Any]) -> Any:
    return metadata.value
