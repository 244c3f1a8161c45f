"""Somebody else commits to our tables: it is harmless, or it is named; never a silent change.

The nightly tier plays two statements of every other seed; `python -m tests.laws.foreign --seeds 60 --spark` plays all
300.
"""

import pytest

from tests.laws.foreign import KINDS, SEEDS_OF_SPARK, STATEMENTS_A_SEED, ForeignScenario, Spark, outcome_of
from tests.sampling import sampled

SEEDS = range(1, 57)
STATEMENTS = 2
SHARE = 30
"""A statement takes one to eight CPU seconds, so two of each played seed are played."""


@pytest.mark.every_run
@pytest.mark.parametrize("seed", sampled(SEEDS[::2], share=SHARE))
def test_what_delta_rs_does_to_our_tables_is_named_or_changes_nothing(seed):
    outcome = outcome_of(seed, statements=STATEMENTS)

    assert outcome.silent is None, str(outcome)


@pytest.mark.jvm
@pytest.mark.nightly
@pytest.mark.parametrize("seed", SEEDS_OF_SPARK)
def test_what_spark_does_to_our_tables_is_named_or_changes_nothing(spark, seed):
    outcome = outcome_of(seed, Spark(spark), statements=STATEMENTS)

    assert outcome.silent is None, str(outcome)


def test_the_seeds_have_every_kind_of_statement():
    seeds = [*SEEDS, *SEEDS_OF_SPARK]
    kinds = [statement.kind for seed in seeds for statement in ForeignScenario.of(seed).statements]

    assert set(kinds) == set(KINDS)
    assert len(kinds) == 300 == STATEMENTS_A_SEED * len(seeds)
