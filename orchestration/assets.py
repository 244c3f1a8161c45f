"""Assets of a pipeline: one for each landed topic and for each table that an increment writes.

Owns what the step does: one multi-asset lands what is new, replays it and reports what the ledger says. Rule: **the
step runs the replay, the ledger speaks.** An increment is one: all sub-topologies, one ledger row. Of every asset
that was asked for, the step reports the increments in the ledger that Dagster does not know yet, one materialization an
increment, with that row's numbers and data version. An asset of which there are none is *observed*, never materialized:
so the last real numbers stay, and nobody downstream runs for nothing. Its checks, which Dagster skips with it, are made
here.

Why this is exact: a materialization is a function of a ledger row. A step that dies before the commit reports nothing,
and its retry runs the planned increment again; one that dies after it finds the row and reports it. When only some
assets are selected, the increment still runs whole (the ledger knows no other kind); the others are observed, and
report it when they are next asked. Two processes at once: the ledger refuses the second, whose retry reports what the
first did.

Why one multi-asset: a step below an asset that was not materialized is skipped, green. Were topics landed by a step of
their own, a quiet topic would skip the replay of the others.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial

import dagster as dg

from ..jobs.execution.placement_hint import read_hint
from ..jobs.graph.graph import Node
from ..jobs.landing.file_formats import FORMATS
from ..jobs.landing.landing import KafkaSource, LakeSource
from ..jobs.replay.heartbeats import Heart, beating
from ..jobs.replay.increment_report import IncrementReport
from ..jobs.replay.landed_times import LandedTimes
from ..jobs.replay.pipeline_run import replay
from ..jobs.replay.waiting_inputs import WaitingInput
from ..jobs.topology import SubTopology
from ..state.tables.ledger import LandingLedger, Ledger
from ..state.tables.names import DEAD_LETTER, DROPPED, LANDED, OUTPUTS, REPARTITION, STATE, TableName
from .asked_runs import (
    StepEvents,
    advance_topics,
    as_asked,
    failing_in_one_sentence,
    observe_the_others,
    report_dry_run,
)
from .checks import evaluations_of
from .code_references import code_references
from .lineage import Table
from .metadata import (
    Metadata,
    data_version,
    increment_metadata,
    landing_metadata,
    quiet_metadata,
    refusals_metadata,
    table_metadata,
    topic_version,
    waiting_metadata,
    windows_in_words,
)
from .pipeline import REFUSALS, Pipeline
from .placement.tables import placement_sentence
from .progress_lines import ProgressLines
from .quality.freshness import freshness_policy_of
from .reported_increments import increments_to_report, planned_checks, reported_increment
from .resources import Engine
from .settings.connections import KafkaResource, LakeResource, Source, source_of
from .settings.run_settings import ReplayConfig, RequestedRun
from .settings.translator import is_named_by_kafka
from .what_waits import inputs_that_wait, results_that_wait, sentences_of, waiting_before

BACKFILL = "dagster/backfill"
"""Dagster's tag of a run that is part of a backfill."""
WORDS = {
    LANDED: "Records of topic `{name}` as they came, with their positions.",
    STATE: "Rows of store `{name}`: typed columns, one row a change, the newest of a key counts.",
    OUTPUTS: "Changelog of output `{name}`: every record, in the order in which Kafka Streams would have written it.",
    DROPPED: "Records that were refused, each with its reason and the numbers that decided.",
    DEAD_LETTER: "Records that cannot be decoded, with their bytes.",
    REPARTITION: "Records between two sub-topologies, by their new key; their order is fixed for ever.",
}


def replay_assets(pipeline: Pipeline) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """Everything a pipeline reads and writes."""
    return [*external_specs(pipeline), _increments(pipeline)]


def external_specs(pipeline: Pipeline) -> list[dg.AssetSpec]:
    """Of topics that others land."""
    known = {*pipeline.sources, *pipeline.landed_by}
    external = [topic for topic in pipeline.topology.source_topics() if topic not in known]
    return [_spec(pipeline, TableName.landed(topic), (), {"deltalake"}) for topic in external]


def _increments(pipeline: Pipeline) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name=f"{pipeline.word}_increments",
        description=f"Lands what is new in the topics of {pipeline.name}, and replays it.",
        specs=[
            *(landed_spec(pipeline, topic) for topic in pipeline.sources),
            *(table_spec(pipeline, sub, table) for sub, table in pipeline.all_tables()),
            *(refusals_spec(pipeline, name) for name in REFUSALS),
        ],
        can_subset=True,
        required_resource_keys=pipeline.resource_keys,
        retry_policy=pipeline.retry_policy,
        pool=pipeline.word,
    )
    def increments(context: dg.AssetExecutionContext, config: ReplayConfig) -> StepEvents:
        in_run, asked = as_asked(context, pipeline, config)
        if asked.dry_run:
            yield from report_dry_run(context, in_run, asked)
            return
        with beating(in_run.own, context.run.run_id, "landing") as heart:
            yield from _land_and_replay(context, in_run, heart, asked)

    return increments


def _land_and_replay(
    context: dg.AssetExecutionContext, pipeline: Pipeline, heart: Heart, asked: RequestedRun
) -> StepEvents:
    quiet: list[dg.AssetKey] = []
    selected = context.selected_asset_keys
    yield from _land_selected(context, pipeline, heart, quiet)
    advance_topics(context, pipeline, asked)
    tables = [(sub, table) for sub, table in pipeline.all_tables() if pipeline.key(table.name) in selected]
    wanted = {table.name: partial(increment_metadata, pipeline, sub, table) for sub, table in tables}
    wanted |= {name: partial(refusals_metadata, pipeline, name) for name in REFUSALS if pipeline.key(name) in selected}
    ran, waits = replay_landed(context, pipeline, heart, until_ms=asked.until_ms) if wanted else ([], [])
    for name, said in wanted.items():
        yield from _report(context, pipeline, name, pipeline.ledger, ran, said, quiet, waits)
    if ran:
        observe_the_others(context, pipeline)
    heart.say("checks")
    yield from _check_quiet(context, pipeline, quiet)


def land_topics(context: dg.AssetExecutionContext, pipeline: Pipeline, heart: Heart) -> StepEvents:
    """Land the selected topics, and nothing else."""
    quiet: list[dg.AssetKey] = []
    yield from _land_selected(context, pipeline, heart, quiet)
    yield from _check_quiet(context, pipeline, quiet)


def _land_selected(
    context: dg.AssetExecutionContext, pipeline: Pipeline, heart: Heart, quiet: list[dg.AssetKey]
) -> StepEvents:
    for topic, source in pipeline.sources.items():
        if pipeline.key(TableName.landed(topic)) in context.selected_asset_keys:
            heart.say(f"landing {topic}")
            yield from _land(context, pipeline, topic, source_of(source), quiet)


def _land(
    context: dg.AssetExecutionContext,
    pipeline: Pipeline,
    topic: str,
    source: Source,
    quiet: list[dg.AssetKey],
) -> StepEvents:
    engine: Engine = getattr(context.resources, pipeline.engine_key)
    with failing_in_one_sentence():
        landed = engine.land(pipeline.warehouse, topic, source, pipeline.landing)
    context.log.info(f"{topic}: {landed.records} records landed in {landed.seconds:.1f} s")
    for warning in landed.warnings:
        context.log.warning(warning)
    ledger, said = pipeline.landing_ledger(topic), partial(landing_metadata, pipeline, topic)
    is_awaited = pipeline.partitions is not None and BACKFILL in context.run.tags
    table = TableName.landed(topic)
    yield from _report(context, pipeline, table, ledger, landed.increments, said, quiet, is_awaited=is_awaited)


def replay_landed(
    context: dg.AssetExecutionContext,
    pipeline: Pipeline,
    heart: Heart,
    *,
    until_ms: int | None = None,
    times: LandedTimes | None = None,
) -> tuple[list[int], list[WaitingInput]]:
    """Run what has landed, with ``until_ms`` up to that time; the increments that were run, and what waits. ``times``:
    of landed records that were read before.
    """

    def log_line(line: str) -> None:
        heart.say(line)
        context.log.info(line)

    heart.say("replaying")
    _observe_external_topics(context, pipeline)
    engine: Engine = getattr(context.resources, pipeline.engine_key)
    with failing_in_one_sentence():
        ran, waits = list[int](), None
        for report in replay(
            pipeline.warehouse,
            pipeline.topology,
            pipeline=pipeline.name,
            runner=engine.runner(pipeline.kafka_version),
            max_records=pipeline.max_records,
            increments=pipeline.increments,
            idle=pipeline.idle,
            kafka_version=pipeline.kafka_version,
            flush_at_end=pipeline.flush,
            wanted=pipeline.wanted,
            on_step=context.log.debug,
            progress=ProgressLines(log_line).show,
            run=context.run.run_id,
            until_ms=until_ms,
            times=times,
        ):
            ran.append(_log_report(context, pipeline, report))
            waits = waiting_before(until_ms, report.waits)
        warehouse, topology = pipeline.warehouse, pipeline.topology
        if waits is None:
            waits = inputs_that_wait(
                warehouse, topology, pipeline=pipeline.name, idle=pipeline.idle, until_ms=until_ms, times=times
            )
        for sentence in sentences_of(waits, warehouse.root):
            context.log.warning(sentence)
        for results in results_that_wait(warehouse, topology, pipeline=pipeline.name) if ran else ():
            context.log.info(str(results))
    return ran, waits


def _log_report(context: dg.AssetExecutionContext, pipeline: Pipeline, report: IncrementReport) -> int:
    books = report.books
    context.log.info(
        f"increment {report.increment}: {books.read} records read, {books.applied} applied, "
        f"{report.refused} dropped by operators, {books.undecodable} undecodable, "
        f"{sum(report.outputs.values())} emitted"
    )
    hint = read_hint(pipeline.warehouse.pipeline(pipeline.name))
    if said := placement_sentence(hint, report.increment):
        context.log.info(said)
    return report.increment


def _report(
    context: dg.AssetExecutionContext,
    pipeline: Pipeline,
    table: str,
    ledger: Ledger | LandingLedger,
    ran: Iterable[int],
    metadata_of: Callable[[int], Metadata],
    quiet: list[dg.AssetKey],
    waits: Sequence[WaitingInput] = (),
    *,
    is_awaited: bool = False,
) -> StepEvents:
    """One materialization for each increment that Dagster does not know yet; if there is none, an observation, and the
    key is one of the ``quiet``. ``is_awaited``: a backfill of what is below waits for a materialization, and would
    give up without one, so that the last increment is reported again.
    """
    key, last = pipeline.key(table), ledger.last_done()
    version_of = partial(topic_version, pipeline) if TableName(table).kind == LANDED else data_version
    known = reported_increment(context.instance, key, pipeline.path(table))
    unheard = range(0) if last is None else increments_to_report(known, ran, last.increment)
    if last is None or (known is not None and not unheard):
        said = quiet_metadata(pipeline, table, last) | (
            waiting_metadata(waits, pipeline.warehouse.root) if waits else {}
        )
        if is_awaited and last is not None:
            yield dg.MaterializeResult(asset_key=key, metadata=said, data_version=version_of(last))
            return
        quiet.append(key)
        yield dg.AssetObservation(key, metadata=said)
        return
    # Dagster takes one result of an asset from a step, so earlier increments are events of the log.
    for row in ledger.done_rows(unheard[0], unheard[-2]) if len(unheard) > 1 else []:  # some numbers may be left out
        tags = {"dagster/data_version": version_of(row).value}
        context.log_event(dg.AssetMaterialization(key, metadata=metadata_of(row.increment), tags=tags))
    yield dg.MaterializeResult(asset_key=key, metadata=metadata_of(unheard[-1]), data_version=version_of(last))


def check_planned(
    context: dg.AssetExecutionContext, pipeline: Pipeline, keys: Collection[dg.AssetKey] | None = None
) -> Iterator[dg.AssetCheckEvaluation]:
    """Make the checks of assets that this run was to make, not in their own steps; ``keys`` None: of all."""
    planned = planned_checks(context.instance, context.run.run_id)
    mine = {key for key in planned if keys is None or key.asset_key in keys}
    yield from evaluations_of(pipeline, context.instance, context.run.run_id, mine)


def _check_quiet(context: dg.AssetExecutionContext, pipeline: Pipeline, quiet: list[dg.AssetKey]) -> StepEvents:
    """Make the checks of ``quiet`` assets. A blocking one that is broken fails the step, as it would fail its own."""
    broken = []
    for evaluation in check_planned(context, pipeline, quiet):
        yield evaluation
        is_error = evaluation.severity is dg.AssetCheckSeverity.ERROR and evaluation.blocking
        broken += [evaluation.description or evaluation.check_name] if is_error and not evaluation.passed else []
    if broken:
        # A second try finds the increment in the ledger, replays nothing, and makes the same check again.
        raise dg.Failure("\n".join(broken), allow_retries=False)


def _observe_external_topics(context: dg.AssetExecutionContext, pipeline: Pipeline) -> None:
    """Report to Dagster the landed offsets of topics that other pipelines land."""
    for topic in pipeline.topology.source_topics():
        is_landed_here = topic in pipeline.sources or topic in pipeline.landed_by
        row = None if is_landed_here else pipeline.landing_ledger(topic).last_done()
        if row is not None:
            key = pipeline.key(TableName.landed(topic))
            tags = {"dagster/data_version": topic_version(pipeline, row).value}
            context.log_event(
                dg.AssetObservation(key, metadata=landing_metadata(pipeline, topic, row.increment), tags=tags)
            )


def landed_spec(pipeline: Pipeline, topic: str) -> dg.AssetSpec:
    """Of a topic that is landed here."""
    source = pipeline.sources[topic]
    if isinstance(source, KafkaSource | KafkaResource):
        kind = "kafka"
    elif isinstance(source, LakeSource | LakeResource):
        kind = "iceberg" if source.delta is None else "deltalake"
    else:
        format = FORMATS.get(_known(source.format) or "")
        kind = "file" if format is None else format.kind
    return _spec(pipeline, TableName.landed(topic), (), {pipeline.engine.kind, "deltalake", kind})


def _known(text: str | None) -> str | None:
    """What is known while definitions load."""
    return text.get_value() if isinstance(text, dg.EnvVar) else text


def table_spec(pipeline: Pipeline, sub: SubTopology, table: Table) -> dg.AssetSpec:
    """Of a table that an increment writes, with the tasks and the windows that make it."""
    reads = ", ".join(source.topic for source in sub.sources)
    more = f"{_settings(table.node)}{_step(table)} Sub-topology {sub.id}, a task for each partition of {reads}."
    return _spec(pipeline, table.name, table.upstream, {pipeline.engine.kind, "deltalake"}, more)


def refusals_spec(pipeline: Pipeline, name: str) -> dg.AssetSpec:
    """Of `dropped` or `dead_letter`, which are about the whole pipeline."""
    topics = [TableName.landed(topic) for topic in pipeline.topology.source_topics()]
    return _spec(pipeline, name, topics, {pipeline.engine.kind, "deltalake"})


def _settings(node: Node) -> str:
    """What decides in a store's operator: its windows; of an output, that its records name their topics."""
    if node.written_topic is not None and getattr(node, "has_topics", False):
        return " Each record names its topic, in the column `topic`."
    windows = node.windows_of_rows
    return "" if windows is None else f" Operator `{node.name}`, {windows_in_words(windows)}."


def _step(table: Table) -> str:
    """Of a table with a name that says little: the step that makes it, and of which tables."""
    if not is_named_by_kafka(table.name):
        return ""
    step = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(table.node).__name__.removesuffix("Node")).lower()
    return f" Kafka Streams gave the name; the step is `{step}`, of {', '.join(table.upstream)}."


def _pages(pipeline: Pipeline, kind: str) -> Metadata:
    """Where Great Expectations' pages about a table are, if its checks build any."""
    has_pages = pipeline.data_docs is not None and kind in (OUTPUTS, *REFUSALS)
    return {"data_docs": dg.MetadataValue.url(pipeline.data_docs.address())} if has_pages and pipeline.data_docs else {}


def _spec(pipeline: Pipeline, table: str, upstream: Iterable[str], kinds: set[str], more: str = "") -> dg.AssetSpec:
    kind, _, name = table.partition("/")
    mine, translator = (pipeline.name, str(table)), pipeline.translator
    spec = dg.AssetSpec(
        pipeline.key(table),
        deps=[pipeline.key(each) for each in upstream],
        description=translator.get_description(*mine, WORDS[kind].format(name=name) + more),
        skippable=True,
        group_name=translator.get_group_name(*mine, pipeline.word),
        owners=list(translator.get_owners(*mine)),
        tags=dict(translator.get_tags(*mine)),
        kinds=set(translator.get_kinds(*mine, kinds)),
        freshness_policy=freshness_policy_of(pipeline, TableName(table)),
        # A topic's records do not depend on the topology: changed code puts no landed topic out of date.
        code_version=None if kind == LANDED else pipeline.topology.fingerprint,
        metadata=table_metadata(pipeline, table)
        | code_references(pipeline.topology.graph, str(table))
        | _pages(pipeline, kind),
    )
    return translator.get_asset_spec(*mine, spec)
