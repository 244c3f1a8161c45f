"""Groups whose members come, go and die keep the laws of incremental rebalancing (tests/laws/placement.py)."""

import pytest

from tests.laws.placement import history
from tests.sampling import is_nightly, seed

HISTORIES = 2_000 if is_nightly() else 100


@pytest.mark.every_run
def test_no_history_breaks_a_law_and_every_group_settles_with_even_loads():
    first = 1 + seed() * HISTORIES
    for number in range(first, first + HISTORIES):
        played = history(number)  # raises LawBroken, with the seed

        assert played.moves >= played.fewest


def test_a_seed_says_all():
    assert history(3) == history(3)
