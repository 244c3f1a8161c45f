"""The format of tables and ledgers: the versions of this package that can read them follow from this number.

Owns the number, and where it is: in the description of every Delta table, a ledger's too, which is read with the
table's columns and costs nothing more. Rule: the number rises when a version before would misread what this one writes.
A table without one has the first. One of a newer format is refused by whoever opens it; one of an older format is read
as it is, and gets the current number from the first who writes to it.
"""

import re
from contextlib import suppress

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from ..errors import NewerFormat
from ..version import VERSION
from .object_stores import timeout_seconds
from .patience import patiently

FORMAT = 1
"""Of what this version writes."""
_FIRST = 1
_DESCRIPTION = re.compile(r"kafka-streams-replay (\S+), format (\d+)")


def description() -> str:
    """Of a table that this version makes."""
    return f"kafka-streams-replay {VERSION}, format {FORMAT}"


def refuse_newer(table: DeltaTable, path: str) -> None:
    """Raises NewerFormat for a table that this version would misread."""
    number, version = _format_of(table)
    if number > FORMAT:
        next_step = f"use kafka-streams-replay {version}, which can read it, or a later version"
        raise NewerFormat(path, f"format {FORMAT} or an earlier one", f"format {number}", next_step)


def raise_format(table: DeltaTable, path: str) -> None:
    """Give an older table the current number, by a metadata commit of its own before the first rows of this format.

    Another writer may be quicker: then it is brought up to date. Raises CommitFailedError when it still has the old
    one.
    """

    def write() -> None:
        table.update_incremental()  # the answer to a first try may have been lost
        if _format_of(table)[0] < FORMAT:
            table.alter.set_table_description(description())

    if _format_of(table)[0] < FORMAT:
        with suppress(CommitFailedError):
            patiently(write, timeout_seconds(path))
        patiently(write, timeout_seconds(path))


def _format_of(table: DeltaTable) -> tuple[int, str]:
    """Number, and the version that gave it."""
    match = _DESCRIPTION.fullmatch(table.metadata().description or "")
    return (_FIRST, "0.1.0") if match is None else (int(match[2]), match[1])
