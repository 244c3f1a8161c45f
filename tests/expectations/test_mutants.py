"""Every guarantee finds the violations that are injected for it, and reports no other."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from kstreams_replay.expectations.guarantees import GUARANTEES
from kstreams_replay.expectations.verdicts import is_in_order
from tests.expectations.mutants import MUTANTS, Mutant, changed, finders, judged
from tests.expectations.pipelines import PIPELINES
from tests.sampling import sampled

pytestmark = [
    pytest.mark.guarantee("G4"),
    pytest.mark.guarantee("G5"),
    pytest.mark.guarantee("G6"),
    pytest.mark.guarantee("G7"),
    pytest.mark.guarantee("G8"),
    pytest.mark.guarantee("G9"),
    pytest.mark.guarantee("G10"),
    pytest.mark.guarantee("G11"),
    pytest.mark.guarantee("G12"),
    pytest.mark.guarantee("G13"),
    pytest.mark.guarantee("G14"),
    pytest.mark.guarantee("G15"),
    pytest.mark.guarantee("G16"),
]


@pytest.mark.every_run
@pytest.mark.parametrize("one", sampled(MUTANTS, lambda one: one.name, share=20), ids=lambda one: one.name)
def test_a_planted_lie_is_found_by_exactly_the_guarantees_that_should_see_it(one: Mutant):
    assert finders(one) == one.found_by


@pytest.mark.parametrize("name", PIPELINES)
def test_what_was_run_holds(name):
    with changed(name, lambda tables: None) as warehouse:
        verdicts = judged(name, warehouse)

    assert [(each.guarantee, each.table, each.reason) for each in verdicts if not is_in_order(each)] == []


def test_every_guarantee_has_a_mutant_and_every_mutant_a_finder():
    found = {guarantee for one in MUTANTS for guarantee in one.found_by}

    assert [each.id for each in GUARANTEES if each.id not in found] == []
    assert all(one.found_by for one in MUTANTS)


def test_the_page_of_guarantees_is_the_list_of_the_code():
    page = (Path(__file__).parents[2] / "expectations" / "README.md").read_text(encoding="utf-8")

    found = {each.id: sentences(one.name for one in MUTANTS if each.id in one.found_by) for each in GUARANTEES}
    want = [
        (each.id, each.sentence, each.kip, each.kafka, each.evidence, each.cost, found[each.id]) for each in GUARANTEES
    ]
    assert [line for line in page.splitlines() if line.startswith("| G")] == [f"| {' | '.join(row)} |" for row in want]


def sentences(names: Iterable[str]) -> str:
    return " ".join(f"{name[0].upper()}{name[1:]}." for name in names)
