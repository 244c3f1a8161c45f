"""The command `judge` (docs/compare.md): a pipeline beside the Java application that it was ported from."""

import sys
from contextlib import closing
from pathlib import Path

from ....jobs.judge.chosen_records import ChosenRecords
from ....jobs.judge.judgement import Judgement
from ....jobs.judge.judgement import judge as judge_pipeline
from ....jobs.judge.kafka_tasks import JavaApplication
from ....state.errors import ConfigError
from ....state.tables.warehouse import Warehouse
from ....state.times import instant_ms
from ...progress_lines import progress_on
from ...settings.topology_loading import load_topology
from ...text_tables import print_json, print_table, utc
from .. import options
from ..command import command, option
from ..exit_codes import ExitCode
from .compare import place_options, print_difference


@command()
@options.topology_argument
@option("--jar", "jars", takes_many=True, required=True, metavar="JAR", help="of the application, and what it needs")
@option("--class", "name", required=True, metavar="CLASS#METHOD", help="a static method that gives its Topology")
@option("--settings", metavar="FILE", help="Java properties of the application")
@options.warehouse
@options.pipeline
@options.increment
@option("--from", "since", metavar="TIME", help="record times from here on alone")
@option("--to", "until", metavar="TIME", help="record times before this alone")
@option("--partitions", metavar="N,…", help="these partitions of the landed topics alone")
@option("--max-records", type=options.COUNT, metavar="N", help="the first N records of these alone")
@option(
    "--limit",
    type=options.Whole(min=0),
    default=10,
    metavar="N",
    help="so many differences of each output (default 10)",
)
@options.as_json
@options.raw
def judge(
    topology: str, jars: tuple[str, ...], name: str, settings: str | None, warehouse: str, pipeline: str,
    increment: int | None, since: str | None, until: str | None, partitions: str | None, max_records: int | None,
    limit: int, as_json: bool, raw: bool,
) -> int:  # fmt: skip
    """Run the Java application's own topology by real Kafka Streams over what the pipeline has read, and compare every
    output. The exit code is 4 when anything differs.
    """
    application = JavaApplication([Path(jar) for jar in jars], name, None if settings is None else Path(settings))
    chosen = ChosenRecords(
        None if since is None else instant_ms(since, "--from"), None if until is None else instant_ms(until, "--to"),
        _numbers(partitions), max_records,
    )  # fmt: skip
    with closing(progress_on(sys.stderr)) as progress:
        judgement = judge_pipeline(
            Warehouse(warehouse), load_topology(topology, warehouse), application, pipeline=pipeline,
            increment=increment, chosen=chosen, shown=limit, say=progress.doing,
        )  # fmt: skip
    if as_json:
        print_json(judgement.to_json())
    else:
        _print(judgement, place_options(topology, warehouse, pipeline), raw=raw)
    return ExitCode.DONE if judgement.is_equal else ExitCode.FAILED


def _numbers(partitions: str | None) -> tuple[int, ...] | None:
    if partitions is None:
        return None
    try:
        return tuple(int(number) for number in partitions.split(","))
    except ValueError:
        raise ConfigError("--partitions", "numbers, as 0,3", partitions, "name partitions by their numbers") from None


def _print(judgement: Judgement, options: str, *, raw: bool) -> None:
    rate = judgement.records / max(judgement.seconds, 0.001)
    print(
        f"{judgement.pipeline}, increment {judgement.increment}: {judgement.records:,} records through Kafka Streams "
        f"{judgement.kafka_version} in {judgement.seconds:.1f} s ({rate:,.0f} a second)\n"
    )
    if judgement.topology:
        print("describe() differs (- the application, + the topology):")
        print("\n".join(f"  {line}" for line in judgement.topology), end="\n\n")
    print_table(
        [
            {"output": each.output, "ours": each.rows[0], "Kafka Streams": each.rows[1], **each.verdicts}
            for each in judgement.outputs
        ],
        thousands=True,
    )
    if judgement.stores:
        print()
        print_table(
            [
                {
                    "store": each.store, "ours": each.rows[0], "Kafka Streams": each.rows[1], "missing": each.missing,
                    "extra": each.extra, "other value": each.other,
                }
                for each in judgement.stores
            ],
            thousands=True,
        )  # fmt: skip
    for topic in judgement.not_written:
        print(f"\nthe application writes {topic}, which the topology does not have")
    if judgement.not_judged:
        print(f"\nnot judged: {', '.join(judgement.not_judged)}")
    for each in judgement.outputs:
        for number, difference in enumerate(each.first, 1):
            print(f"\n{each.output}:")
            print_difference(number, difference, options, str if raw else utc, other="Kafka")
    if judgement.is_equal:
        print("\nthe pipeline does what the application does")
