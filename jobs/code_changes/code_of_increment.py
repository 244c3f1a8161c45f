"""Whether an increment was run by the code of today, which whoever runs it again must know.

Rule: a run of other code proves nothing of what was committed. A topology's fingerprint does not change with Python
functions, so the record of the code is compared, which the ledger keeps with every increment. Functions that only look
on (peek, foreach) decide no row: they are other ones as soon as a list that they fill has grown, and are left out.
"""

from functools import lru_cache
from typing import Any

from ...state.tables.ledger_rows import DoneRow
from ..topology.topology import Topology
from .code_snapshot import code_snapshot
from .state_migration import is_recorded_as, verdict_on

_LOOKS_ON = "peek "
"""What texts of such steps begin with (step_text.py)."""


def other_code(done: DoneRow, topology: Topology) -> str:
    """What the code that ran an increment had otherwise than ``topology``, in a sentence; "" where they are the same,
    or where the increment has no record of its code. ``topology``: with the topics that its patterns matched then.
    """
    if done.code is None:
        return ""
    now = _code(topology)
    if is_recorded_as(_deciding(done.code), _deciding(now)):
        return ""
    for change in verdict_on(done, topology).changes:
        return change.sentence()
    return f"it ran with {done.code['made_with']}, and texts of functions are not comparable with {now['made_with']}"


def _deciding(code: Any) -> Any:
    """A record of code, or a part of one, without the steps that only look on."""
    if isinstance(code, dict):
        return {name: _deciding(part) for name, part in code.items()}
    if isinstance(code, list):
        return [one for one in code if not (isinstance(one, str) and one.startswith(_LOOKS_ON))]
    return code


@lru_cache(maxsize=2)
def _code(topology: Topology) -> dict[str, Any]:
    """The record of a topology, which is asked for once an increment."""
    return code_snapshot(topology)
