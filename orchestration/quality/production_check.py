"""An asset check that puts what production wrote beside an output: production equals its rules. Off by default.

Rule: it warns and stops nobody, since what is downstream of the replay has the right rows.
"""

from collections.abc import Callable

import dagster as dg

from ...jobs.compare.comparison import Comparison, compare
from ...jobs.replay.heartbeats import beating
from ...state.errors import ConfigError, ReplayError
from ...state.tables.names import TableName
from ..pipeline import Pipeline

EQUALS = "production_equals_its_rules"


def production_checks(pipeline: Pipeline) -> list[dg.AssetChecksDefinition]:
    """One for each output that has a topic of production. Raises ConfigError for an output that is not there."""
    outputs = [sink.topic for sub in pipeline.topology.sub_topologies for sink in sub.sinks]
    for output in pipeline.production:
        if output not in outputs:
            raise ConfigError("production", f"outputs of {', '.join(outputs)}", repr(output), "name one of them")
    return [_check_of(pipeline, output, topic) for output, topic in pipeline.production.items()]


def _check_of(pipeline: Pipeline, output: str, topic: str) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=pipeline.key(TableName.output(output)),
        name=EQUALS,
        description=f"What production wrote to {topic} is what its rules give for the landed records.",
        required_resource_keys=pipeline.resource_keys - {pipeline.engine_key},
    )
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        mine = pipeline.in_run(context.resources)
        with beating(mine.own, context.run.run_id, EQUALS):
            return _result(lambda: compare(
                mine.warehouse, mine.topology, output, with_topic=topic, pipeline=mine.name,
            ))  # fmt: skip

    return check


def _result(ask: Callable[[], Comparison]) -> dg.AssetCheckResult:
    try:
        comparison = ask()
    except ReplayError as error:
        return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN, description=str(error))
    return dg.AssetCheckResult(
        passed=comparison.is_equal,
        severity=dg.AssetCheckSeverity.WARN,
        description=_sentence(comparison),
        metadata={
            "increment": comparison.increment,
            "topic": comparison.topic,
            "compared_as": comparison.form,
            "differences": len(comparison.differences),
            "not_explained": comparison.not_explained,
            "verdicts": dg.MetadataValue.json(dict(comparison.verdicts)),
            "causes": dg.MetadataValue.json(dict(comparison.causes)),
            "restarts": dg.MetadataValue.json([restart.place for restart in comparison.restarts]),
        },
    )


def _sentence(comparison: Comparison) -> str:
    if comparison.is_equal:
        return f"{comparison.topic} equals {comparison.output}."
    causes = ", ".join(f"{count:,} {cause}" for cause, count in comparison.causes.items())
    return (
        f"{comparison.topic} differs from {comparison.output}: {causes}. First: {comparison.first[0].sentence}; "
        f"see `replay compare {comparison.output} --with-topic {comparison.topic} …`."
    )
