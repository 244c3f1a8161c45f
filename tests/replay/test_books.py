"""The books hide no refusal: refused records are counted by operator and reason, below a repartition too, and a
record of which nothing was kept is not applied.

Before, a deduplication ahead of a window made every record "applied", while `dropped` held the window's refusals.
"""

import pytest

from kstreams_replay.expectations.verdicts import check_increment, is_in_order
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.increment_report import IncrementReport
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, KStream, Serde, StreamsBuilder, TimeWindows, Topology
from kstreams_replay.orchestration.cli.book_lines import verdict_line
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

TAPE = [
    (b"a", 0), (b"a", 100), (b"b", 5), (b"a", 101), (None, 102), (b"b", 200), (b"c", 7), (b"d", 12), (b"e", 201),
]  # fmt: skip
"""(key, time). Windows of 10, no grace: of b 5, c 7 and d 12 the window has closed; the null key has none."""


def topology(ahead) -> Topology:
    builder = StreamsBuilder()
    stream: KStream = ahead(builder.stream("in", Consumed(Serde.string(), Serde.long())))
    windows = stream.group_by_key(name="grouped").windowed_by(TimeWindows.of_size(10))
    windows.count(name="counted").to("counts")
    return builder.build()


def replayed(warehouse: Warehouse, made: Topology) -> IncrementReport:
    plant(
        warehouse, "in", [LandedRecord(0, key, b"\0\0\0\0\0\0\0\x07", time_ms) for key, time_ms in TAPE], partitions=1
    )
    (report,) = replay(warehouse, made, pipeline="p", runner=LocalRunner())
    verdicts = check_increment(warehouse, "p", replay_facts(made), engine="plain")
    assert {verdict.guarantee: verdict.answer for verdict in verdicts}["G3"] == "true"
    assert all(is_in_order(verdict) for verdict in verdicts)
    return report


@pytest.mark.parametrize(
    ("ahead", "want"),
    [
        (lambda s: s, "9 read = 5 applied + 4 dropped"),
        (lambda s: s.peek(lambda key, value: None), "9 read = 5 applied + 4 dropped"),
        (
            lambda s: s.flat_map_values(lambda key, value: [value], returns=Serde.long()),
            "9 read = 5 applied + 4 dropped",
        ),
        # the deduplication remembers what it passes on, so that is applied; a's 101 is a duplicate of its 100
        (lambda s: s.deduplicate_by_key(3, name="once"), "9 read = 7 applied + 1 left out + 1 dropped"),
    ],
    ids=["nothing", "peek", "flat_map_values", "deduplicate"],
)
def test_what_stands_ahead_of_a_window_hides_no_refusal(tmp_path, ahead, want):
    line = verdict_line([replayed(Warehouse(tmp_path), topology(ahead))])

    assert line.partition(";")[0] == want
    assert line.endswith("; records refused: counted expired-window 3, counted null-key 1")


def test_records_and_refusals_are_counted_apart(tmp_path):
    """
    Two windows of 10 that advance by 5 refuse each late record.
    """
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(Serde.string(), Serde.long())).group_by_key()
    grouped.windowed_by(TimeWindows.of_size(10).advance_by(5)).count(name="counted").to("counts")

    report = replayed(Warehouse(tmp_path), builder.build())

    assert report.books.refused == {"counted": {"expired-window": [3, 6], "null-key": [1, 1]}}


def test_refusals_below_a_repartition_are_in_the_totals(tmp_path):
    report = replayed(Warehouse(tmp_path), topology(lambda s: s.select_key("record_key")))

    assert report.books.refused == {"counted": {"expired-window": [3, 3]}}
    assert (report.books.applied, report.books.left_out, report.books.dropped) == (8, 1, 0)  # a null key goes nowhere
    assert report.books_by_sub_topology["1"].dropped == 3


@pytest.mark.parametrize(
    ("ahead", "left_out"),
    [
        (lambda s: s.filter("record_key = 'a'"), 6),
        (lambda s: s.flat_map_values(lambda key, value: [], returns=Serde.long()), 9),
        (lambda s: s.split(name="by-").branch("record_key = 'a'", name="a").no_default_branch()["by-a"], 6),
    ],
    ids=["filter", "flat_map_values", "branch"],
)
def test_a_record_of_which_nothing_is_kept_is_left_out_and_not_applied(tmp_path, ahead, left_out):
    report = replayed(Warehouse(tmp_path), topology(ahead))

    assert (report.books.applied, report.books.left_out, report.books.dropped) == (9 - left_out, left_out, 0)


def test_a_branch_that_nobody_reads_applies_nothing(tmp_path):
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), Serde.long()))
    stream.filter("record_key = 'a'").to("some")
    stream.filter("record_key = 'b'")

    report = replayed(Warehouse(tmp_path), builder.build())

    assert (report.books.applied, report.books.left_out) == (3, 6)


def test_what_a_function_took_is_applied(tmp_path):
    seen: list[str] = []
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.long())).foreach(lambda key, value: seen.append(key))

    report = replayed(Warehouse(tmp_path), builder.build())

    assert (report.books.applied, len(seen)) == (9, 9)
