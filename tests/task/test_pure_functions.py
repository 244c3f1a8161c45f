"""Functions that use a store or a table are called twice under new code: chance and counters are reported, once."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor, Record, ValueTransformerWithKey
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Topology,
)
from kstreams_replay.orchestration.cli.run_outcome import warnings_of
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import Landed, plant

STRING, LONG = Serde.string(), Serde.long()
Function = Callable[[int], int]
"""What it gives counts in the result: the same number, or another one each time."""


class Adding(Processor):
    """Adds up values in its store."""

    def __init__(self, twist: Function) -> None:
        self.twist = twist

    def init(self, context) -> None:
        self.context, self.sums = context, context.store("sums")

    def process(self, record: Record) -> None:
        total = (self.sums.get(record.key) or 0) + self.twist(record.value)
        self.sums.put(record.key, total)
        self.context.forward(record.key, total)


class Twisting(ValueTransformerWithKey):
    def __init__(self, twist: Function) -> None:
        self.twist = twist

    def init(self, context) -> None:
        self.context = context

    def transform(self, key: Any, value: Any) -> Any:
        return None if value is None else self.twist(value)


def aggregate(builder: StreamsBuilder, twist: Function) -> None:
    grouped = numbers(builder).group_by_key()
    grouped.aggregate(
        initializer=lambda: 0,
        aggregator=lambda key, value, total: total + twist(value),
        returns=LONG,
        materialized=Materialized.as_("asked"),
    ).to("out")


def reduce(builder: StreamsBuilder, twist: Function) -> None:
    numbers(builder).group_by_key().reduce(lambda total, value: total + twist(value)).to("out")


def merge_sessions(builder: StreamsBuilder, twist: Function) -> None:
    grouped = numbers(builder).group_by_key().windowed_by(SessionWindows.with_inactivity_gap(5, grace=100))
    grouped.aggregate(
        initializer=lambda: 0,
        aggregator=lambda key, value, total: total + value,
        merger=lambda key, one, other: one + twist(other),
        returns=LONG,
    ).to("out")


def cogroup(builder: StreamsBuilder, twist: Function) -> None:
    cogrouped = numbers(builder).group_by_key().cogroup(lambda key, value, total: total + twist(value))
    cogrouped.aggregate(initializer=lambda: 0, returns=LONG).to("out")


def aggregate_table(builder: StreamsBuilder, twist: Function) -> None:
    grouped = builder.table("numbers", Consumed(STRING, LONG)).group_by("record_key", "value")
    grouped.aggregate(
        initializer=lambda: 0,
        adder=lambda key, value, total: total + twist(value),
        subtractor=lambda key, value, total: total - value,
        returns=LONG,
    ).to("out")


def join_streams(builder: StreamsBuilder, twist: Function) -> None:
    other = builder.stream("others", Consumed(STRING, LONG))
    windows = JoinWindows.of_time_difference_and_grace(1000, 0)
    numbers(builder).join(other, lambda left, right: left + twist(right), windows, returns=LONG).to("out")


def join_tables(builder: StreamsBuilder, twist: Function) -> None:
    mine, other = (builder.table(topic, Consumed(STRING, LONG)) for topic in ("numbers", "others"))
    mine.join(other, lambda left, right: left + twist(right), returns=LONG).to("out")


def join_stream_with_table(builder: StreamsBuilder, twist: Function) -> None:
    other = builder.table("others", Consumed(STRING, LONG))
    numbers(builder).left_join(other, lambda left, right: left + twist(right or 0), returns=LONG).to("out")


def process(builder: StreamsBuilder, twist: Function) -> None:
    stores = [KeyValues("sums", STRING, LONG)]
    numbers(builder).process(lambda: Adding(twist), stores, returns_key=STRING, returns=LONG).to("out")


def transform(builder: StreamsBuilder, twist: Function) -> None:
    table = builder.table("numbers", Consumed(STRING, LONG))
    table.transform_values(lambda: Twisting(twist), returns=LONG).to("out")


def numbers(builder: StreamsBuilder):
    return builder.stream("numbers", Consumed(STRING, LONG))


CASES = {
    aggregate: "KSTREAM-AGGREGATE",
    reduce: "KSTREAM-REDUCE",
    merge_sessions: "KSTREAM-AGGREGATE",
    cogroup: "COGROUPKSTREAM-MERGE",
    aggregate_table: "KTABLE-AGGREGATE",
    join_streams: "KSTREAM-MERGE",
    join_tables: "KTABLE-MERGE",
    join_stream_with_table: "KSTREAM-LEFTJOIN",
    process: "KSTREAM-PROCESSOR",
    transform: "KTABLE-TRANSFORMVALUES",
}
"""What is built, and how the name of the node begins that is asked."""


def built(case: Callable[[StreamsBuilder, Function], None], twist: Function) -> Topology:
    builder = StreamsBuilder()
    case(builder, twist)
    return builder.build()


def land(warehouse: Warehouse) -> None:
    """Of one key: so that sessions merge, the record between two of them comes after both."""
    for topic in ("others", "numbers"):
        tape = [
            Landed(0, b"k", (number + 1).to_bytes(8, "big"), at)
            for number, at in enumerate([0, 8, 4, 20, 28, 24, 40, 48, 44])
        ]
        plant(warehouse, topic, tape, partitions=1)


def warnings_in_increments(warehouse: Warehouse, topology: Topology) -> list[list[str]]:
    reports = replay(
        warehouse, topology, pipeline="p", runner=LocalRunner(), max_records=6, idle="proceed", increments=2
    )
    return [warnings_of([report]) for report in reports]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_counter_in_a_function_that_meets_a_store_or_a_table_is_told_of_at_the_first_increment(tmp_path, case):
    warehouse, calls = Warehouse(tmp_path), itertools.count()
    land(warehouse)

    said, later = warnings_in_increments(warehouse, built(case, lambda number: number + next(calls)))

    said = [warning for warning in said if "does not answer alike twice" in warning]
    assert len(said) == 1
    assert said[0].startswith(f"step {CASES[case]}")
    assert "does not answer alike twice: of the record " in said[0]
    assert said[0].endswith("; functions must be pure")
    assert [warning for warning in later if "twice" in warning] == []  # they are asked once


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_pure_functions_are_not_told_of(tmp_path, case):
    warehouse = Warehouse(tmp_path)
    land(warehouse)

    warnings = itertools.chain(*warnings_in_increments(warehouse, built(case, lambda number: number)))

    assert [warning for warning in warnings if "twice" in warning] == []


def test_the_sentence_names_the_first_row_that_differs(tmp_path):
    """
    Together the calls have the numbers 0, 1, …, 5. In pieces, after that, the first one has 6: 1 + 6.
    """
    warehouse, calls = Warehouse(tmp_path), itertools.count()
    land(warehouse)

    warning, *_ = warnings_in_increments(warehouse, built(aggregate, lambda number: number + next(calls)))[0]

    assert warning == (
        "step KSTREAM-AGGREGATE-0000000001 does not answer alike twice: of the record numbers-0, offset 0, "
        "it gave key 'k', value 1, and then key 'k', value 7; functions must be pure"
    )


def test_who_is_asked_twice_changes_nothing_and_who_only_looks_on_is_called_once(tmp_path):
    warehouse, seen = Warehouse(tmp_path), []
    land(warehouse)
    builder = StreamsBuilder()
    stream = numbers(builder).peek(lambda key, value: seen.append(value))
    stream.foreach(lambda key, value: seen.append(-value))
    stores = [KeyValues("sums", STRING, LONG)]
    summed = stream.process(lambda: Adding(lambda number: number), stores, returns_key=STRING, returns=LONG)
    summed.group_by_key().reduce(max).to("out")

    warnings_in_increments(warehouse, builder.build())

    assert sorted(seen) == sorted([*range(1, 10), *(-number for number in range(1, 10))])
    rows = read_table(warehouse, "p", "outputs/out").sort_by("offset").to_pylist()
    assert [row["value"] for row in rows] == list(itertools.accumulate(range(1, 10)))
