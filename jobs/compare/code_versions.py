"""Rows that another version of the code wrote, known by a pipeline that ran the versions as production did.

Rule: what production and that pipeline have alike, and our rows do not, is of the code, and so is what both lack. A row
that production has twice is of the code once.
"""

from ...state.errors import ConfigError
from ...state.tables.ledger_rows import DoneRow
from .alignment import RowVerdict, align
from .case import Case, Cause
from .sides import Side


def refuse_other_cut(pipeline: str, done: DoneRow, deployed: str, its: DoneRow) -> None:
    """Raises ConfigError unless both pipelines have read the same records: what one has not read is of no code."""
    if its.cut_to != done.cut_to:
        expected, next_step = f"a pipeline that has read what {pipeline} has", "replay both as far as what has landed"
        raise ConfigError("deployed", expected, f"{deployed}, which has read other records", next_step)


class CodeVersions:
    """``deployed``: the output's rows as the versions wrote them."""

    def __init__(self, case: Case, deployed: Side) -> None:
        self.case = case
        self._there, self._here = align(deployed, case.theirs), align(case.ours, deployed)

    def explain(self) -> None:
        """Give CODE_VERSION to what is of the code, of all that has no cause yet. Rows get other partners where others
        are known to be of restarts or crashes, so it is to be called again then.
        """
        case = self.case
        rows = case.unexplained(RowVerdict.EXTRA, RowVerdict.OTHER_VALUE, RowVerdict.OTHER_TIME, RowVerdict.OTHER_ORDER)
        case.give(rows[self._there.theirs[rows] == RowVerdict.EQUAL], Cause.CODE_VERSION)
        rows = case.unexplained(RowVerdict.MISSING)
        case.give_ours(rows[self._here.ours[rows] == RowVerdict.MISSING], Cause.CODE_VERSION)
