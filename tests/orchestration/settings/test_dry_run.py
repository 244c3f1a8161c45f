"""A dry run refuses what the run would refuse."""

import pytest

from kstreams_replay import Consumed, Serde, StreamsBuilder
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.orchestration.settings.dry_run import dry_run_of
from kstreams_replay.orchestration.settings.run_settings import RequestedRun
from kstreams_replay.state.errors import CodeChanged, LedgerError
from kstreams_replay.state.tables.ledger import Ledger
from tests.planted import LandedRecord, plant


def topology(output="pages"):
    builder = StreamsBuilder()
    builder.stream("clicks", Consumed(Serde.string(), Serde.string())).to(output)
    return builder.build()


def land(warehouse, first_offset=0):
    plant(warehouse, "clicks", [LandedRecord(0, b"a", b"x", 5)], partitions=1, first_offset=first_offset)


def refused(warehouse, code, error):
    """What the dry run says, and what the run that follows it raises, which is the same."""
    said = dry_run_of(warehouse, code, pipeline="p", asked=RequestedRun())
    with pytest.raises(error) as raised:
        list(replay(warehouse, code, pipeline="p", runner=LocalRunner()))
    assert said.refusal == str(raised.value)
    assert f"refused: {said.refusal}" in said.sentences


def test_records_after_a_flush(warehouse):
    land(warehouse)
    list(replay(warehouse, topology(), pipeline="p", runner=LocalRunner(), flush_at_end=True))
    assert dry_run_of(warehouse, topology(), pipeline="p", asked=RequestedRun()).refusal is None

    land(warehouse, first_offset=1)

    refused(warehouse, topology(), LedgerError)


def test_an_increment_that_other_code_planned_and_began(warehouse, monkeypatch):
    land(warehouse)
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "done", _die)
        with pytest.raises(InterruptedError):
            list(replay(warehouse, topology(), pipeline="p", runner=LocalRunner()))

    refused(warehouse, topology("others"), CodeChanged)


def _die(*_, **__):
    raise InterruptedError
