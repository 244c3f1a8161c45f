"""Built-in folds: what each makes of its inputs, of nulls and of merged sessions, and that a saved state continues."""

from itertools import permutations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.functions.folds.aggregation import Aggregation
from kstreams_replay.jobs.functions.folds.fold import Fold, WantedUpdates
from kstreams_replay.jobs.functions.folds.fold_program import ADD, COPY, EMIT, MERGE, OLD, START, FoldProgram
from kstreams_replay.jobs.functions.folds.python import PythonFold
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    fold,
)
from kstreams_replay.state.errors import TopologyError
from kstreams_replay.state.records.batches import Batch, Values
from kstreams_replay.state.records.keys import Keys

FLIGHT = Serde.json("dest string, minutes long, miles double")
SHAPE = Shape(Serde.string(), FLIGHT)
FLIGHTS = [
    {"dest": "BOS", "minutes": 50, "miles": 187.0},
    {"dest": None, "minutes": None, "miles": None},
    {"dest": "LAX", "minutes": 330, "miles": 2475.5},
    {"dest": "ORD", "minutes": 50, "miles": 733.0},
]

EVERY = [
    (fold.count(), [1, 2, 3, 4]),
    (fold.sum("minutes"), [50, 50, 380, 430]),
    (fold.sum("miles"), [187.0, 187.0, 2662.5, 3395.5]),
    (fold.min("minutes"), [50, 50, 50, 50]),
    (fold.max("miles"), [187.0, 187.0, 2475.5, 2475.5]),
    (fold.mean("minutes"), [50.0, 50.0, 190.0, 430 / 3]),
    (fold.first("dest"), ["BOS", "BOS", "BOS", "BOS"]),
    (fold.last("dest"), ["BOS", None, "LAX", "ORD"]),
    (fold.min_by("dest", "minutes"), ["BOS", "BOS", "BOS", "BOS"]),  # of equal ones the first
    (fold.max_by("dest", "miles"), ["BOS", "BOS", "LAX", "LAX"]),
    (fold.max_by("dest", "record_time_ms"), ["BOS", None, "LAX", "ORD"]),
    (fold.sum(pl.col("minutes") * 2), [100, 100, 760, 860]),
    (fold.count_if("minutes > 40"), [1, 1, 2, 3]),
    (fold.any("minutes > 100"), [False, False, True, True]),
    (fold.all("minutes < 100"), [True, True, False, False]),
    (fold.count_distinct("minutes"), [1, 1, 2, 2]),
    (fold.count_distinct("dest"), [1, 1, 2, 3]),
    (fold.earliest("dest"), ["BOS", "BOS", "BOS", "BOS"]),
    (fold.latest("dest"), ["BOS", None, "LAX", "ORD"]),
]


def ids(case: object) -> str | None:
    return type(case).__name__ if isinstance(case, Fold) else ""


def values_of(chosen: Fold, flights: list, *, windows=None, times=None) -> list:
    """Values that ``chosen`` forwards for flights of one key."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(Serde.string(), FLIGHT)).group_by_key()
    grouped = grouped.windowed_by(windows or TimeWindows.of_size(1_000))
    grouped.aggregate(chosen, materialized=Materialized(retention=10_000)).to("out")
    driver = TopologyTestDriver(builder.build())
    for time_ms, flight in zip(times or range(len(flights)), flights, strict=True):
        driver.pipe_input("in", "a", flight, time_ms)
    return [record.value for record in driver.read_outputs("out")]


@pytest.mark.slow
@pytest.mark.parametrize(("chosen", "want"), EVERY, ids=ids)
def test_a_fold_passes_over_nulls_and_forwards_every_update(chosen, want):
    assert values_of(chosen, FLIGHTS) == want


@pytest.mark.parametrize(
    ("chosen", "want"),
    [
        (fold.count(), 1),
        (fold.sum("minutes"), 0),
        (fold.sum("miles"), 0.0),
        (fold.min("minutes"), None),
        (fold.max("miles"), None),
        (fold.mean("minutes"), None),
        (fold.first("dest"), None),
        (fold.last("dest"), None),
        (fold.min_by("dest", "minutes"), None),
        (fold.max_by("dest", "minutes"), None),
        (fold.count_if("minutes > 40"), 0),
        (fold.any("minutes > 40"), False),
        (fold.all("minutes > 40"), True),
        (fold.count_distinct("dest"), 0),
        (fold.earliest("dest"), None),
        (fold.latest("dest"), None),
    ],
    ids=ids,
)
@pytest.mark.parametrize("flight", [None, FLIGHTS[1]], ids=["tombstone", "nulls"])
def test_nothing_but_nulls_gives_0_for_counts_and_sums_and_else_null(chosen, want, flight):
    assert values_of(chosen, [flight]) == [want]


def test_a_null_aggregate_is_a_tombstone_so_suppress_emits_none():
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(Serde.string(), FLIGHT)).group_by_key()
    least = grouped.windowed_by(TimeWindows.of_size(10)).aggregate(fold.min("minutes"))
    least.suppress(Suppressed.until_window_closes()).to("out")
    driver = TopologyTestDriver(builder.build())
    for time_ms, flight in [(1, FLIGHTS[1]), (11, FLIGHTS[0]), (12, FLIGHTS[1]), (20, FLIGHTS[0])]:
        driver.pipe_input("in", "a", flight, time_ms)

    got = [(record.window, record.value) for record in driver.read_outputs("out")]

    assert got == [((10, 20), 50)]


@pytest.mark.parametrize(
    ("chosen", "want"),
    [
        (fold.count(), 3),
        (fold.sum("minutes"), 430),
        (fold.min("minutes"), 50),
        (fold.max("minutes"), 330),
        (fold.mean("minutes"), 430 / 3),
        (fold.first("dest"), "BOS"),  # of the session that ends first
        (fold.last("dest"), "LAX"),  # the record comes after the sessions that it merges
        (fold.min_by("dest", "minutes"), "BOS"),  # 50 as ORD: of equal ones the session that ends first
        (fold.max_by("dest", "minutes"), "LAX"),
        (fold.count_if("minutes < 100"), 2),
        (fold.any("minutes > 100"), True),
        (fold.all("minutes < 100"), False),
        (fold.count_distinct("minutes"), 2),
        (fold.earliest("dest"), "BOS"),
        (fold.latest("dest"), "ORD"),  # by time, where last is LAX
    ],
    ids=ids,
)
def test_sessions_merge_in_order_of_their_end_and_then_the_record_is_added(chosen, want):
    got = values_of(
        chosen,
        [FLIGHTS[3], FLIGHTS[0], FLIGHTS[2]],
        windows=SessionWindows.with_inactivity_gap(5, grace=100),
        times=[10, 0, 5],
    )

    assert got[2:4] == [None, None]
    assert got[-1] == want


def test_named_folds_make_a_struct_whose_fields_may_be_null():
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(Serde.string(), FLIGHT)).group_by_key()
    grouped.windowed_by(TimeWindows.of_size(10)).aggregate(
        legs=fold.count(), shortest=fold.min("minutes"), all=fold.collect("dest")
    ).to("out")
    driver = TopologyTestDriver(builder.build())
    for flight in (FLIGHTS[1], FLIGHTS[0]):
        driver.pipe_input("in", "a", flight, 1)

    assert [record.value for record in driver.read_outputs("out")] == [
        {"legs": 1, "shortest": None, "all": [None]},
        {"legs": 2, "shortest": 50, "all": [None, "BOS"]},
    ]


def test_lists_of_merged_sessions_are_joined_in_order_of_their_end():
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(Serde.string(), FLIGHT)).group_by_key()
    windows = SessionWindows.with_inactivity_gap(5, grace=100)
    grouped.windowed_by(windows).aggregate(dests=fold.collect("dest"), materialized=Materialized(retention=1_000)).to(
        "out"
    )
    driver = TopologyTestDriver(builder.build())
    for time_ms, flight in [(10, FLIGHTS[3]), (0, FLIGHTS[0]), (5, FLIGHTS[2])]:
        driver.pipe_input("in", "a", flight, time_ms)

    assert [record.value for record in driver.read_outputs("out")] == [
        {"dests": ["ORD"]},
        {"dests": ["BOS"]},
        None,
        None,
        {"dests": ["BOS", "ORD", "LAX"]},
    ]


def test_sums_of_longs_wrap_as_javas_do():
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.long())).group_by_key().aggregate(fold.sum("value")).to("out")
    driver = TopologyTestDriver(builder.build())
    for value in (2**63 - 1, 1):
        driver.pipe_input("in", "a", value, 0)

    assert [record.value for record in driver.read_outputs("out")] == [2**63 - 1, -(2**63)]


def test_a_mean_of_longs_may_have_a_sum_that_a_double_rounds():
    flights = [{"dest": "BOS", "minutes": minutes, "miles": 0.0} for minutes in (2**53, 3)]

    assert values_of(fold.mean("minutes"), flights) == [2.0**53, float(2**53 + 3) / 2]


# --- programs and state --------------------------------------------------------------------------------------

STATES = [case[0] for case in EVERY] + [fold.collect("dest"), fold.top(2, "minutes", "dest"), fold.top(1, "miles")]


def batch_of(flights: list) -> Batch:
    n = len(flights)
    keys = Keys(Serde.string())
    values = FLIGHT.from_python(flights)
    codes = keys.intern(pa.array([b"a"] * n, pa.binary()))
    valid = np.array([flight is not None for flight in flights])
    return Batch(np.arange(n, dtype=np.int32), codes, keys, np.arange(n, dtype=np.int64), valid, Values(values))


def program_of(*entries: tuple[int, int, int]) -> FoldProgram:
    flags, slots, arguments = zip(*entries, strict=True)
    return FoldProgram(np.array(flags, np.uint8), np.array(slots, np.int32), np.array(arguments, np.int32))


def all_of(updates: int) -> WantedUpdates:
    places = np.arange(updates, dtype=np.int64)
    return WantedUpdates(places, places, updates, updates)


NAN = float("nan")
SMALL, LARGE, NO_MILES = (
    {"dest": dest, "minutes": 0, "miles": miles} for dest, miles in (("S", 1.0), ("L", 2.0), ("N", NAN))
)
EXTREMES = [
    (fold.min("miles"), 1.0),
    (fold.max("miles"), 2.0),
    (fold.min_by("dest", "miles"), "S"),
    (fold.max_by("dest", "miles"), "L"),
]


@pytest.mark.parametrize("flights", [*permutations((NO_MILES, SMALL, LARGE))], ids=str)
@pytest.mark.parametrize(("chosen", "want"), EXTREMES, ids=ids)
def test_nan_is_never_an_extreme_where_there_is_a_number(chosen, want, flights):
    """
    Two flights in one slot, merged with the slot of the third.
    """
    state = chosen.start(SHAPE, "fold")
    state.grow(2)
    program = program_of((START | ADD, 0, 0), (ADD, 0, 1), (START | ADD, 1, 2), (MERGE | EMIT, 0, 1))

    assert state.run(program, batch_of(list(flights)), all_of(1))[0].to_pylist() == [want]


@pytest.mark.parametrize("chosen", [fold.max("miles"), fold.max_by("miles", "miles")], ids=ids)
def test_nan_stays_where_there_is_nothing_else(chosen):
    assert str(values_of(chosen, [NO_MILES, NO_MILES])) == "[nan, nan]"


@pytest.mark.parametrize("chosen", STATES, ids=ids)
def test_a_fold_goes_on_from_a_saved_state_as_if_nothing_had_happened(chosen):
    """
    Slot 3 takes two flights, is saved and loaded into slot 0 of another, and takes two more.
    """
    batch, seen = batch_of(FLIGHTS), chosen.start(SHAPE, "fold")
    seen.grow(8)
    first = program_of((START | ADD | EMIT, 3, 0), (ADD | EMIT, 3, 1))
    rest = program_of((OLD | ADD | EMIT, 3, 2), (OLD | ADD | EMIT, 3, 3))
    seen.run(first, batch, all_of(2))
    saved = seen.save(np.array([3]))

    resumed = chosen.start(SHAPE, "fold")
    resumed.grow(8)
    resumed.load(np.array([0]), saved)
    moved = FoldProgram(rest.flags, np.zeros(2, np.int32), rest.arguments)

    assert saved.type == seen.saved_type
    assert [part.to_pylist() for part in resumed.run(moved, batch, all_of(2))] == [
        part.to_pylist() for part in seen.run(rest, batch, all_of(2))
    ]
    assert resumed.save(np.array([0])).to_pylist() == seen.save(np.array([3])).to_pylist()


@pytest.mark.parametrize("chosen", STATES, ids=ids)
def test_old_is_the_value_before_the_update_and_start_forgets_what_the_slot_held(chosen):
    batch, state = batch_of(FLIGHTS), chosen.start(SHAPE, "fold")
    state.grow(4)
    new, _ = state.run(program_of((START | ADD | EMIT, 1, 0), (ADD | EMIT, 1, 2)), batch, all_of(2))
    again, old = state.run(program_of((OLD | ADD | EMIT, 1, 3), (START | ADD | EMIT, 1, 0)), batch, all_of(2))

    assert old.to_pylist()[0] == new.to_pylist()[1]
    assert again.to_pylist()[1] == new.to_pylist()[0]


@pytest.mark.parametrize("chosen", STATES, ids=ids)
def test_only_the_wanted_values_are_given(chosen):
    batch, state = batch_of(FLIGHTS), chosen.start(SHAPE, "fold")
    state.grow(4)
    wanted = WantedUpdates(np.array([-1, 0, -1], np.int64), np.full(3, -1, np.int64), 1, 0)
    entries = program_of((START | ADD | EMIT, 1, 0), (ADD | EMIT, 1, 2), (ADD | EMIT, 1, 3))

    new, old = state.run(entries, batch, wanted)

    twice = chosen.start(SHAPE, "fold")
    twice.grow(4)
    every, _ = twice.run(entries, batch, all_of(3))
    assert (new.to_pylist(), len(old)) == ([every.to_pylist()[1]], 0)


@pytest.mark.parametrize("chosen", STATES, ids=ids)
def test_merging_with_a_fresh_slot_changes_nothing(chosen):
    """
    A merged session starts from the initial value and takes the sessions that it merges.
    """
    batch, state = batch_of(FLIGHTS), chosen.start(SHAPE, "fold")
    state.grow(4)
    new, _ = state.run(program_of((START | ADD | EMIT, 1, 2), (START | MERGE, 2, 1), (EMIT, 2, -1)), batch, all_of(2))

    assert new.to_pylist()[1] == new.to_pylist()[0]


@pytest.mark.parametrize("chosen", STATES, ids=ids)
def test_a_copy_and_what_it_was_copied_from_go_their_own_ways(chosen):
    """
    Slot 2 takes over what slot 1 has of the first flight; then 2 takes the third and 1 the fourth.
    """
    batch, state = batch_of(FLIGHTS), chosen.start(SHAPE, "fold")
    state.grow(4)
    entries = (START | ADD | EMIT, 1, 0), (COPY, 2, 1), (ADD | EMIT, 2, 2), (ADD | EMIT, 1, 3), (EMIT, 2, -1)
    new, _ = state.run(program_of(*entries), batch, all_of(4))

    alone = chosen.start(SHAPE, "fold")
    alone.grow(4)
    together = (START | ADD, 1, 0), (ADD | EMIT, 1, 2), (START | ADD, 2, 0), (ADD | EMIT, 2, 3)
    want, _ = alone.run(program_of(*together), batch, all_of(2))
    assert new.to_pylist()[1:] == [*want.to_pylist(), want.to_pylist()[0]]


def test_a_python_aggregate_changed_in_place_changes_no_value_that_has_left():
    """
    What a function gets is its own, as what Kafka deserializes.
    """

    def add(key: str, value: int, so_far: dict) -> dict:
        so_far["sum"] += value
        return so_far

    chosen = PythonFold(lambda: {"sum": 0}, add, Serde.json("sum long"))
    keys = Keys(Serde.string())
    codes = keys.intern(pa.array([b"a"] * 3, pa.binary()))
    values = Values(pa.array([1, 2, 5]))
    batch = Batch(np.arange(3, dtype=np.int32), codes, keys, np.arange(3), np.ones(3, np.bool_), values)
    state = chosen.start(Shape(Serde.string(), Serde.long()), "fold")
    state.grow(2)

    entries = (START | ADD | EMIT, 0, 0), (COPY, 1, 0), (OLD | ADD | EMIT, 0, 1), (ADD | EMIT, 1, 2)
    new, old = state.step(program_of(*entries), batch)

    assert (new, old) == ([{"sum": 1}, {"sum": 3}, {"sum": 6}], [None, {"sum": 1}, None])


def test_values_that_a_slot_refers_to_survive_the_forgetting_of_others():
    """
    References move when the heap of values is swept: 70,000 values go in, three are still referred to.
    """
    chosen = fold.first("value")
    state = chosen.start(Shape(Serde.string(), Serde.long()), "fold")
    state.grow(4)
    keys = Keys(Serde.string())
    n = 70_000
    batch = Batch(
        np.arange(n, dtype=np.int32),
        keys.intern(pa.array([b"a"] * n, pa.binary())),
        keys,
        np.arange(n, dtype=np.int64),
        np.ones(n, np.bool_),
        Values(pa.array(np.arange(n))),
    )
    for first_row in (0, 10, 20):
        program = program_of(*((START | ADD | EMIT, slot, first_row + slot) for slot in range(3)))
        state.run(program, batch, all_of(3))

    assert state.save(np.arange(3)).field("value").to_pylist() == [20, 21, 22]


# --- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        (
            {"": fold.sum("dest")},
            "legs: expected a number to fold, got dest, which gives Serde.string(); cast it, or use min_by",
        ),
        (
            {"": fold.max_by("dest", "dest")},
            "legs: expected a number to fold, got dest, which gives Serde.string(); cast it, or use min_by",
        ),
        (
            {"n": fold.count(), "total": fold.sum("minuets")},
            "legs: expected columns of dest, minutes, miles, record_key, record_time_ms, "
            'got minuets: unable to find column "minuets"; correct the name or the declared serde',
        ),
        ({}, "legs: expected at least one fold, got none; give for example legs=fold.count()"),
        ({"": "count"}, "legs: expected a fold, got 'count'; use one of kstreams_replay.fold, such as fold.count()"),
        ({"n": len}, "legs: expected a fold, got n=<built-in function len>; use one of kstreams_replay.fold, such as"),
        (
            {"n": fold.first(pl.duration(hours=pl.col("minutes")))},
            "legs: expected a result of type string, int, long, double, decimal(p,s), boolean, binary, date, time, "
            "timestamp, array<…>, map<string, …>, …, got",
        ),
        (
            {"n": fold.sum(pl.col("minutes").cum_sum())},
            "legs: expected one value for each record, from that record alone, got",
        ),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_an_aggregation_that_cannot_work_is_refused_when_it_is_made(folds, message):
    with pytest.raises(TopologyError) as caught:
        Aggregation(folds, SHAPE, "legs")

    assert str(caught.value).startswith(message)
