"""Joiners: what a join makes of two values, one of which may be missing."""

import numpy as np
import pyarrow as pa
import pytest

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.functions.value_joiners import bind_joiner
from kstreams_replay.state.errors import TaskFailed
from kstreams_replay.state.records.batches import Batch, Values
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde

STRING, LONG, FLIGHT = Serde.string(), Serde.long(), Serde.json("dest string, minutes long")


def batch(keys: list[str], windows: list[tuple[int, int]] | None = None) -> Batch:
    """Records of ``keys``; a joiner gets the values beside them."""
    codes = Keys(STRING)
    starts, ends = (
        (None, None) if windows is None else (np.array(side, np.int64) for side in zip(*windows, strict=True))
    )
    return Batch(
        cause=np.arange(len(keys), dtype=np.int32),
        key=codes.intern(STRING.encode(pa.array(keys, pa.string()))),
        keys=codes,
        time_ms=np.zeros(len(keys), np.int64),
        valid=np.ones(len(keys), np.bool_),
        value=Values(pa.nulls(len(keys), pa.int64())),
        window_start_ms=starts,
        window_end_ms=ends,
    )


def joined(joiner, left, right, *, sides=(LONG, LONG), returns=None, keys=None, **columns) -> list:
    """Joined Python values of every pair of ``left`` and ``right``."""
    bound = bind_joiner(joiner, columns, Shape(STRING, sides[0]), sides[1], returns, "here")
    records = batch(keys or ["k"] * len(left))
    return bound.result.to_python(bound.evaluate(records, sides[0].from_python(left), sides[1].from_python(right)))


def test_an_expression_sees_both_sides_and_null_where_one_is_missing():
    assert joined("left + right", [1, 2, None], [10, None, 30]) == [11, None, None]
    assert joined("COALESCE(left, 0) + COALESCE(right, 0)", [1, 2, None], [10, None, 30]) == [11, 2, 30]


def test_a_field_of_a_struct_is_named_with_its_side():
    flights = [{"dest": "BOS", "minutes": 5}, None]

    assert joined("left.minutes * right", flights, [2, 3], sides=(FLIGHT, LONG)) == [10, None]
    assert joined("left", flights, [2, 3], sides=(FLIGHT, LONG)) == flights


def test_named_columns_are_a_struct_that_is_there_even_if_its_fields_are_not():
    got = joined(None, [1, None], [2, None], sum="left + right", key="record_key", keys=["a", "b"])

    assert got == [{"sum": 3, "key": "a"}, {"sum": None, "key": "b"}]


@pytest.mark.parametrize("pairs", [0, 1, 3])
def test_a_constant_is_the_value_of_every_pair(pairs):
    assert joined("5", [1] * pairs, [2] * pairs) == [5] * pairs


def test_a_windowed_key_shows_its_window():
    bound = bind_joiner("window_end_ms - window_start_ms", {}, Shape(STRING, LONG, "time"), LONG, None, "here")
    one = LONG.from_python([1])

    assert bound.evaluate(batch(["k"], [(10, 15)]), one, one).to_pylist() == [5]


def test_a_callable_gets_python_values_and_may_give_none():
    def pair(left, right):
        return None if right is None else f"{left},{right}"

    assert joined(pair, [1, 2, None], [10, None, 30], returns=STRING) == ["1,10", None, "None,30"]


def test_a_callable_of_three_gets_the_key_before_the_values():
    def named(key, left, right):
        return f"{key}: {left},{right}"

    assert joined(named, [1, None], [10, 20], returns=STRING, keys=["a", "b"]) == ["a: 1,10", "b: None,20"]


def test_a_windowed_key_comes_to_a_callable_with_its_window():
    window = Shape(STRING, LONG, "time")
    bound = bind_joiner(lambda key, left, right: key.window_end_ms + left, {}, window, LONG, LONG, "here")
    one = LONG.from_python([1])

    assert bound.evaluate(batch(["k"], [(10, 15)]), one, one).to_pylist() == [16]


def test_a_callable_that_fails_is_named_with_its_values():
    with pytest.raises(TaskFailed) as caught:
        joined(lambda left, right: left // right, [1, 7], [1, 0], returns=LONG)

    assert str(caught.value) == (
        "here: expected a result of the joiner, got ZeroDivisionError: integer division or modulo by zero "
        "on 7 and 0; correct the joiner"
    )


def test_a_result_is_of_the_declared_serde():
    with pytest.raises(TaskFailed) as caught:
        joined(lambda left, right: "text" if left == 7 else left, [1, 7], [1, 0], returns=LONG)

    assert str(caught.value) == (
        "here: expected a result of Serde.long(), got 'text' (str) on 7 and 0; "
        "correct the joiner, or the serde in returns"
    )
