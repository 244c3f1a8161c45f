"""Files of somebody else's table in which records of a landed topic lie, as the ledger of its landing registers them.

Owns which of them count. Rule: what a landing registered, from the increment on that its done row names, up to that
row; a plan that was given up registers nothing. The topic may have continued from Kafka or from files since.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .ledger import LandingLedger, LedgerRow
from .ledger_rows import LandingDoneRow, LandingPlanRow
from .parquet_reader import DataFile
from .warehouse import Warehouse


def files_in_place(warehouse: Warehouse, topic: str, last: LedgerRow[LandingDoneRow]) -> list[DataFile]:
    """As of the done row ``last``; [] where all records are in the topic's own table."""
    plans = _plans(warehouse, topic, last)
    return [_of(row.increment, fields) for row in plans for fields in row.content.registers or ()]


def source_in_place(warehouse: Warehouse, topic: str, last: LedgerRow[LandingDoneRow]) -> dict[str, Any]:
    """Of the last landing, up to ``last``, from the table in which records of the topic lie."""
    return next(row.content.source for row in reversed(_plans(warehouse, topic, last)) if "lake" in row.content.source)


def _plans(warehouse: Warehouse, topic: str, last: LedgerRow[LandingDoneRow]) -> list[LedgerRow[LandingPlanRow]]:
    """Those that are done, from the one on with which records lie in place."""
    since = last.content.in_place
    if since is None:
        return []
    ledger = LandingLedger(warehouse.landing_ledger(topic))
    done = {row.increment for row in ledger.done_rows(since, last.increment)}
    return [row for row in ledger.plans(since, last.increment) if row.increment in done]


def _of(increment: int, fields: Mapping[str, Any]) -> DataFile:
    file = DataFile.from_dict(fields)
    assert file.in_place is not None
    return replace(file, in_place=replace(file.in_place, increment=increment))
