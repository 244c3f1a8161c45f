"""The check that runs increments again: others with every increment, and what differs is named."""

import itertools

import dagster as dg
import pytest

from kstreams_replay.jobs.branches.branches import branches
from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.topology import Serde, StreamsBuilder, Topology
from kstreams_replay.orchestration.quality.cuts_check import CUTS, turn_of
from tests.clicks import CLICKS
from tests.dagster import shop

pytestmark = pytest.mark.sampled


def said(result: dg.ExecuteInProcessResult) -> dg.AssetCheckEvaluation:
    (found,) = [each for each in result.get_asset_check_evaluations() if each.check_name == "a_cut_changes_nothing"]
    return found


def test_it_takes_the_increments_in_turn_and_leaves_no_branch(small_shop):
    definitions = shop.definitions(small_shop.root, check_engine="plain", verify_increments=1)
    small_shop.run(definitions)
    small_shop.drop("2-evening", shop.EVENING)

    second = said(small_shop.run(definitions))
    small_shop.drop("3-night", [("cid", "home", 500)])
    third = said(small_shop.run(definitions))

    turns = [
        (each.metadata["first_increment"].value, each.metadata["last_increment"].value) for each in (second, third)
    ]
    assert turns == [(1, 1), (2, 2)]
    assert [second.passed, third.passed] == [True, True]
    assert second.description == "Increments 1 to 1, 6 records"
    assert branches(small_shop.warehouse) == {}


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_each_piece_comes_again_and_again_while_they_become_more(size):
    turns = [turn_of(increment, -(-increment // size)) for increment in range(1, 1000)]

    assert all(turns[255:511].count(piece) >= 1 for piece in range(-(-255 // size)))
    assert all(0 <= turn < -(-increment // size) for increment, turn in enumerate(turns, 1))


def numbered(answers: "itertools.count[int]") -> Topology:
    """A step that answers otherwise whenever it is asked."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", CLICKS)
    clicks.map_values(lambda value: {"n": next(answers)}, returns=Serde.json("n long"), name="numbers").to("numbered")
    return builder.build()


def test_a_function_that_is_not_pure_fails_it_and_is_named(small_shop):
    topology = numbered(itertools.count())
    definitions = shop.definitions(small_shop.root, topology=topology, check_engine="plain", verify_increments=2)

    found = said(small_shop.run(definitions))

    assert not found.passed
    assert found.severity is dg.AssetCheckSeverity.ERROR
    assert "in 1 the tables are others: outputs/numbered" in (found.description or "")
    assert "numbers answered otherwise when asked again" in (found.description or "")


def test_without_a_number_there_is_no_such_check(small_shop):
    definitions = shop.definitions(small_shop.root)

    names = {key.name for check in definitions.asset_checks or () for key in check.check_keys}  # type: ignore[union-attr]
    assert "a_cut_changes_nothing" not in names


def test_where_no_increment_can_be_run_again_it_says_why(small_shop):
    def asked(output: str = "sessions", **settings) -> tuple[bool, str | None]:
        """The check alone, of the first ``output``; it runs nothing."""
        made = shop.definitions(small_shop.root, check_engine="plain", verify_increments=1, **settings)
        key = dg.AssetCheckKey(dg.AssetKey(["shop", "outputs", output]), CUTS)
        alone = dg.define_asset_job("cuts", selection=dg.AssetSelection.checks(key))
        job = dg.Definitions.merge(made, dg.Definitions(jobs=[alone])).resolve_job_def("cuts")
        found = said(job.execute_in_process(instance=small_shop.instance))
        return found.passed, found.description

    nothing = asked()
    small_shop.run()
    of_other_code = asked("counts", topology=shop.finer())
    restore(small_shop.warehouse, "shop", 0)
    withdrawn = asked()

    later = "the next one that this code runs can be."
    assert [nothing, of_other_code, withdrawn] == [
        (True, "No increment was run again: nothing has been replayed yet."),
        (True, f"No increment was run again: increment 1 was run by other code; {later}"),
        (True, f"No increment was run again: increment 2 has read nothing: it is a restore; {later}"),
    ]
