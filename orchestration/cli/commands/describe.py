"""The commands `describe`, `books` and `errors`."""

from pathlib import Path
from typing import Any

from ....jobs.history.committed_tables import done_row
from ....jobs.replay.increment_report import report_of
from ....state.error_page import error_sections
from ....state.errors import ConfigError
from ....state.tables.ledger import Ledger, LedgerRow
from ....state.tables.ledger_rows import DoneRow
from ....state.tables.rows_in_force import in_force
from ....state.tables.warehouse import Warehouse
from ...settings.topology_loading import load_topology
from ...text_tables import print_json, print_table
from .. import options
from ..book_lines import books_line, counted, excluded_lines, own_increments, put_aside_lines, refusal_lines
from ..command import argument, command, option
from ..run_outcome import takeovers


@command()
@options.topology_argument
@option("--svg", metavar="FILE", help="draw it into this file instead")
def describe(topology: str, svg: str | None) -> int:
    """Print a topology as Kafka Streams does, or draw it."""
    loaded = load_topology(topology)
    if svg is None:
        print(loaded.describe())
        return 0
    size = Path(svg).write_text(loaded.picture(), encoding="utf-8")
    print(f"{svg}: {size:,} characters")
    return 0


@command()
@options.warehouse
@options.pipeline
@option("--last", type=options.COUNT, default=20, metavar="N", help="so many increments (default 20)")
@options.as_json
def books(warehouse: str, pipeline: str, last: int, as_json: bool) -> int:
    """Say what became of the records, in a line for every increment."""
    opened = Warehouse(warehouse)
    newest = done_row(opened, pipeline).increment
    ledger = Ledger(opened.pipeline(pipeline).ledger)
    rows, is_all = _last_rows(ledger, newest, last)
    pairs = [ledger.rows_of(increment) for increment in own_increments(rows)]
    reports = [
        report_of(done.increment, planned.content, done.content)
        for planned, done in pairs
        if planned is not None and done is not None
    ]
    counting = {row.increment for row in in_force(rows)}
    lines = [books_line(report) for report in reports]
    lines = [line if line["increment"] in counting else line | {"restated": "yes"} for line in lines]
    beside = {
        "refused": refusal_lines(report for report in reports if report.increment in counting),
        "put_aside": put_aside_lines(opened, rows[-1].content.cut_to),
        "excluded": excluded_lines(opened, rows[-1].content),
    }
    if as_json:
        print_json({"pipeline": pipeline, "increments": lines, "takeovers": takeovers(reports), **beside})
    elif lines:
        _print_books(lines, takeovers(reports), beside, is_all=is_all)
    else:
        print(f"nothing replayed yet by {pipeline}")
    return 0


def _last_rows(ledger: Ledger, newest: int, last: int) -> tuple[list[LedgerRow[DoneRow]], bool]:
    """Done rows from the first of the ``last`` that are the pipeline's own; and whether they are all that it has, the
    first of which nobody else made.
    """
    span = last + 1
    while True:  # numbers may have gaps, so ever more of them are looked at
        rows = ledger.done_rows(max(1, newest - span + 1))
        own = own_increments(rows)
        if len(own) > last:
            return [row for row in rows if row.increment >= own[-last]], False
        if span >= newest:
            return rows, own[:1] == [row.increment for row in rows[:1]]
        span *= 2


def _print_books(
    lines: list[dict[str, Any]], said: list[str], beside: dict[str, list[dict[str, Any]]], *, is_all: bool
) -> None:
    in_sum = [line for line in lines if "restated" not in line]
    total: dict[str, Any] = {name: sum(line.get(name) or 0 for line in in_sum) for name in counted(lines)}
    print_table([*lines, {"increment": "all" if is_all else "these", **total}], thousands=True)
    for sentence in said:
        print(sentence)
    for name, title in _BESIDE.items():
        if beside[name]:
            print(f"\n{title}:")
            print_table(beside[name], thousands=name != "excluded")


_BESIDE = {
    "refused": "refused by an operator, whatever else became of the record",
    "put_aside": "put aside by all landings so far, so in no line above; see `replay show landed_dead_letter/TOPIC`",
    "excluded": "taken out of play; what this pipeline left out is in no line above",
}
"""What `books` prints below its lines, each with its heading."""


@command()
@argument("error", required=False, metavar="[CLASS]", help="name of the class, as an error shows it (default: all)")
def errors(error: str | None) -> int:
    """Say what to do about an error."""
    sections = error_sections()
    if error is None:
        print("\n\n".join(f"{name}\n{text}" for name, text in sections.items()))
    elif error in sections:
        print(sections[error])
    else:
        raise ConfigError("errors", f"one of {', '.join(sections)}", repr(error), "take the name from the error")
    return 0
