"""Asset checks: one for each guarantee and output, blocking, so that nothing downstream reads wrong rows.

Owns the way from verdicts to Dagster. Rule: a check speaks of increments, never of "latest": it asks `expectations`
about every increment since the last one up to which the guarantee held, at the table version in the ledger. Broken
stays broken until it is repaired; what could not be judged is not passed. An output's books are those of the
sub-topologies that its records came through.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import dagster as dg

from ..expectations.guarantees import G3, Guarantee, questions_of
from ..expectations.suites.project_suites import ProjectSuite
from ..expectations.verdicts import Verdict, as_one, check_increments
from ..jobs.landing.landing import dead_letters_sentence
from ..jobs.replay.books import is_nothing_applied
from ..jobs.replay.heartbeats import beating
from ..state.errors import ReplayError
from ..state.node_rows import RunAgain
from ..state.tables.names import DEAD_LETTER, DROPPED, LANDED, OUTPUTS, TableName
from ..state.tables.parquet_reader import show_command
from ..state.tables.refused_shares import refused_shares
from ..state.wall_clock import now_ms
from .facts import facts_of_output, replay_facts, second_run
from .partition_windows import partition_of
from .pipeline import REFUSALS, Pipeline
from .quality.freshness import FRESH, freshness_of
from .quality.recording import why_not_recorded
from .quiet_partitions import HELD_UP, HELD_UP_RULE, held_up_by
from .reported_increments import (
    HOLDS_UP_TO,
    INCREMENT,
    WAREHOUSE,
    increments_to_check,
    last_evaluation,
    ran_in_run,
    reported_increment,
)
from .what_waits import inputs_that_wait, sentences_of

SEQUENCES = (list, tuple, dict)
SHARES = {DROPPED: "few_records_are_dropped", DEAD_LETTER: "few_records_are_undecodable"}
SHARE_RULE = "At most {percent} % of the records that came to any operator, and never all that were read."
ROWS = "every_row_becomes_a_record"
ROWS_RULE = "Every row of what was landed became a record, and none a dead letter of the landing."
REPLAYED = "landed_records_are_replayed"
REPLAYED_RULE = "What has landed is replayed, or some of it, by every second run at the latest."
FRESH_RULE = "Stream time is not further behind the clock than the pipeline says."
RUNS = "runs_without_replay"
RUNS_MAX = 2


def replay_checks(pipeline: Pipeline) -> list[dg.AssetChecksDefinition]:
    """Checks of every output, of what was refused and of every topic that is landed here, one step an asset: Dagster
    skips the step when one of its assets has nothing new.
    """
    return [_checks_of(pipeline, number, table) for number, table in enumerate(_checked_tables(pipeline))]


def _checked_tables(pipeline: Pipeline) -> list[TableName]:
    outputs = [TableName.output(sink.topic) for sub in pipeline.topology.sub_topologies for sink in sub.sinks]
    return [*outputs, *map(TableName, REFUSALS), *map(TableName.landed, pipeline.sources)]


def guarantees_of(pipeline: Pipeline, output: str) -> list[Guarantee]:
    """The guarantees of an output and of the nodes above it. Warnings are left out, since the checks of drops and
    dead letters report them for the increments of a run.
    """
    questions = questions_of(facts_of_output(pipeline.topology, output))
    guarantees = {question.guarantee.id: question.guarantee for question in questions}
    return [guarantee for guarantee in guarantees.values() if guarantee.severity == "error"]


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


def _checks_of(pipeline: Pipeline, number: int, table: TableName) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(
        name=f"{pipeline.word}_checks_{number}",
        description=f"What must hold for `{table}` of {pipeline.name}.",
        specs=_specs(pipeline, table),
        can_subset=True,
        required_resource_keys=pipeline.resource_keys - {pipeline.engine_key},
    )
    def checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        keys, mine = context.selected_asset_check_keys, pipeline.in_run(context.resources)
        with beating(mine.own, context.run.run_id, f"checks of {table}"):
            for _, _, result in _results(mine, context.instance, context.run.run_id, keys):
                yield result

    return checks


def _results(
    pipeline: Pipeline, instance: dg.DagsterInstance, run_id: str, keys: Collection[dg.AssetCheckKey]
) -> Iterator[tuple[dg.AssetCheckKey, dg.AssetCheckSpec, dg.AssetCheckResult]]:
    """Each increment of an output is audited once, and what came of it recorded."""
    asked: dict[tuple[TableName, int], list[Verdict]] = {}
    ask = partial(_ask, pipeline, run_id, second_run(pipeline.warehouse, pipeline.name, pipeline.topology))
    for table in _checked_tables(pipeline):
        judged = {each.check: each for each in _judged(pipeline, table)}
        for spec in _specs(pipeline, table):
            if spec.key not in keys:
                continue
            key, subject = spec.key, judged.get(spec.name)
            if subject is not None:
                path, root = pipeline.path(table), pipeline.warehouse.root
                increments = increments_to_check(instance, key, run_id, path, root)
                yield key, spec, _result(pipeline, key, table, subject, increments, asked, ask)
            elif table in REFUSALS:
                yield key, spec, _share(pipeline, instance, run_id, key, table)
            elif spec.name == HELD_UP:
                yield key, spec, _held_up(pipeline, key, table.name)
            elif table.kind == LANDED:
                yield key, spec, _rows(pipeline, instance, run_id, key, table)
            elif spec.name == FRESH:
                yield key, spec, _fresh(pipeline, key, table.name)
            else:
                yield key, spec, _progress(pipeline, instance, run_id, key, table.name)
    not_recorded = _why_not_recorded(pipeline, list(_recorded(asked))) if asked else None
    if not_recorded is not None:
        dg.get_dagster_logger().warning(not_recorded)


def _why_not_recorded(pipeline: Pipeline, verdicts: list[Verdict]) -> str | None:
    return why_not_recorded(pipeline.warehouse, pipeline.name, verdicts, replay_facts(pipeline.topology))


def _recorded(asked: dict[tuple[TableName, int], list[Verdict]]) -> Iterator[Verdict]:
    """Verdicts as they are recorded: books that were audited for one output only say so."""
    for (table, _), verdicts in asked.items():
        for verdict in verdicts:
            is_books = verdict.guarantee == G3.id
            yield replace(verdict, table=f"ledger, behind {table}") if is_books else verdict


def _judged(pipeline: Pipeline, table: TableName) -> list[Guarantee | ProjectSuite]:
    """What verdicts are given on: guarantees about an output, and suites of the project about any table."""
    guarantees = guarantees_of(pipeline, table.name) if table.kind == OUTPUTS else []
    return [*guarantees, *(suite for suite in pipeline.suites if suite.table == table)]


def _specs(pipeline: Pipeline, table: TableName) -> list[dg.AssetCheckSpec]:
    if table.kind == LANDED:
        rows = dg.AssetCheckSpec(ROWS, asset=pipeline.key(table), description=ROWS_RULE)
        held_up = dg.AssetCheckSpec(HELD_UP, asset=pipeline.key(table), description=HELD_UP_RULE)
        has_days = pipeline.partitions is not None and table.name in pipeline.topology.source_topics()
        return [rows, *([held_up] if has_days else [])]
    judged = [_spec(pipeline, table, each) for each in _judged(pipeline, table)]
    if table in REFUSALS:
        rule = SHARE_RULE.format(percent=pipeline.refused.percent)
        share = dg.AssetCheckSpec(SHARES[table], asset=pipeline.key(table), description=rule, blocking=True)
        return [share, *judged]
    fresh = [dg.AssetCheckSpec(FRESH, asset=pipeline.key(table), description=FRESH_RULE)]
    return [
        *judged,
        dg.AssetCheckSpec(REPLAYED, asset=pipeline.key(table), description=REPLAYED_RULE),
        *(fresh if pipeline.fresh_within_ms is not None else ()),
    ]


def _fresh(pipeline: Pipeline, key: dg.AssetCheckKey, output: str) -> dg.AssetCheckResult:
    freshness = freshness_of(pipeline, output, now_ms())
    said: dict[str, Any] = {WAREHOUSE: pipeline.warehouse.root}
    if freshness.stream_time_ms is not None and freshness.behind_ms is not None:
        said["stream_time"] = dg.MetadataValue.timestamp(freshness.stream_time_ms / 1000)
        said["seconds_behind"] = freshness.behind_ms / 1000
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=freshness.is_fresh,
        severity=dg.AssetCheckSeverity.WARN,
        description=str(freshness),
        metadata=said,
    )


def _rows(
    pipeline: Pipeline, instance: dg.DagsterInstance, run_id: str, key: dg.AssetCheckKey, table: TableName
) -> dg.AssetCheckResult:
    """Of the landing increments that this run has reported, else of the last one."""
    last = reported_increment(instance, key.asset_key, pipeline.path(table)) or 0
    numbers = ran_in_run(instance, run_id, {key.asset_key}) or [last]
    rows = [row.content for row in pipeline.landing_ledger(table.name).done_rows(numbers[0], numbers[-1])]
    letters = [
        sentence
        for row in rows
        if (sentence := dead_letters_sentence(pipeline.warehouse.root, table.name, row)) is not None
    ]
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=not letters,
        severity=dg.AssetCheckSeverity.WARN,
        description=". ".join(letters) or ROWS_RULE,
        metadata={
            "records_read": sum(row.records or 0 for row in rows),
            "dead_letters": sum(row.dead_letters or 0 for row in rows),
            WAREHOUSE: pipeline.warehouse.root,
        },
    )


def _held_up(pipeline: Pipeline, key: dg.AssetCheckKey, topic: str) -> dg.AssetCheckResult:
    """Made by every landing, since no other run begins while partitions are held up."""
    try:
        held_up = held_up_by(pipeline, topic)
    except ReplayError as error:
        held_up = str(error)
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=held_up is None,
        severity=dg.AssetCheckSeverity.WARN,
        description=held_up or HELD_UP_RULE,
        metadata={WAREHOUSE: pipeline.warehouse.root},
    )


def _share(
    pipeline: Pipeline, instance: dg.DagsterInstance, run_id: str, key: dg.AssetCheckKey, table: TableName
) -> dg.AssetCheckResult:
    """Of the increments that this run has reported, else of the last one."""
    last = reported_increment(instance, key.asset_key, pipeline.path(table)) or 0
    numbers = ran_in_run(instance, run_id, {key.asset_key}) or [last]
    rows = pipeline.ledger.done_rows(numbers[0], numbers[-1])
    books = [row.content.books for row in rows if row.content.books is not None]
    word = "dropped" if table == DROPPED else "undecodable"
    worst = refused_shares(books)[:1] if table == DROPPED else []
    if worst:
        read, refused, said = worst[0].came, worst[0].refused, worst[0].sentence()
    else:
        read, refused, where = _worst(books, word)
        said = f"{refused:,} of {read:,} records {where}({refused / read if read else 0.0:.1%}) were {word}"
    share = refused / read if read else 0.0
    landed = {name: sum(each.get(name, 0) for each in books) for name in ("read", "applied", "left_out")}
    applied_nothing = refused > 0 and is_nothing_applied(**landed)
    show = show_command(table, pipeline.warehouse.root, pipeline.name)
    is_error = applied_nothing or pipeline.refused.severity == "error"
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=pipeline.refused.allows(refused, read) and not applied_nothing,
        severity=dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN,
        description=f"{said}{', and none could be applied' if applied_nothing else ''}; see `{show}`.",
        metadata={"records_read": read, f"records_{word}": refused, "share": share, WAREHOUSE: pipeline.warehouse.root},
    )


def _worst(books: list[dict[str, Any]], word: str) -> tuple[int, int, str]:
    """Records read and refused: of all that landed, or of the sub-topology that refused the largest share of what it
    read; and which that is.
    """
    parts = {"": books}
    for sub in dict.fromkeys(sub for each in books for sub in each["by_sub_topology"]):
        name = f"of sub-topology {sub} "
        parts[name] = [each["by_sub_topology"][sub] for each in books if sub in each["by_sub_topology"]]
    sums = [
        (sum(each["read"] for each in part), sum(each[word] for each in part), where) for where, part in parts.items()
    ]
    return max(sums, key=lambda part: part[1] / part[0] if part[0] else 0.0)


def _progress(
    pipeline: Pipeline, instance: dg.DagsterInstance, run_id: str, key: dg.AssetCheckKey, output: str
) -> dg.AssetCheckResult:
    """How many runs in a row, this one included, have replayed nothing although records had landed."""
    unread = _unread(pipeline, output)
    said = last_evaluation(instance, key, pipeline.warehouse.root) or {}
    before = int(said[RUNS].value) if RUNS in said else 0
    runs = 0 if not unread or ran_in_run(instance, run_id, {key.asset_key}) else before + 1
    sentences = []
    if runs >= RUNS_MAX:
        waits = inputs_that_wait(pipeline.warehouse, pipeline.topology, pipeline=pipeline.name, idle=pipeline.idle)
        sentences = [
            f"{unread:,} landed records are unread, and {runs} runs have replayed nothing",
            *sentences_of(waits, pipeline.warehouse.root),
        ]
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=runs < RUNS_MAX,
        severity=dg.AssetCheckSeverity.WARN,
        description=". ".join(sentences) or REPLAYED_RULE,
        metadata={RUNS: runs, "records_unread": unread, WAREHOUSE: pipeline.warehouse.root},
    )


def _unread(pipeline: Pipeline, output: str) -> int:
    """Offsets of the topics behind an output that have landed and were not replayed."""
    last = pipeline.ledger.last_done()
    cut = {} if last is None else last.content.cut_to
    unread = 0
    for sub in facts_of_output(pipeline.topology, output).sub_topologies:
        for topic in (source.topic for source in sub.sources if source.kind == "landed"):
            landed = pipeline.landing_ledger(topic).last_done()
            for partition, end in ({} if landed is None else landed.content.cut_to).items():
                unread += end - cut.get(topic, {}).get(partition, 0)
    return unread


def _spec(pipeline: Pipeline, table: TableName, subject: Guarantee | ProjectSuite) -> dg.AssetCheckSpec:
    if isinstance(subject, ProjectSuite):
        words = {"suite": subject.name, "file": subject.file}
    else:
        words = {"guarantee": subject.id, "operator": subject.operator, "kip": subject.kip or "none"}
    return dg.AssetCheckSpec(
        subject.check, asset=pipeline.key(table), description=subject.sentence, blocking=True, metadata=words
    )


def _result(
    pipeline: Pipeline,
    key: dg.AssetCheckKey,
    table: TableName,
    subject: Guarantee | ProjectSuite,
    increments: range,
    asked: dict[tuple[TableName, int], list[Verdict]],
    ask: Callable[[TableName, list[int]], Iterator[list[Verdict]]],
) -> dg.AssetCheckResult:
    """Increment after increment up to the first that breaks the guarantee, or cannot be read."""
    held, verdict = increments.start - 1, None
    numbers = [row.increment for row in pipeline.ledger.done_rows(increments.start, increments.stop - 1)]
    missing = [number for number in numbers if (table, number) not in asked]
    asked |= {(table, number): verdicts for number, verdicts in zip(missing, ask(table, missing), strict=True)}
    for increment in numbers:
        verdict = as_one([each for each in asked[table, increment] if each.guarantee == subject.id])
        # What no table has evidence of does not pass, but asking again would not change that: it holds nothing up.
        if verdict.answer not in ("true", "unchecked"):
            break
        held = increment
    if verdict is None:
        return dg.AssetCheckResult(
            asset_key=key.asset_key,
            check_name=key.name,
            passed=True,
            description=f"{subject.sentence} Nothing has been replayed yet.",
            metadata={INCREMENT: 0, HOLDS_UP_TO: 0, WAREHOUSE: pipeline.warehouse.root},
        )
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=verdict.answer == "true",
        severity=_severity(verdict),
        description=_sentence(pipeline, verdict),
        metadata={HOLDS_UP_TO: held, WAREHOUSE: pipeline.warehouse.root, **_metadata(verdict)},
    )


def _ask(
    pipeline: Pipeline, run_id: str, again: RunAgain, table: TableName, increments: list[int]
) -> Iterator[list[Verdict]]:
    engine: Any = pipeline.check_engine
    return check_increments(
        pipeline.warehouse,
        pipeline.name,
        facts_of_output(pipeline.topology, table.name) if table.kind == OUTPUTS else None,
        increments,
        engine=engine,
        suites=[suite for suite in pipeline.suites if suite.table == table],
        docs=pipeline.data_docs,
        run_id=run_id,
        again=again,
    )


def _severity(verdict: Verdict) -> dg.AssetCheckSeverity:
    """What no table has evidence of stops nobody."""
    is_warning = verdict.severity == "warning" or verdict.answer == "unchecked"
    return dg.AssetCheckSeverity.WARN if is_warning else dg.AssetCheckSeverity.ERROR


def _sentence(pipeline: Pipeline, verdict: Verdict) -> str:
    if verdict.answer in ("unknown", "unchecked"):
        word = "Unknown" if verdict.answer == "unknown" else "Not checked"
        return f"{verdict.sentence} {word}: {verdict.reason}"
    if verdict.answer == "true":
        return verdict.sentence
    day = None if verdict.increment is None else partition_of(pipeline, verdict.increment)
    where = f"increment {verdict.increment}{'' if day is None else f', partition {day}'}"
    return f"{verdict.sentence} Broken in {where}: {', '.join(verdict.broken)}"


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
    if verdict.page:
        said["data_docs"] = dg.MetadataValue.url(verdict.page)
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
    value = next((row[name] for row in rows if row[name] is not None), "")
    return {bool: "bool", int: "int", float: "float"}.get(type(value), "string")
