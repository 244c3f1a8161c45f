"""Verdicts and numbers go into the pipeline's quality tables.

Rule: who checks, records. What was recorded before is not recorded again, so any number of commands and Dagster runs
may check one increment. A check is valid though it cannot be recorded (a read-only warehouse, an object store that is
not reachable): then a message says so.
"""

from collections.abc import Iterator, Sequence

from deltalake.exceptions import DeltaError

from ...expectations.facts import ReplayFacts
from ...expectations.open_windows import open_windows
from ...expectations.quality_tables import Row, record_metrics, record_verdicts
from ...expectations.verdicts import Verdict
from ...state.errors import ReplayError
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.warehouse import Warehouse
from .metrics import OPEN_WINDOWS, increments_in_force, metric_rows


def record_quality(
    warehouse: Warehouse, pipeline: str, verdicts: Sequence[Verdict], facts: ReplayFacts | None = None
) -> int:
    """Add ``verdicts`` to `quality_results`, and the numbers of all increments that have none yet to
    `quality_metrics`; returns how many rows both gained. ``facts``: of the topology, to count open windows. Raises
    CommitLost when other writers were quicker every time.
    """
    increments = increments_in_force(warehouse, pipeline)

    def rows_beside(there: set[tuple[int, int]]) -> list[Row]:
        wanted = [(planned, done) for planned, done in increments if (done.increment, done.epoch) not in there]
        return [
            row
            for planned, done in wanted
            for row in [*metric_rows(planned, done), *_open_windows(warehouse, pipeline, done, facts)]
        ]

    return record_verdicts(warehouse, pipeline, verdicts) + record_metrics(warehouse, pipeline, rows_beside)


def _open_windows(
    warehouse: Warehouse, pipeline: str, done: LedgerRow[DoneRow], facts: ReplayFacts | None
) -> Iterator[Row]:
    """Rows of the one number that is not in the ledger."""
    for sub, operator, number in () if facts is None else open_windows(warehouse, pipeline, facts, done.increment):
        yield {
            "increment": done.increment,
            "epoch": done.epoch,
            "sub_topology": sub,
            "operator": operator,
            "metric": OPEN_WINDOWS,
            "label": None,
            "value": float(number),
            "committed_at_ms": done.written_at_ms,
        }


def why_not_recorded(
    warehouse: Warehouse, pipeline: str, verdicts: Sequence[Verdict], facts: ReplayFacts | None = None
) -> str | None:
    """Record as ``record_quality`` does; None, or why that was not possible, in a sentence."""
    try:
        record_quality(warehouse, pipeline, verdicts, facts)
    except (ReplayError, OSError, DeltaError) as error:
        return f"the verdicts are valid, but were not recorded in quality_results of {pipeline}: {error}"
    return None
