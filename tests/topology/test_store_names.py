"""Names decide which state is whose, as in Kafka Streams: one that was generated and moves is seen."""

import pytest

from kstreams_replay.jobs.code_changes.compatibility import StateRequests, is_generated
from kstreams_replay.jobs.topology import (
    KStream,
    Materialized,
    Topology,
)
from kstreams_replay.state.errors import ConfigError, TopologyError
from tests.code_changes.changes import clicks, said, verdict


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("KSTREAM-AGGREGATE-STATE-STORE-0000000003", True),
        ("KSTREAM-JOINTHIS-0000000004-store", True),
        ("prices-STATE-STORE-0000000001", True),
        ("counts", False),
        ("counts-2013", False),
    ],
)
def test_generated_names_are_known_by_their_number(name, answer):
    assert is_generated(name) is answer


def two(*, first: str | None, second: str, materialized: tuple[Materialized | None, Materialized | None]) -> Topology:
    def build(stream: KStream) -> None:
        for condition, one in zip((first, second), materialized, strict=True):
            if condition is not None:
                stream.filter(condition).group_by_key().count(one)

    return clicks(build)


def test_an_operator_that_is_put_before_others_moves_no_store_that_has_a_name():
    named = Materialized.as_("a"), Materialized.as_("b")
    before = two(first=None, second="ms > 4", materialized=named)
    now = two(first="ms > 3", second="ms > 4", materialized=named)

    assert said(verdict(before, now)) == [("store 'a'", "new", True)]


def test_an_operator_that_is_taken_out_hands_its_generated_name_to_the_next_which_is_refused():
    """
    Both count clicks, and only their filters distinguish them.
    """
    before = two(first="ms > 3", second="ms > 4", materialized=(None, None))
    now = two(first=None, second="ms > 4", materialized=(None, None))

    found = verdict(before, now)

    assert not found.goes_on
    assert "name it" in found.refused[0].note


def test_rows_are_taken_along_to_the_store_that_a_wish_names_and_a_wish_that_is_fulfilled_asks_nothing():
    before, now = (clicks(lambda stream, n=name: stream.group_by_key().count(Materialized.as_(n))) for name in "ab")
    request = StateRequests(renamed={"a": "b"})

    assert said(verdict(before, now)) == [("store 'b'", "new", True), ("store 'a'", "gone", False)]
    assert said(verdict(before, now, request)) == [("store 'b'", "name", True)]
    assert verdict(before, now, request).sources == {"b": "a"}
    assert said(verdict(now, now, request)) == []
    assert said(verdict(before, now, StateRequests(renamed={"a": None}))) == [
        ("store 'b'", "new", True), ("store 'a'", "removed", True),
    ]  # fmt: skip


def counting(store: str) -> Topology:
    return clicks(lambda stream: stream.group_by_key().count(Materialized.as_(store)))


@pytest.mark.parametrize(("renamed", "got"), [({"a": "c"}, "'c'"), ({"x": "b"}, "'x'")])
def test_a_wish_for_a_store_that_neither_code_has_is_refused(renamed, got):
    with pytest.raises(ConfigError) as error:
        verdict(counting("a"), counting("b"), StateRequests(renamed=renamed))

    assert error.value.got == got


def test_rows_of_a_store_that_the_topology_still_has_are_not_let_go():
    with pytest.raises(ConfigError, match="a function that gives no rows"):
        verdict(counting("a"), counting("a"), StateRequests(renamed={"a": None}))


def test_names_that_moved_up_by_one_are_told_apart_from_a_wish_that_is_fulfilled():
    def both(first: str, second: str) -> Topology:
        return clicks(
            lambda stream: (
                stream.group_by_key().count(Materialized.as_(first)),
                stream.filter("ms > 3").group_by_key().count(Materialized.as_(second)),
            )
        )

    request, before, now = StateRequests(renamed={"a": "b", "b": "c"}), both("a", "b"), both("b", "c")

    assert verdict(before, now, request).sources == {"b": "a", "c": "b"}
    assert verdict(now, now, request).sources == {"b": "b", "c": "c"}


def counted(*stores: str) -> Topology:
    def build(stream: KStream) -> None:
        for number, store in enumerate(stores):
            stream.filter(f"ms > {number}").group_by_key().count(Materialized.as_(store))

    return clicks(build)


@pytest.mark.parametrize(
    ("before", "now", "renamed", "said"),
    [
        (
            "ab",
            "ab",
            {"a": "b", "b": "a"},
            r"renamed 'a': expected a rename to a name .* rows of 'b' are to come to 'a'",
        ),
        (
            "abc",
            "ab",
            {"b": "a", "c": "b"},
            r"renamed 'b': expected a rename to a name .* rows of 'c' are to come to 'b'",
        ),
        ("abcd", "abc", {"b": "a", "c": "b", "d": "c"}, "renamed 'b': expected a rename to a name that had no rows"),
        ("ab", "c", {"a": "c", "b": "c"}, "renamed 'a': expected one store for each new name, got 'a', 'b': 'c'"),
        ("abc", "c", {"a": "c", "b": "c"}, "renamed 'a': expected one store for each new name, got 'a', 'b': 'c'"),
    ],
)
def test_renames_that_may_lose_rows_are_refused(before, now, renamed, said):
    with pytest.raises(ConfigError, match=said):
        verdict(counted(*before), counted(*now), StateRequests(renamed=renamed))


@pytest.mark.parametrize(
    ("before", "now", "renamed"),
    [
        ("bcd", "abc", {"b": "a", "c": "b", "d": "c"}),
        ("xa", "ab", {"a": "b", "x": "a"}),
    ],
)
def test_renames_that_are_done_ask_nothing_when_they_are_given_again(before, now, renamed):
    request = StateRequests(renamed=renamed)

    assert verdict(counted(*before), counted(*now), request).sources == {new: old for old, new in renamed.items()}
    assert verdict(counted(*now), counted(*now), request).sources == {name: name for name in now}


@pytest.mark.parametrize("name", ["dropped", "dead_letter"])
def test_no_output_and_no_store_is_called_as_a_table_that_every_pipeline_has(name):
    with pytest.raises(TopologyError, match=f"^output '{name}': expected a name that no table of the pipeline has"):
        clicks(lambda stream: stream.to(name))
    with pytest.raises(TopologyError, match=f"^store '{name}': expected a name that no table of the pipeline has"):
        clicks(lambda stream: stream.group_by_key().count(Materialized.as_(name)))
