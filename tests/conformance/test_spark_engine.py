"""Golden scenarios on Spark: many small pipelines over one session."""

import pytest

from tests.conformance.__main__ import reports
from tests.conformance.test_goldens import SCENARIOS

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


def test_on_spark_a_scenario_does_what_kafka_streams_did(spark):
    """
    One of every operator, and every fifth of all: 120.
    """
    examples = [scenario for scenario in SCENARIOS if scenario.family == "examples"]
    mine = [*examples, *SCENARIOS[::5]]

    got = {
        scenario.name: why
        for scenario, why in zip(mine, reports(mine, "spark", cuts="random:5", spark=spark), strict=True)
        if why is not None
    }

    assert got == {}
