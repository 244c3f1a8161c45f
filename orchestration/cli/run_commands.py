"""What the commands `run` and `warm-up` do.

Rule: as in `orchestration/cli/describe_commands.py`; Spark is begun before anything else is imported, since its JVM
takes seconds.
"""

import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING

from ..engines import runner_of, start_spark, wait_for

EVERY_OPERATOR = "kstreams_replay.orchestration.cli.every_operator:topology"

if TYPE_CHECKING:
    from ...jobs.replay.increment_report import IncrementReport
    from ...state.tables.warehouse import Warehouse


def run(options: Namespace) -> int:
    """Replay what has landed."""
    spark = None if options.local else start_spark(options.master)
    from ...jobs.replay.pipeline_run import replay
    from ...state.tables.warehouse import Warehouse
    from ..progress_lines import progress_on
    from .check_topology_command import wanted_of
    from .topology_loading import load_topology

    warehouse, topology = Warehouse(options.warehouse), load_topology(options.topology)
    runner, progress = runner_of(spark), progress_on(sys.stderr)
    started = time.monotonic()
    try:
        reports = list(
            replay(
                warehouse,
                topology,
                pipeline=options.pipeline,
                runner=runner,
                max_records=options.max_records,
                increments=options.increments,
                idle=options.idle,
                flush_at_end=options.flush_at_end,
                on_step=lambda step: None if spark is None else wait_for(spark, step),
                wanted=wanted_of(options),
                progress=progress.show,
            )
        )
    finally:
        progress.close()
    _print_run(warehouse, options.pipeline, reports, time.monotonic() - started)
    return 0


def warm_up(options: Namespace) -> int:
    """Compile the kernels that a topology uses; without a topology, those of every operator."""
    from ...jobs.task.task import call_kernels
    from ...state.compilation.kernel_tiers import KernelTiers
    from ..progress_lines import progress_on
    from .topology_loading import load_topology

    topology = load_topology(options.topology or EVERY_OPERATOR)
    progress, started = progress_on(sys.stderr), time.monotonic()
    try:
        versions, compiled = KernelTiers().warm_up(lambda: call_kernels(topology), progress.count)
    finally:
        progress.close()
    print(f"{versions} versions of kernels cached, {compiled} of them new, in {time.monotonic() - started:.1f} s")
    return 0


def _print_run(warehouse: "Warehouse", pipeline: str, reports: "list[IncrementReport]", seconds: float) -> None:
    from ..text_tables import text_table
    from .book_lines import books_line

    if not reports:
        print(f"nothing new to replay for {pipeline}")
        return
    print(text_table([books_line(report) for report in reports], thousands=True))
    increments = "1 increment" if len(reports) == 1 else f"{len(reports)} increments"
    records = sum(report.books.read for report in reports)
    print(f"{records:,} records in {increments}, {records / max(seconds, 1e-9):,.0f} records/s")
    waiting = reports[-1].waiting
    if waiting:
        print(f"{waiting:,} landed records wait for partitions that lag behind; --idle proceed replays them now")
    print(f"tables: {warehouse.pipeline(pipeline).root}")
