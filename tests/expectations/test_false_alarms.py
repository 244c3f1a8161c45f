"""Cut at random, golden scenarios do through tables what real Kafka Streams did, and no guarantee is broken by it; nor
by random topologies.
"""

import random
from collections.abc import Iterable

import pytest

from tests.conformance.scenarios import Scenario
from tests.conformance.test_goldens import SAMPLE, SCENARIOS
from tests.expectations.false_alarms import JudgedScenarios, judged, random_scenarios

PARTS = 6
"""Each part of the goldens is cut by another seed, and may run beside the others; together they are half of them, since
all of them, with every check, take ten minutes."""
TOPOLOGIES = 5
"""Random ones of a run, beside which 2,000 are tried by the command."""


def last(scenarios: Iterable[Scenario], cuts: str | None = None) -> JudgedScenarios:
    """What came of all of them."""
    *_, found = judged(scenarios, cuts)
    return found


def told(found: JudgedScenarios) -> list[tuple[object, ...]]:
    """False alarms, to be read."""
    return [
        (name, each.guarantee, each.table, each.increment, each.reason, each.witnesses[:1])
        for name, each in found.alarms
    ]


@pytest.mark.every_run
@pytest.mark.slow
@pytest.mark.parametrize("part", [pytest.param(p, marks=pytest.mark.nightly if p else ()) for p in range(PARTS)])
def test_cut_anywhere_a_scenario_does_what_kafka_streams_did_and_breaks_no_guarantee(part):
    found = last(SAMPLE[part :: 2 * PARTS], f"random:{part}")

    assert found.differing == {}
    assert told(found) == []
    assert found.answers["true"] > found.increments


def test_a_record_that_comes_again_under_its_own_offset_is_no_false_alarm():
    """
    KIP-655 forwards it again; whether a record is one is in no table of results, so nothing is said.
    """
    found = last([scenario for scenario in SCENARIOS if scenario.name == "kip655/13_reprocessed_offset"], "random:0")

    assert told(found) == []
    assert (found.scenarios, found.answers["unchecked"] > 0) == (1, True)


def test_no_random_topology_breaks_a_guarantee():
    """
    The name of an alarm has the seed: ``python -m tests.expectations.false_alarms --random 1 --from SEED``.
    """
    found = last(random_scenarios(random.randrange(10**9), TOPOLOGIES))

    assert told(found) == []
    assert found.answers["true"] > found.increments
