"""Every golden scenario whose operators this project has, played and compared record by record."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.conformance.__main__ import report
from tests.conformance.coverage import COVERED
from tests.conformance.scenarios import GOLDENS, Scenario, read_scenarios

SCENARIOS = [scenario for path in sorted(GOLDENS.glob("*.jsonl*")) for scenario in read_scenarios(path)]
SELECTED = [scenario for scenario in SCENARIOS if scenario.operators <= COVERED]
SUPPRESSED = [scenario for scenario in SELECTED if "suppress until window_closes" in scenario.operators]


def test_the_golden_files_hold_as_many_scenarios_as_were_copied():
    assert len(SCENARIOS) == 437


def test_the_selection_has_every_scenario_of_the_covered_operators():
    """
    The counts are literal, so that none can vanish from the selection unseen.
    """
    got = Counter(scenario.family for scenario in SELECTED)

    assert got == {
        "c_final_then_count": 1,
        "c_final_then_larger_window": 2,
        "examples": 10,
        "hopping": 11,
        "kafka": 9,
        "kip328": 2,
        "kip655": 2,
        "kip94": 7,
        "kstream_aggregate": 7,
        "rejected": 4,
        "session": 18,
        "stateless": 4,
        "suppress_final": 8,
        "tumbling": 12,
    }
    assert len(SELECTED) == 97
    assert len(SUPPRESSED) == 19


def test_every_covered_operator_is_in_a_selected_scenario():
    used = set().union(*(scenario.operators for scenario in SELECTED))

    assert used == COVERED


@pytest.mark.parametrize("scenario", SELECTED, ids=lambda scenario: scenario.name)
def test_a_scenario_does_what_kafka_streams_did(scenario: Scenario):
    why = report(scenario)

    assert why is None, f"{scenario.name}\n{why}"


@pytest.mark.parametrize("scenario", SUPPRESSED, ids=lambda scenario: scenario.name)
def test_a_buffer_that_does_not_count_bytes_emits_the_same(scenario: Scenario):
    """
    Without byte counts an aggregate below a suppress computes final results only: another path, the same answers.
    """
    why = report(replace(scenario, sensitive=("buffer_size",)), counts_bytes=False)

    assert why is None, f"{scenario.name}\n{why}"


@pytest.mark.parametrize("chunk_records", [1, 7])
def test_where_a_batch_is_cut_into_chunks_changes_no_scenario(chunk_records):
    got = {scenario.name: report(scenario, chunk_records=chunk_records) for scenario in SELECTED}

    assert {name: why for name, why in got.items() if why is not None} == {}
