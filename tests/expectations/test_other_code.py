"""Increments that another topology ran are not judged by the settings of the current topology."""

from collections.abc import Callable
from typing import Any

import pytest

from kstreams_replay.expectations.quality_tables import newest_results, record_verdicts
from kstreams_replay.expectations.verdicts import Verdict, check_increment
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    BufferConfig,
    Materialized,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.orchestration.facts import replay_facts, second_run
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.expectations.pipelines import CLICKS, TEXTS, VIEWS, tape
from tests.planted import plant

NAME = "p"
PRICED = "left || '@' || coalesce(right, '-')"


def finals(grace_ms: int, *, beside: str | None = None, also: str | None = None) -> Topology:
    """Final counts of clicks; ``beside``: a topic that is read before them, by a sub-topology of its own; ``also``: an
    output more, of the clicks themselves.
    """
    builder = StreamsBuilder()
    if beside is not None:
        builder.stream(beside, TEXTS).to("passed")
    clicks = builder.stream("clicks", TEXTS)
    buffer = BufferConfig.max_records(100).shut_down_when_full()
    windows = TimeWindows.of_size(20, grace=grace_ms)
    counts = clicks.group_by_key().windowed_by(windows).count(Materialized.as_("counts"))
    counts.suppress(Suppressed.until_window_closes(buffer, name="final")).to_stream().to("finals")
    if also is not None:
        clicks.to(also)
    return builder.build()


@pytest.fixture
def warehouse(tmp_path) -> Warehouse:
    """With ten clicks and six views."""
    found = Warehouse(str(tmp_path / "w"))
    plant(found, "clicks", CLICKS, partitions=1)
    plant(found, "views", VIEWS, partitions=1)
    return found


@pytest.fixture
def ran(tmp_path, warehouse) -> Callable[..., list[Verdict]]:
    """Runs five records by each topology, then judges an increment by the last one."""

    def run(*topologies: Topology, increment: int = 1) -> list[Verdict]:
        for each in topologies:
            runner = LocalRunner(str(tmp_path / "cache"))
            list(replay(warehouse, each, pipeline=NAME, runner=runner, max_records=5, increments=1))
        return check_increment(warehouse, NAME, replay_facts(topologies[-1]), increment, engine="plain")

    return run


def answers(verdicts: list[Verdict]) -> dict[str, set[str]]:
    """By guarantee."""
    found: dict[str, set[str]] = {}
    for each in verdicts:
        found.setdefault(each.guarantee, set()).add(each.answer)
    return found


def test_final_results_of_a_shorter_grace_are_not_early_by_the_longer_one_of_now(ran):
    """
    [0, 20) left at stream time 27; by the current grace it would have closed at 70.
    """
    before, now = finals(5), finals(50)

    got = ran(before, now)

    assert answers(got)["G2"] == {"unchecked"}
    assert {each.reason for each in got if each.guarantee == "G2"} == {
        f"another topology ({before.fingerprint}) ran the increment, whose settings may be others"
    }


def test_the_increments_of_the_topology_of_now_are_judged(ran):
    assert answers(ran(finals(5), finals(50), increment=2))["G2"] == {"true"}


def test_what_follows_from_tables_alone_is_judged_whoever_ran_the_increment(ran):
    """
    Books and stream time.
    """
    got = answers(ran(finals(5), finals(50)))

    assert (got["G3"], got["G8"]) == ({"true"}, {"true"})
    assert {name for name, found in got.items() if found == {"unchecked"}} == {"G1", "G2", "G4", "G5", "G7", "G11"}


def test_books_of_other_sub_topologies_are_not_recounted_by_those_of_now(ran):
    """
    Sub-topology 0 read clicks, and reads views now.
    """
    assert answers(ran(finals(5), finals(5, beside="views")))["G3"] == {"unchecked"}


def test_an_output_more_leaves_the_books_of_before_to_be_recounted(ran):
    assert answers(ran(finals(5), finals(5, also="clicks_again")))["G3"] == {"true"}


def test_what_was_judged_by_the_code_that_ran_an_increment_stands(warehouse, ran):
    judged, later = ran(finals(5)), ran(finals(50))
    record_verdicts(warehouse, NAME, judged)

    assert {each.answer for each in later} > {"unchecked"}
    assert record_verdicts(warehouse, NAME, later) == 0
    assert {row["verdict"] for row in newest_results(warehouse, NAME) if row["guarantee"] == "G2"} == {"passed"}


def test_what_nobody_could_judge_is_recorded_as_not_checked(warehouse, ran):
    record_verdicts(warehouse, NAME, ran(finals(5), finals(50)))

    got = {row["guarantee"]: row["verdict"] for row in newest_results(warehouse, NAME)}
    assert (got["G2"], got["G8"]) == ("not checked", "passed")


# --- other functions in the same topology ------------------------------------------------------------------------


def changed(add: Callable[[object, str, int], int], final: str = "value") -> Topology:
    """Final sums, whose windows no output has as they leave."""
    builder = StreamsBuilder()
    windows = builder.stream("clicks", TEXTS).group_by_key().windowed_by(TimeWindows.of_size(20, grace=5))
    sums = windows.aggregate(lambda: 0, add, returns=Serde.long(), materialized=Materialized.as_("sums"))
    sums.suppress(Suppressed.until_window_closes(name="final")).to_stream().map_values(final).to("finals")
    return builder.build()


def add_one(key: object, value: str, aggregate: int) -> int:
    return aggregate + 1


def add_two(key: object, value: str, aggregate: int) -> int:
    return aggregate + 2


@pytest.fixture
def judged_again(tmp_path, warehouse) -> Callable[[Topology, Topology], dict[int, Verdict]]:
    """Five records by one topology, then five by another, which judges both increments and may run them again."""

    def judge(before: Topology, now: Topology) -> dict[int, Verdict]:
        for each in (before, now):
            runner = LocalRunner(str(tmp_path / "cache"))
            list(replay(warehouse, each, pipeline=NAME, runner=runner, max_records=5, increments=1))
        again, facts = second_run(warehouse, NAME, now), replay_facts(now)
        found = [
            verdict
            for number in (1, 2)
            for verdict in check_increment(warehouse, NAME, facts, number, engine="plain", again=again)
        ]
        return {each.increment: each for each in found if each.guarantee == "G5"}

    return judge


def test_an_increment_that_other_functions_ran_is_not_run_again_by_those_of_now(judged_again):
    before, now = changed(add_one), changed(add_two)

    got = judged_again(before, now)

    assert before.fingerprint == now.fingerprint
    assert (got[1].answer, got[2].answer) == ("unchecked", "true")
    assert "other code ran the increment (store 'sums': functions was" in got[1].reason


def adding(number: int) -> Callable[[object, str, int], int]:
    """The function `add` of a user's file, with a constant that the function names."""
    names: dict[str, Any] = {"__name__": "topology"}
    exec(f"STEP = {number}\ndef add(key, value, aggregate): return aggregate + STEP", names)
    function: Callable[[object, str, int], int] = names["add"]
    return function


def test_an_increment_that_ran_with_another_constant_is_not_run_again_by_that_of_now(judged_again):
    got = judged_again(changed(adding(1)), changed(adding(2)))

    assert (got[1].answer, got[2].answer) == ("unchecked", "true")
    assert "other code ran the increment (store 'sums': functions was" in got[1].reason


def test_an_increment_that_other_expressions_ran_is_not_run_again_by_those_of_now(judged_again):
    got = judged_again(changed(add_one), changed(add_one, "value + 1"))

    assert (got[1].answer, got[2].answer) == ("unchecked", "true")
    assert "other code ran the increment (output 'finals': steps was" in got[1].reason


def test_joined_values_are_not_computed_by_another_joiner_than_theirs(tmp_path, warehouse):
    plant(warehouse, "prices", tape(("ann", "3", 0)), partitions=1)

    def priced(joiner: str) -> Topology:
        builder = StreamsBuilder()
        prices = builder.table("prices", TEXTS, materialized=Materialized.versioned("prices", 1000))
        builder.stream("clicks", TEXTS).left_join(prices, joiner).to("priced")
        return builder.build()

    verdicts = []
    for joiner in (PRICED, PRICED.replace("@", "#")):
        runner = LocalRunner(str(tmp_path / "cache"))
        settings = {"pipeline": NAME, "max_records": 5, "increments": 1, "idle": "proceed"}
        list(replay(warehouse, priced(joiner), runner=runner, **settings))
        facts = replay_facts(priced(PRICED.replace("@", "#")))
        verdicts += check_increment(warehouse, NAME, facts, engine="plain")

    got = [each for each in verdicts if each.guarantee == "G15"]
    said = "increment 1 ran with other steps or functions above outputs/priced than the current ones"
    assert {(each.answer, each.reason) for each in got} == {("unchecked", said)}
