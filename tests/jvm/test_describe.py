"""Kafka still prints what tests/topology/described.txt says it prints."""

from pathlib import Path

import pytest

from tests.jvm.streams import run_java
from tests.topology.test_describe import PRINTED

pytestmark = pytest.mark.jvm


def test_kafka_describes_the_topologies_as_the_file_says():
    """
    After a change of Describe.java: ``java -cp … Describe.java > tests/topology/described.txt``.
    """
    got = run_java(Path(__file__).with_name("Describe.java"))

    assert got == PRINTED.read_text()
