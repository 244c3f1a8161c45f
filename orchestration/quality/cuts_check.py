"""An asset check that runs some committed increments again, cut otherwise: others each time, off by default.

Owns which increments those are. Rule: the increments of the pipeline are taken in pieces of so many, and each new
increment takes another piece, so that all come again and again. They run on temporary branches in this process,
whatever the engine is.
"""

from collections.abc import Iterator

import dagster as dg

from ...jobs.branches.verification import RANDOM, Verification, verifiable, verify, why_not_verifiable
from ...jobs.execution.task_run import LocalRunner
from ...jobs.replay.heartbeats import beating
from ...state.errors import ReplayError
from ...state.tables.names import TableName
from ..pipeline import Pipeline

CUTS = "a_cut_changes_nothing"
CUTS_RULE = "Increments that are run again, as one and cut at random, leave the same tables."


def cuts_checks(pipeline: Pipeline) -> list[dg.AssetChecksDefinition]:
    """The check, of the first output, though it compares all tables; none where it is not asked for."""
    sinks = [sink.topic for sub in pipeline.topology.sub_topologies for sink in sub.sinks]
    if pipeline.verify_increments is None or not sinks:
        return []

    @dg.asset_check(
        asset=pipeline.key(TableName.output(sinks[0])),
        name=CUTS,
        description=CUTS_RULE,
        required_resource_keys=pipeline.resource_keys - {pipeline.engine_key},
    )
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        mine = pipeline.in_run(context.resources)
        with beating(mine.own, context.run.run_id, CUTS):
            return _result(mine)

    return [check]


def _result(pipeline: Pipeline) -> dg.AssetCheckResult:
    increments = _turn(pipeline)
    if increments is None:
        why = why_not_verifiable(pipeline.warehouse, pipeline.topology, pipeline.name)
        reason = "nothing has been replayed yet" if why is None else f"{why}; the next one that this code runs can be"
        return dg.AssetCheckResult(passed=True, description=f"No increment was run again: {reason}.")
    since, until = increments[0], increments[-1]
    last = pipeline.ledger.last_done()
    assert last is not None
    try:
        verification = verify(
            pipeline.warehouse, pipeline.topology, pipeline=pipeline.name, runner=LocalRunner(), since=since,
            until=until, increments=(1, RANDOM), seed=last.increment,
        )  # fmt: skip
    except ReplayError as error:
        words = f"Increments {since} to {until} could not be run again: {error}"
        return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN, description=words)
    return dg.AssetCheckResult(
        passed=verification.holds,
        severity=dg.AssetCheckSeverity.ERROR,
        description=". ".join(
            [f"Increments {since} to {until}, {verification.records:,} records", *_differences(verification)]
        ),
        metadata={
            "first_increment": since,
            "last_increment": until,
            "records": verification.records,
            "seconds": sum(cutting.seconds for cutting in verification.cuttings),
            "digests": dg.MetadataValue.json(verification.digests),
        },
    )


def _turn(pipeline: Pipeline) -> range | None:
    """The increments whose turn it is."""
    size = pipeline.verify_increments
    assert size is not None
    pieces = [
        range(begin, min(begin + size, each.stop))
        for each in verifiable(pipeline.warehouse, pipeline.topology, pipeline.name)
        for begin in range(each.start, each.stop, size)
    ]
    last = pipeline.ledger.last_done()
    return None if last is None or not pieces else pieces[turn_of(last.increment, len(pieces))]


def turn_of(increment: int, pieces: int) -> int:
    """Which of so many ``pieces``, from 0, is run again with ``increment``."""
    # Pieces become more with the increments, so their remainder would always be the same few. It begins with the
    # first piece at each power of two instead: until the next one all pieces come that were there.
    return (increment - (1 << increment.bit_length() - 1)) % pieces


def _differences(verification: Verification) -> Iterator[str]:
    for cutting in verification.cuttings:
        if cutting.difference is not None:
            yield f"{cutting.name} the tables are others: {cutting.difference}"
            yield from (f"{node} answered otherwise when asked again: {said}" for node, said in cutting.impure.items())
