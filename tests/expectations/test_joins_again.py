"""Joins with versioned tables and by foreign key are joined again from what landed; what cannot be is not checked."""

from collections.abc import Callable
from random import Random

import pytest

from kstreams_replay.expectations.verdicts import Verdict, check_increment
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import JoinWindows, Materialized, StreamsBuilder, Topology
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.expectations.pipelines import CLICKS, CUSTOMERS, ORDERS, PRICES, TEXTS, tape
from tests.planted import LandedRecord, plant

NAME = "p"


@pytest.fixture
def judged(tmp_path) -> Callable[..., list[Verdict]]:
    """Verdicts of one guarantee on every increment of a topology over some tapes."""

    def judge(
        topology: Topology, guarantee: str, size: int | None = None, **tapes: list[LandedRecord]
    ) -> list[Verdict]:
        warehouse = Warehouse(str(tmp_path / "w"))
        for topic, records in tapes.items():
            plant(warehouse, topic, records, partitions=1)
        runner, facts = LocalRunner(str(tmp_path / "cache")), replay_facts(topology)
        done = list(replay(warehouse, topology, pipeline=NAME, runner=runner, max_records=size))
        verdicts = [check_increment(warehouse, NAME, facts, each.increment, engine="plain") for each in done]
        return [each for found in verdicts for each in found if each.guarantee == guarantee]

    return judge


def priced(kind: str, *, history_ms: int = 1000, grace_ms: int | None = None, step: bool = False) -> Topology:
    """Clicks joined with prices as of their times."""
    builder = StreamsBuilder()
    prices = builder.table("prices", TEXTS, materialized=Materialized.versioned("prices-store", history_ms))
    clicks = builder.stream("clicks", TEXTS)
    clicks = clicks.map_values("value || '!'") if step else clicks
    if kind == "left":
        clicks.left_join(prices, "left || '@' || coalesce(right, '-')").to("priced")
    else:
        clicks.join(prices, "left || '@' || right", grace=grace_ms).to("priced")
    return builder.build()


def billed(*, step: bool = False) -> Topology:
    """Orders joined with the customers that they name."""
    builder = StreamsBuilder()
    orders, customers = builder.table("orders", TEXTS), builder.table("customers", TEXTS)
    customers = customers.map_values("value || '!'") if step else customers
    joined = orders.join(customers, "left || '@' || right", foreign_key="split_part(value, ':', 1)")
    joined.to_stream().to("billed")
    return builder.build()


def random_tape(dice: Random, records: int) -> list[LandedRecord]:
    """Keys and values that are null now and then, times that go back."""
    time_ms, made = 0, []
    for number in range(records):
        time_ms += dice.choice([0, 0, 1, 2, 7])
        late_ms = dice.choice([0, 0, 0, dice.randrange(30)])
        value = None if dice.random() < 0.1 else str(number)
        made.append((dice.choice(["a", "b", "c", None]), value, max(0, time_ms - late_ms)))
    return tape(*made)


@pytest.mark.guarantee("G15")
@pytest.mark.parametrize("kind", ["inner", "left"])
def test_joins_of_random_tapes_as_of_their_times_are_what_they_are_when_joined_again(judged, kind):
    seed = Random().randrange(10**9)
    dice = Random(seed)
    topology = priced(kind, history_ms=dice.choice([10, 1000]))

    got = judged(topology, "G15", 11, clicks=random_tape(dice, 25), prices=random_tape(dice, 25))

    assert [(seed, each.observed, each.witnesses) for each in got if each.answer != "true"] == []
    assert sum(each.rows for each in got) > 0


@pytest.mark.guarantee("G15")
@pytest.mark.parametrize(
    ("topology", "reason"),
    [
        (priced("inner", grace_ms=5), "records wait for a grace, and no table says when each was joined"),
        (priced("inner", step=True), "no table has the values that the join reads"),
    ],
    ids=["with a grace", "below a step"],
)
def test_a_join_whose_inputs_or_moments_are_written_nowhere_is_not_checked(judged, topology, reason):
    got = judged(topology, "G15", clicks=CLICKS, prices=PRICES)

    assert {(each.answer, each.reason) for each in got} == {("unchecked", reason)}


@pytest.mark.guarantee("G16")
def test_a_foreign_key_join_below_a_step_is_not_checked(judged):
    got = judged(billed(step=True), "G16", orders=ORDERS, customers=CUSTOMERS)

    assert {(each.answer, each.reason) for each in got} == {
        ("unchecked", "no table has the values that the join reads")
    }


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("is_left", [False, True], ids=["inner", "left"])
def test_an_empty_value_of_the_right_table_is_joined_as_null_as_by_kafka(judged, is_left):
    """
    Kafka's SubscriptionResponseWrapperSerde reads a value of no bytes as null.
    """
    builder = StreamsBuilder()
    orders, customers = builder.table("orders", TEXTS), builder.table("customers", TEXTS)
    join = orders.left_join if is_left else orders.join
    join(customers, "left || '@' || coalesce(right, '-')", foreign_key="value").to_stream().to("billed")
    tapes = {"orders": tape(("o", "ann", 1), ("p", "bob", 9)), "customers": tape(("ann", "", 2), ("bob", "x", 9))}

    got = judged(builder.build(), "G16", **tapes)

    assert [(each.answer, each.witnesses) for each in got] == [("true", [])]


@pytest.mark.guarantee("G16")
def test_a_record_that_cannot_be_decoded_is_no_value_of_its_key(judged):
    """
    Bob's newest record is no text; both orders of his keep the previous name.
    """
    broken = [*CUSTOMERS, LandedRecord(0, b"bob", b"\xff\xfe", 40), *tape(("fay", "F", 70))]

    got = judged(billed(), "G16", orders=[*ORDERS, *tape(("o6", "eve:1", 80))], customers=broken)

    assert {each.answer for each in got} == {"true"}
    assert got[-1].rows >= 4


def met(kind: str, windows: JoinWindows) -> Topology:
    """Two streams, joined."""
    builder = StreamsBuilder()
    lefts, rights = builder.stream("lefts", TEXTS), builder.stream("rights", TEXTS)
    join = {"inner": lefts.join, "outer": lefts.outer_join}[kind]
    join(rights, "coalesce(left, '-') || coalesce(right, '-')", windows).to("met")
    return builder.build()


@pytest.mark.guarantee("G13")
def test_a_record_without_a_value_is_no_partner_of_one_that_is_forwarded_alone(judged):
    """
    The left record is refused, and the right one of its time continues alone, an increment later.
    """
    topology = met("outer", JoinWindows.of_time_difference_and_grace(0, 18))

    lefts, rights = tape(("a", None, 116), ("b", "L", 200), ("b", "L", 400)), tape(("a", "R", 116), ("c", "R", 400))

    got = judged(topology, "G13", 2, lefts=lefts, rights=rights)

    assert {each.answer for each in got} == {"true"}
    assert [each.rows for each in got][:2] == [0, 1]


@pytest.mark.guarantee("G13")
def test_a_window_that_ends_before_its_record_still_holds_the_time_0(judged):
    """
    Kafka looks for partners of the right record at 0 up to max(0, 0 - 2); the second has one 22 ms before it.
    """
    topology = met("inner", JoinWindows.of_time_difference_and_grace(0, 30).after(22).before(-2))

    lefts = tape(("a", "L", 0), ("b", "L", 20), ("c", "L", 99))
    rights = tape(("a", "R", 0), ("b", "R", 42), ("c", "R", 99))

    got = judged(topology, "G13", lefts=lefts, rights=rights)

    assert [(each.answer, each.rows) for each in got] == [("true", 2)]
