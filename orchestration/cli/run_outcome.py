"""What a run comes to: its warnings and its exit code, from the reports of its increments.

Rule: every warning of `replay run` is made here, from facts that the ledger keeps, so that a later look at the same
increments gives the same. A new warning is one line in ``warnings_of``, and a run with a warning ends as WARNINGS.
The command prints in lines of its own which landed records wait, and for what.
"""

from collections.abc import Sequence
from shlex import quote

from ...jobs.replay import unused_input
from ...jobs.replay.books import is_nothing_applied
from ...jobs.replay.increment_report import IncrementReport
from ...jobs.replay.waiting_inputs import WaitingInput
from ...state.tables.names import DEAD_LETTER, DROPPED, TableName
from ...state.tables.parquet_reader import show_command
from ...state.tables.refused_shares import DEFAULT_LIMIT, RefusedLimit, too_many_refused
from .exit_codes import ExitCode


def warnings_of(
    reports: Sequence[IncrementReport],
    waits: Sequence[WaitingInput] = (),
    refused: RefusedLimit = DEFAULT_LIMIT,
    *,
    warehouse: str | None = None,
    pipeline: str | None = None,
) -> list[str]:
    """A sentence for every fact of the increments that a person should look at. ``waits``: landed records that were
    held back; only a run without an increment is warned of them, since in any other they are read when others come.
    ``refused``: up to which share records are refused without a word. ``warehouse`` and ``pipeline``: as in the
    commands that show the records.
    """
    given = (("--warehouse", warehouse), ("--pipeline", pipeline))
    where = "".join(f" {option} {quote(name)}" for option, name in given if name is not None)
    return [
        *_unusual(reports, waits, where),
        *(f"{said}; see `{show_command(table, warehouse, pipeline)}`" for said, table in _refused(reports, refused)),
    ]


def _unusual(reports: Sequence[IncrementReport], waits: Sequence[WaitingInput], where: str = "") -> list[str]:
    impure = {node: said for report in reports for node, said in (report.done.impure or {}).items()}
    held_back = 0 if reports else sum(each.records for each in waits)
    return [
        *([f"nothing was replayed: all {held_back:,} unread records wait for other partitions"] if held_back else []),
        *(f"{sentence}; a run that is still at work on it is refused" for sentence in takeovers(reports)),
        *(f"step {node} does not answer alike twice: {said}; functions must be pure" for node, said in impure.items()),
        *unused_input.sentences(reports, where),
    ]


def _refused(reports: Sequence[IncrementReport], limit: RefusedLimit) -> list[tuple[str, TableName]]:
    """Sentences, each with the table that has its records."""
    read = sum(report.books.read for report in reports)
    count = sum(report.books.undecodable for report in reports)
    said = [] if limit.allows(count, read) else [f"{count:,} of {read:,} records ({count / read:.0%}) were undecodable"]
    books = [report.done.books for report in reports if report.done.books is not None]
    return [
        *((sentence, DEAD_LETTER) for sentence in said),
        *((each.sentence(), DROPPED) for each in too_many_refused(books, limit)),
    ]


def takeovers(reports: Sequence[IncrementReport]) -> list[str]:
    """A sentence for every increment that is in the place of another one, with the reason."""
    return [
        f"increment {report.increment} is in the place of {report.instead_of['increment']}, which was "
        f"planned and not finished{'' if report.instead_of_why is None else f' ({report.instead_of_why})'}"
        for report in reports
        if report.instead_of is not None
    ]


def run_exit_code(
    reports: Sequence[IncrementReport], waits: Sequence[WaitingInput] = (), refused: RefusedLimit = DEFAULT_LIMIT
) -> ExitCode:
    """FAILED when records were read and none of them could be applied, and when more were refused than ``refused``
    allows, where that is an error. WARNINGS when there are any; else DONE, or NOTHING_NEW without an increment.
    """
    books = [report.books for report in reports]
    read, applied, left_out = (sum(getattr(each, name) for each in books) for name in ("read", "applied", "left_out"))
    if is_nothing_applied(read, applied, left_out):
        return ExitCode.FAILED
    too_many = _refused(reports, refused)
    if refused.severity == "error" and too_many:
        return ExitCode.FAILED
    if too_many or _unusual(reports, waits):
        return ExitCode.WARNINGS
    return ExitCode.DONE if reports else ExitCode.NOTHING_NEW
