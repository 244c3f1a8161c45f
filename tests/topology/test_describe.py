"""``describe()`` is Kafka's own text. described.txt is what Kafka 4.3.0 printed (tests/jvm checks that)."""

import re
from pathlib import Path

import pytest

from kstreams_replay.jobs.topology import StreamsBuilder, Topology
from tests.topology.described import BY_NAME, TOPOLOGIES

PRINTED = Path(__file__).with_name("described.txt")


def printed() -> dict[str, str]:
    """Kafka's text by topology."""
    parts = PRINTED.read_text().split("=== ")[1:]
    return {name: text for name, _, text in (part.partition("\n") for part in parts)}


def test_every_topology_that_kafka_described_is_compared():
    assert list(printed()) == [*TOPOLOGIES, *BY_NAME]


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_topology_is_described_as_kafka_describes_it(name):
    builder = StreamsBuilder()
    TOPOLOGIES[name](builder)

    assert builder.build().describe() == printed()[name]


@pytest.mark.parametrize("name", BY_NAME)
def test_a_topology_by_the_processor_api_is_described_as_kafka_describes_it(name):
    topology = Topology()
    BY_NAME[name](topology)

    assert topology.describe() == printed()[name]


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_sub_topologies_have_kafkas_numbers(name):
    builder = StreamsBuilder()
    TOPOLOGIES[name](builder)
    got: dict[int, set[str]] = {}
    for sub in builder.build().sub_topologies:
        got.setdefault(sub.kafka_id, set()).update(source.topic for source in sub.sources)

    want = {}
    for part in printed()[name].split("Sub-topology: ")[1:]:
        if "for global store" not in part:
            read = re.findall(r"\(topics: \[(.*)\]\)", part)
            want[int(part.split()[0])] = {topic for topics in read for topic in topics.split(", ")}
    assert got == want
