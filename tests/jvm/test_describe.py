"""Kafka still prints what tests/topology/described.txt says it prints, and the same as we do of random topologies."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kstreams_replay.jobs.topology import KTable
from kstreams_replay.state.errors import ConfigError
from tests.conformance.translation import Translation, topic_serdes
from tests.jvm.oracle import PROGRAMS
from tests.jvm.random_scenarios import scenario
from tests.jvm.streams import STREAMS, TEST_UTILS, compiled, run_java
from tests.sampling import sampled
from tests.topology.test_describe import PRINTED

pytestmark = pytest.mark.jvm

TOPOLOGIES = 300


def test_kafka_describes_the_topologies_as_the_file_says():
    """
    After a change of Describe.java: ``java -cp … Describe.java > tests/topology/described.txt``.
    """
    got = run_java(Path(__file__).with_name("Describe.java"))

    assert got == PRINTED.read_text()


@pytest.mark.every_run
def test_random_topologies_are_described_as_kafka_describes_them():
    """
    Names, stores, sub-topologies, and what is refused.
    """
    lines = [line for line in map(scenario, sampled(range(TOPOLOGIES))) if is_the_same_for_both(line)]

    assert {line["name"]: described(line) for line in lines} == by_kafka(lines)


def is_the_same_for_both(line: dict[str, Any]) -> bool:
    """Deduplication is ours alone, and Kafka prints the class that chooses a topic by record. The translation of a
    scenario takes steps of its own about types, and the oracle reads a fold of a grouped table by one.
    """
    nodes = line["topology"]["nodes"]
    written = [node["topic"] for node in nodes if node["op"] == "to"]
    return len(set(written)) == len(written) and not any(
        node["op"].startswith("deduplicate")
        or node["op"] in ("merge", "to_one_of")
        or node.get("function", "").startswith(("reduce", "fold:"))
        for node in nodes
    )


def by_kafka(lines: list[dict[str, Any]]) -> dict[str, str | None]:
    """Kafka's text by scenario, None where it refuses the topology."""
    programs = [Path(__file__).with_name("DescribeScenarios.java"), *PROGRAMS]
    with compiled(*programs, packages=(STREAMS, TEST_UTILS)) as command:
        asked = "\n".join(map(json.dumps, lines))
        said = subprocess.run(command, input=asked, capture_output=True, text=True, encoding="utf-8", check=False)
    assert said.returncode == 0, said.stderr
    return {line["name"]: json.loads(text) for line, text in zip(lines, said.stdout.splitlines(), strict=True)}


def described(line: dict[str, Any]) -> str | None:
    """Our text, None where the DSL refuses the topology. The output ends in a processor, as it does in the oracle."""
    translation = Translation(line["topology"], topic_serdes(line["records"]))
    try:
        for node in line["topology"]["nodes"]:
            translation.add(node)
        output = translation.made[line["topology"]["output"]]
        stream = output.to_stream() if isinstance(output, KTable) else output
        stream.process(dict)
        return translation.builder.build().describe()
    except ConfigError:
        return None
