"""Assets of topics to which outputs are published: one for each, behind its output and the output's blocking checks.

Rule: Kafka knows what is published, so a step that dies is simply run again. A step with nothing new is an observation,
and nobody downstream runs for it.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from ..jobs.publish.publishing import PublishReport, publish
from ..jobs.replay.heartbeats import beating
from ..state.errors import ConfigError
from ..state.tables.names import TableName
from .asked_runs import failing_in_one_sentence
from .metadata import Metadata
from .pipeline import PUBLISHED, Pipeline
from .reported_increments import NOTHING_NEW

Events = Iterator[dg.MaterializeResult[Any] | dg.AssetObservation]


def published_assets(pipeline: Pipeline) -> list[dg.AssetsDefinition]:
    """One for each output that is published. Raises ConfigError for an output that is not there."""
    outputs = [sink.topic for sub in pipeline.topology.sub_topologies for sink in sub.sinks]
    for output in pipeline.publish:
        if output not in outputs:
            raise ConfigError("publish", f"outputs of {', '.join(outputs)}", repr(output), "name one of them")
    return [_asset_of(pipeline, output) for output in pipeline.publish]


def _asset_of(pipeline: Pipeline, output: str) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name=f"{pipeline.key(f'{PUBLISHED}/{output}').to_python_identifier()}",
        specs=[_spec(pipeline, output)],
        required_resource_keys=pipeline.resource_keys - {pipeline.engine_key},
        retry_policy=pipeline.retry_policy,
        pool=pipeline.word,
    )
    def published(context: dg.AssetExecutionContext) -> Events:
        with failing_in_one_sentence():
            mine = pipeline.in_run(context.resources)
            with beating(mine.own, context.run.run_id, PUBLISHED):
                report = publish(
                    mine.warehouse, mine.topology, output, pipeline=mine.name, to=mine.target(output),
                    settings=mine.publish_settings,
                )  # fmt: skip
        for warning in report.warnings:
            context.log.warning(warning)
        key, said = pipeline.key(f"{PUBLISHED}/{output}"), _metadata(report)
        if report.is_nothing_new:
            yield dg.AssetObservation(key, metadata={**said, NOTHING_NEW: True})
        else:
            yield dg.MaterializeResult(asset_key=key, metadata=said)

    return published


def _metadata(report: PublishReport) -> Metadata:
    return {
        "topic": report.topic, "through_increment": report.through, "rows": report.rows,
        "corrections": report.corrections, "tombstones": report.tombstones, "transactions": report.transactions,
        "seconds": round(report.seconds, 3),
    }  # fmt: skip


def _spec(pipeline: Pipeline, output: str) -> dg.AssetSpec:
    mine, translator = (pipeline.name, f"{PUBLISHED}/{output}"), pipeline.translator
    words = f"Output `{output}` as a topic of Kafka: every row once, for readers with read_committed."
    spec = dg.AssetSpec(
        pipeline.key(mine[1]),
        deps=[pipeline.key(TableName.output(output))],
        description=translator.get_description(*mine, words),
        skippable=True,
        group_name=translator.get_group_name(*mine, pipeline.word),
        owners=list(translator.get_owners(*mine)),
        tags=dict(translator.get_tags(*mine)),
        kinds=set(translator.get_kinds(*mine, {"kafka"})),
    )
    return translator.get_asset_spec(*mine, spec)
