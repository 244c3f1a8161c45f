"""The command `hand-over` (docs/hand-over.md): a live application that begins with a pipeline's state."""

import sys
from contextlib import closing
from dataclasses import asdict

from ....jobs.bootstrap.handing_over import changelog_settings, state_of_pipeline
from ....jobs.bootstrap.kafka_application import KafkaApplication
from ....jobs.bootstrap.kafka_hand_over import HandOverReport
from ....jobs.bootstrap.kafka_hand_over import hand_over as give
from ....state.tables.warehouse import Warehouse
from ...progress_lines import progress_on
from ...settings.topology_loading import load_topology
from ...text_tables import print_json, print_offsets, print_table
from .. import options
from ..command import command, option
from ..exit_codes import ExitCode


@command()
@options.topology_argument
@options.kafka
@option("--application-id", required=True, metavar="A", help="an application.id that nobody has used yet")
@options.warehouse
@options.pipeline
@options.increment
@option("--dry-run", is_flag=True, help="look whether it can be done, count, and write nothing")
@options.client_settings
@options.as_json
def hand_over(
    topology: str, kafka: str, application_id: str, warehouse: str, pipeline: str, increment: int | None,
    dry_run: bool, settings: tuple[str, ...], kafka_config: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Let a live Kafka Streams application begin with a pipeline's state: write the changelogs of its stores, and the
    offsets that the pipeline has read, in one transaction. The application is started with the new application.id.
    """
    application = KafkaApplication(kafka, application_id, options.client_settings_of(kafka_config, settings))
    opened, loaded = Warehouse(warehouse), load_topology(topology, warehouse)
    with closing(progress_on(sys.stderr)) as progress:
        state = state_of_pipeline(opened, loaded, pipeline, application_id=application_id, increment=increment)
        given = changelog_settings(loaded.reading(opened.topics))
        report = give(state, application, given, dry_run=dry_run, say=progress.doing)
    if as_json:
        print_json(asdict(report))
    else:
        _print(report, dry_run=dry_run)
    return ExitCode.DONE


def _print(report: HandOverReport, *, dry_run: bool) -> None:
    words = "would begin" if dry_run else "begins"
    print(f"{report.application_id} {words} with:\n")
    print_table([{"store": store, "records": count} for store, count in report.records.items()], thousands=True)
    print()
    print_offsets(report.offsets)
    if not dry_run:
        print(f"\nstart the application with application.id={report.application_id}, and an empty state directory")
