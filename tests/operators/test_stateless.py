"""filter, map_values, select_key: as polars expressions, SQL text and Python callables."""

import polars as pl
import pytest

from kstreams_replay.jobs.functions.expressions import Windowed
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, KStream, Serde, SessionWindows, StreamsBuilder, TimeWindows
from kstreams_replay.state.errors import TaskFailed
from tests.operators.tapes import play, table

NUMBERS = """
    step | key | value | time_ms
    1    | a   | 1     | 5
    2    | -   | 2     | 4
    3    | b   | -     | 3
    4    | b   | 3     | 3
"""

DEPARTURES = Serde.json("origin string, minutes long, tail string")


def steps(build, tape=NUMBERS, **serdes):
    """Numbers of the records that pass."""
    return [record.arrival + 1 for record in play(build, tape, **serdes).driver.read_outputs("out")]


def departures(build, *values):
    """(key, value) of what ``build`` makes of JSON values under the key JFK."""
    played = play(build, "key | value | time_ms", value=DEPARTURES)
    for value in values:
        played.driver.pipe_input("in", "JFK", value, 7)
    return [(record.key, record.value) for record in played.driver.read_outputs("out")]


# --- filter --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "predicate",
    ["value > 1", pl.col("value") > 1, lambda key, value: value is not None and value > 1],
    ids=["sql", "polars", "callable"],
)
def test_a_filter_passes_what_is_true_and_keeps_key_value_and_time(predicate):
    got = play(lambda stream: stream.filter(predicate), NUMBERS)

    assert got.outputs() == table(
        """
        step | key | value | time_ms
        2    | -   | 2     | 4
        4    | b   | 3     | 3
        """
    )


def test_null_is_not_true_and_not_false_either_so_filter_not_passes_it():
    assert steps(lambda stream: stream.filter("value > 1")) == [2, 4]
    assert steps(lambda stream: stream.filter_not("value > 1")) == [1, 3]


def test_a_callable_is_called_with_none_for_a_tombstone_and_a_null_key():
    seen = []

    def predicate(key, value):
        seen.append((key, value))
        return True

    assert steps(lambda stream: stream.filter(predicate)) == [1, 2, 3, 4]
    assert seen == [("a", 1), (None, 2), ("b", None), ("b", 3)]


def test_a_filtered_record_is_not_a_dropped_one():
    got = play(lambda stream: stream.filter("FALSE"), NUMBERS)

    assert got.driver.read_outputs("out") == []
    assert got.driver.dropped == []


@pytest.mark.parametrize(
    ("predicate", "passed"),
    [
        ("record_key = 'b'", [3, 4]),
        ("record_key IS NULL", [2]),
        ("record_time_ms >= 4", [1, 2]),
        ("value IS NULL", [3]),
        ("TRUE", [1, 2, 3, 4]),
        (pl.lit(False), []),
        (pl.col("value").is_between(1, 2), [1, 2]),
    ],
    ids=str,
)
def test_a_predicate_may_name_the_key_the_time_and_the_value(predicate, passed):
    assert steps(lambda stream: stream.filter(predicate)) == passed


# --- map_values ----------------------------------------------------------------------------------------------


def test_an_expression_maps_a_tombstone_to_a_tombstone():
    got = play(lambda stream: stream.map_values(pl.col("value").fill_null(7) * 10), NUMBERS)

    assert [record.value for record in got.driver.read_outputs("out")] == [10, 20, None, 30]


def test_a_callable_decides_itself_about_a_tombstone():
    got = play(lambda stream: stream.map_values(lambda key, value: f"{key}={value}", returns=Serde.string()), NUMBERS)

    assert [record.value for record in got.driver.read_outputs("out")] == ["a=1", "None=2", "b=None", "b=3"]


def test_a_constant_becomes_the_value_of_every_record():
    got = play(lambda stream: stream.map_values(pl.lit("x")), NUMBERS)

    assert [record.value for record in got.driver.read_outputs("out")] == ["x", "x", None, "x"]


def test_one_step_gives_a_plain_value_and_named_ones_a_struct():
    one = departures(lambda stream: stream.map_values("minutes / 60 AS hours"), {"origin": "JFK", "minutes": 90})
    two = departures(
        lambda stream: stream.map_values("origin", pl.col("minutes") / 60, late=pl.col("minutes") > 15),
        {"origin": "JFK", "minutes": 90},
        None,
        {"origin": None, "minutes": None},
    )

    assert one == [("JFK", 1.5)]
    assert two == [
        ("JFK", {"origin": "JFK", "minutes": 1.5, "late": True}),
        ("JFK", None),
        ("JFK", {"origin": None, "minutes": None, "late": None}),
    ]


def first_line(function) -> int:
    return function.__code__.co_firstlineno


def test_a_callable_that_fails_is_named_with_key_and_value():
    def inverted(stream):
        return stream.map_values(lambda key, value: 1 // value, returns=Serde.long(), name="inverse")

    got, line = play(inverted, NUMBERS), first_line(inverted) + 1

    with pytest.raises(TaskFailed) as caught:
        got.driver.run()

    assert str(caught.value) == (
        "inverse: expected a result of the callable, got TypeError: unsupported operand type(s) for //: 'int' and "
        "'NoneType' on key 'b', value None, of the record in-0, offset 2; correct the callable; "
        'on_error="dead_letter" keeps such records as dead letters; '
        f"it is called in {__file__}, line {line}"
    )


def test_a_callable_that_gives_another_type_than_declared_is_named_with_the_key():
    def keys(stream):
        return stream.map_values(lambda key, value: key, returns=Serde.long(), name="keys")

    got, line = play(keys, NUMBERS), first_line(keys) + 1

    with pytest.raises(TaskFailed) as caught:
        got.driver.run()

    assert str(caught.value) == (
        "keys: expected a result of Serde.long(), got 'a' (str) on key 'a', of the record in-0, offset 0; "
        "correct the callable, or the serde in returns; "
        'on_error="dead_letter" keeps such records as dead letters; '
        f"it is called in {__file__}, line {line}"
    )


def test_an_expression_that_cannot_be_computed_on_a_value_fails_with_its_node():
    got = play(
        lambda stream: stream.map_values(pl.col("value").cast(pl.Int64), name="parse"),
        "key | value | time_ms\n a | x1 | 2",
        value=Serde.string(),
    )

    with pytest.raises(TaskFailed, match="parse: expected values that the expression can compute"):
        got.driver.run()


# --- select_key ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "returns", "keys"),
    [
        ("value + 1", None, [2, 3, None, 4]),
        (pl.concat_str("record_key", pl.lit("!")), None, ["a!", None, "b!", "b!"]),
        (lambda key, value: f"{key}{value}", Serde.string(), ["a1", "None2", "bNone", "b3"]),
        (lambda key, value: None, Serde.string(), [None, None, None, None]),
        (pl.lit("all"), None, ["all", "all", "all", "all"]),
    ],
    ids=lambda case: "callable" if callable(case) else str(case),
)
def test_select_key_gives_every_record_a_new_key(selector, returns, keys):
    got = play(lambda stream: stream.select_key(selector, returns=returns), NUMBERS)

    assert [record.key for record in got.driver.read_outputs("out")] == keys


def test_keys_and_values_of_json_are_objects():
    got = departures(
        lambda stream: stream.select_key(pl.struct("origin", "tail")), {"origin": "JFK", "minutes": 3, "tail": "N1"}
    )

    assert got == [({"origin": "JFK", "tail": "N1"}, {"origin": "JFK", "minutes": 3, "tail": "N1"})]


# --- windowed keys -------------------------------------------------------------------------------------------


def windowed(stream: KStream, windows) -> KStream:
    return stream.group_by_key().windowed_by(windows).count().to_stream()


def test_an_expression_may_name_the_bounds_of_a_windowed_key():
    got = play(
        lambda stream: windowed(stream, TimeWindows.of_size(10)).select_key(
            pl.format("{}@{}/{}", "record_key", "window_start_ms", "window_end_ms")
        ),
        "key | value | time_ms\n a | 1 | 12",
    )

    assert got.outputs() == table("step | key | value | time_ms\n 1 | a@10/20 | 1 | 12")


def test_a_callable_sees_a_windowed_key_as_one():
    seen = []

    def predicate(key, value):
        seen.append(key)
        return True

    sessions = SessionWindows.with_inactivity_gap(5, grace=10)
    play(lambda stream: windowed(stream, sessions).filter(predicate), "key | value | time_ms\n a | 1 | 3").driver.run()

    assert seen == [Windowed("a", 3, 3)]


def test_steps_on_a_windowed_stream_keep_the_window():
    got = play(
        lambda stream: windowed(stream, TimeWindows.of_size(10)).filter("window_start_ms > 0").map_values("value * 10"),
        "key | value | time_ms\n a | 1 | 3\n a | 1 | 12",
    )

    assert got.outputs() == table("step | key | window | value | time_ms\n 2 | a | [10, 20) | 10 | 12")


def test_branches_see_the_same_records_in_the_order_in_which_they_were_added():
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), Serde.long()))
    stream.filter("value > 1").to("large")
    stream.map_values("value * 10").to("tenfold")
    driver = TopologyTestDriver(builder.build())
    for value in (1, 2):
        driver.pipe_input("in", "a", value, 0)

    assert [record.value for record in driver.read_outputs("large")] == [2]
    assert [record.value for record in driver.read_outputs("tenfold")] == [10, 20]


# --- map, flat_map, peek, merge, split -----------------------------------------------------------------------


def test_map_gives_a_new_key_and_a_new_value_both_of_the_record_as_it_was():
    got = play(lambda stream: stream.map("value + 1", "record_key || '!'"), NUMBERS)

    assert got.outputs() == table(
        """
        step | key | value | time_ms
        1    | 2   | a!    | 5
        2    | 3   | -     | 4
        3    | -   | -     | 3    # a tombstone stays one
        4    | 4   | b!    | 3
        """
    )


def test_a_callable_gives_the_pair_and_decides_itself_about_a_tombstone():
    def swap(key, value):
        return str(value), key

    got = play(lambda stream: stream.map(swap, returns_key=Serde.string(), returns=Serde.string()), NUMBERS)

    assert [record[:3] for record in got.driver.read_outputs("out")] == [
        ("1", "a", 5),
        ("2", None, 4),
        ("None", "b", 3),
        ("3", "b", 3),
    ]


def test_flat_map_forwards_any_number_of_records_in_their_order_at_the_record_s_time():
    def times(key, value):
        return [(number, key) for number in range(value or 0)]

    got = play(lambda stream: stream.flat_map(times, returns_key=Serde.long(), returns=Serde.string()), NUMBERS)

    assert got.outputs() == table(
        """
        step | key | value | time_ms
        1    | 0   | a     | 5
        2    | 0   | -     | 4
        2    | 1   | -     | 4
        4    | 0   | b     | 3
        4    | 1   | b     | 3
        4    | 2   | b     | 3
        """
    )
    assert got.driver.dropped == []


def test_flat_map_values_keeps_the_key_and_the_window():
    def halves(key, value):
        yield value * 10
        yield None

    got = play(
        lambda stream: windowed(stream, TimeWindows.of_size(10)).flat_map_values(halves, returns=Serde.long()),
        "key | value | time_ms\n a | 1 | 3",
    )

    assert got.outputs() == table(
        """
        step | key | window  | value | time_ms
        1    | a   | [0, 10) | 10    | 3
        1    | a   | [0, 10) | -     | 3
        """
    )


@pytest.mark.parametrize(
    ("function", "got"),
    [
        (
            lambda key, value: [(key, 1 // value)],
            "ZeroDivisionError: integer division or modulo by zero on key 'a', value 0",
        ),
        (lambda key, value: value, "0 \\(int\\), on key 'a', value 0"),
        (lambda key, value: [key], "'a'"),
        (lambda key, value: [(key, key)], "'a' \\(str\\)"),
    ],
)
def test_a_flat_map_that_fails_is_named(function, got):
    played = play(
        lambda stream: stream.flat_map(function, returns_key=Serde.string(), returns=Serde.long(), name="flat"),
        "key | value | time_ms\n a | 0 | 2",
    )

    with pytest.raises(TaskFailed, match=f"flat: .*, got {got}, of the record in-0, offset .*; (correct|return)"):
        played.driver.run()


def test_peek_sees_every_record_and_changes_none():
    seen = []

    got = play(lambda stream: stream.peek(lambda key, value: seen.append((key, value))), NUMBERS)

    assert [record.value for record in got.driver.read_outputs("out")] == [1, 2, None, 3]
    assert seen == [("a", 1), (None, 2), ("b", None), ("b", 3)]


def test_merged_streams_keep_the_order_in_which_their_records_were_forwarded():
    def build(stream):
        ones = stream.map_values("value * 10")
        twos = stream.flat_map_values(lambda key, value: [value, value], returns=Serde.long())
        return twos.merge(ones)

    got = play(build, "key | value | time_ms\n a | 1 | 3\n b | 2 | 4")

    # map_values was added first, so its record is forwarded first.
    assert [(record.arrival, record.value) for record in got.driver.read_outputs("out")] == [
        *((0, 10), (0, 1), (0, 1)),
        *((1, 20), (1, 2), (1, 2)),
    ]


def test_a_stream_merged_with_itself_has_every_record_once():
    """
    Kafka keeps the parents of a node as a set.
    """
    got = play(lambda stream: stream.merge(stream), "key | value | time_ms\n a | 1 | 3\n b | 2 | 4")

    assert [record.value for record in got.driver.read_outputs("out")] == [1, 2]
