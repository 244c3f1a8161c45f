"""The commands `describe`, `books` and `errors`."""

from typing import Any

import click

from ....jobs.branches.restatement import in_force
from ....jobs.history.committed_tables import done_row
from ....jobs.replay.increment_report import report_of
from ....state.error_page import error_sections
from ....state.errors import ConfigError
from ....state.tables.ledger import Ledger
from ....state.tables.warehouse import Warehouse
from ...settings.topology_loading import load_topology
from ...text_tables import print_table
from .. import options
from ..book_lines import books_line, counted, excluded_lines, own_increments, put_aside_lines, refusal_lines
from ..command import argument, command, option
from ..run_outcome import takeovers


@command()
@options.topology_argument
def describe(topology: str) -> int:
    """Print a topology as Kafka Streams does."""
    print(load_topology(topology).describe())
    return 0


@command()
@options.warehouse
@options.pipeline
@option("--last", type=click.IntRange(min=1), default=20, metavar="N", help="so many increments (default 20)")
def books(warehouse: str, pipeline: str, last: int) -> int:
    """Say what became of the records, in a line for every increment."""
    place = Warehouse(warehouse)
    newest = done_row(place, pipeline).increment
    ledger = Ledger(place.pipeline(pipeline).ledger)
    rows = ledger.done_rows(max(1, newest - last + 1))
    pairs = [ledger.rows_of(increment) for increment in own_increments(rows)]
    reports = [
        report_of(done.increment, planned.content, done.content)
        for planned, done in pairs
        if planned is not None and done is not None
    ]
    lines = [books_line(report) for report in reports]
    if not lines:
        print(f"nothing replayed yet by {pipeline}")
        return 0
    counting = {row.increment for row in in_force(rows)}
    in_sum = [line for line in lines if line["increment"] in counting]
    total: dict[str, Any] = {name: sum(line.get(name) or 0 for line in in_sum) for name in counted(lines)}
    lines = [line if line in in_sum else line | {"restated": "yes"} for line in lines]
    print_table([*lines, {"increment": "all" if lines[0]["increment"] == 1 else "these", **total}], thousands=True)
    for sentence in takeovers(reports):
        print(sentence)
    refused = refusal_lines(report for report in reports if report.increment in counting)
    if refused:
        print("\nrefused by an operator, whatever else became of the record:")
        print_table(refused, thousands=True)
    aside = put_aside_lines(place, rows[-1].content.cut_to)
    if aside:
        print("\nput aside by all landings so far, so in no line above; see `replay show landed_dead_letter/TOPIC`:")
        print_table(aside, thousands=True)
    excluded = excluded_lines(place, rows[-1].content)
    if excluded:
        print("\ntaken out of play; what this pipeline left out is in no line above:")
        print_table(excluded)
    return 0


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
