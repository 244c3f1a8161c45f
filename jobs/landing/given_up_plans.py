"""Plans of a landing that are given up: their source is not any more what it was, or somebody asked for it.

Owns the fence. Rule: only a plan of which nothing is committed can be given up. One Delta commit sets its mark in the
landed table, with a second mark that it was given up, before another plan is made. So no runner that is still at work
with it can commit it. A landing that dies in between continues from there.
"""

import pyarrow as pa
from deltalake.exceptions import CommitFailedError

from ...state.errors import LedgerConflict
from ...state.tables.commit import create_table, transaction_version, write_mark
from ...state.tables.data_files import mark_of
from ...state.tables.ledger import LandingLedger, LedgerRow
from ...state.tables.ledger_rows import LandingPlanRow
from ...state.tables.warehouse import Warehouse
from .bad_rows import commit_dead_letters


def landing_app_id(topic: str, planned: LedgerRow[LandingPlanRow]) -> str:
    """Under which a landing increment is marked in its tables."""
    return f"landing/{topic}/{planned.epoch}"


def is_given_up(warehouse: Warehouse, topic: str, planned: LedgerRow[LandingPlanRow]) -> bool:
    """Was the plan given up?"""
    app_id = _given_up_id(topic, planned)
    return transaction_version(warehouse.landed(topic), app_id) == planned.increment


def give_up(warehouse: Warehouse, topic: str, planned: LedgerRow[LandingPlanRow], schema: pa.Schema) -> bool:
    """Fence the plan off and take back its dead letters; False when it is committed, so that it cannot be given up.

    Raises LedgerConflict when another runner commits at the same time.
    """
    path = warehouse.landed(topic)
    app_id, number = landing_app_id(topic, planned), planned.increment
    if not is_given_up(warehouse, topic, planned):
        # Opened before its mark is read: Delta refuses `write_mark` where the plan's own runner commits in between.
        table = create_table(path, schema, partition_by=["partition"])
        if mark_of(table, path, app_id) == number:
            return False
        try:
            write_mark(table, path, app_id, number, also=[_given_up_id(topic, planned)])
        except CommitFailedError as error:
            expected, got = f"increment {number} to give up", "one that another runner commits"
            raise LedgerConflict(path, expected, got, "let the other runner finish, then land again") from error
    # Also where the plan was fenced off before: whoever did that may have died before this.
    commit_dead_letters(warehouse, topic, [], app_id, number, given_up=True)
    return True


def kept_plans(
    ledger: LandingLedger, given_up_now: LedgerRow[LandingPlanRow] | None = None
) -> list[LedgerRow[LandingPlanRow]]:
    """Plans of records that were not given up; ``given_up_now``: by a plan that comes yet."""
    plans = [row for row in ledger.plans() if row.content.lands_records]
    given_up = {row.content.gives_up for row in plans if row.content.gives_up is not None}
    if given_up_now is not None:
        given_up.add(given_up_now.increment)
    return [row for row in plans if row.increment not in given_up]


def _given_up_id(topic: str, planned: LedgerRow[LandingPlanRow]) -> str:
    return f"{landing_app_id(topic, planned)}/given-up"
