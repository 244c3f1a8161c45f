"""Every golden scenario whose operators this project has, played and compared record by record."""

from collections import Counter

import pytest

from tests.conformance.__main__ import report
from tests.conformance.coverage import COVERED
from tests.conformance.scenarios import GOLDENS, Scenario, read_scenarios

SCENARIOS = [scenario for path in sorted(GOLDENS.glob("*.jsonl*")) for scenario in read_scenarios(path)]
SELECTED = [scenario for scenario in SCENARIOS if scenario.operators <= COVERED]


def test_the_golden_files_hold_as_many_scenarios_as_were_copied():
    assert len(SCENARIOS) == 437


def test_the_selection_has_every_scenario_of_the_covered_operators():
    """The counts are literal, so that none can vanish from the selection unseen."""
    got = Counter(scenario.family.removeprefix("public/") for scenario in SELECTED)
    assert got == {}
    assert len(SELECTED) == 92


@pytest.mark.parametrize("scenario", SELECTED, ids=lambda scenario: scenario.name)
def test_a_scenario_does_what_kafka_streams_did(scenario: Scenario):
    why = report(scenario, "driver")
    assert why is None, f"{scenario.name}\n{why}"
