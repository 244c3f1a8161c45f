"""The command `bootstrap` (docs/bootstrap.md): a pipeline that begins with a live application's state."""

import sys
from contextlib import closing
from dataclasses import asdict

import click

from ....jobs.bootstrap.bootstrapping import FIRST, RESTARTED, TIMES, BootstrapReport
from ....jobs.bootstrap.bootstrapping import bootstrap as begin
from ....jobs.bootstrap.kafka_application import KafkaApplication, read_application
from ....state.tables.warehouse import Warehouse
from ...progress_lines import progress_on
from ...settings.topology_loading import load_topology
from ...text_tables import print_json, print_offsets, print_table, utc
from .. import options
from ..command import command, option
from ..exit_codes import ExitCode


@command()
@options.topology_argument
@options.kafka
@option("--application-id", required=True, metavar="A", help="the application's application.id; it must not run")
@options.warehouse
@options.pipeline
@option(
    "--times", type=click.Choice(TIMES), default=RESTARTED,
    help="where stream times of operators begin: restarted, at -1 as Kafka's own tasks do (default), or "
    "uninterrupted, at the times of the partitions",
)  # fmt: skip
@options.kafka_version
@option("--dry-run", is_flag=True, help="compare names and count rows, and write nothing")
@options.client_settings
@options.as_json
def bootstrap(
    topology: str, kafka: str, application_id: str, warehouse: str, pipeline: str, times: str,
    kafka_version: str | None, dry_run: bool, settings: tuple[str, ...], kafka_config: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Begin a pipeline with the state of a live Kafka Streams application: its stores, out of their changelogs, and
    its committed offsets. Its topics must have landed up to there; the next run continues behind them.
    """
    application = KafkaApplication(kafka, application_id, options.client_settings_of(kafka_config, settings))
    with closing(progress_on(sys.stderr)) as progress:
        report = begin(
            Warehouse(warehouse), load_topology(topology, warehouse), read_application(application, progress.doing),
            pipeline=pipeline, times=times, kafka_version=kafka_version, dry_run=dry_run, say=progress.doing,
        )  # fmt: skip
    if as_json:
        print_json(asdict(report))
    else:
        _print(report, dry_run=dry_run)
    return ExitCode.DONE


def _print(report: BootstrapReport, *, dry_run: bool) -> None:
    words = "would begin" if dry_run else "begins"
    seen = "no time yet" if report.stream_time_ms < 0 else f"stream time {utc(report.stream_time_ms)}"
    whose = f"{report.pipeline} {words} with the state of {report.application_id}, as increment {FIRST}"
    print(f"{whose}: {seen}, {report.times}, {report.seconds:.1f} s\n")
    print_table([{"store": store, "rows": rows} for store, rows in report.rows.items()], thousands=True)
    print()
    print_offsets(report.positions)
    for store in report.replaced:
        print(f"\n{store}: the application keeps no changelog of it, so its landed topic was read")
