"""A join that looked up before or after an update of its table is explained by the order in which its task took both.

Expected rows are written by hand, of a record and the value that the table had when production took it.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from kstreams_replay.jobs.compare.comparison import Comparison, compare
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, KStream, Serde, StreamsBuilder, Topology
from tests.planted import LandedRecord, plant

pytestmark = pytest.mark.every_run

S = Serde.string()
Records = list[tuple[str, str, int]]
ORDERS = [("a", "o1", 1_000), ("a", "o2", 3_000), ("b", "o3", 5_000), ("a", "o4", 6_000), ("a", "o5", 7_000)]
ORDERS += [("c", "o6", 8_000)]
PRICES = [("a", "p1", 500), ("a", "p2", 2_000), ("b", "p3", 4_000), ("b", "p4", 5_500), ("a", "p5", 6_500)]
PRICES += [("c", "p6", 9_000)]
RULES = ["o1 p1", "o2 p2", "o3 p3", "o4 p2", "o5 p5", "o6 None"]


def priced(builder: StreamsBuilder, *, inner: bool) -> KStream:
    orders, prices = builder.stream("orders", Consumed(S, S)), builder.table("prices", Consumed(S, S))
    join: Any = orders.join if inner else orders.left_join
    joined: KStream = join(prices, lambda order, price: f"{order} {price}", returns=S)
    return joined


def left() -> Topology:
    builder = StreamsBuilder()
    priced(builder, inner=False).to("out")
    return builder.build()


def inner() -> Topology:
    builder = StreamsBuilder()
    priced(builder, inner=True).to("out")
    return builder.build()


def listed() -> Topology:
    builder = StreamsBuilder()
    all_of_key = priced(builder, inner=False).group_by_key()
    all_of_key.aggregate(str, lambda key, value, before: f"{before},{value}", returns=S).to_stream().to("out")
    return builder.build()


def landed(records: Records) -> list[LandedRecord]:
    return [LandedRecord(0, key.encode(), value.encode(), time_ms) for key, value, time_ms in records]


def compared(warehouse: Any, live: Sequence[str | None], topology: Topology | None = None, **how: Any) -> Comparison:
    """``live``: of each order what production wrote, None: nothing."""
    topology = topology or left()
    for topic, records in (("orders", ORDERS), ("prices", PRICES)):
        plant(warehouse, topic, landed(records), partitions=1)
    rows = [(key, value, time_ms) for (key, _, time_ms), value in zip(ORDERS, live, strict=True) if value is not None]
    plant(warehouse, "live", landed(rows), partitions=1)
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed"))
    return compare(warehouse, topology, "out", with_topic="live", pipeline="p", form="events", **how)


def test_a_join_before_an_update_that_is_earlier_is_explained_by_the_pair(warehouse):
    found = compared(warehouse, ["o1 p1", "o2 p1", *RULES[2:]])

    assert found.causes == {"interleaving": 1}
    (only,) = found.first
    assert only.record == "orders:0:1"
    assert only.sentence == (
        "another interleaving: production took orders:0:1 before prices:0:1, which a replay takes first; in this order "
        "its task writes the rows of production"
    )


def test_a_join_behind_an_update_that_is_later_is_explained_by_the_pair(warehouse):
    found = compared(warehouse, [*RULES[:2], "o3 p4", *RULES[3:]])

    assert found.causes == {"interleaving": 1}
    (only,) = found.first
    assert only.record == "orders:0:2"
    assert "production took orders:0:2 behind prices:0:3, which a replay takes later" in only.sentence


def test_of_several_updates_that_came_late_the_first_is_named(warehouse):
    """All prices but the first come behind all orders."""
    found = compared(warehouse, ["o1 p1", "o2 p1", "o3 None", "o4 p1", "o5 p1", "o6 None"])

    assert found.causes == {"interleaving": 4}
    assert ["before prices:0:1," in each.sentence for each in found.first] == [True, False, True, True]
    assert "orders:0:2 before prices:0:2," in found.first[1].sentence


def test_of_an_inner_join_a_pair_that_is_missing_and_one_that_is_extra_are_explained(warehouse):
    found = compared(warehouse, [None, *RULES[1:5], "o6 p6"], inner())

    assert found.verdicts == {"equal": 4, "missing": 1, "extra": 1}
    assert found.causes == {"interleaving": 2}
    assert "production took orders:0:0 before prices:0:0," in found.first[0].sentence
    assert "production took orders:0:5 behind prices:0:5," in found.first[1].sentence


def test_what_is_made_of_such_a_join_has_the_pair_that_changed_it(warehouse):
    lists = [",o1 p1", ",o1 p1,o2 p1", ",o3 p3", ",o1 p1,o2 p1,o4 p2", ",o1 p1,o2 p1,o4 p2,o5 p5", ",o6 None"]

    found = compared(warehouse, lists, listed())

    assert found.causes == {"interleaving": 3}
    assert {each.record for each in found.first} == {"orders:0:1"}


def test_what_production_has_not_reached_yet_is_not_of_another_order(warehouse):
    live = [",o1 p1", ",o1 p1,o2 p1", ",o3 p3", ",o1 p1,o2 p1,o4 p2", None, None]

    assert compared(warehouse, live, listed()).causes == {"interleaving": 2, "not yet": 2}


def test_a_value_that_no_order_gives_has_no_cause(warehouse):
    assert compared(warehouse, [RULES[0], "o2 p9", *RULES[2:]]).causes == {"not explained": 1}


def test_an_update_that_production_lost_is_none_that_came_late(warehouse):
    """Without p2. Behind o4 it cannot have come, since p3 comes behind it, and was there for o3."""
    assert compared(warehouse, ["o1 p1", "o2 p1", "o3 p3", "o4 p1", *RULES[4:]]).causes == {"not explained": 2}


def test_before_a_row_that_no_order_gives_a_key_that_was_right_meanwhile_is_explained(warehouse):
    found = compared(warehouse, ["o1 p1", "o2 p1", *RULES[2:4], "o5 wrong", RULES[5]])

    assert found.causes == {"interleaving": 1, "not explained": 1}


def test_no_order_is_tried_where_nobody_wants_trials(warehouse):
    assert compared(warehouse, ["o1 p1", "o2 p1", *RULES[2:]], no_trials=True).causes == {"not explained": 1}
