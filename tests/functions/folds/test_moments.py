"""Variances and standard deviations: against exact fractions, merged, cut; and folds of the records that pass."""

from fractions import Fraction
from random import Random
from statistics import pvariance, variance

import numpy as np
import pyarrow as pa
import pytest

from kstreams_replay.jobs.code_changes.step_text import describe_fold
from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.functions.folds.fold import FoldState, WantedUpdates
from kstreams_replay.jobs.functions.folds.fold_program import ADD, EMIT, MERGE, START, FoldProgram
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Serde, SessionWindows, StreamsBuilder, fold
from kstreams_replay.state.records.batches import Batch, Values
from kstreams_replay.state.records.keys import Keys
from tests.topology.streams import STRING, refused, stream

DOUBLE = Serde.double()


def state(chosen) -> FoldState:
    begun = chosen.start(Shape(STRING, DOUBLE), "here")
    begun.grow(4)
    return begun


def carry_out(
    running: FoldState, entries: list[tuple[int, int, int]], values: list[float | None]
) -> list[float | None]:
    """What each EMIT shows."""
    rows = len(values)
    keys = Keys(STRING)
    batch = Batch(
        cause=np.arange(rows, dtype=np.int32),
        key=np.zeros(rows, np.int32),
        keys=keys,
        time_ms=np.zeros(rows, np.int64),
        valid=np.ones(rows, np.bool_),
        value=Values(pa.array(values, pa.float64())),
    )
    flags, slots, arguments = (np.array(column) for column in zip(*entries, strict=True))
    program = FoldProgram(flags.astype(np.uint8), slots.astype(np.int32), arguments.astype(np.int32))
    emits = int(np.sum((flags & EMIT) > 0))
    wanted = WantedUpdates(np.arange(emits), np.full(emits, -1), emits, 0)
    return running.run(program, batch, wanted)[0].to_pylist()


def added(values: list[float | None], slot: int = 0) -> list[tuple[int, int, int]]:
    return [(ADD | EMIT | (START if row == 0 else 0), slot, row) for row in range(len(values))]


@pytest.mark.parametrize("offset", [0.0, 1e9, -1e12])
@pytest.mark.parametrize("spread", [1.0, 1e6])
def test_variances_are_those_of_exact_fractions_however_large_the_numbers_are(offset, spread):
    dice = Random(7)
    values = [offset + dice.uniform(-spread, spread) for _ in range(200)]
    exact = [Fraction(value) for value in values]

    population = carry_out(state(fold.var_pop()), added(values), values)[-1]
    sample = carry_out(state(fold.var_samp()), added(values), values)[-1]
    assert population == pytest.approx(float(pvariance(exact)), rel=1e-9)
    assert sample == pytest.approx(float(variance(exact)), rel=1e-9)
    assert carry_out(state(fold.stddev_pop()), added(values), values)[-1] == population**0.5
    assert carry_out(state(fold.stddev_samp()), added(values), values)[-1] == sample**0.5


def test_merged_they_are_as_of_all_values():
    dice = Random(8)
    values = [1e9 + dice.uniform(-1, 1) for _ in range(50)]
    split = [(ADD | (START if row in (0, 20) else 0), int(row >= 20), row) for row in range(50)]

    got = carry_out(state(fold.var_pop()), [*split, (MERGE | EMIT, 0, 1)], values)

    assert got == [pytest.approx(float(pvariance([Fraction(value) for value in values])), rel=1e-9)]


def test_of_equal_values_they_are_exactly_0_merged_too():
    values = [0.1] * 7
    split = [(ADD | (START if row in (0, 3) else 0), int(row >= 3), row) for row in range(7)]

    assert carry_out(state(fold.var_pop()), added(values), values) == [0.0] * 7
    assert carry_out(state(fold.stddev_samp()), [*split, (MERGE | EMIT, 0, 1), (MERGE | EMIT, 2, 1)], values)[0] == 0.0


def test_fewer_values_than_it_needs_are_null():
    values = [None, 4.0, None, 6.0]

    assert carry_out(state(fold.var_pop()), added(values), values) == [None, 0.0, 0.0, 1.0]
    assert carry_out(state(fold.var_samp()), added(values), values) == [None, None, None, 2.0]


def test_a_saved_state_goes_on_to_the_last_bit():
    dice = Random(9)
    values = [dice.uniform(-1e3, 1e3) for _ in range(40)]
    whole = carry_out(state(fold.stddev_pop()), added(values), values)

    first, rest = state(fold.stddev_pop()), state(fold.stddev_pop())
    got = carry_out(first, added(values[:17]), values[:17])
    saved = first.save(np.array([0]))
    rest.load(np.array([0]), saved)
    assert rest.result(saved).to_pylist() == got[-1:]
    got += carry_out(rest, [(ADD | EMIT, 0, row) for row in range(23)], values[17:])

    assert got == whole


# --- of the records that pass ----------------------------------------------------------------------------------


def test_where_leaves_out_records_that_do_not_pass_and_those_of_which_it_is_null():
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(STRING, Serde.json("paid boolean, amount long"))).group_by_key()
    grouped.windowed_by(SessionWindows.with_inactivity_gap(5, grace=100)).aggregate(
        paid=fold.sum("amount", where="paid"),
        least=fold.min("amount", where="paid"),
        most=fold.max("amount", where="NOT paid"),
        mean=fold.mean("amount", where="amount > 1"),
        apart=fold.stddev_pop("amount", where="paid"),
    ).to("out")
    driver = TopologyTestDriver(builder.build())
    for time_ms, paid, amount in ((0, True, 4), (10, None, 100), (12, False, 7), (5, True, 2), (6, True, None)):
        driver.pipe_input("in", "a", {"paid": paid, "amount": amount}, timestamp_ms=time_ms)

    got = [record.value for record in driver.read_outputs("out") if record.value is not None]

    assert got[0] == {"paid": 4, "least": 4, "most": None, "mean": 4.0, "apart": 0.0}
    assert got[1] == {"paid": 0, "least": None, "most": None, "mean": 100.0, "apart": None}
    assert got[-1] == {"paid": 6, "least": 2, "most": 7, "mean": 28.25, "apart": 1.0}


def test_what_is_no_number_or_no_condition_is_refused_when_the_topology_is_built():
    assert refused(lambda: stream().group_by_key().aggregate(fold.var_pop("record_key"), name="here")) == (
        "here: expected a number to fold, got record_key, which gives Serde.string(); cast it, or use min_by"
    )
    assert "expected a condition, got value" in refused(
        lambda: stream().group_by_key().aggregate(fold.sum("value", where="value"), name="here")
    )


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (fold.sum("x", where="y"), "sum x where y"),
        (fold.mean("x", where="y"), "mean x where y"),
        (fold.var_samp("x"), "var_samp x"),
        (fold.stddev_pop("x", where="y"), "stddev_pop x where y"),
    ],
)
def test_a_fold_is_told_in_words_when_code_changes(chosen, words):
    assert describe_fold(chosen) == words
