"""No guarantee is broken by what real Kafka Streams does: the golden scenarios, through tables, cut at random."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kstreams_replay.expectations.verdicts import Verdict, check_increment
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.errors import ConfigError, TaskFailed
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.conformance.engines import built
from tests.conformance.scenarios import Scenario
from tests.conformance.tables_engine import increments, land, replayed
from tests.conformance.test_goldens import SLICE

PARTS = 6
KAFKA_BREAKS = {"G1": "sessions and sliding windows have a second final result, one millisecond after their close"}
"""Guarantees that Kafka itself breaks, by its own code, and why."""


def alarms(scenario: Scenario, cuts: str) -> Iterator[Verdict]:
    """Verdicts that are false or unknown, of every increment of a scenario; of one that fails, of those before."""
    try:
        topology = built(scenario)
    except ConfigError:
        return
    facts = replay_facts(topology)
    with TemporaryDirectory() as folder:
        warehouse, runner = Warehouse(str(Path(folder))), LocalRunner(f"{folder}/cache")
        land(warehouse, topology, scenario.records)
        for number, size in enumerate(increments(cuts, len(scenario.records)), 1):
            try:
                replayed(warehouse, topology, size, runner)
            except TaskFailed:
                return
            for verdict in check_increment(warehouse, "scenario", facts, number, engine="plain"):
                if verdict.answer in ("false", "unknown") and verdict.severity == "error":
                    yield verdict


@pytest.mark.parametrize("part", range(PARTS))
def test_no_scenario_of_kafka_streams_breaks_a_guarantee(part):
    got = [
        (scenario.name, each.guarantee, each.table, each.increment, each.reason, each.witnesses[:1])
        for scenario in SLICE[part::PARTS]
        for each in alarms(scenario, f"random:{part}")
        if each.guarantee not in KAFKA_BREAKS
    ]

    assert got == []
