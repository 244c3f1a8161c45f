"""Golden scenarios on Spark: many small pipelines over one session."""

import pytest

from tests.conformance.__main__ import reports
from tests.conformance.test_goldens import SCENARIOS, name_of, rarest_operator
from tests.sampling import sampled

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


PARTS = 4
"""One after the other on one session, so that each is a short test."""


@pytest.mark.every_run
@pytest.mark.parametrize("part", [pytest.param(p, marks=pytest.mark.nightly if p else ()) for p in range(PARTS)])
def test_on_spark_a_scenario_does_what_kafka_streams_did(spark, part):
    """
    All examples and every fifth of all scenarios; of these the sample, which has every operator.
    """
    examples = [scenario for scenario in SCENARIOS if scenario.family == "examples"]
    mine = sampled([*examples, *SCENARIOS[::5]], name_of, rarest_operator, share=20)[part::PARTS]

    got = {
        scenario.name: why
        for scenario, why in zip(mine, reports(mine, "spark", cuts="random:5", spark=spark), strict=True)
        if why is not None
    }

    assert got == {}
