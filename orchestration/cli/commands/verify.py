"""The command `verify`: a range of increments is run again, cut otherwise, and must leave the same tables."""

import sys
from contextlib import closing
from dataclasses import asdict

import click

from ....jobs.branches.verification import RANDOM, Cutting, Verification
from ....jobs.branches.verification import verify as verify_range
from ....state.errors import ConfigError
from ....state.tables.warehouse import Warehouse
from ...engines import runner_of, start_spark
from ...progress_lines import progress_on
from ...settings.topology_loading import load_topology
from ...text_tables import print_json, print_table
from .. import options
from ..command import command, option
from ..exit_codes import ExitCode


@command()
@options.topology_argument
@options.warehouse
@options.pipeline
@option("--from", "since", type=options.COUNT, default=1, metavar="N", help="first increment (default 1)")
@option("--to", "until", type=options.COUNT, metavar="N", help="last increment (default: the last)")
@option("--increments", default="1,7,random", metavar="LIST", help="run it in so many (default 1,7,random)")
@option("--seed", type=options.Whole(), default=0, metavar="S", help="of the places that are random (default 0)")
@option("--order", type=click.Choice(["time", "arrival"]), help="of its replay, which is the default")
@option(
    "--runner", type=click.Choice(["local", "spark"]), default="local", help="in this process (default), or on Spark"
)
@options.master
@options.as_json
def verify(
    topology: str, warehouse: str, pipeline: str, since: int, until: int | None, increments: str, seed: int,
    order: str | None, runner: str, master: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Prove that results do not depend on where the input was cut. The exit code is 4 when they do."""
    wanted = [_number(each) for each in increments.split(",")]
    loaded = load_topology(topology, warehouse)
    runs = runner_of(start_spark(master) if runner == "spark" else None)
    with closing(progress_on(sys.stderr)) as progress:
        verification = verify_range(
            Warehouse(warehouse), loaded, pipeline=pipeline, runner=runs, since=since, until=until, increments=wanted,
            seed=seed, order=order, doing=progress.doing,
        )  # fmt: skip
    if as_json:
        print_json(asdict(verification))
    else:
        _print(verification)
    return ExitCode.DONE if verification.holds else ExitCode.FAILED


def _number(text: str) -> int | str:
    if text == RANDOM:
        return text
    if not (text.isdecimal() and int(text) > 0):
        raise ConfigError("--increments", f"numbers from 1 on, and {RANDOM}, with commas", repr(text), "correct it")
    return int(text)


def _print(verification: Verification) -> None:
    lines = [
        {"table": name, "rows": verification.rows[name], "digest": verification.digests[name]}
        for name in verification.rows
    ]
    print(f"increments {verification.since} to {verification.until}, {verification.records:,} records")
    print_table(lines, thousands=True)
    for cutting in verification.cuttings:
        sizes = f"{len(cutting.sizes)} increments" if len(cutting.sizes) > 1 else "1 increment"
        said = "the same tables" if cutting.difference is None else "OTHER TABLES"
        print(f"{cutting.name} ({sizes}): {said} in {cutting.seconds:.1f} s")
        if cutting.difference is not None:
            print(f"  {cutting.difference}")
            for node, said in cutting.impure.items():
                print(f"  {node} answered otherwise when it was asked again: {said}")
            print(f"  {_advice(cutting)}")


def _advice(cutting: Cutting) -> str:
    row = (cutting.difference and (cutting.difference.want or cutting.difference.got)) or {}
    record = f"the record with offset {row['cause_offset']} of its task caused it; " if "cause_offset" in row else ""
    return (
        f"{record}`replay explain --record TOPIC:PARTITION:OFFSET --topology …` says what every operator did with a "
        "record. A function with chance, a counter or the clock in it answers otherwise in another run: functions must "
        "be pure (docs/topologies.md)"
    )
