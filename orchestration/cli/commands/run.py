"""The commands `run` and `warm-up`.

Rule: Spark that is sure to be needed is begun before anything else is imported, since its JVM takes seconds.
"""

import os
import socket
import sys
import time
import uuid
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from ....state.errors import ConfigError
from ....state.tables.refused_shares import RefusedLimit
from ...engines import chosen_runner
from ...placement.choice import placement_of
from ...progress_lines import ProgressBar, ProgressLines, progress_on
from .. import options
from ..command import argument, command, keep, key_and_value, option

if TYPE_CHECKING:
    from ....jobs.replay.increment_report import IncrementReport
    from ....jobs.replay.waiting_inputs import WaitingInput
    from ...what_waits import WaitingResults

READERS = "tables for others to read"
EVERY_OPERATOR = "kstreams_replay.orchestration.cli.every_operator:topology"


@dataclass(frozen=True)
class RunOptions:
    """What the command was given: a field for each parameter that is declared above ``run``."""

    topology: str
    warehouse: str
    pipeline: str
    local: bool
    master: str | None
    max_records: int | None
    increments: int | None
    idle: str
    flush_at_end: bool
    until: str | None
    kafka_version: str | None
    refused_max: float
    refused_severity: Literal["error", "warning"]
    detailed_exit_code: bool
    migrate: tuple[str, ...]
    renamed: tuple[str, ...]
    placement: str | None
    num_standby_replicas: int | None
    max_warmup_replicas: int | None
    acceptable_recovery_lag_bytes: int | None
    rack_aware_assignment_tags: str | None
    rack_aware_assignment_strategy: str | None
    current: tuple[str, ...]
    publish_iceberg: str | None
    namespace: str | None
    option: tuple[str, ...]
    as_json: bool

    @property
    def refused(self) -> RefusedLimit:
        """Up to which share records are refused without an alarm."""
        return RefusedLimit(self.refused_max, self.refused_severity)


@command()
@options.topology_argument
@options.warehouse
@options.pipeline
@options.local
@options.master
@option("--max-records", type=options.COUNT, metavar="N", help="cut into increments of at most so many records")
@option("--increments", type=options.COUNT, metavar="N", help="stop after so many increments")
@option(
    "--idle",
    type=click.Choice(["wait", "proceed"]),
    default="wait",
    help="records that a lagging partition may still have to precede: keep them for later, or take them now",
)
@option(
    "--until",
    metavar="TIME",
    help="read of each partition what is before its first record of that time or later: ISO 8601, or milliseconds",
)
@option("--flush-at-end", is_flag=True, help="history is closed: close all windows; the pipeline ends there")
@options.kafka_version
@options.detailed_exit_code
@options.migrate
@options.renamed
@options.placement
@options.refused_limit
@option(
    "--current",
    multiple=True,
    metavar="OUTPUT",
    section=READERS,
    help="keep the newest value of every key and window of the output as a table; repeatable",
)
@option(
    "--publish-iceberg",
    metavar="CATALOG",
    section=READERS,
    help="publish outputs as Iceberg tables over the same files, as PyIceberg is configured for the catalog",
)
@option("--namespace", metavar="N", section=READERS, help="of these tables (default: the pipeline's name)")
@option(
    "--option",
    multiple=True,
    metavar="NAME=VALUE",
    section=READERS,
    help="a setting of the catalog; a secret as ${env:VARIABLE}",
)
@options.as_json
def run(**given: Any) -> int:
    """Replay what has landed, increment by increment."""
    asked = RunOptions(**given)
    with closing(progress_on(sys.stderr)) as progress:
        replayed = _replay(asked, progress)
    from ..run_outcome import run_exit_code

    if asked.as_json:
        _print_run_as_json(asked, replayed)
    else:
        _print_run(asked, replayed)
    return run_exit_code(replayed.reports, replayed.waits, asked.refused).unless_detailed(asked.detailed_exit_code)


class Replayed(NamedTuple):
    """``seconds``: that the reports took once the topology was loaded. ``waits``: landed records that were held back;
    ``results``: that wait in suppress. ``reads_nothing``: the topology reads no landed topic.
    """

    reports: "list[IncrementReport]"
    seconds: float
    waits: "list[WaitingInput]"
    results: "list[WaitingResults]"
    reads_nothing: bool = False


def _refuse_placement_on_one_machine(asked: RunOptions) -> None:
    """Raises ConfigError: tasks of one machine are not placed."""
    where = "--local" if asked.local else f"--master {asked.master}"
    if asked.placement not in (None, "spark") and (asked.local or (asked.master or "").startswith("local")):
        raise ConfigError(
            f"--placement {asked.placement}", "a cluster", where, "leave it out, or name the cluster's --master"
        )


def _replay(asked: RunOptions, progress: ProgressBar | ProgressLines) -> Replayed:
    _refuse_placement_on_one_machine(asked)
    chosen = {name: getattr(asked, name) for name in options.PLACEMENT}
    placement = placement_of(**chosen, kafka_version=asked.kafka_version)
    runner, on_step = chosen_runner(local=asked.local, master=asked.master, placement=placement, say=progress.doing)
    progress.doing("loading the topology")
    from ....jobs.replay.heartbeats import beating
    from ....jobs.replay.pipeline_run import replay
    from ....state.tables.warehouse import Warehouse
    from ....state.times import instant_ms
    from ...settings.topology_loading import load_topology
    from ...what_waits import inputs_that_wait, results_that_wait, waiting_before
    from ..kept_tables import KeptTables
    from .check_topology import wanted_of

    warehouse, topology = Warehouse(asked.warehouse), load_topology(asked.topology, asked.warehouse)
    settings = dict(key_and_value(pair, "--option") for pair in asked.option)
    until_ms = None if asked.until is None else instant_ms(asked.until, "--until")
    wanted = wanted_of(asked.migrate, asked.renamed)
    kept = KeptTables(asked.current, asked.publish_iceberg, asked.namespace, settings)
    kept.refuse(topology)
    kept.bring_up(warehouse, asked.pipeline)
    progress.doing("planning the first increment")
    started, reports, name = time.monotonic(), [], f"command-{uuid.uuid4().hex[:12]}"
    said = f"`replay run` of process {os.getpid()} on {socket.gethostname()}"
    with beating(warehouse.pipeline(asked.pipeline), name, said):
        for report in replay(
            warehouse,
            topology,
            pipeline=asked.pipeline,
            runner=runner,
            max_records=asked.max_records,
            increments=asked.increments,
            idle=asked.idle,
            flush_at_end=asked.flush_at_end,
            on_step=on_step,
            wanted=wanted,
            progress=progress.show,
            run=name,
            until_ms=until_ms,
            kafka_version=asked.kafka_version,
        ):
            reports.append(report)
            keep(f"increments up to {report.increment} are committed")
            kept.bring_up(warehouse, asked.pipeline)
    # As the planner of `replay` has it: a flush takes what waits, since all of it would be late after it.
    seconds, idle = time.monotonic() - started, "proceed" if asked.flush_at_end else asked.idle
    if not reports:
        waits = inputs_that_wait(warehouse, topology, pipeline=asked.pipeline, idle=idle, until_ms=until_ms)
        return Replayed([], seconds, waits, [], reads_nothing=not topology.source_topics())
    results = results_that_wait(warehouse, topology, pipeline=asked.pipeline)
    return Replayed(reports, seconds, waiting_before(until_ms, reports[-1].waits), results)


@command()
@argument("topology", required=False, metavar="TOPOLOGY", help=f"{options.TOPOLOGY} (default: every operator)")
@option("--spark", is_flag=True, help="also keep the classes that Spark loads: it then starts in half the time")
def warm_up(topology: str | None, spark: bool) -> int:
    """Compile the kernels that a topology uses; without a topology, those of every operator."""
    started = time.monotonic()
    with closing(progress_on(sys.stderr)) as progress:
        progress.doing("loading the topology")
        from ....jobs.execution.task_run import compile_kernels
        from ...settings.topology_loading import load_topology

        loaded = load_topology(topology or EVERY_OPERATOR).reading(None)
        progress.doing("looking for kernels")
        versions, compiled = compile_kernels(loaded, progress.count)
    print(f"{versions} versions of kernels cached, {compiled} of them new, in {time.monotonic() - started:.1f} s")
    if spark:
        _keep_spark_classes()
    return 0


def _keep_spark_classes() -> None:
    from ....jobs.execution.spark_session import keep_classes

    started = time.monotonic()
    with closing(progress_on(sys.stderr)) as progress:
        progress.doing("starting Spark once, to keep the classes that it loads")
        is_new = keep_classes()
    print(
        f"classes of Spark kept in {time.monotonic() - started:.1f} s"
        if is_new
        else "classes of Spark were kept before"
    )


def _warnings(asked: RunOptions, replayed: Replayed) -> list[str]:
    from ..run_outcome import warnings_of

    where = {"warehouse": asked.warehouse, "pipeline": asked.pipeline}
    return warnings_of(replayed.reports, replayed.waits, asked.refused, **where)


def _print_run_as_json(asked: RunOptions, replayed: Replayed) -> None:
    from ...text_tables import print_json
    from ..book_lines import books_line

    print_json({
        "pipeline": asked.pipeline, "increments": [books_line(report) for report in replayed.reports],
        "seconds": replayed.seconds, "waits": [each.to_json() for each in replayed.waits],
        "results_that_wait": [asdict(each) for each in replayed.results],
        "warnings": _warnings(asked, replayed),
    })  # fmt: skip


def _where(reports: "list[IncrementReport]") -> str:
    on_spark = sum(report.spark_tasks > 0 for report in reports)
    if on_spark == 0:
        return "in this process"
    return "on Spark" if on_spark == len(reports) else f"{on_spark} of them on Spark"


def _print_run(asked: RunOptions, replayed: Replayed) -> None:
    from ....state.tables.warehouse import Warehouse
    from ...text_tables import print_table
    from ...what_waits import sentences_of
    from ..book_lines import books_line, verdict_line

    reports = replayed.reports
    if reports:
        print_table([books_line(report) for report in reports], thousands=True)
        increments = "1 increment" if len(reports) == 1 else f"{len(reports)} increments"
        records = sum(report.books.read for report in reports)
        rate = f"{records / max(replayed.seconds, 1e-9):,.0f} records/s"
        print(f"{records:,} records in {increments}, {rate}, {_where(reports)}")
    elif replayed.waits:
        print(f"nothing replayed for {asked.pipeline}: what has landed waits")
    elif replayed.reads_nothing:
        print(f"nothing to replay for {asked.pipeline}: the topology reads no landed topic")
    else:
        print(f"nothing new to replay for {asked.pipeline}")
    for line in (*sentences_of(replayed.waits, asked.warehouse), *replayed.results):
        print(line)
    if reports:
        print(f"tables: {Warehouse(asked.warehouse).pipeline(asked.pipeline).root}")
        print(verdict_line(reports))
    for warning in _warnings(asked, replayed):
        print(f"replay: warning: {warning}", file=sys.stderr)
