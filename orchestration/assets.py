"""Assets of a pipeline: one for each landed topic and for each table that an increment writes.

Owns what a step does. One multi-asset lands topics; one multi-asset a sub-topology stands for its tables. Rule: **steps
run the replay, the ledger speaks.** An increment is one: all sub-topologies, one ledger row. So whichever sub-topology
comes first in a Dagster run replays what has landed; those after it find that the run has replayed and do not replay
again, so that what lands in the middle does not split the run. Each then reports the increments in the ledger that
Dagster has not heard of for *its* assets, one materialization an increment, with that row's numbers and data version.

Why this is exact: a materialization is a function of a ledger row. A step that dies before the commit reports nothing,
and its retry runs the planned increment again; one that dies after it finds the row and reports it. When only some
sub-topologies are selected, the increment still runs whole (the ledger knows no other kind), and the others report it
when they are next asked. Two processes at once: the ledger refuses the second, whose retry reports what the first did.
Topics are landed in one step, because an increment's plan reads all of them, while lineage shows each table only those
it is made from.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import dagster as dg

from ..jobs.graph.graph import Node
from ..jobs.landing.landing import KafkaSource
from ..jobs.replay.increment_report import IncrementReport
from ..jobs.replay.pipeline_run import replay
from ..jobs.topology import SubTopology
from ..state.errors import BufferFull, CommitLost, LedgerConflict, ReplayError, TaskFailed
from ..state.tables.ledger import LandingLedger, Ledger
from ..state.tables.names import LANDED, OUTPUTS, REPARTITION, STATE, TableName
from .metadata import (
    Metadata,
    data_version,
    increment_metadata,
    landing_metadata,
    table_metadata,
    unchanged_metadata,
)
from .pipeline import Pipeline
from .progress_lines import ProgressLines
from .reported_increments import increments_to_report, ran_in_run, reported_increment
from .resources import Engine

WORDS = {
    LANDED: "Records of topic `{name}` as they came, with their positions.",
    STATE: "Rows of store `{name}`: typed columns, one row a change, the newest of a key counts.",
    OUTPUTS: "Changelog of output `{name}`: every record, in the order in which Kafka Streams would have written it.",
    REPARTITION: "Records between two sub-topologies, by their new key; their order is fixed for ever.",
}


def replay_assets(pipeline: Pipeline) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """Everything a pipeline reads and writes."""
    external = [topic for topic in pipeline.topology.source_topics() if topic not in pipeline.sources]
    subs = [sub for sub in pipeline.topology.sub_topologies if pipeline.tables(sub)]
    return [
        *(_spec(pipeline, TableName.landed(topic), (), {"deltalake"}) for topic in external),
        *([_landing_assets(pipeline)] if pipeline.sources else []),
        *(_sub_topology_assets(pipeline, sub) for sub in subs),
    ]


def _landing_assets(pipeline: Pipeline) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name=f"{pipeline.word}_landing",
        description=f"Lands what is new in the topics of {pipeline.name}.",
        specs=[_landed_spec(pipeline, topic) for topic in pipeline.sources],
        can_subset=True,
        required_resource_keys={pipeline.engine_key},
        retry_policy=pipeline.retry_policy,
        pool=pipeline.word,
    )
    def landing(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[Any]]:
        engine: Engine = getattr(context.resources, pipeline.engine_key)
        for topic, source in pipeline.sources.items():
            key = pipeline.key(TableName.landed(topic))
            if key not in context.selected_asset_keys:
                continue
            with told_in_one_sentence():
                landed = engine.land(pipeline.warehouse, topic, source)
            context.log.info(f"{topic}: {landed.records} records landed in {landed.seconds:.1f} s")
            yield from _report(
                context,
                pipeline,
                TableName.landed(topic),
                pipeline.landing_ledger(topic),
                landed.increments,
                partial(landing_metadata, pipeline, topic),
            )

    return landing


def _sub_topology_assets(pipeline: Pipeline, sub: SubTopology) -> dg.AssetsDefinition:
    tables = pipeline.tables(sub)

    @dg.multi_asset(
        name=f"{pipeline.word}_sub_topology_{sub.id}",
        description=f"Sub-topology {sub.id} of {pipeline.name}, a task for each partition of {_read(sub)}.",
        specs=[
            _spec(pipeline, table.name, table.upstream, {pipeline.engine.kind, "deltalake"}, table.node)
            for table in tables
        ],
        required_resource_keys={pipeline.engine_key},
        retry_policy=pipeline.retry_policy,
        pool=pipeline.word,
    )
    def sub_topology(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[Any]]:
        ran = _replay_once_a_run(context, pipeline)
        for table in tables:
            yield from _report(
                context,
                pipeline,
                table.name,
                pipeline.ledger,
                ran,
                partial(increment_metadata, pipeline, sub, table),
            )

    return sub_topology


def _read(sub: SubTopology) -> str:
    """Names of the topics that a sub-topology reads."""
    return ", ".join(source.topic for source in sub.sources)


def _replay_once_a_run(context: dg.AssetExecutionContext, pipeline: Pipeline) -> list[int]:
    """Increments that this Dagster run has run, by this step or one before it."""
    ran = ran_in_run(context.instance, context.run.run_id, pipeline.keys())
    if ran is not None:
        context.log.info("this run has replayed already; its increments are read from the ledger")
        return ran
    _observe_external_topics(context, pipeline)
    engine: Engine = getattr(context.resources, pipeline.engine_key)
    with told_in_one_sentence():
        reports = replay(
            pipeline.warehouse,
            pipeline.topology,
            pipeline=pipeline.name,
            runner=engine.runner(),
            max_records=pipeline.max_records,
            increments=pipeline.increments,
            idle=pipeline.idle,
            on_step=context.log.debug,
            progress=ProgressLines(context.log.info).show,
        )
        return [_told(context, report) for report in reports]


def _told(context: dg.AssetExecutionContext, report: IncrementReport) -> int:
    books = report.books
    context.log.info(
        f"increment {report.increment}: {books.read} records read, {books.applied} applied, {books.dropped} dropped, "
        f"{books.undecodable} undecodable, {sum(report.outputs.values())} emitted"
    )
    return report.increment


def _report(
    context: dg.AssetExecutionContext,
    pipeline: Pipeline,
    table: str,
    ledger: Ledger | LandingLedger,
    ran: Iterable[int],
    metadata_of: Callable[[int], Metadata],
) -> Iterator[dg.MaterializeResult[Any]]:
    """One materialization for each increment that Dagster has not heard of; if there is none, one that says so."""
    key, last = pipeline.key(table), ledger.last_done()
    known = reported_increment(context.instance, key)
    unheard = range(0) if last is None else increments_to_report(known, ran, last.increment)
    if last is None or (known is not None and not unheard):
        yield dg.MaterializeResult(
            asset_key=key, metadata=unchanged_metadata(pipeline, table, last), data_version=data_version(last)
        )
        return
    for row in ledger.done_rows(unheard[0], unheard[-2]) if len(unheard) > 1 else []:  # some numbers may be left out
        tags = {"dagster/data_version": data_version(row).value}
        context.log_event(dg.AssetMaterialization(key, metadata=metadata_of(row.increment), tags=tags))
    yield dg.MaterializeResult(asset_key=key, metadata=metadata_of(unheard[-1]), data_version=data_version(last))


def _observe_external_topics(context: dg.AssetExecutionContext, pipeline: Pipeline) -> None:
    """Tell Dagster how far the topics have landed that others land."""
    for topic in pipeline.topology.source_topics():
        row = None if topic in pipeline.sources else pipeline.landing_ledger(topic).last_done()
        if row is not None:
            key = pipeline.key(TableName.landed(topic))
            tags = {"dagster/data_version": data_version(row).value}
            context.log_event(
                dg.AssetObservation(key, metadata=landing_metadata(pipeline, topic, row.increment), tags=tags)
            )


def _landed_spec(pipeline: Pipeline, topic: str) -> dg.AssetSpec:
    source = pipeline.sources[topic]
    kind = "kafka" if isinstance(source, KafkaSource) else source.format.removesuffix("l")  # jsonl: Dagster draws json
    return _spec(pipeline, TableName.landed(topic), (), {pipeline.engine.kind, "deltalake", kind})


def _settings(node: Node | None) -> str:
    """What decides in a store's operator: its windows."""
    windows = None if node is None else node.windows_of_rows
    return "" if node is None or windows is None else f" Operator `{node.name}`, `{windows}`."


def _spec(
    pipeline: Pipeline, table: str, upstream: Iterable[str], kinds: set[str], node: Node | None = None
) -> dg.AssetSpec:
    kind, name = table.split("/", 1)
    return dg.AssetSpec(
        pipeline.key(table),
        deps=[pipeline.key(each) for each in upstream],
        description=WORDS[kind].format(name=name) + _settings(node),
        group_name=pipeline.word,
        kinds=kinds,
        code_version=None if kind == LANDED else pipeline.topology.fingerprint,
        metadata=table_metadata(pipeline, table),
    )


@contextmanager
def told_in_one_sentence() -> Iterator[None]:
    """Errors raised on purpose fail the step with their sentence. Only what a second try can mend is tried again."""
    try:
        yield
    except ReplayError as error:
        can_mend = isinstance(error, LedgerConflict | CommitLost | TaskFailed) and not isinstance(error, BufferFull)
        parts = {"place": error.place, "expected": error.expected, "got": error.got, "next step": error.next_step}
        notes = {"notes": "\n".join(error.__notes__)} if hasattr(error, "__notes__") else {}
        raise dg.Failure(str(error), metadata=parts | notes, allow_retries=can_mend) from error
