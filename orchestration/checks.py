"""Asset checks: one for each guarantee and output, blocking, so that nothing downstream reads a lie.

Owns the way from verdicts to Dagster. Rule: a check speaks of increments, never of "latest": it asks `expectations`
about every increment since the last one up to which the guarantee held, at the table version in the ledger. Broken
stays broken until it is repaired; what could not be judged is not passed. An output's books are those of the
sub-topologies that its records came through.
"""

from collections.abc import Collection, Iterator
from typing import Any

import dagster as dg

from ..expectations.guarantees import G1, G2, G3, Guarantee
from ..expectations.verdicts import Verdict, check_increment
from ..state.tables.names import TableName
from .facts import facts_of_output
from .heartbeats import beating
from .pipeline import Pipeline
from .reported_increments import HOLDS_UP_TO, INCREMENT, WAREHOUSE, increments_to_check

SEQUENCES = (list, tuple, dict)


def replay_checks(pipeline: Pipeline) -> list[dg.AssetChecksDefinition]:
    """Checks of every output, one step an output: Dagster skips the step when one of its assets has nothing new."""
    sinks = [sink for sub in pipeline.topology.sub_topologies for sink in sub.sinks]
    return [_checks_of(pipeline, number, sink.topic) for number, sink in enumerate(sinks)]


def guarantees_of(pipeline: Pipeline, output: str) -> list[Guarantee]:
    """What holds for an output: the books always, the others for final results."""
    return [G1, G2, G3] if facts_of_output(pipeline.topology, output).final_outputs else [G3]


def evaluations_of(
    pipeline: Pipeline, instance: dg.DagsterInstance, run_id: str, keys: Collection[dg.AssetCheckKey]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Make checks outside of their own steps."""
    for key, spec, result in _results(pipeline, instance, run_id, keys):
        yield dg.AssetCheckEvaluation(
            asset_key=key.asset_key,
            check_name=key.name,
            passed=result.passed,
            metadata=result.metadata,
            severity=result.severity,
            description=result.description,
            blocking=spec.blocking,
        )


def _checks_of(pipeline: Pipeline, number: int, output: str) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(
        name=f"{pipeline.word}_checks_{number}",
        description=f"What must hold for output `{output}` of {pipeline.name}.",
        specs=[_spec(pipeline, output, each) for each in guarantees_of(pipeline, output)],
        can_subset=True,
    )
    def checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        keys = context.selected_asset_check_keys
        with beating(pipeline.own, context.run.run_id, f"checks of {output}"):
            for _, _, result in _results(pipeline, context.instance, context.run.run_id, keys):
                yield result

    return checks


def _results(
    pipeline: Pipeline, instance: dg.DagsterInstance, run_id: str, keys: Collection[dg.AssetCheckKey]
) -> Iterator[tuple[dg.AssetCheckKey, dg.AssetCheckSpec, dg.AssetCheckResult]]:
    """Each increment of an output is audited once."""
    asked: dict[tuple[str, int], dict[str, Verdict]] = {}
    for output in (sink.topic for sub in pipeline.topology.sub_topologies for sink in sub.sinks):
        path = pipeline.path(TableName.output(output))
        for guarantee in guarantees_of(pipeline, output):
            key = dg.AssetCheckKey(pipeline.key(TableName.output(output)), guarantee.check)
            if key in keys:
                increments = increments_to_check(instance, key, run_id, path, pipeline.warehouse.root)
                result = _result(pipeline, key, output, guarantee, increments, asked)
                yield key, _spec(pipeline, output, guarantee), result


def _spec(pipeline: Pipeline, output: str, guarantee: Guarantee) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        guarantee.check,
        asset=pipeline.key(TableName.output(output)),
        description=guarantee.sentence,
        blocking=True,
        metadata={"guarantee": guarantee.id, "operator": guarantee.operator, "kip": guarantee.kip or "none"},
    )


def _result(
    pipeline: Pipeline,
    key: dg.AssetCheckKey,
    output: str,
    guarantee: Guarantee,
    increments: range,
    asked: dict[tuple[str, int], dict[str, Verdict]],
) -> dg.AssetCheckResult:
    """Increment after increment up to the first that breaks the guarantee, or cannot be judged."""
    held, verdict = increments.start - 1, None
    for increment in (row.increment for row in pipeline.ledger.done_rows(increments.start, increments.stop - 1)):
        if (output, increment) not in asked:
            asked[output, increment] = _ask(pipeline, output, increment)
        verdict = asked[output, increment][guarantee.id]
        if verdict.answer != "true":
            break
        held = increment
    if verdict is None:
        return dg.AssetCheckResult(
            asset_key=key.asset_key,
            check_name=key.name,
            passed=True,
            description=f"{guarantee.sentence} Nothing has been replayed yet.",
            metadata={INCREMENT: 0, HOLDS_UP_TO: 0, WAREHOUSE: pipeline.warehouse.root},
        )
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=verdict.answer == "true",
        severity=dg.AssetCheckSeverity.ERROR,
        description=_sentence(verdict),
        metadata={HOLDS_UP_TO: held, WAREHOUSE: pipeline.warehouse.root, **_metadata(verdict)},
    )


def _ask(pipeline: Pipeline, output: str, increment: int) -> dict[str, Verdict]:
    facts = facts_of_output(pipeline.topology, output)
    engine: Any = pipeline.check_engine
    verdicts = check_increment(pipeline.warehouse, pipeline.name, facts, increment, engine=engine)
    return {verdict.guarantee: verdict for verdict in verdicts}


def _sentence(verdict: Verdict) -> str:
    if verdict.answer == "unknown":
        return f"{verdict.sentence} Unknown: {verdict.reason}"
    if verdict.answer == "true":
        return verdict.sentence
    return f"{verdict.sentence} Broken in increment {verdict.increment}: {', '.join(verdict.broken)}"


def _metadata(verdict: Verdict) -> dict[str, Any]:
    said: dict[str, Any] = {
        "guarantee": verdict.guarantee,
        INCREMENT: verdict.increment or 0,
        "table": verdict.table,
        "engine": verdict.engine,
        **verdict.observed,
    }
    if verdict.version is not None:
        said["table_version"] = verdict.version
    if verdict.reason:
        said["reason"] = verdict.reason
    if verdict.witnesses:
        said["witnesses"] = witness_table(verdict.witnesses)
    return said


def witness_table(rows: list[dict[str, Any]]) -> dg.TableMetadataValue:
    """Rows as Dagster shows them; a nested value as text. Columns: those of all rows, in order of appearance."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    shown = [{name: _shown(row.get(name)) for name in columns} for row in rows]
    schema = dg.TableSchema([dg.TableColumn(name, _type(shown, name)) for name in columns])
    return dg.MetadataValue.table([dg.TableRecord(row) for row in shown], schema)


def _shown(value: Any) -> Any:
    return repr(value) if isinstance(value, SEQUENCES) else value


def _type(rows: list[dict[str, Any]], name: str) -> str:
    found = next((row[name] for row in rows if row[name] is not None), "")
    return {bool: "bool", int: "int", float: "float"}.get(type(found), "string")
