"""Jobs that a person launches: plan changed code, promote a branch, restore, vacuum.

Owns their settings and what they say. Rule: each is one step that calls what the command of its name calls. A job
that removes something lists it first, and does it only when its config says so; a branch is promoted only when its
checks pass.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from ...expectations.verdicts import Verdict, is_in_order
from ...jobs.branches.branches import branch_of
from ...jobs.branches.promotion import promote
from ...jobs.branches.restatement import refuse_restore, restore
from ...jobs.branches.vacuum import vacuum
from ...jobs.code_changes.code_of_increment import other_code
from ...jobs.code_changes.state_migration import verdict_on
from ...jobs.history.committed_tables import done_row
from ...jobs.history.output_diff import OutputDiff
from ...jobs.replay.heartbeats import beating
from ...jobs.replay.unfinished import drop_command
from ...jobs.topology import Topology
from ...state.errors import ConfigError
from ...state.tables.ledger import Ledger
from ...state.tables.rows_in_force import in_force
from ..asked_runs import failing_in_one_sentence
from ..pipeline import Pipeline
from ..quality.judge import Judge
from ..resources import Engine
from ..schedules import warehouse_tag
from ..settings.topology_loading import load_topology
from ..text_tables import flat_row
from .planned_change import Planned, change_of, fork_point, plan_sample, plan_whole

Done = Callable[[Pipeline, Any, dg.OpExecutionContext], dict[str, Any]]


class PlanConfig(dg.Config):
    """Of a plan."""

    topology: str = Field(description="the changed code: module:name or path.py:name")
    branch: str = Field(description="name of the branch that is replayed with it")
    at: int | None = Field(None, description="fork after this increment; by default the one before the last, or 0")
    records: int | None = Field(None, description="only a sample of at most so many records, whose branch is dropped")
    rows: int = Field(20, description="so many rows that differ are shown of each output")


class PromoteConfig(dg.Config):
    """Of a promotion."""

    branch: str = Field(description="the branch that takes the place of its parent")
    topology: str | None = Field(None, description="its code, where it is other code: module:name or path.py:name")


class RestoreConfig(dg.Config):
    """Of a restore."""

    to: int = Field(description="continue from this increment; 0: from the start")
    do: bool = Field(False, description="do it; without it the run only lists what would be withdrawn")
    abandon: bool = Field(False, description="give up an increment that is planned and not done")


class VacuumConfig(dg.Config):
    """Of a vacuum."""

    keep_increments: int | None = Field(None, description="so many can be asked for afterwards; by default all")
    keep_days: float | None = Field(None, description="those of so many days can be asked for")
    delete: bool = Field(False, description="delete the files; without it the run only lists them")


def jobs_of_operators(pipeline: Pipeline) -> list[dg.JobDefinition]:
    """`…_plan`, `…_promote`, `…_restore`, `…_vacuum`."""
    name = pipeline.name
    return [
        _job(pipeline, "plan", PlanConfig, _plan, f"Says what changed code means for {name}: state and results."),
        _job(pipeline, "promote", PromoteConfig, _promote, f"Swaps a branch into {name} when its checks pass."),
        _job(
            pipeline, "restore", RestoreConfig, _restore, f"Makes {name} continue from an increment; by default lists."
        ),
        _job(
            pipeline, "vacuum", VacuumConfig, _vacuum, f"Deletes files that {name} no longer needs; by default lists."
        ),
    ]


def _job(pipeline: Pipeline, what: str, config: type[dg.Config], done: Done, words: str) -> dg.JobDefinition:
    @dg.op(
        name=f"{pipeline.word}_{what}_step",
        description=words,
        required_resource_keys=pipeline.resource_keys,
        pool=pipeline.word,
        config_schema=config.to_config_schema().as_field(),
        out=dg.Out(dg.Nothing),
    )
    def step(context: dg.OpExecutionContext) -> Iterator[Any]:
        with failing_in_one_sentence():
            mine = pipeline.in_run(context.resources)
            with beating(mine.own, context.run.run_id, what):
                said = done(mine, config(**context.op_config), context)
        yield dg.Output(None, metadata=said)

    @dg.job(
        name=f"{pipeline.word}_{what}",
        description=words,
        executor_def=dg.in_process_executor,
        resource_defs=pipeline.resources,
        tags=warehouse_tag(pipeline),
    )
    def job() -> None:
        step()

    return job


def _plan(pipeline: Pipeline, asked: PlanConfig, context: dg.OpExecutionContext) -> dict[str, Any]:
    changed = load_topology(asked.topology, pipeline.warehouse)
    change = change_of(pipeline, changed)
    for sentence in change.sentences:
        context.log.info(sentence)
    engine: Engine = getattr(context.resources, pipeline.engine_key)
    at = fork_point(pipeline, asked.at, goes_on=change.goes_on)
    work = pipeline, changed, asked.branch, at
    end = engine.runner(), context.run.run_id, context.log.info
    planned = plan_whole(*work, *end) if asked.records is None else plan_sample(*work, asked.records, *end)
    said: dict[str, Any] = {
        "state_goes_on": change.goes_on,
        "changes": dg.MetadataValue.md("\n".join(f"- {sentence}" for sentence in change.sentences)),
        "forked_after_increment": planned.at,
        "records_read": planned.records,
        "next_step": _next_step(pipeline, asked, planned),
    }
    if planned.cuts is not None:
        context.log.warning(planned.cuts)
        said["warning"] = planned.cuts
    if planned.one_sided:
        said["outputs_of_one_side"] = ", ".join(planned.one_sided)
    for diff in planned.diffs:
        context.log.info(f"{diff.output}: {diff.equal:,} equal, {len(diff.rows):,} differ")
        said |= _diff(diff, asked.rows)
    return said


def _next_step(pipeline: Pipeline, asked: PlanConfig, planned: Planned) -> str:
    if asked.records is not None:
        return "a sample: plan without `records` for a branch that can be promoted"
    dropped_by = drop_command(pipeline.warehouse, planned.branch)
    return f"launch {pipeline.word}_promote with branch: {planned.branch}, or drop it: `{dropped_by}`"


def _diff(diff: OutputDiff, most: int) -> dict[str, Any]:
    """By key and window: the numbers, and the first rows that differ as a table."""
    kinds = diff.rows["difference"].value_counts().iter_rows()
    counts: dict[str, int] = dict(kinds)
    said: dict[str, Any] = {
        f"{diff.output}/equal": diff.equal,
        f"{diff.output}/differ": counts.get("differs", 0),
        f"{diff.output}/only_before": counts.get("only in A", 0),
        f"{diff.output}/only_after": counts.get("only in B", 0),
    }
    rows = [flat_row(row) for row in diff.rows.head(most).to_dicts()]
    if rows:
        said[f"{diff.output}/first_rows"] = dg.MetadataValue.md(markdown_table(rows))
    return said


def markdown_table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows beneath their column names; null is empty. What Markdown would take for its own is escaped."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, ["---"] * len(names), *([_cell(row.get(name)) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


def _promote(pipeline: Pipeline, asked: PromoteConfig, context: dg.OpExecutionContext) -> dict[str, Any]:
    branch = branch_of(pipeline.warehouse, asked.branch)
    if branch.parent != pipeline.name:
        raise ConfigError(
            f"branch {asked.branch!r}", f"a branch of {pipeline.name}", f"one of {branch.parent}", "launch its own job"
        )
    warehouse, changed = pipeline.warehouse, asked.topology
    topology = pipeline.topology if changed is None else load_topology(changed, warehouse)
    verdicts = list(_verdicts(pipeline, asked.branch, topology))
    broken = [verdict for verdict in verdicts if not is_in_order(verdict)]
    for verdict in broken:
        context.log.error(_sentence(verdict))
    if broken:
        raise dg.Failure(
            f"{asked.branch} is not promoted, since {len(broken)} of its checks did not pass: {_sentence(broken[0])}",
            allow_retries=False,
        )
    row = promote(pipeline.warehouse, asked.branch)
    context.log.info(f"{pipeline.name} is {asked.branch} from increment {row.increment} on (epoch {row.epoch})")
    return {"increment": row.increment, "epoch": row.epoch, "checks_passed": len(verdicts)}


def _verdicts(pipeline: Pipeline, branch: str, topology: Topology) -> Iterator[Verdict]:
    """On every increment of the branch's own that can be asked for. Raises ConfigError where other code ran it."""
    engine: Any = pipeline.check_engine
    judge = Judge.of(
        pipeline.warehouse, branch, topology, refused=pipeline.refused, suites=pipeline.suites, engine=engine
    )
    ledger, last = Ledger(pipeline.warehouse.pipeline(branch).ledger), done_row(pipeline.warehouse, branch).content
    made = judge.topology.reading(last.cut_to)
    # Texts of functions of another version of Python are not comparable: then no change is known.
    if other_code(last, made) and (changes := verdict_on(last, made).changes):
        raise ConfigError(
            f"branch {branch!r}", "the code that it ran with, by which its checks judge", changes[0].sentence(),
            "set `topology` in the run's config to that code",
        )  # fmt: skip
    rows = in_force(ledger.done_rows(ledger.oldest_kept()))
    return judge.verdicts([row.increment for row in rows if not row.content.has_no_plan])


def _sentence(verdict: Verdict) -> str:
    why = ", ".join(verdict.broken) or verdict.reason
    return f"{verdict.guarantee} of {verdict.table}, increment {verdict.increment}: {verdict.sentence} ({why})"


def _restore(pipeline: Pipeline, asked: RestoreConfig, context: dg.OpExecutionContext) -> dict[str, Any]:
    rows = in_force(pipeline.ledger.done_rows())
    withdrawn = [row for row in rows if row.increment > asked.to]
    records = sum((row.content.books or {}).get("read", 0) for row in withdrawn)
    summary = f"{len(withdrawn):,} increments after {asked.to}, which read {records:,} records"
    said: dict[str, Any] = {"increments_withdrawn": len(withdrawn), "records_to_read_again": records}
    if not asked.do:
        refuse_restore(pipeline.warehouse, pipeline.name, asked.to, abandon=asked.abandon)
        context.log.warning(f"would withdraw {summary}; launch it with `do: true` in its config")
        return said | {"is_done": False}
    row = restore(pipeline.warehouse, pipeline.name, asked.to, abandon=asked.abandon)
    context.log.info(f"withdrew {summary}; {pipeline.name} continues after increment {asked.to} (epoch {row.epoch})")
    return said | {"is_done": True, "increment": row.increment, "epoch": row.epoch}


def _vacuum(pipeline: Pipeline, asked: VacuumConfig, context: dg.OpExecutionContext) -> dict[str, Any]:
    report = vacuum(
        pipeline.warehouse,
        pipeline.name,
        keep_increments=asked.keep_increments,
        keep_days=asked.keep_days,
        delete=asked.delete,
    )
    size = sum(waste.bytes for waste in report.waste)
    verb = "deleted" if report.is_deleted else "would be deleted with `delete: true`"
    context.log.info(f"{len(report.waste):,} files, {size:,} bytes {verb}")
    said: dict[str, Any] = {"files": len(report.waste), "bytes": size, "is_deleted": report.is_deleted}
    if report.waste:
        said["by_table"] = dg.MetadataValue.md(markdown_table(report.lines()))
    if report.oldest:
        said["oldest_increment"] = report.oldest
    return said
