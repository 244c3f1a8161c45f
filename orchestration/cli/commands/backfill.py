"""The command `backfill`: the rows of a range of time are made again on a branch, and proved.

Owns its output. Rule: what was compared, and what still waits, is said with the rows.
"""

import sys
from contextlib import closing
from dataclasses import asdict

from ....jobs.branches.backfill import Backfill
from ....jobs.branches.backfill import backfill as make_range
from ....state.tables.warehouse import Warehouse
from ....state.times import instant_ms
from ...engines import chosen_runner
from ...progress_lines import progress_on
from ...settings.topology_loading import load_topology
from ...text_tables import print_json, print_table, utc
from .. import options
from ..command import argument, command, option


@command()
@argument("pipeline", metavar="P", help="the pipeline whose range it is")
@options.warehouse
@option("--from", "since", required=True, metavar="T1", help="the first time of the range: ISO 8601, or milliseconds")
@option("--to", "until", required=True, metavar="T2", help="the time at which it ends, which is no more in it")
@options.topology_option("the code that makes the range, changed or as it is", required=True)
@option("--as", "name", required=True, metavar="NAME", help="name of the branch")
@option("--max-records", type=options.COUNT, metavar="N", help="read in increments of at most so many records")
@options.kafka_version
@options.local
@options.master
@options.as_json
def backfill(
    pipeline: str, warehouse: str, since: str, until: str, topology: str, name: str, max_records: int | None,
    kafka_version: str | None, local: bool, master: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Make the rows of a range of time again, on a branch, reading no more of the past than matters to them."""
    with closing(progress_on(sys.stderr)) as progress:
        runner, _ = chosen_runner(local=local, master=master, say=progress.doing)
        made = make_range(
            Warehouse(warehouse),
            load_topology(topology, warehouse),
            pipeline=pipeline,
            name=name,
            from_ms=instant_ms(since, "--from"),
            to_ms=instant_ms(until, "--to"),
            runner=runner,
            max_records=max_records,
            doing=progress.doing,
            kafka_version=kafka_version,
        )
    if as_json:
        print_json(asdict(made))
    else:
        _print(made)
    return 0


def _print(made: Backfill) -> None:
    begins, ends = utc(made.range.from_ms), utc(made.range.to_ms)
    print(f"{made.name} has the rows of {made.pipeline} from {begins} to {ends}")
    print(f"began with {made.begins}; {made.warmed_up:,} records read before the range, {made.replayed:,} from it on")
    lines = [{"output": output, "rows": rows, "proof": _proof(made, output)} for output, rows in made.rows.items()]
    print_table(lines, thousands=True)
    for processor in dict.fromkeys(made.left_out.values()):
        outputs = ", ".join(output for output, by in made.left_out.items() if by == processor)
        print(
            f"not made: {outputs}, since the processor {processor} may forward any time: fork the pipeline before the "
            "range, run the branch to the end, and promote that"
        )
    for each in made.open:
        print(
            f"{each.node} in task {each.task} has come to {utc(each.has_ms)}: results of the range may still come "
            f"until {utc(each.needs_ms or each.has_ms)}"
        )


def _proof(made: Backfill, output: str) -> str:
    return "equal to what is committed" if output in made.compared else "other code, or not read so far"
