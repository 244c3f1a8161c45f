"""What a bound timestamp extractor answers: against a loop over records, at its bounds, and what it refuses."""

import random

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.functions.timestamp_extractors import (
    ConsumedRecords,
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
    bind_extractor,
)
from kstreams_replay.jobs.topology import Consumed, ConsumerRecord, Serde, StreamsBuilder
from kstreams_replay.state.errors import InvalidTimestamp, TaskFailed, TopologyError
from kstreams_replay.state.records.batches import Batch, Values
from kstreams_replay.state.records.keys import Keys

STRING, LONG = Serde.string(), Serde.long()
SHAPE = Shape(STRING, LONG)


def consumed(values: list[int | None], own: list[int] | None = None) -> ConsumedRecords:
    n, keys = len(values), Keys(STRING)
    column = pa.array(values, pa.int64())
    batch = Batch(
        cause=np.arange(n, dtype=np.int32),
        key=keys.intern(pa.array([b"k"] * n, pa.binary())),
        keys=keys,
        time_ms=np.array([7] * n if own is None else own, np.int64),
        valid=column.is_valid().to_numpy(zero_copy_only=False),
        value=Values(column),
    )
    return ConsumedRecords(batch, "in", 3, np.arange(100, 100 + n))


def times(extractor: object, values: list[int | None], start_ms: int = -1, own: list[int] | None = None) -> list[int]:
    return bind_extractor(extractor, SHAPE, "source").times(consumed(values, own), start_ms).tolist()


def test_a_field_is_the_time():
    assert times("value", [5, -3, 9]) == [5, -3, 9]


def test_a_step_sees_the_largest_time_before_it_of_records_that_got_one():
    assert times("COALESCE(value, partition_time_ms)", [None, 5, 2, None, -9, None]) == [-1, 5, 2, 5, -9, 5]
    assert times("partition_time_ms", [1, 1], start_ms=40) == [40, 40]


def test_times_that_depend_on_one_another_are_those_of_a_loop():
    """
    More records than are looked at at once; half of them continue from the time before.
    """
    dice = random.Random(7)
    values = [dice.choice([None, dice.randrange(20_000), -1]) for _ in range(2_000)]
    want, before = [], 3
    for value in values:
        time_ms = before + 2 if value is None else value
        want.append(time_ms)
        before = max(before, time_ms)

    assert times("COALESCE(value, partition_time_ms + 2)", values, start_ms=3) == want
    assert times(lambda record, before: before + 2 if record.value is None else record.value, values, 3) == want


def test_a_callable_is_given_the_record_as_it_stands_in_the_topic():
    seen = []

    assert times(lambda record: seen.append(record) or 4, [8]) == [4]
    assert seen == [ConsumerRecord("k", 8, 7, (), "in", 3, 100)]


@pytest.mark.parametrize("value", [-1, None])
def test_kafkas_extractors_say_what_becomes_of_an_invalid_time(value):
    assert times(LogAndSkipOnInvalidTimestamp("value"), [6, value, 7]) == [6, -1, 7]
    assert times(UsePartitionTimeOnInvalidTimestamp("value"), [6, 4, value, 7]) == [6, 4, 6, 7]
    with pytest.raises(InvalidTimestamp, match="the record in-3, offset 101") as error:
        times(FailOnInvalidTimestamp("value"), [6, value, None])
    assert error.value.cause_row == 1


def test_without_a_step_they_are_asked_of_the_records_own_times():
    assert times(UsePartitionTimeOnInvalidTimestamp(), [1, 1, 1], own=[5, -1, 6]) == [5, 5, 6]
    assert times(UsePartitionTimeOnInvalidTimestamp, [1, 1], own=[5, -1]) == [5, 5]


def test_there_must_be_a_partition_time_to_stand_in():
    with pytest.raises(InvalidTimestamp, match="no time in the partition before it"):
        times(UsePartitionTimeOnInvalidTimestamp("value"), [-4, 5])


def test_a_time_of_null_is_an_error_and_a_negative_one_is_not():
    with pytest.raises(InvalidTimestamp, match="got null, of the record in-3, offset 101"):
        times("value", [-4, None])


def test_the_first_record_that_fails_is_named_whatever_fails_it():
    """
    The cast fails on the second record, and before it the first has no time.
    """
    step = "CAST(CAST(record_time_ms AS INT) AS TINYINT)"
    with pytest.raises(TaskFailed) as error:
        times(step, [0, 0, 0], own=[1, 2, 900])
    assert error.value.cause_row == 2
    assert "offset 102" in str(error.value)
    with pytest.raises(InvalidTimestamp) as error:
        times(FailOnInvalidTimestamp(step), [0, 0, 0], own=[1, -2, 900])
    assert error.value.cause_row == 1


BEHIND = (pl.col("partition_time_ms") - pl.col("value")).cast(pl.UInt32).cast(pl.Int64) + 100
"""It fails for a value that is above the partition time."""


def test_a_step_that_fails_on_a_time_that_no_record_has_fails_no_record():
    values = [-5, *([50] * 400), -5, 20_000]
    loop = times(lambda record, before: before - record.value + 100, values, start_ms=1)

    assert times(BEHIND, values, start_ms=1) == loop
    assert times(BEHIND, [-100, 50], start_ms=0) == [200, 250]


@pytest.mark.parametrize("before", [0, 1, 3, 70])
def test_a_step_over_the_partition_time_that_fails_names_its_record(before):
    values = [-100 * (n + 1) for n in range(before)]
    with pytest.raises(TaskFailed, match=f"offset {100 + before}") as error:
        times(BEHIND, [*values, 10**9, -100, 10**9], start_ms=0)
    assert error.value.cause_row == before
    with pytest.raises(InvalidTimestamp) as error:
        times(FailOnInvalidTimestamp(BEHIND - 200), [50 - 100 * 1, 10**9], start_ms=0)
    assert error.value.cause_row == 0


def test_a_callable_that_fails_or_gives_no_number_names_the_record():
    with pytest.raises(TaskFailed, match=r"ZeroDivisionError.*offset 101"):
        times(lambda record: 1 // record.value, [1, 0])
    with pytest.raises(TaskFailed, match="milliseconds as an int of 64 bits, got 'soon'"):
        times(lambda record: "soon", [1])
    with pytest.raises(TaskFailed, match=r"an int of 64 bits, got 9223372036854775808, of .*offset 100"):
        times(lambda record: 2**63, [1])


REFUSED = {
    "another type": ("record_key", "a time as whole milliseconds"),
    "an unknown field": ("sent", "columns of value_is_null, partition_time_ms, value, record_key, record_time_ms"),
    "no extractor": (5, "a timestamp extractor"),
    "another form": (lambda key, value, time_ms: 0, r"a callable of \(record, partition_time_ms\) or of \(record\)"),
    "of other records": ("SUM(value)", "one value for each record"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_no_extractor_is_refused_when_the_topology_is_built(why):
    extractor, expected = REFUSED[why]

    with pytest.raises(TopologyError, match=f"KSTREAM-SOURCE-0000000000: expected {expected}"):
        StreamsBuilder().stream("in", Consumed(STRING, LONG, timestamp_extractor=extractor))


def test_the_wall_clock_is_refused_with_the_reason():
    with pytest.raises(TopologyError, match="a time that a replay finds again"):
        StreamsBuilder().stream("in", Consumed(STRING, LONG, timestamp_extractor=WallclockTimestampExtractor))


def test_a_topic_that_is_read_twice_has_one_extractor():
    builder = StreamsBuilder()
    builder.stream("in", Consumed(STRING, LONG).with_timestamp_extractor("value"))

    builder.stream("in", Consumed(STRING, LONG, timestamp_extractor="value"))
    for other in (None, "value + 1", pl.col("value"), FailOnInvalidTimestamp("value"), lambda record: record.value):
        with pytest.raises(TopologyError, match="the timestamp extractor of the other stream"):
            builder.stream("in", Consumed(STRING, LONG, timestamp_extractor=other))
    for same in (pl.col("value") + 1, lambda record: record.value):
        builder = StreamsBuilder()
        for _ in range(2):
            builder.stream("in", Consumed(STRING, LONG, timestamp_extractor=FailOnInvalidTimestamp(same)))


def test_a_global_table_and_a_topic_of_the_topologys_own_have_none():
    timed = Consumed(STRING, LONG, timestamp_extractor="value")
    with pytest.raises(TopologyError, match="which Kafka Streams never asks there"):
        StreamsBuilder().global_table("in", timed)
    builder = StreamsBuilder()
    builder.stream("in", Consumed(STRING, LONG)).to("mid")
    builder.stream("mid", timed).to("out")
    with pytest.raises(TopologyError, match="records at the times at which they were written"):
        builder.build()
