"""Every guarantee finds the lies that are planted for it, and none that are not its own."""

import pytest

from kstreams_replay.expectations.guarantees import GUARANTEES
from tests.expectations.mutants import MUTANTS, Mutant, changed, finders, judged
from tests.expectations.pipelines import PIPELINES

pytestmark = [pytest.mark.guarantee("G4")]


@pytest.mark.parametrize("one", MUTANTS, ids=lambda one: one.name)
def test_a_planted_lie_is_found_by_exactly_the_guarantees_that_should_see_it(one: Mutant):
    assert finders(one) == one.found_by


@pytest.mark.parametrize("name", PIPELINES)
def test_what_was_run_holds(name):
    with changed(name, lambda tables: None) as warehouse:
        verdicts = judged(name, warehouse)

    assert [(each.guarantee, each.table, each.reason) for each in verdicts if each.answer != "true"] == []


def test_every_guarantee_has_a_mutant_and_every_mutant_a_finder():
    found = {guarantee for one in MUTANTS for guarantee in one.found_by}

    assert [each.id for each in GUARANTEES if each.id not in {*found, "G1", "G2", "G3"}] == []
    assert all(one.found_by for one in MUTANTS)
