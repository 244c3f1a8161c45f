"""The commands `report`, `metrics` and `advise`: quality over time, as a page and as text for a scraper, and what
another grace would have done to the history that has landed.
"""

import json
import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ....jobs.branches.advice.grace import REFUSED_MAX, Advice, GraceAdvice, advise_grace
from ....state.errors import ConfigError
from ....state.tables.warehouse import Warehouse
from ....state.times import duration_ms, duration_text, instant_ms
from ...progress_lines import progress_on
from ...settings.topology_loading import load_topology
from ...text_tables import print_table
from .. import options
from ..command import argument, command, option


@command()
@options.warehouse
@option("--pipeline", multiple=True, metavar="NAME", help="this pipeline (more than once: these; default: all)")
@option("--out", required=True, metavar="FILE", help="the page, for example quality.html")
@options.topology_option("of the one pipeline: says until when results wait")
@option("--advice", metavar="FILE", help="plots what `replay advise grace … --json` wrote to this file")
def report(warehouse: str, pipeline: tuple[str, ...], out: str, topology: str | None, advice: str | None) -> int:
    """Write one HTML page about the quality of pipelines; it needs no server and no network."""
    from ...quality.report import write_report

    loaded = None if topology is None else load_topology(topology, warehouse)
    if loaded is not None and len(pipeline) != 1:
        raise ConfigError("--topology", "one --pipeline", f"{len(pipeline)} of them", "name the pipeline that runs it")
    said = None if advice is None else _advice_in(Path(advice))
    size = write_report(Warehouse(warehouse), list(pipeline) or None, Path(out), topology=loaded, advice=said)
    print(f"{out}: {size:,} bytes")
    return 0


@command()
@options.warehouse
@options.pipeline
def metrics(warehouse: str, pipeline: str) -> int:
    """Print the numbers of a pipeline as OpenMetrics text."""
    from ...quality.openmetrics import openmetrics

    print(openmetrics(Warehouse(warehouse), pipeline), end="")
    return 0


def _advice_in(path: Path) -> dict[str, Any]:
    """ConfigError for a file that has no advice."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        said = error
    if not (isinstance(said, dict) and {"pipeline", "nodes", "since", "until"} <= said.keys()):
        next_step = f"replay advise grace … --json > {path}"
        raise ConfigError("--advice", "a file with what `replay advise grace --json` prints", str(path), next_step)
    return said


@command()
@argument("what", type=click.Choice(["grace"]), metavar="grace", help="how long windows take late records")
@options.topology_argument
@options.warehouse
@options.pipeline
@option("--grace", metavar="LIST", help="try these, as in 10s,1m,1h (default: those around the lateness of records)")
@option("--node", multiple=True, metavar="NAME", help="only of this operator (more than once: these; default: all)")
@option("--refused-max", type=options.SHARE, default=REFUSED_MAX, metavar="SHARE",
        help=f"of its records, so many may be refused (default {REFUSED_MAX})")  # fmt: skip
@option("--since", metavar="TIME", help="begin with the increment that took stream time to this time (default: all)")
@option("--until", metavar="TIME", help="take no records of this time or later")
@option("--order", type=click.Choice(["time", "arrival"]), help="of its replay, which is the default")
@option("--json", "as_json", is_flag=True, help="print one JSON object")
def advise(
    what: str, topology: str, warehouse: str, pipeline: str, grace: str | None, node: tuple[str, ...],
    refused_max: float, since: str | None, until: str | None, order: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Run the landed history again with other graces, and say what each would have done. Nothing is changed."""
    with closing(progress_on(sys.stderr)) as progress:
        advice = advise_grace(
            Warehouse(warehouse),
            load_topology(topology, warehouse),
            pipeline=pipeline,
            graces=None if grace is None else [duration_ms(each.strip(), "--grace") for each in grace.split(",")],
            nodes=node,
            refused_max=refused_max,
            since_ms=None if since is None else instant_ms(since, "--since"),
            until_ms=None if until is None else instant_ms(until, "--until"),
            order=order,
            doing=progress.doing,
        )
    if as_json:
        print(json.dumps(asdict(advice)))
        return 0
    _print(advice)
    return 0


def _print(advice: Advice) -> None:
    print(f"increments {advice.since} to {advice.until}: {advice.records:,} records, run {advice.runs} times")
    for each in advice.nodes:
        print(f"\n{each.node} (sub-topology {each.sub_topology}), grace {duration_text(each.grace_ms)}")
        print_table(lateness_lines(each))
        print()
        print_table(what_if_lines(each), thousands=True)
        for failed in each.what_if:
            if failed.fails is not None:
                print(f"{duration_text(failed.grace_ms)}: {failed.fails}")
        suggested = "" if each.suggested_ms is None else f"{duration_text(each.suggested_ms)}. "
        print(f"suggested: {suggested}{each.reason}")


def lateness_lines(advice: GraceAdvice) -> list[dict[str, object]]:
    """Rows of a table: how late records were, by partition."""
    return [
        {
            "partition": "all" if each.partition is None else str(each.partition),
            "records": f"{each.records:,}",
            "late": _share(each.records_behind, each.records),
            **{f"p{percent:g}": duration_text(late_ms) for percent, late_ms in each.percentiles_ms.items()},
            "max": duration_text(each.max_ms),
            "keys": f"{each.keys:,}",
            "keys ever late": _share(each.keys_behind, each.keys),
        }
        for each in advice.lateness
    ]


def what_if_lines(advice: GraceAdvice) -> list[dict[str, object]]:
    """Rows of a table: what each grace would have done."""
    return [
        {
            "grace": duration_text(each.grace_ms) + (" (now)" if each.grace_ms == advice.grace_ms else ""),
            "refused": each.refused,
            "refusals": each.refusals,
            "saved": each.saved,
            "delayed by": ("-" if each.delayed_by_ms < 0 else "") + duration_text(abs(each.delayed_by_ms)),
            "buffer": each.buffer_results,
            "buffer bytes": each.buffer_bytes,
            "state rows": each.state_rows,
            "state bytes": each.state_bytes,
        }
        for each in advice.what_if
        if each.fails is None
    ]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2%}" if whole else "-"
