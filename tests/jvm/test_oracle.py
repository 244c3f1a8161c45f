"""Real Kafka Streams, asked on the spot: about the goldens, and about random scenarios that nobody has seen before."""

from collections.abc import Iterator

import pytest

from kstreams_replay.state.kafka_version import JUDGES
from tests.conformance import readable
from tests.conformance.comparison import first_difference
from tests.conformance.scenarios import GOLDENS, read_scenarios, scenario_of
from tests.jvm.differential import failures
from tests.jvm.oracle import Oracle, open_oracle
from tests.jvm.random_scenarios import scenarios
from tests.sampling import is_nightly, seed

pytestmark = pytest.mark.jvm

TOPOLOGIES, TAPES = (600 if is_nightly() else 75), 4


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with open_oracle() as running:
        yield running


@pytest.mark.parametrize("tasks", ["one", "apart"])
def test_the_judges_tasks_say_what_the_goldens_say(oracle, tasks):
    """
    Kafka's test driver stamped them; the tasks are those of `replay judge`, all sub-topologies in one and each apart.
    """
    goldens = [golden for path in sorted(GOLDENS.glob("*.jsonl*")) for golden in read_scenarios(path)]

    said = oracle.ask([vars(golden) for golden in goldens], tasks=tasks)

    differences = {
        golden.name: str(first_difference(golden, golden.want or {}, answer["result"]))
        for golden, answer in zip(goldens, said, strict=True)
    }
    assert {name: why for name, why in differences.items() if why != "None"} == {}
    assert len(said) == 437


@pytest.mark.nightly
@pytest.mark.parametrize("version", JUDGES[1:])
def test_another_version_of_kafka_streams_says_what_the_goldens_say(version):
    """
    So a replay makes the rows of that version, too; random scenarios are asked as well.
    """
    goldens = [golden for path in sorted(GOLDENS.glob("*.jsonl*")) for golden in read_scenarios(path)]
    lines = [line for number in range(TOPOLOGIES // 8) for line in scenarios(seed() + number, TAPES)]

    with open_oracle(version) as running:
        said = running.ask([vars(golden) for golden in goldens])
        differing = [f"{line['name']}\n{why}" for line, why in failures(running, lines)]

    whys = [
        first_difference(golden, golden.want or {}, each["result"]) for golden, each in zip(goldens, said, strict=True)
    ]
    assert [str(why) for why in whys if why is not None] == []
    assert not differing, "\n\n".join([f"seed {seed()}, {len(differing)} differ", *differing])


def test_stamping_changes_no_scenario_file(oracle):
    files = readable.scenario_files()

    stamped = oracle.ask([readable.read(path) for path in files])

    changed = [path for path, line in zip(files, stamped, strict=True) if readable.written(line) != path.read_text()]
    assert changed == []


def test_random_scenarios_do_what_kafka_streams_does(oracle):
    """
    ``python -m tests.jvm.differential --seed SEED --scenarios N`` plays them again and makes the failures small.
    """
    lines = [line for number in range(TOPOLOGIES) for line in scenarios(seed() + number, TAPES)]

    differing = [f"{line['name']}\n{why}" for line, why in failures(oracle, lines)]

    assert not differing, "\n\n".join([f"seed {seed()}, {len(differing)} differ", *differing])
    assert len(lines) == TOPOLOGIES * TAPES


def test_the_oracle_sees_a_planted_difference(oracle):
    """
    A scenario with another grace than the golden's has another result.
    """
    path = next(path for path in readable.scenario_files() if path.stem == "kip328-17-close-boundary")
    text = path.read_text()
    longer = readable.parsed(text.replace("grace=5", "grace=6"), "longer")

    said = scenario_of(oracle.ask([longer])[0])

    assert "grace=5" in text
    assert first_difference(said, said.want or {}, longer["result"]) is not None
