"""Aggregates of streams in a versioned store: what is refused, what history a join sees, what a deletion leaves."""

import pytest

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.functions.folds import count, mean
from kstreams_replay.jobs.functions.folds.aggregation import Aggregation
from kstreams_replay.jobs.functions.folds.python import PythonFold
from kstreams_replay.jobs.operators.aggregates.versioned_aggregate import VersionedAggregate
from kstreams_replay.jobs.operators.base.operator import OperatorContext
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, KStream, KTable, Materialized, Serde, StreamsBuilder
from kstreams_replay.state.records.keys import Keys
from tests.operators.aggregates.window_runs import batch_of
from tests.operators.cut_tapes import Increments
from tests.operators.tapes import play, table

STRING, LONG = Serde.string(), Serde.long()


def counts(stream: KStream) -> KTable:
    return stream.group_by_key().count(Materialized.versioned("counts", 100))


def test_a_result_older_than_the_history_is_refused_and_counts_nothing():
    got = play(
        counts,
        """
        step | key | value | time_ms
        1    | a   | 1     | 10
        2    | a   | 1     | 5         # the result is at 10
        3    | b   | 1     | 200
        4    | a   | 1     | 99        # 99 < 200 - 100
        5    | a   | 1     | 100
        6    | c   | 1     | 99
        """,
    )

    want = """
        step | key | value | time_ms
        1    | a   | 1     | 10
        2    | a   | 2     | 10
        3    | b   | 1     | 200
        5    | a   | 3     | 100
    """
    assert got.outputs() == table(want)
    assert got.dropped() == table(
        """
        step | reason          | window | stream_time_ms | limit_ms
        4    | expired-version | -      | 200            | 100
        6    | expired-version | -      | 200            | 100
        """
    )


def test_a_join_finds_the_aggregate_as_of_the_records_time():
    builder = StreamsBuilder()
    numbers = builder.stream("numbers", Consumed(STRING, LONG))
    asks = builder.stream("asks", Consumed(STRING, LONG))
    asks.join(counts(numbers), lambda ask, number: number, returns=LONG).to("out")
    driver = TopologyTestDriver(builder.build())
    for topic, time_ms in [("numbers", 10), ("numbers", 20), ("numbers", 15), ("asks", 19), ("asks", 20), ("asks", 9)]:
        driver.pipe_input(topic, "a", 0, time_ms)

    assert [(record.arrival, record.value) for record in driver.read_outputs("out")] == [(3, 1), (4, 3)]


def test_before_a_deletion_a_record_makes_history_only():
    """
    Kafka reads the latest version, the deletion at 30; a result at 20 goes behind it, and the next reads it again.
    """

    def build(stream: KStream) -> KTable:
        return stream.group_by_key().aggregate(
            initializer=str,
            aggregator=lambda key, value, text: None if value == 0 else f"{text}{value}",
            returns=STRING,
            materialized=Materialized.versioned("texts", 100),
        )

    got = play(
        build,
        """
        step | key | value | time_ms
        1    | a   | 1     | 10
        2    | a   | 0     | 30
        3    | a   | 2     | 20
        4    | a   | 3     | 25
        5    | a   | 4     | 40
        6    | a   | 5     | 35
        """,
    )

    assert got.outputs() == table(
        """
        step | key | value | time_ms
        1    | a   | 1     | 10
        2    | a   | -     | 30
        3    | a   | 2     | 20
        4    | a   | 3     | 25
        5    | a   | 4     | 40
        6    | a   | 45    | 40
        """
    )


@pytest.mark.parametrize(
    "fold",
    [count(), mean("value"), PythonFold(int, lambda key, value, so_far: None if value == 9 else so_far + value, LONG)],
    ids=["count", "mean", "python"],
)
def test_where_the_tape_is_cut_and_resumed_changes_nothing(fold):
    tape = [("ab"[n % 2], n * 7 % 10, max(0, 9 * n - n * n * 13 % 150)) for n in range(60)]

    def start() -> VersionedAggregate:
        shape = Shape(STRING, LONG)
        aggregation = Aggregation({"": fold}, shape, "all")
        context = OperatorContext("all", shape, Keys(STRING), wants_old=True)
        return VersionedAggregate(context, aggregation, Shape(STRING, aggregation.serde()), 100)

    def said(cuts: list[int]) -> tuple:
        increments, results = Increments(start), []
        for operator, begin, end in increments.chunks(len(tape), cuts=cuts):
            batch, chunk = batch_of(tape[begin:end], operator.context.keys)
            out = operator.process(batch, chunk)
            columns = [
                out.value.all().to_pylist(),
                out.old.all().to_pylist(),
                out.time_ms.tolist(),
                out.latest.tolist(),
            ]
            results += zip((out.cause + begin).tolist(), *columns, strict=True)
            results += [int(step) + begin for _, cause, _ in chunk.drops for step in cause]
        return sorted(results, key=repr), sorted(increments.running.contents().to_pylist(), key=repr)

    whole = said([])

    assert len(whole[0]) > 50
    for cuts in ([1], [30], [20, 21, 40], list(range(1, 60))):
        assert said(cuts) == whole
