"""Which pipelines were beyond the place of a restart when it was recorded, so that they do not take it."""

from collections.abc import Sequence

from ...state.tables.ledger import Ledger
from ...state.tables.ledger_rows import cut_of
from ...state.tables.warehouse import Warehouse
from .fsck import pipelines_of


def pipelines_past(warehouse: Warehouse, topic: str, records: Sequence[tuple[int, int]]) -> list[str]:
    """Pipelines with an increment, done or planned, that has read one of ``records`` (partition, offset)."""
    past = []
    for pipeline in pipelines_of(warehouse):
        ledger = Ledger(warehouse.pipeline(pipeline).ledger)
        rows = [row for row in (ledger.last_done(), ledger.pending()) if row is not None]
        if any(cut_of(row.content.cut_to, topic, p) > offset for row in rows for p, offset in records):
            past.append(pipeline)
    return past
