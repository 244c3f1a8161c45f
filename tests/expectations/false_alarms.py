"""``python -m tests.expectations.false_alarms``: what real Kafka Streams does breaks no guarantee.

Rule: a scenario goes through tables, cut at random, and every increment is judged by every guarantee. What says
"false", or "unknown", is a false alarm, as tables hold what Kafka Streams would have done: of a golden scenario that is
compared too, of a random one the differential test says so. Random topologies need no Java here; those that Kafka
Streams refuses are counted apart, and of a scenario that fails at a record the increments before it are judged.
"""

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kstreams_replay.expectations.verdicts import Verdict, check_increment
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.orchestration.facts import replay_facts, second_run
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.conformance.comparison import first_difference
from tests.conformance.scenarios import Scenario, scenario_of
from tests.conformance.tables_engine import PIPELINE, play_with_tables
from tests.conformance.test_goldens import SCENARIOS
from tests.jvm.random_scenarios import scenario as random_line

KAFKA_BREAKS = {"G1": "sessions and sliding windows have a second final result, one millisecond after their close"}
"""Guarantees that Kafka itself breaks, by its own code, and why."""


@dataclass
class JudgedScenarios:
    """``scenarios`` that were played, of them ``refused`` by Kafka Streams; verdicts by answer, of so many increments;
    ``by_kafka``: false ones of guarantees that Kafka itself breaks; ``differing``: what else scenarios did than there.
    """

    scenarios: int = 0
    refused: int = 0
    increments: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    by_kafka: int = 0
    alarms: list[tuple[str, Verdict]] = field(default_factory=list)
    differing: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        answers = ", ".join(f"{count:,} {answer}" for answer, count in sorted(self.answers.items()))
        return (
            f"{self.scenarios} scenarios ({self.refused} of them refused, as Kafka Streams does), {self.increments:,} "
            f"increments; verdicts: {answers or 'none'}; {self.by_kafka} false where Kafka breaks its KIP; "
            f"{len(self.alarms)} false alarms; {len(self.differing)} differ from Kafka Streams"
        )

    def take(self, scenario: str, verdicts: Iterable[Verdict]) -> None:
        """Those on an increment of the scenario."""
        self.increments += 1
        for each in verdicts:
            self.answers[each.answer] += 1
            if each.severity == "error" and each.answer in ("false", "unknown"):
                is_kafkas = each.guarantee in KAFKA_BREAKS and each.answer == "false"
                self.by_kafka += is_kafkas
                self.alarms += [] if is_kafkas else [(scenario, each)]


def judged(scenarios: Iterable[Scenario], cuts: str | None = None) -> Iterator[JudgedScenarios]:
    """What came of them, after each the same object, further on. ``cuts``: None for others in every scenario."""
    found = JudgedScenarios()
    for scenario in scenarios:

        def judge(warehouse: Warehouse, topology: Topology, done: int, name: str = scenario.name) -> None:
            again = second_run(warehouse, PIPELINE, topology)
            facts = replay_facts(topology)
            found.take(name, check_increment(warehouse, PIPELINE, facts, done, engine="plain", again=again))

        found.scenarios += 1
        got = play_with_tables(scenario, cuts=cuts or f"random:{scenario.name}", after=judge)
        found.refused += got.get("phase") == "build"
        difference = first_difference(scenario, scenario.want, got) if scenario.want is not None else None
        if difference is not None:
            found.differing[scenario.name] = str(difference)
        yield found


def random_scenarios(seed: int, count: int) -> Iterator[Scenario]:
    """Scenarios of so many random topologies."""
    return (scenario_of(random_line(number)) for number in range(seed, seed + count))


def has(scenario: Scenario, pattern: str) -> bool:
    """Whether its topology has such an operator or parameter."""
    return any(re.search(pattern, " ".join([node["op"], *node])) for node in scenario.topology["nodes"])


def main(arguments: list[str] | None = None) -> int:
    """1 where there is a false alarm, or a golden scenario did something else than Kafka Streams."""
    parser = argparse.ArgumentParser(prog="python -m tests.expectations.false_alarms", description=__doc__)
    parser.add_argument("--random", type=int, metavar="N", help="random topologies, instead of the golden scenarios")
    parser.add_argument("--from", dest="seed", type=int, default=random.randrange(10**9), help="seed of the first one")
    only = "topologies that have such an operator or parameter"
    parser.add_argument("--only", default="", metavar="REGEX", help=only)
    chosen = parser.parse_args(arguments)
    every = SCENARIOS if chosen.random is None else random_scenarios(chosen.seed, chosen.random)
    print("the golden scenarios" if chosen.random is None else f"from seed {chosen.seed}", flush=True)
    found, told = JudgedScenarios(), 0
    for found in judged(scenario for scenario in every if has(scenario, chosen.only)):
        for name, each in found.alarms[told:]:
            print(f"FALSE ALARM {name}, increment {each.increment}: {each.guarantee} of {each.table}: "
                  f"{each.reason or each.witnesses[:2]}", flush=True)  # fmt: skip
        told = len(found.alarms)
        if found.scenarios % 100 == 0:
            print(found, flush=True)
    print(found)
    for name, why in found.differing.items():
        print(f"DIFFERS {name}\n{why}")
    return 1 if found.alarms or found.differing else 0


if __name__ == "__main__":
    sys.exit(main())
