"""The command `publish` (docs/publish.md): a committed output to a topic of Kafka, exactly once."""

import json
import sys
from contextlib import closing
from dataclasses import asdict
from functools import partial

import click

from ....jobs.publish.kafka_target import KafkaTarget
from ....jobs.publish.publishing import (
    CORRECTIONS,
    LEAVE,
    REFUSE,
    ROWS_PER_TRANSACTION,
    WRITE,
    PublishReport,
    PublishSettings,
)
from ....jobs.publish.publishing import publish as publish_output
from ....state.tables.warehouse import Warehouse
from ...progress_lines import progress_on
from ...settings.topology_loading import load_topology
from .. import options
from ..command import argument, command, keep, key_and_value, option
from ..exit_codes import ExitCode

KAFKA, REGISTRY, RESTATED = "Kafka", "Schema Registry", "Restated outputs (after promote and restore)"


@command()
@argument("output", metavar="OUTPUT", help="an output of the topology")
@options.topology_option(options.TOPOLOGY, required=True)
@options.warehouse
@options.pipeline
@option("--increment", type=options.INCREMENT, metavar="N", help="publish up to this increment (default: the last)")
@option("--dry-run", is_flag=True, help="count what would be published, and write nothing")
@option("--json", "as_json", is_flag=True, help="print JSON")
@option("--kafka", required=True, metavar="SERVERS", section=KAFKA, help="bootstrap servers: host:port, with commas")
@option("--topic", required=True, metavar="T", section=KAFKA, help="the topic to publish to, which must be there")
@partial(options.client_settings, section=KAFKA)
@option(
    "--position-topic", metavar="T", section=KAFKA,
    help="a compacted topic for the published position (default: the topic's name and -replay-position)",
)  # fmt: skip
@option(
    "--registry", metavar="URL", section=REGISTRY,
    help="write the ids that this registry has in TOPIC-key and TOPIC-value (default: those of the topology's serdes)",
)  # fmt: skip
@option(
    "--registry-option", "registry_options", multiple=True, metavar="KEY=VALUE", section=REGISTRY,
    help="a setting of its client, such as basic.auth.user.info; a secret as ${env:VARIABLE}",
)  # fmt: skip
@option("--register-schemas", is_flag=True, section=REGISTRY, help="register a schema that its subject does not have")
@option(
    "--after", type=options.Whole(min=0), metavar="N", section=KAFKA,
    help="begin with a topic that has records of others: its readers have all up to increment N; 0: nothing",
)  # fmt: skip
@option(
    "--rows-per-transaction", type=options.COUNT, default=ROWS_PER_TRANSACTION, metavar="N", section=KAFKA,
    help=f"at most so many rows are in a transaction (default {ROWS_PER_TRANSACTION})",
)  # fmt: skip
@option(
    "--on-restated", type=click.Choice([REFUSE, CORRECTIONS]), default=REFUSE, section=RESTATED,
    help="when published rows were taken back: refuse (default), or publish the difference by key and window",
)  # fmt: skip
@option(
    "--tombstones", type=click.Choice([WRITE, LEAVE]), default=WRITE, section=RESTATED,
    help="for keys and windows that are gone: write one each (default), or leave what readers have",
)  # fmt: skip
def publish(
    output: str, topology: str, warehouse: str, pipeline: str, increment: int | None, dry_run: bool, as_json: bool,
    kafka: str, topic: str, settings: tuple[str, ...], kafka_config: str | None, position_topic: str | None,
    registry: str | None, registry_options: tuple[str, ...], register_schemas: bool, after: int | None,
    rows_per_transaction: int, on_restated: str, tombstones: str,
) -> int:  # fmt: skip
    """Publish an output to a topic of Kafka: the rows of each increment in their order, as the sink would have written
    them, in transactions. Readers with read_committed see each row once, wherever this command was stopped.
    """
    to = KafkaTarget(
        kafka, topic, options.client_settings_of(kafka_config, settings), position_topic, registry,
        dict(key_and_value(pair, "--registry-option") for pair in registry_options), register_schemas,
    )  # fmt: skip
    asked = PublishSettings(
        increment=increment, after=after, on_restated=on_restated, tombstones=tombstones,
        rows_per_transaction=rows_per_transaction, dry_run=dry_run,
    )  # fmt: skip
    keep("whole transactions that were published stay")
    with closing(progress_on(sys.stderr)) as progress:
        report = publish_output(
            Warehouse(warehouse), load_topology(topology, warehouse), output, pipeline=pipeline, to=to, settings=asked,
            on_progress=lambda so_far: progress.doing(f"published {so_far.rows:,} rows of {output}"),
        )  # fmt: skip
    for warning in report.warnings:
        print(f"replay: warning: {warning}", file=sys.stderr)
    print(json.dumps(asdict(report), indent=2) if as_json else _sentence(report, dry_run=dry_run))
    return ExitCode.DONE


def _sentence(report: PublishReport, *, dry_run: bool) -> str:
    if report.is_nothing_new:
        return f"{report.topic}: nothing new, it has {report.output} up to increment {report.through}"
    parts = []
    if report.rows:
        of = _many(report.increments, "increment") if report.increments else "an increment that was begun before"
        parts.append(f"{_many(report.rows, 'row')} of {of}")
    if report.corrections or report.tombstones:
        parts.append(f"{_many(report.corrections, 'correction')}, {_many(report.tombstones, 'tombstone')}")
    if not parts:
        would = "would be" if dry_run else "is"
        return f"{report.topic}: no row is new; its position {would} behind increment {report.through}"
    words = "would be published" if dry_run else f"published in {report.seconds:.1f} s"
    transactions = _many(report.transactions, "transaction")
    return f"{report.topic}: {'; '.join(parts)} {words}, in {transactions}, up to increment {report.through}"


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
