"""The command `check`: verdicts on the guarantees, with the rows that speak against them."""

import sys
from contextlib import closing
from typing import Literal

import click

from ....expectations.suites.data_docs import DataDocs
from ....expectations.suites.library import load_great_expectations
from ....expectations.verdicts import TOGETHER, Verdict, is_in_order
from ....jobs.history.committed_tables import done_row
from ....state.errors import ConfigError, LedgerError
from ....state.node_rows import ROWS_MAX
from ....state.tables.ledger import Ledger
from ....state.tables.refused_shares import RefusedLimit
from ....state.tables.warehouse import Warehouse
from ...progress_lines import progress_on
from ...quality.judge import Judge
from ...quality.pipeline_suites import suites_of
from ...quality.recording import why_not_recorded
from ...quality.verdict_lines import verdict_line
from ...settings.topology_loading import load_topology
from ...text_tables import flat_row, print_table
from .. import options
from ..book_lines import own_increments
from ..command import OneOf, command, keep, option
from ..exit_codes import ExitCode


@command(one_of=[OneOf(("increment", "every"))])
@options.topology_argument
@options.warehouse
@options.pipeline
@option("--increment", type=options.INCREMENT, metavar="N", help="this one (default: the last)")
@option("--all", "every", is_flag=True, help="every increment")
@option("--expectations", metavar="FOLDER", help="judge the suites of your own in it too (docs/quality.md)")
@option("--json", "as_json", is_flag=True, help="print each verdict as a line of JSON")
@option("--data-docs", metavar="FOLDER", help="build Great Expectations' pages there; a directory, or a URI")
@option(
    "--run-again",
    type=options.Whole(min=0),
    default=ROWS_MAX,
    metavar="N",
    help="run increments of up to N records again where no table shows what an operator did (0: none)",
)
@option("--engine", type=click.Choice(["gx", "plain"]), default="gx", help="Great Expectations, or plain code")
@options.refused_limit
def check(
    topology: str,
    warehouse: str,
    pipeline: str,
    increment: int | None,
    every: bool,
    expectations: str | None,
    as_json: bool,
    data_docs: str | None,
    run_again: int,
    engine: Literal["gx", "plain"],
    refused_max: float,
    refused_severity: Literal["error", "warning"],
) -> int:
    """Judge the guarantees of an increment. The exit code is 4 when one does not hold, or a table cannot be read."""
    if data_docs is not None and engine == "plain":
        raise ConfigError("--data-docs", "--engine gx, which builds them", "--engine plain", "leave one of both out")
    loaded, opened = load_topology(topology, warehouse), Warehouse(warehouse)
    asked, (pipeline, last) = pipeline, _judged(opened, pipeline, increment)
    docs = None if data_docs is None else DataDocs(data_docs)
    judge = Judge.of(
        opened, pipeline, loaded, refused=RefusedLimit(refused_max, refused_severity),
        suites=suites_of(expectations, loaded, engine), engine=engine, increment=last, rows_max=run_again,
    )  # fmt: skip
    if engine == "gx":
        load_great_expectations()  # where it is missing, that is said once, and not with every verdict
    ledger = Ledger(opened.pipeline(pipeline).ledger)
    numbers = own_increments(ledger.done_rows(ledger.oldest_kept())) if every and pipeline == asked else [last]
    are_in_order, not_recorded = True, None
    for begin in range(0, len(numbers), TOGETHER):
        part = numbers[begin : begin + TOGETHER]
        with closing(progress_on(sys.stderr)) as progress:
            progress.doing(f"judging increments {part[0]} to {part[-1]}, {begin} of {len(numbers)} are judged")
            verdicts = list(judge.verdicts(part, docs))
            # A branch may have other code, of which the quality tables of its parent must not speak.
            if pipeline == asked:
                not_recorded = why_not_recorded(opened, pipeline, verdicts, judge.facts) or not_recorded
                keep(f"verdicts on increments up to {part[-1]} are recorded")
        for verdict in verdicts:
            if as_json:
                print(verdict_line(pipeline, verdict))
            else:
                _print_verdict(verdict)
        are_in_order = are_in_order and all(map(is_in_order, verdicts))
    if not_recorded is not None:
        print(f"replay check: {not_recorded}", file=sys.stderr)
    if docs is not None and not as_json:
        print(f"Data Docs: {docs.address()}")
    return ExitCode.DONE if are_in_order else ExitCode.FAILED


def _judged(warehouse: Warehouse, pipeline: str, increment: int | None) -> tuple[str, int]:
    """Who made the increment that is asked for, and its number: a branch begins with one of its parent. Raises
    LedgerError where nobody has replayed any, as in a branch from the start.
    """
    asked, row = pipeline, done_row(warehouse, pipeline, increment)
    while row.content.forked is not None and row.increment > 0:
        pipeline = row.content.forked["pipeline"]
        row = done_row(warehouse, pipeline, row.content.forked["increment"])
    if row.content.has_no_plan:
        next_step = "nothing is replayed that could be judged: `replay run` it first"
        raise LedgerError(f"pipeline {asked!r}", "a done increment of its own", "none", next_step)
    if pipeline != asked:
        what = f"increment {row.increment} of {pipeline}, with which {asked} begins"
        print(f"replay check: judging {what}; the verdicts are not recorded", file=sys.stderr)
    return pipeline, row.increment


def _print_verdict(verdict: Verdict) -> None:
    broken = "BROKEN" if verdict.severity == "error" else "WARNING"
    answer = {"true": "holds", "false": broken, "unknown": "UNKNOWN", "unchecked": "NOT CHECKED "}[verdict.answer]
    observed = ", ".join(f"{name} {count:,}" for name, count in verdict.observed.items())
    print(
        f"{answer:8}{verdict.guarantee} {verdict.table}, increment {verdict.increment}: {verdict.sentence} ({observed})"
    )
    if verdict.reason:
        print(f"        {verdict.reason}")
    if verdict.witnesses:
        print_table([flat_row(row, as_numbers=True) for row in verdict.witnesses])
