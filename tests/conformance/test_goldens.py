"""Every scenario that real Kafka Streams answered, played and compared whole."""

from collections import Counter
from dataclasses import replace

import pytest

from kstreams_replay.state.kafka_version import JUDGE
from tests.conformance.__main__ import report, reports
from tests.conformance.scenarios import GOLDENS, REGRESSIONS, Scenario, read_scenarios
from tests.sampling import is_nightly, sample_of, sampled

SCENARIOS = [scenario for path in sorted(GOLDENS.glob("*.jsonl*")) for scenario in read_scenarios(path)]
NAMES = [scenario.name for scenario in SCENARIOS]
FOUND = [scenario for path in sorted(REGRESSIONS.glob("*.jsonl")) for scenario in read_scenarios(path)]
"""Random scenarios that once did something else than Kafka Streams."""


def operators_of(scenario: Scenario) -> set[str]:
    """Operators of the scenario's topology, each kind of window, join, suppress and emission by itself."""
    kinds = ("op", "type", "until", "full", "emit")
    return {" ".join(str(node[kind]) for kind in kinds if kind in node) for node in scenario.topology["nodes"]}


OPERATORS = Counter(operator for scenario in SCENARIOS for operator in operators_of(scenario))
"""In how many scenarios each is."""


def rarest_operator(scenario: Scenario) -> str:
    """The operator that fewest scenarios have; where each of these is one, a sample of scenarios has all operators."""
    return min(operators_of(scenario), key=lambda operator: (OPERATORS[operator], operator))


def name_of(scenario: Scenario) -> str:
    """By which it is in the sample, or not."""
    return scenario.name


SAMPLE = sampled(SCENARIOS, name=name_of, stratum=rarest_operator)
"""What ways of playing that cost more than the test driver play: in the default tier some of every operator."""

SUPPRESSED = [
    scenario for scenario in SCENARIOS if any(node["op"] == "suppress" for node in scenario.topology["nodes"])
]


def test_every_golden_says_that_the_judge_made_it():
    assert {scenario.kafka for scenario in SCENARIOS + FOUND} == {JUDGE}


def test_the_golden_files_hold_as_many_scenarios_of_every_family_as_were_copied():
    """
    The counts are literal, so that none can vanish unseen.
    """
    got = Counter(scenario.family for scenario in SCENARIOS)

    assert got == {
        "composition": 32,
        "dedup": 18,
        "dedup_reprocessed": 5,
        "examples": 32,
        "foreign_key": 16,
        "hopping": 11,
        "kafka": 29,
        "kip328": 22,
        "kip655": 17,
        "kip914": 30,
        "kip94": 7,
        "kstream_aggregate": 7,
        "ktable_aggregate": 14,
        "on_close": 18,
        "rejected": 5,
        "session": 18,
        "sliding": 16,
        "stateless": 5,
        "stream_stream": 21,
        "stream_table": 11,
        "stream_table_grace": 14,
        "stream_table_versioned": 14,
        "suppress_final": 18,
        "suppress_time": 18,
        "table_ops": 11,
        "table_table": 16,
        "tumbling": 12,
    }
    assert len(SCENARIOS) == 437
    assert len(SUPPRESSED) == 90


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_scenario_does_what_kafka_streams_did(scenario: Scenario):
    why = report(scenario)

    assert why is None, f"{scenario.name}\n{why}"


def test_what_once_differed_no_longer_does():
    differing = [f"{scenario.name}\n{why}" for scenario in FOUND if (why := report(scenario)) is not None]

    assert not differing, "\n".join(differing)


@pytest.mark.parametrize("scenario", SUPPRESSED, ids=lambda scenario: scenario.name)
def test_a_buffer_that_does_not_count_bytes_emits_the_same(scenario: Scenario):
    """
    Without byte counts an aggregate below a suppress computes final results only: another path, the same answers.
    """
    why = report(replace(scenario, sensitive=("buffer_size",)), counts_bytes=False)

    assert why is None, f"{scenario.name}\n{why}"


@pytest.mark.slow
@pytest.mark.every_run
@pytest.mark.parametrize("chunk_records", [7, 1])
def test_where_a_batch_is_cut_into_chunks_changes_no_scenario(chunk_records):
    got = {
        scenario.name: why for scenario, why in zip(SAMPLE, reports(SAMPLE, chunk_records=chunk_records), strict=True)
    }

    assert {name: why for name, why in got.items() if why is not None} == {}


def test_the_sample_has_every_operator():
    few = sample_of(SCENARIOS, name_of, rarest_operator)

    assert len(SCENARIOS) / 20 <= len(few) <= len(SCENARIOS) / 5
    assert set().union(*map(operators_of, few)) == set(OPERATORS)
    assert (SCENARIOS if is_nightly() else few) == SAMPLE
