"""What a run reports to Dagster of a partition, as soon as it is committed: one materialization of each selected table.

Owns these events. Rule: a partition is reported once in a run, whether the run ends well or not, with its own data
version and the versions of what it was made from. Dagster itself would report all partitions of a run at the step's
end, with one data version, and none of them when the step fails at the last. So the step's outputs, which let later
steps of the run begin, bring no materializations of their own (``SILENT``).
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    DEFAULT_DATA_VERSION,
    NULL_EVENT_POINTER,
    extract_data_version_from_entry,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
from dagster._core.event_api import EventLogRecord

from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import DoneRow
from ..asked_runs import written_tables
from ..metadata import Metadata, data_version, increment_metadata, quiet_metadata, refusals_metadata, rows_added
from ..partition_windows import Window, last_increment, reached
from ..pipeline import REFUSALS, Pipeline
from .stale import replaced_in

SILENT = {SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True}
"""Metadata of an output of which Dagster makes no materialization: its own way for assets that report themselves."""
LATE = "records_late_for_earlier_partitions"
ROWS = "dagster/partition_row_count"


def report_partition(context: dg.AssetExecutionContext, pipeline: Pipeline, window: Window, late: int) -> None:
    """One materialization a selected table, tables after those that they are made from. ``late``: records of the
    partition's increments that came late for an earlier one.
    """
    so_far = reached(pipeline)
    of_window, last = so_far.of(window), last_increment(so_far, window)
    rows = pipeline.ledger.done_rows(0, last or 0)
    row = rows[-1] if rows else None
    before = next((each for each in reversed(rows) if of_window and each.increment < of_window[0]), None)
    for name, metadata_of in _selected(context, pipeline).items():
        said = metadata_of(*of_window) if of_window else quiet_metadata(pipeline, name, row)
        added = rows_added(pipeline, name, before, row) if of_window and row is not None else 0
        key = pipeline.key(name)
        context.log_event(
            dg.AssetMaterialization(
                key,
                partition=window.key,
                metadata=said | {LATE: late} | ({} if added is None else {ROWS: added}),
                tags=_provenance(context, pipeline, key, window.key)
                | {DATA_VERSION_TAG: _version(pipeline, window, row), DATA_VERSION_IS_USER_PROVIDED_TAG: "true"},
            )
        )


def outputs(context: dg.AssetExecutionContext, pipeline: Pipeline) -> Iterator[dg.MaterializeResult[Any]]:
    """Of a step whose partitions are all reported: later steps of the run may begin."""
    for name in _selected(context, pipeline):
        yield dg.MaterializeResult(asset_key=pipeline.key(name), metadata=SILENT)


def _selected(context: dg.AssetExecutionContext, pipeline: Pipeline) -> dict[str, Callable[..., Metadata]]:
    """Tables that the run is to report, each with its metadata of increments."""
    tables: dict[str, Callable[..., Metadata]] = {
        table.name: partial(increment_metadata, pipeline, sub, table) for sub, table in pipeline.all_tables()
    }
    tables |= {name: partial(refusals_metadata, pipeline, name) for name in REFUSALS}
    return {name: said for name, said in tables.items() if pipeline.key(name) in context.selected_asset_keys}


def _version(pipeline: Pipeline, window: Window, row: LedgerRow[DoneRow] | None) -> str:
    """With the increment that has put other rows in the place of the partition's, if one has."""
    version, replaced = data_version(row).value, replaced_in(pipeline.ledger.done_rows(), window)
    return version if replaced is None else f"{version}-replaced-in-{replaced}"


def _provenance(
    context: dg.AssetExecutionContext, pipeline: Pipeline, key: dg.AssetKey, partition: str
) -> dict[str, str]:
    """Tags by which Dagster knows when the code, or a table above, is newer: as it writes them for outputs."""
    spec, tables = context.assets_def.specs_by_key[key], set(map(pipeline.key, written_tables(pipeline)))
    # The run's id is Dagster's own default for an asset without a code version.
    tags = {CODE_VERSION_TAG: spec.code_version or context.run.run_id}
    for dep in spec.deps:
        record = _newest(context.instance, dep.asset_key, partition if dep.asset_key in tables else None)
        version = None if record is None else extract_data_version_from_entry(record.event_log_entry)
        tags[get_input_data_version_tag(dep.asset_key)] = (version or DEFAULT_DATA_VERSION).value
        tags[get_input_event_pointer_tag(dep.asset_key)] = (
            NULL_EVENT_POINTER if record is None else str(record.storage_id)
        )
    return tags


def _newest(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None) -> EventLogRecord | None:
    """The newest materialization; of an asset that has none, and so is made elsewhere, the newest observation."""
    which = dg.AssetRecordsFilter(asset_key=key, asset_partitions=None if partition is None else [partition])
    for fetch in (instance.fetch_materializations, instance.fetch_observations):
        records = fetch(which, limit=1).records
        if records:
            return records[0]
    return None
