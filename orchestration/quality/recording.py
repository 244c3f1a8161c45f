"""Verdicts and numbers go into the pipeline's quality tables.

Rule: who checks, records. What was recorded before is not recorded again, so any number of commands and Dagster runs
may check one increment. A check stands though it cannot be recorded (a warehouse that is only read, an object store
that is away): then that is said.
"""

from collections.abc import Sequence

from deltalake.exceptions import DeltaError

from ...expectations.quality_tables import METRICS_SCHEMA, read_quality, record_metrics, record_verdicts
from ...expectations.verdicts import Verdict
from ...state.errors import ReplayError
from ...state.tables.warehouse import Warehouse
from .metrics import increments_in_force, metric_rows


def record_quality(warehouse: Warehouse, pipeline: str, verdicts: Sequence[Verdict]) -> int:
    """Add ``verdicts`` to `quality_results`, and the numbers of all increments that have none yet to
    `quality_metrics`; returns how many rows both gained. Raises CommitLost when other writers were quicker every time.
    """
    gained = record_verdicts(warehouse, pipeline, verdicts)
    tables = warehouse.pipeline(pipeline)
    known = read_quality(tables.quality_metrics, METRICS_SCHEMA, warehouse.storage_options)
    there = (
        set() if known is None else set(zip(known["increment"].to_pylist(), known["epoch"].to_pylist(), strict=True))
    )
    rows = [
        each
        for planned, done in increments_in_force(warehouse, pipeline)
        if (done.increment, done.epoch) not in there
        for each in metric_rows(planned, done)
    ]
    return gained + (record_metrics(warehouse, pipeline, rows) if rows else 0)


def why_not_recorded(warehouse: Warehouse, pipeline: str, verdicts: Sequence[Verdict]) -> str | None:
    """Record as ``record_quality`` does; None, or why that was not possible, in a sentence."""
    try:
        record_quality(warehouse, pipeline, verdicts)
    except (ReplayError, OSError, DeltaError) as error:
        return f"the verdicts stand, but were not recorded in quality_results of {pipeline}: {error}"
    return None
