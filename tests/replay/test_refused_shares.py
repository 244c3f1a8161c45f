"""Alarms count refusals by operator: a second branch that takes every record, or a repartition, hides none of them."""

import re

import pytest

from kstreams_replay import LogAndContinueExceptionHandler
from kstreams_replay.expectations.guarantees import questions_of
from kstreams_replay.expectations.verdicts import check_increment
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.increment_report import IncrementReport
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    KeyValues,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.orchestration.cli.exit_codes import ExitCode
from kstreams_replay.orchestration.cli.run_outcome import run_exit_code, warnings_of
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.orchestration.quality.metrics import increments_in_force, metric_rows
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.refused_shares import RefusedLimit, RefusedShare, refused_shares, too_many_refused
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

HOURS = (0, 9, 10, 11, 1, 2, 3, 4, 5, 6, 7, 8)
"""A file of every hour, ten before two: 60 records of a minute each. The last eight are late, 480 of 720."""


def replayed(warehouse: Warehouse, topology: Topology, records: list[LandedRecord]) -> list[IncrementReport]:
    plant(warehouse, "clicks", records, partitions=1)
    return list(replay(warehouse, topology, pipeline="p", runner=LocalRunner()))


def of_hours() -> list[LandedRecord]:
    return [LandedRecord(0, b"ann", b"x", (hour * 60 + minute) * 60_000) for hour in HOURS for minute in range(60)]


def per_minute(*, second_sink: bool = False, repartitions: bool = False) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("clicks", Consumed(Serde.string(), Serde.string()))
    grouped = stream.group_by("value", name="by") if repartitions else stream.group_by_key()
    counts = grouped.windowed_by(TimeWindows.of_size("1m", grace="0s")).count(name="counted")
    counts.suppress(Suppressed.until_window_closes()).to("per-minute")
    if second_sink:
        stream.to("all")
    return builder.build()


def g12(warehouse: Warehouse, topology: Topology) -> str:
    verdicts = check_increment(warehouse, "p", replay_facts(topology), engine="plain")
    return {verdict.guarantee: verdict.answer for verdict in verdicts}["G12"]


@pytest.mark.parametrize("shape", [{}, {"second_sink": True}, {"repartitions": True}], ids=["one", "two", "below"])
def test_an_aggregate_that_refuses_two_of_three_is_warned_of_whatever_stands_beside_or_above_it(tmp_path, shape):
    warehouse, topology = Warehouse(tmp_path), per_minute(**shape)

    reports = replayed(warehouse, topology, of_hours())

    assert warnings_of(reports) == [
        "480 of 720 records that came to counted (66.7%) were refused; see `replay show dropped`"
    ]
    assert run_exit_code(reports) is ExitCode.WARNINGS
    assert [report.refused for report in reports] == [480]
    assert g12(warehouse, topology) == "false"


@pytest.mark.parametrize("late", [1, 2])
def test_one_in_a_hundred_is_few_and_two_are_not(tmp_path, late):
    times = [*range(100, 200 - late), *range(late)]
    topology = per_minute(second_sink=True)

    reports = replayed(
        Warehouse(tmp_path), topology, [LandedRecord(0, b"a", b"x", minute * 60_000) for minute in times]
    )

    assert len(times) == 100
    assert run_exit_code(reports) is (ExitCode.DONE if late == 1 else ExitCode.WARNINGS)
    assert g12(Warehouse(tmp_path), topology) == ("true" if late == 1 else "false")


def test_a_record_that_several_windows_refuse_counts_once_and_one_that_some_take_does_not(tmp_path):
    """Windows of 10 that advance by 5: of the record at 8 both have closed, of the one at 17 only [10, 20)."""
    builder = StreamsBuilder()
    grouped = builder.stream("clicks", Consumed(Serde.string(), Serde.string())).group_by_key()
    grouped.windowed_by(TimeWindows.of_size(10).advance_by(5)).count(name="counted").to("counts")

    (report,) = replayed(
        Warehouse(tmp_path), builder.build(), [LandedRecord(0, b"a", b"x", time) for time in (21, 8, 17)]
    )

    assert report.books_by_sub_topology["0"].by_operator["counted"] == [3, 1]
    assert report.books.refused == {"counted": {"expired-window": [2, 3]}}


def test_a_record_that_a_join_refuses_for_two_reasons_counts_once(tmp_path):
    """A null value is refused, and since the store is in memory the same record is too old for it, too."""
    builder = StreamsBuilder(config={"default.dsl.store": "in_memory"})
    stream = builder.stream("clicks", Consumed(Serde.string(), Serde.string()))
    windows = JoinWindows.of_time_difference_with_no_grace(10)
    stream.join(stream, lambda one, other: one, windows, returns=Serde.string()).to("pairs")
    records = [LandedRecord(0, b"a", b"x", 1_000), LandedRecord(0, b"a", None, 1)]

    (report,) = replayed(Warehouse(tmp_path), builder.build(), records)

    joined = [numbers for numbers in report.books_by_sub_topology["0"].by_operator.values() if numbers[1]]
    assert joined == [[4, 2]]  # two records, each on both sides


@pytest.mark.parametrize("kind", ["table", "global_table"])
def test_a_join_that_is_tried_again_around_failing_records_counts_each_record_once(tmp_path, kind):
    """Two have no value, and on "x" the joiner fails, whatever is in a chunk with it."""
    text, warehouse = Consumed(Serde.string(), Serde.string()), Warehouse(tmp_path)
    builder = StreamsBuilder(config={"processing.exception.handler": LogAndContinueExceptionHandler})
    clicks, names = builder.stream("clicks", text), getattr(builder, kind)("names", text)
    chosen = {} if kind == "table" else {"selector": lambda key, value: key, "selector_returns": Serde.string()}
    clicks.join(names, lambda one, _: str(int(one)), returns=Serde.string(), name="joined", **chosen).to("out")
    values = [b"1", b"x", None, b"3", None, b"5"]
    plant(warehouse, "names", [LandedRecord(0, b"a", b"Ann", 0)], partitions=1)
    plant(warehouse, "clicks", [LandedRecord(0, b"a", one, at) for at, one in enumerate(values, 1)], partitions=1)

    (report,) = replay(warehouse, builder.build(), pipeline="p", runner=LocalRunner(), idle="proceed")

    books = report.books_by_sub_topology["0"]
    assert books.by_operator["joined"] == [6, 3]
    assert books.refused == {"joined": {"null-value": [2, 2], "processing-exception": [1, 1]}}
    rows = metric_rows(*increments_in_force(warehouse, "p")[-1])
    numbers = {(row["operator"], row["metric"]): row["value"] for row in rows}
    assert [numbers["joined", f"join-{name}-total"] for name in ("looked-up", "matched")] == [4, 4]


class Copies:
    """Forwards each record twice, and puts it into a store that another processor has, too."""

    def init(self, context):
        self.context, self.store = context, context.store("seen")

    def process(self, record):
        self.store.put(record.key, record.value)
        self.context.forward(record)
        self.context.forward(record)


def test_a_task_that_runs_record_by_record_counts_what_came_and_what_was_refused(tmp_path):
    """Each record comes to the aggregate twice; of the record at 3 both are late."""
    builder = StreamsBuilder()
    builder.add_state_store(KeyValues("seen", Serde.string(), Serde.string()))
    stream = builder.stream("clicks", Consumed(Serde.string(), Serde.string()))
    copies = stream.process_values(Copies, ["seen"], returns=Serde.string(), name="copies")
    windows = copies.group_by_key().windowed_by(TimeWindows.of_size(10))
    windows.count(name="counted").to("counts")
    copies.process_values(Copies, ["seen"], returns=Serde.string(), name="again").to("copied")
    records = [LandedRecord(0, b"a", b"x", time) for time in (21, 3, 22)]

    (report,) = replayed(Warehouse(tmp_path), builder.build(), records)

    by_operator = report.books_by_sub_topology["0"].by_operator
    assert {name: by_operator[name] for name in ("copies", "counted", "again")} == {
        "copies": [3, 0],
        "counted": [6, 2],
        "again": [6, 0],
    }


def test_a_source_refuses_negative_times(tmp_path):
    builder = StreamsBuilder()
    builder.stream("clicks", Consumed(Serde.string(), Serde.string(), name="clicks-source")).to("all")
    records = [LandedRecord(0, b"a", b"x", time) for time in (5, -1, 6)]

    (report,) = replayed(Warehouse(tmp_path), builder.build(), records)

    assert report.books_by_sub_topology["0"].by_operator["clicks-source"] == [3, 1]


def test_a_project_says_how_many_may_be_refused_and_whether_more_is_an_error(tmp_path):
    warehouse, topology = Warehouse(tmp_path), per_minute()
    reports = replayed(warehouse, topology, of_hours())  # two of three are refused

    def judged(limit: RefusedLimit) -> tuple[ExitCode, str, str, list[str]]:
        verdicts = check_increment(warehouse, "p", replay_facts(topology, limit), engine="plain")
        (verdict,) = (each for each in verdicts if each.guarantee == "G12")
        rules = [rule.sentence for each in questions_of(replay_facts(topology, limit))
                 if each.guarantee.id == "G12" for rule in each.guarantee.rules]  # fmt: skip
        return run_exit_code(reports, refused=limit), verdict.answer, verdict.severity, rules[:1]

    most, fewer = RefusedLimit(0.67, "error"), RefusedLimit(0.5, "error")
    assert judged(most) == (ExitCode.DONE, "true", "error", ["No sub-topology drops more than 67 % of what it reads."])
    assert judged(fewer) == (
        ExitCode.FAILED, "false", "error", ["No sub-topology drops more than 50 % of what it reads."],
    )  # fmt: skip
    assert judged(RefusedLimit(0.5))[:3] == (ExitCode.WARNINGS, "false", "warning")
    assert warnings_of(reports, refused=most) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"share": 5}, "refused_max: expected a share from 0 to 1, got 5; write 5 % as 0.05"),
        ({"severity": "fatal"}, "refused_severity: expected 'warning' or 'error', got 'fatal'"),
    ],
)
def test_a_limit_that_is_none_is_refused(given, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        RefusedLimit(**given)


def test_shares_are_summed_over_increments_and_the_worst_comes_first():
    first = {"by_sub_topology": {"0": {"read": 10, "dropped": 0, "by_operator": {"a": [10, 0], "b": [4, 1]}}}}
    second = {"by_sub_topology": {"0": {"read": 10, "dropped": 5, "by_operator": {"a": [10, 5], "b": [4, 0]}}}}

    assert refused_shares([first, second]) == [
        RefusedShare("0", "a", 20, 5),
        RefusedShare("0", None, 20, 5),
        RefusedShare("0", "b", 8, 1),
    ]
    assert [each.operator for each in too_many_refused([first, second])] == ["a", "b"]


def test_books_of_an_earlier_version_count_for_sub_topologies_alone():
    books = {"by_sub_topology": {"0": {"read": 100, "dropped": 1}, "1": {"read": 10, "dropped": 2}}}

    (share,) = too_many_refused([books])

    assert share.sentence() == "2 of 10 records of sub-topology 1 (20.0%) were dropped"
