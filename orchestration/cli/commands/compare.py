"""The command `compare` (docs/compare.md): topics of production beside the results of its rules."""

import json
import sys
from collections.abc import Callable
from contextlib import closing
from shlex import join, quote
from textwrap import indent, wrap

import click

from ....jobs.compare.cause_sentences import say_restart
from ....jobs.compare.compared_output import CHANGELOG, EVENTS
from ....jobs.compare.comparison import Comparison, Difference
from ....jobs.compare.comparison import compare as compare_output
from ....jobs.compare.proposed_restarts import Proposal
from ....jobs.compare.restarts import Restart
from ....state.tables.warehouse import Warehouse
from ....state.times import instant_ms
from ...progress_lines import progress_on
from ...settings.topology_loading import load_topology
from ...text_tables import print_table, utc
from .. import options
from ..command import argument, command, option
from ..exit_codes import ExitCode

BAR, WIDTH = 40, 118


@command()
@argument("output", metavar="OUTPUT", help="an output of the topology")
@option("--with-topic", required=True, metavar="T", help="what production wrote, landed by `replay land`")
@options.topology_option(options.TOPOLOGY, required=True)
@options.warehouse
@options.pipeline
@options.increment
@option("--from", "since", metavar="TIME", help="record times from here on alone")
@option("--to", "until", metavar="TIME", help="record times before this alone")
@option(
    "--as", "form", type=click.Choice([CHANGELOG, EVENTS]),
    help="the last row of each key and window counts, or every row in its order (default: by what the output is)",
)  # fmt: skip
@option("--ignore-fields", takes_many=True, metavar="FIELD", help="fields of the value that may differ")
@option("--ignore-order", is_flag=True, help="rows of a partition may be in another order")
@option("--no-cache", is_flag=True, help="production has statestore.cache.max.bytes=0: no cache explains a missing row")
@option("--no-trials", is_flag=True, help="do not run tasks again to find what explains rows without a cause")
@option(
    "--deployed",
    metavar="P",
    help="another pipeline, which ran the versions of the code one after the other, as production did",
)
@option(
    "--infer-restarts",
    is_flag=True,
    help="propose the fewest restarts to record, and replay in memory to say what they leave",
)
@option("--limit", type=options.Whole(min=0), default=10, metavar="N", help="so many differences (default 10)")
@option("--json", "as_json", is_flag=True, help="print JSON")
@options.raw
def compare(
    output: str, with_topic: str, topology: str, warehouse: str, pipeline: str, increment: int | None,
    since: str | None, until: str | None, form: str | None, ignore_fields: tuple[str, ...], ignore_order: bool,
    no_cache: bool, no_trials: bool, deployed: str | None, infer_restarts: bool, limit: int, as_json: bool, raw: bool,
) -> int:  # fmt: skip
    """Compare an output with what production wrote, and say the cause of every difference. The exit code is 4 when
    anything differs.
    """
    with closing(progress_on(sys.stderr)) as progress:
        progress.doing(f"comparing {output} with {with_topic}")
        comparison = compare_output(
            Warehouse(warehouse), load_topology(topology, warehouse), output, with_topic=with_topic, pipeline=pipeline,
            increment=increment, since_ms=None if since is None else instant_ms(since, "--from"),
            until_ms=None if until is None else instant_ms(until, "--to"), form=form, ignore_fields=ignore_fields,
            ignore_order=ignore_order, no_cache=no_cache, no_trials=no_trials, deployed=deployed,
            infer_restarts=infer_restarts, shown=limit, say_time=str if raw else utc,
        )  # fmt: skip
    if as_json:
        print(json.dumps(comparison.to_json(), indent=2, default=str))
    else:
        _print(comparison, place_options(topology, warehouse, pipeline), raw=raw)
        if comparison.proposal is not None:
            _print_proposal(comparison.proposal, warehouse)
    return ExitCode.DONE if comparison.is_equal else ExitCode.FAILED


def _print(comparison: Comparison, options: str, *, raw: bool) -> None:
    say_time = str if raw else utc
    ours, theirs = comparison.rows
    print(
        f"{comparison.output} of {comparison.pipeline}, increment {comparison.increment}: {ours:,} rows; "
        f"{comparison.topic}: {theirs:,}; compared as {'a changelog' if comparison.form == CHANGELOG else 'events'}\n"
    )
    print_table([{"verdict": name, "rows": count} for name, count in comparison.verdicts.items()], thousands=True)
    if comparison.is_equal:
        print("\nproduction equals its rules")
        return
    print()
    causes = [
        {"cause": name, "differences": count, "since": say_time(comparison.begins[name])}
        for name, count in comparison.causes.items()
    ]
    print_table(causes, thousands=True)
    if comparison.restarts:
        print("\nthe fewest restarts that explain what was let in:")
        for restart in comparison.restarts:
            print(f"  {say_restart(restart)}: {_let_in(restart)}")
    print("\ndifferences over time:")
    most = max(each["differences"] for each in comparison.over_time)
    for each in comparison.over_time:
        count = each["differences"]
        bar = "#" * -(-count * BAR // most)
        print(f"  {say_time(each['from_ms']):>23}  {bar:<{BAR}}  {count:,}")
    for number, difference in enumerate(comparison.first, 1):
        print()
        print_difference(number, difference, options, say_time)
    if len(comparison.differences) > len(comparison.first):
        print(f"\n… {len(comparison.first):,} of {len(comparison.differences):,} differences; --limit shows more")


def _let_in(restart: Restart) -> str:
    if restart.records == 0:
        return "no late record, found by trial"
    return "1 late record" if restart.records == 1 else f"{restart.records:,} late records"


def place_options(topology: str, warehouse: str, pipeline: str) -> str:
    """What follows the name of a command that is to be pasted."""
    return join(["--topology", topology, "--warehouse", warehouse, "--pipeline", pipeline])


def _print_proposal(proposal: Proposal, warehouse: str) -> None:
    """Commands that record the restarts, and the differences that a replay with them left."""
    topics = dict.fromkeys(restart.topic for restart in proposal.restarts)
    intro = "to replay with these restarts, record them and replay under another pipeline name:"
    print(f"\n{intro if topics else 'no restart is to be recorded'}")
    for topic in topics:
        places = [word for each in proposal.restarts if each.topic == topic for word in ("--restart", each.place)]
        print(f"  {join(['replay', 'land', topic, '--warehouse', warehouse, *places])}")
    for place, why in proposal.impossible.items():
        print(f"no replay can take the restart before {place}: {why}")
    if proposal.reason is not None:
        print(proposal.reason)
    if proposal.leaves is not None:
        left = ", ".join(f"{count:,} {name}" for name, count in proposal.leaves.items())
        print(f"they leave {left}" if left else "they leave nothing")


def print_difference(
    number: int, difference: Difference, options: str, say_time: Callable[[int], str], *, other: str = "production"
) -> None:
    """A difference with both rows, its sentence and the command that explains its record. ``other``: whose rows are
    compared with ours.
    """
    window = ""
    if difference.window is not None:
        window = f", window {say_time(difference.window[0])} to {say_time(difference.window[1])}"
    print(f"{number}. {difference.verdict}: key {difference.key}{window}")
    for name, row in (("ours", difference.ours), (other, difference.theirs)):
        if row is None:
            print(f"   {name:<10}  -")
        else:
            print(
                f"   {name:<10}  {row['partition']}:{row['offset']} at {say_time(row['time_ms'])}: "
                f"{'tombstone' if row['value'] is None else row['value']}"
            )
    if difference.sentence:
        print(indent("\n".join(wrap(difference.sentence, WIDTH)), "   "))
    if difference.record is not None:
        print(f"   replay explain --record {quote(difference.record)} {options}")
