"""Topics of which nothing more comes, such as a reference table that was landed once: no other topic waits for them.

Owns the landing increment that says so. Rule: it holds. Whoever lands more of the topic is refused, or says that it is
not complete any more; so plans may rely on it, and no cut changes a result.
"""

from collections.abc import Callable

from ...state.argument_types import checked_types
from ...state.errors import LandingError
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow
from ...state.tables.warehouse import Warehouse
from ...state.wall_clock import now_ms
from .recorded_time import land_no_records, last_landing


@checked_types
def record_complete(warehouse: Warehouse, topic: str, *, clock_ms: Callable[[], int] = now_ms) -> bool:
    """Record that nothing more of the landed ``topic`` of ``warehouse`` comes; False: it was recorded before.

    Other topics do not wait for it any more. ``clock_ms``: gives the wall clock. Raises ConfigError for a topic that
    was never landed, LandingError while a landing is unfinished, LedgerConflict when another runner lands meanwhile.
    """
    last = last_landing(warehouse, topic, clock_ms)
    if last.content.complete:
        return False
    land_no_records(warehouse, topic, last, clock_ms, complete=True)
    return True


def refuse_complete(topic: str, last: LedgerRow[LandingDoneRow] | None) -> None:
    """Raises LandingError when the last landing increment of ``topic`` says that nothing more of it comes."""
    if last is not None and last.content.complete:
        expected = "nothing new, since it was recorded that the topic is complete"
        next_step = (
            "take it out of the source; or land it with --reopen (reopen=True): records that come before what was "
            "replayed meanwhile are then processed after it"
        )
        raise LandingError(f"topic {topic}", expected, "something new in its source", next_step)
