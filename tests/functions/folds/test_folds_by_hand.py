"""Folds in every kind of window, against what was worked out by hand."""

import pytest

from kstreams_replay.jobs.code_changes.step_text import describe_fold
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    Consumed,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    UnlimitedWindows,
    fold,
)
from kstreams_replay.state.errors import ConfigError
from tests.topology.streams import STRING, refused

SCORES = Consumed(STRING, Serde.json("name string, points long, share double"))
TAPE = ((1, "A", 5), (6, "B", 7), (8, "A", 9), (12, "C", 1))


def score(name: str | None, points: int | None, share: float | None = None) -> dict:
    return {"name": name, "points": points, "share": share}


def played(windows, tape, **folds) -> dict:
    """The last value of each window, by its start; of None without windows. A deleted one is left out."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", SCORES).group_by_key()
    (grouped if windows is None else grouped.windowed_by(windows)).aggregate(**folds).to("out")
    driver = TopologyTestDriver(builder.build(), chunk_records=2)
    for time_ms, name, points, *share in tape:
        driver.pipe_input("in", "k", score(name, points, *share), timestamp_ms=time_ms)
    found = {None if record.window is None else record.window[0]: record.value for record in driver.read_outputs("out")}
    return {start: tuple(value.values()) for start, value in found.items() if value is not None}


@pytest.mark.parametrize(
    ("windows", "want"),
    [
        (None, {None: (3, 2, ["A", "B"], "A", "C", False, False)}),
        (UnlimitedWindows.of(0), {0: (3, 2, ["A", "B"], "A", "C", False, False)}),
        (
            TimeWindows.of_size(10, grace=100).advance_by(5),
            {
                0: (2, 2, ["A", "B"], "A", "A", False, True),
                5: (3, 2, ["A", "B"], "B", "C", False, False),
                10: (1, 0, ["C"], "C", "C", False, False),
            },
        ),
        (
            SlidingWindows.of_time_difference(5, grace=100),
            {
                0: (1, 0, ["A"], "A", "A", False, True),
                1: (2, 1, ["B", "A"], "A", "B", False, True),
                2: (1, 1, ["B"], "B", "B", False, True),
                3: (2, 2, ["A", "B"], "B", "A", False, True),
                7: (2, 1, ["A", "C"], "A", "C", False, False),
                9: (1, 0, ["C"], "C", "C", False, False),
            },
        ),
        (
            SessionWindows.with_inactivity_gap(2, grace=100),
            {
                1: (1, 0, ["A"], "A", "A", False, True),
                6: (2, 2, ["A", "B"], "B", "A", False, True),
                12: (1, 0, ["C"], "C", "C", False, False),
            },
        ),
    ],
    ids=["none", "unlimited", "hopping", "sliding", "sessions"],
)
@pytest.mark.parametrize("order", ["in order", "out of order"])
def test_folds_in_windows(windows, want, order):
    """
    Names, points above 5, the two best, the first and the last by time, points above 9, points above 1. None of them
    depends on the order of processing here.
    """
    tape = TAPE if order == "in order" else (TAPE[2], TAPE[0], TAPE[3], TAPE[1])

    got = played(
        windows,
        tape,
        names=fold.count_distinct("name"),
        good=fold.count_if("points > 5"),
        best=fold.top(2, "points", "name"),
        earliest=fold.earliest("name"),
        latest=fold.latest("name"),
        perfect=fold.any("points > 9"),
        some=fold.all("points > 1"),
    )

    assert got == want


def test_sessions_that_merge_have_what_both_had_and_what_merges_them():
    """
    6 bridges 4 and 8: B and C of the earlier session, A of the later one, then D.
    """
    got = played(
        SessionWindows.with_inactivity_gap(2, grace=100),
        [(8, "A", 9), (3, "B", 7), (4, "C", 9), (6, "D", 8)],
        names=fold.count_distinct("name"),
        best=fold.top(3, "points", "name"),
        first=fold.first("name"),
        earliest=fold.earliest("name"),
        last=fold.last("name"),
        latest=fold.latest("name"),
        good=fold.count_if("points > 7"),
    )

    assert got == {3: (4, ["C", "A", "D"], "B", "B", "D", "A", 3)}


def test_of_equal_times_the_last_that_is_processed_is_the_latest_and_the_first_the_earliest():
    got = played(None, [(5, "A", 1), (5, "B", 2)], earliest=fold.earliest("name"), latest=fold.latest("name"))

    assert got == {None: ("A", "B")}


def test_of_equal_numbers_the_first_that_is_processed_comes_first_in_top():
    got = played(None, [(1, "A", 5), (2, "B", 5), (3, "C", 6), (4, "D", 5)], best=fold.top(3, "points", "name"))

    assert got == {None: (["C", "A", "B"],)}


def test_top_of_numbers_alone_passes_over_null():
    assert played(None, [(1, "A", None), (2, "B", -5), (3, "C", 6)], best=fold.top(5, "points")) == {None: ([6, -5],)}


def test_numbers_that_are_equal_are_one_of_the_distinct():
    tape = [(at, "A", 1, share) for at, share in enumerate([0.0, -0.0, 1.5, None, 1.5])]

    assert played(None, tape, shares=fold.count_distinct("share")) == {None: (2,)}


@pytest.mark.parametrize("k", [0, -1, 1.5, "3", True])
def test_top_takes_a_number_of_1_or_more(k):
    assert refused(lambda: fold.top(k, "points"), ConfigError) == (
        f"fold.top: expected k to be a number of 1 or more, got {k!r}; correct it"
    )


def test_conditions_and_distinct_values_are_checked_when_the_topology_is_built():
    def aggregate(**folds):
        serde = Serde.json("name string, tags struct<a: long>")
        return StreamsBuilder().stream("in", Consumed(STRING, serde)).group_by_key().aggregate(**folds)

    assert "expected a condition, got name" in refused(lambda: aggregate(n=fold.any("name")))
    assert "expected plain values to count, got tags" in refused(lambda: aggregate(n=fold.count_distinct("tags")))
    assert "expected a number to fold, got name" in refused(lambda: aggregate(n=fold.top(2, "name")))


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (fold.count_if("points > 5"), "count_if points > 5"),
        (fold.any("points > 5"), "any points > 5"),
        (fold.all("points > 5"), "all points > 5"),
        (fold.count_distinct("name"), "count_distinct name"),
        (fold.top(2, "points", "name"), "top 2 name by points"),
        (fold.earliest("name"), "min_by name by record_time_ms"),
        (fold.latest("name"), "latest name by record_time_ms"),
    ],
)
def test_a_fold_is_told_in_words_when_code_changes(chosen, words):
    assert describe_fold(chosen) == words
