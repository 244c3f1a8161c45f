"""A range of time made again, from Dagster: a job whose run leaves a branch and says what differs.

Owns the job's config and the metadata of its result. Rule: it does what `replay backfill` and `replay diff` do, with
their words; nothing is promoted, and the pipeline itself is only read.
"""

import dagster as dg

from ...jobs.branches.backfill import Backfill, backfill
from ...jobs.history.output_diff import diff_output, outputs_of
from ...jobs.replay.heartbeats import beating
from ...state.times import instant_ms
from ..asked_runs import failing_in_one_sentence
from ..metadata import Metadata
from ..pipeline import Pipeline
from ..resources import Engine
from ..settings.topology_loading import load_topology
from ..text_tables import flat_row, utc

ROWS = 20
"""Of an output, so many that differ are shown."""


class BackfillConfig(dg.Config):
    """``from_time``, ``to_time``: the range, ISO 8601 or milliseconds, its end not in it. ``name``: of the branch.
    ``topology``: the changed code, as the command takes it; None: the pipeline's own.
    """

    from_time: str
    to_time: str
    name: str
    topology: str | None = None


def backfill_job(pipeline: Pipeline) -> dg.JobDefinition:
    """The job `<pipeline>_backfill`."""

    @dg.op(
        name=f"{pipeline.word}_range",
        description="Computes a range of time again, on a branch, and compares its rows with the committed ones.",
        required_resource_keys=pipeline.resource_keys,
        out=dg.Out(dg.Nothing),
    )
    def range_(context: dg.OpExecutionContext, config: BackfillConfig) -> None:
        engine: Engine = getattr(context.resources, pipeline.engine_key)
        in_run = pipeline.in_run(context.resources)
        with beating(in_run.own, context.run.run_id, "a backfill of a range") as heart, failing_in_one_sentence():

            def log_line(sentence: str) -> None:
                heart.say(sentence)
                context.log.info(sentence)

            made = backfill(
                in_run.warehouse,
                in_run.topology if config.topology is None else load_topology(config.topology, in_run.warehouse),
                pipeline=in_run.name,
                name=config.name,
                from_ms=instant_ms(config.from_time, "from_time"),
                to_ms=instant_ms(config.to_time, "to_time"),
                runner=engine.runner(in_run.kafka_version),
                max_records=in_run.max_records,
                on_step=context.log.debug,
                doing=log_line,
                kafka_version=in_run.kafka_version,
            )
            context.add_output_metadata(_metadata(in_run, made))

    @dg.job(
        name=f"{pipeline.word}_backfill",
        description=f"A range of {pipeline.name}, made again on a branch; `replay promote` takes it over.",
        executor_def=dg.in_process_executor,
    )
    def job() -> None:
        range_()

    return job


def _metadata(pipeline: Pipeline, made: Backfill) -> Metadata:
    said: Metadata = {
        "branch": made.name,
        "from": utc(made.range.from_ms),
        "to": utc(made.range.to_ms),
        "began_with": made.begins,
        "records_warming_up": made.warmed_up,
        "records_replayed": made.replayed,
        "still_open": ", ".join(sorted({each.node for each in made.open})) or "nothing",
        "not_made": "; ".join(f"{output} (processor {by})" for output, by in made.left_out.items()) or "nothing",
        "proved_equal": ", ".join(made.compared) or "nothing: the code is another",
    }
    known = outputs_of(pipeline.warehouse, pipeline.name)
    for output in made.rows:
        said[f"rows/{output}"] = made.rows[output]
        if output in known:
            said |= _differences(pipeline, made, output)
    return said


def _differences(pipeline: Pipeline, made: Backfill, output: str) -> Metadata:
    """Keys and windows of an output, the pipeline's (A) against the branch's (B), and the first that differ."""
    diff = diff_output(pipeline.warehouse, pipeline.name, made.name, output)
    kinds = diff.rows["difference"].to_list()
    said: Metadata = {
        f"equal/{output}": diff.equal,
        f"different/{output}": kinds.count("differs"),
        f"only_in_pipeline/{output}": kinds.count("only in A"),
        f"only_in_branch/{output}": kinds.count("only in B"),
    }
    rows = [
        {name: value if isinstance(value, int | float | bool) else str(value) for name, value in flat_row(row).items()}
        for row in diff.rows.head(ROWS).to_dicts()
    ]
    if rows:
        said[f"first_differences/{output}"] = dg.MetadataValue.table([dg.TableRecord(row) for row in rows])
    return said
