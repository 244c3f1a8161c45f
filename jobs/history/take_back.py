"""What others committed to a table is taken back.

Owns which version the table goes back to. Rule: to what its ledger names, with what increments of ours have committed
since; one Delta transaction does it, and the log keeps what was there.
"""

from ...state.errors import ConfigError
from ...state.tables.commit import take_back as take_back_since
from ...state.tables.delta_log import is_table, log_begins_after
from ...state.tables.foreign_commits import Touched
from ...state.tables.kept_below import below
from ...state.tables.ledger import LandingLedger, Ledger
from ...state.tables.names import LANDED, LANDED_DEAD_LETTER, LANDING, TableName
from ...state.tables.warehouse import Warehouse


def take_back(warehouse: Warehouse, table: str) -> Touched | None:
    """Take back what others committed to ``table`` ("landed/clicks", "shop/outputs/counts") since the version that its
    ledger names; where none does, all of it. Return what it was; None: nothing.

    Raises ConfigError for a table that is not there, TouchedTable where it cannot be taken back.
    """
    path = below(warehouse.root, table)
    if not is_table(path):
        expected = 'a table of the warehouse, as "landed/clicks" or "shop/outputs/counts"'
        raise ConfigError("take-back", expected, repr(table), "name it as the error does that spoke of it")
    since = _known_version(warehouse, table)
    return take_back_since(path, log_begins_after(path) if since is None else since)


def _known_version(warehouse: Warehouse, table: str) -> int | None:
    """Of the table, in the last done row of its ledger; None: no ledger names it."""
    first, _, rest = table.partition("/")
    if first == LANDED:
        landed = LandingLedger(warehouse.landing_ledger(TableName(table).name)).last_done()
        return None if landed is None else landed.content.table_version
    if first in (LANDING, LANDED_DEAD_LETTER) or not rest:
        return None
    last = Ledger(warehouse.pipeline(first).ledger).last_done()
    return None if last is None else last.content.versions.get(rest)
