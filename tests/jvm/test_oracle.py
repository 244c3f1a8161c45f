"""Real Kafka Streams, asked on the spot: about the goldens, and about random scenarios that nobody has seen before."""

import json
from pathlib import Path

import pytest

from tests.conformance.__main__ import report
from tests.conformance.comparison import first_difference
from tests.conformance.scenarios import read_scenarios
from tests.conformance.test_goldens import SELECTED
from tests.jvm.random_scenarios import scenario
from tests.jvm.streams import STREAMS, TEST_UTILS, run_java

pytestmark = pytest.mark.jvm

SEEDS = range(100)


def asked(lines: list[dict], directory: Path) -> Path:
    """A file of the lines with what Kafka Streams made of them."""
    program = Path(__file__).with_name("Oracle.java")
    said = run_java(program, packages=(STREAMS, TEST_UTILS), text="".join(json.dumps(line) + "\n" for line in lines))
    (directory / "asked.jsonl").write_text(said)
    return directory / "asked.jsonl"


def test_the_oracle_says_what_the_goldens_say(tmp_path):
    lines = [
        {"name": golden.name, "topology": golden.topology, "records": golden.records, "sensitive": golden.sensitive}
        for golden in SELECTED
    ]

    said = read_scenarios(asked(lines, tmp_path))

    differences = {
        golden.name: str(first_difference(golden, golden.want or {}, answer.want or {}))
        for golden, answer in zip(SELECTED, said, strict=True)
    }
    assert {name: why for name, why in differences.items() if why != "None"} == {}


def test_random_scenarios_do_what_kafka_streams_does(tmp_path):
    """
    ``scenario(seed)`` makes a failing one again.
    """
    said = read_scenarios(asked([scenario(seed) for seed in SEEDS], tmp_path))

    failures = {answer.name: why for answer in said if (why := report(answer)) is not None}
    assert failures == {}
    assert len(said) == len(SEEDS)
