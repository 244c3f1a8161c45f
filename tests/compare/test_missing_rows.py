"""A cause is given where it explains the very difference, and not where the topic contradicts it."""

from typing import Any

import pytest

from kstreams_replay.jobs.compare.comparison import Comparison, compare
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.landing.complete_topics import record_complete
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.compare.test_compare import Row, at, compared, forwarded, long, session
from tests.planted import LandedRecord, plant

S = Serde.string()


def beside(warehouse: Warehouse, inputs: list[Row], live: list[Row], **planted: Any) -> Comparison:
    """What is forwarded, beside rows of one partition, some of which may be gone."""
    plant(warehouse, "in", [LandedRecord(0, *row) for row in inputs], partitions=1)
    plant(warehouse, "live", [LandedRecord(0, *row) for row in live], partitions=1, **planted)
    list(replay(warehouse, forwarded(), pipeline="p", runner=LocalRunner()))
    return compare(warehouse, forwarded(), "out", with_topic="live", pipeline="p")


# --- not yet -------------------------------------------------------------------------------------------------


def test_a_row_is_not_there_yet_only_behind_all_that_are_there(warehouse):
    """
    The second row has the latest time, and production has the row behind it.
    """
    inputs = [(b"a", b"1", 1), (b"b", b"2", 90), (b"c", b"3", 3)]

    assert compared(warehouse, forwarded(), inputs, [inputs[0], inputs[2]]).causes == {"not explained": 1}


def test_rows_behind_one_that_is_not_there_yet_are_not_there_yet_whatever_their_times(warehouse):
    inputs = [(b"a", b"1", 10), (b"b", b"2", 20), (b"c", b"3", 5)]

    assert compared(warehouse, forwarded(), inputs, inputs[:1]).causes == {"not yet": 2}


def test_nothing_is_not_there_yet_in_a_topic_of_which_nothing_more_comes(warehouse):
    inputs = [(b"a", b"1", 1), (b"b", b"2", 2)]
    compared(warehouse, forwarded(), inputs, inputs[:1])
    record_complete(warehouse, "live")

    again = compare(warehouse, forwarded(), "out", with_topic="live", pipeline="p")
    assert again.causes == {"not explained": 1}


def test_a_partition_that_production_does_not_have_is_not_waited_for(warehouse):
    """
    Production has one partition, in which there is a row of a later time than b's second one.
    """
    rows = [LandedRecord(p, key, b"x", time_ms) for p, key, time_ms in ((0, b"a", 1), (0, b"a", 9), (1, b"b", 2))]
    plant(warehouse, "in", [*rows, LandedRecord(1, b"b", b"x", 3)], partitions=2)
    plant(warehouse, "live", [row._replace(partition=0) for row in rows], partitions=1)
    list(replay(warehouse, forwarded(), pipeline="p", runner=LocalRunner(), idle="proceed"))

    found = compare(warehouse, forwarded(), "out", with_topic="live", pipeline="p")
    assert [each.cause for each in found.first if each.verdict == "missing"] == ["not explained"]


@pytest.mark.parametrize(("read_ms", "cause"), [(40, "not yet"), (50, "not explained")])
def test_a_row_of_production_is_still_to_come_only_at_times_that_the_task_has_not_read(warehouse, read_ms, cause):
    builder = StreamsBuilder()
    builder.stream("in", Consumed(S, S)).filter(lambda key, value: value != "left out").to("out")
    inputs = [(b"a", b"1", 1), (b"a", b"left out", read_ms)]

    assert compared(warehouse, builder.build(), inputs, [inputs[0], (b"x", b"2", 50)]).causes == {cause: 1}


def test_a_final_result_of_one_of_two_sinks_may_come_when_its_window_closes(warehouse):
    builder = StreamsBuilder()
    records = builder.stream("in", Consumed(S, S))
    for name, is_final in (("b", False), ("a", True)):
        windows = records.filter(lambda key, value, name=name: key == name).group_by_key()
        counts = windows.windowed_by(TimeWindows.of_size("10s")).count()
        (counts.suppress(Suppressed.until_window_closes()) if is_final else counts).to_stream().to("out")

    assert compared(warehouse, builder.build(), [(b"a", b"x", 3)], [(at(b"a", 0), long(1), 3)]).causes == {"not yet": 1}


# --- retention and compaction --------------------------------------------------------------------------------

FOUR = [(b"a", b"1", 1), (b"b", b"2", 2), (b"c", b"3", 3), (b"d", b"4", 4)]


def test_no_more_rows_have_expired_than_offsets_are_gone(warehouse):
    assert beside(warehouse, FOUR, FOUR[3:], first_offset=2).causes == {"retention": 2, "not explained": 1}


def test_a_partition_of_which_everything_is_gone_has_expired(warehouse):
    found = beside(warehouse, FOUR, FOUR, gone=[(0, offset) for offset in range(4)])

    assert found.causes == {"retention": 4}


UPDATES = [(b"z", b"0", 0), (b"a", b"1", 1), (b"b", b"2", 2), (b"a", b"3", 3), (b"c", b"4", 4)]


def test_a_row_whose_key_has_a_later_one_behind_a_hole_was_compacted(warehouse):
    assert beside(warehouse, UPDATES, UPDATES, gone=[(0, 1)]).causes == {"compacted": 1}


@pytest.mark.parametrize(("source", "cause"), [({"kind": "kafka"}, "compacted"), ({"kind": "delta"}, "retention")])
def test_a_broker_whose_log_begins_at_0_has_expired_nothing(warehouse, source, cause):
    rows = UPDATES[1:]

    assert beside(warehouse, rows, rows, gone=[(0, 0)], source=source).causes == {cause: 1}


def test_a_key_that_is_there_twice_before_the_later_row_was_not_compacted(warehouse):
    """
    What compaction had removed the first row of a for, it would have removed the first row of z for.
    """
    twice = [UPDATES[0], *UPDATES]

    assert beside(warehouse, twice, twice, gone=[(0, 2)]).causes == {"not explained": 1}


def test_the_last_row_of_a_key_was_not_compacted(warehouse):
    assert beside(warehouse, UPDATES, UPDATES, gone=[(0, 2)]).causes == {"not explained": 1}


# --- a record cache, and orders ------------------------------------------------------------------------------


def test_a_session_was_not_merged_away_in_a_cache_where_a_commit_was_meanwhile(warehouse):
    """
    b's first session and its tombstone are there, so a commit was between them. It would have published a's first one.
    """
    builder = StreamsBuilder()
    records = builder.stream("in", Consumed(S, S))
    records.group_by_key().windowed_by(SessionWindows.with_inactivity_gap("5s")).count().to_stream().to("out")
    inputs = [(b"a", b"x", 1_000), (b"b", b"x", 1_000), (b"b", b"x", 2_000), (b"a", b"x", 2_000)]
    live = [
        (session(b"b", 1_000, 1_000), long(1), 1_000), (session(b"b", 1_000, 1_000), None, 1_000),
        (session(b"b", 1_000, 2_000), long(2), 2_000), (session(b"a", 1_000, 2_000), long(2), 2_000),
    ]  # fmt: skip

    assert compared(warehouse, builder.build(), inputs, live, form="events").causes == {"not explained": 2}


def looked_up() -> Topology:
    builder = StreamsBuilder()
    names = builder.table("names", Consumed(S, S))
    builder.stream("in", Consumed(S, S)).left_join(names, lambda value, name: f"{value} {name}", returns=S).to("out")
    return builder.build()


def merged() -> Topology:
    builder = StreamsBuilder()
    builder.stream("names", Consumed(S, S)).merge(builder.stream("in", Consumed(S, S))).to("out")
    return builder.build()


@pytest.mark.parametrize(
    ("topology", "rows", "cause"),
    [
        (looked_up(), [(b"b", b"2 None", 2), (b"a", b"1 None", 1)], "not explained"),
        (merged(), [(b"b", b"2", 2), (b"a", b"1", 1)], "interleaving"),
    ],
    ids=["looked-up", "merged"],
)
def test_a_table_that_is_looked_into_gives_rows_no_other_order(warehouse, topology, rows, cause):
    plant(warehouse, "names", [], partitions=1)

    found = compared(warehouse, topology, [(b"a", b"1", 1), (b"b", b"2", 2)], rows)
    assert found.causes == {cause: 1}
