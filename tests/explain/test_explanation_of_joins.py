"""Sentences of joins: what became of a record that was joined with others."""

from kstreams_replay.jobs.explain.explanation import explain
from kstreams_replay.jobs.topology import Consumed, JoinWindows, Materialized, StreamsBuilder, Topology
from tests.explain.explained import STRING, Tape, by, explained, played, stream


def paid() -> Topology:
    builder = StreamsBuilder()
    windows = JoinWindows.of_time_difference_and_grace(5, 10)
    stream(builder, "orders").outer_join(
        stream(builder, "payments"), lambda left, right: f"{left}+{right}", windows, returns=STRING, name="paid"
    ).to("paid")
    return builder.build()


def test_a_join_of_streams_says_whom_a_record_met(tmp_path):
    tapes: dict[str, Tape] = {
        "orders": [("a", "old", 6), ("a", "tea", 10)],
        "payments": [("a", "card", 12), ("b", "cash", 13)],
    }
    warehouse = played(tmp_path, paid(), tapes)

    assert by("StreamJoinNode", explained(warehouse, paid(), "payments:0:0")) == [
        "meets left 'tea' of time 10",
        "forwards 'a' = 'tea+card', time 12",
    ]
    assert by("StreamJoinNode", explained(warehouse, paid(), "payments:0:1")) == [
        "meets no left record of 'b' in [8, 18]",
        "waits for one until stream time 29; still waits at the end of increment 1",  # open up to 13 + 5 + 10
    ]


def test_a_record_that_found_nobody_says_who_let_it_go_alone(tmp_path):
    tapes: dict[str, Tape] = {"orders": [("a", "tea", 10), ("b", "mug", 26)], "payments": []}
    warehouse = played(tmp_path, paid(), tapes)

    assert by("StreamJoinNode", explained(warehouse, paid(), "orders:0:0")) == [
        "meets no right record of 'a' in [5, 15]",
        "waits for one until stream time 26; left because of orders:0:1 at stream time 26: 'a' = 'tea+None', "
        "as outputs/paid 0:0",
    ]
    assert (
        by("StreamJoinNode", explained(warehouse, paid(), "orders:0:1"))[-1]
        == "lets go alone 'a' = 'tea+None', time 10"
    )


def priced(**options: object) -> Topology:
    builder = StreamsBuilder()
    prices = builder.table("prices", Consumed(STRING, STRING), materialized=Materialized.versioned("prices", 1000))
    orders = stream(builder, "orders")
    orders.join(prices, lambda left, right: f"{left} for {right}", returns=STRING, **options).to("priced")
    return builder.build()


PRICES: Tape = [("tea", "2", 10), ("tea", "3", 50)]


def test_a_join_with_a_table_says_what_the_table_had(tmp_path):
    tape: Tape = [("tea", "one", 49), ("mug", "one", 50), ("tea", None, 51), (None, "one", 52), ("tea", "early", 9)]
    warehouse = played(tmp_path, priced(), {"prices": PRICES, "orders": tape})

    def join(offset: int) -> list[str]:
        return by("StreamTableJoinNode", explained(warehouse, priced(), f"orders:0:{offset}"))

    assert join(0) == ["looks up 'tea': prices has '2'", "forwards 'tea' = 'one for 2'"]  # as of time 49
    assert join(1) == ["looks up 'mug': prices has nothing", "no match: forwards nothing"]
    assert join(4) == ["looks up 'tea': prices has nothing", "no match: forwards nothing"]
    assert join(2) == ["refused (null-value): its value is null"]
    assert join(3) == ["refused (null-key): its key is null"]
    assert by("TableNode", explained(warehouse, priced(), "prices:0:1")) == [
        "'tea' from 10: stays '2'",
        "'tea' from 50: begins with '3'",
        "forwards 'tea' = '3'",
    ]


def test_a_join_with_a_grace_says_until_when_a_record_waits(tmp_path):
    tape: Tape = [("tea", "one", 60), ("tea", "two", 75)]
    warehouse = played(tmp_path, priced(grace=15, name="held"), {"prices": PRICES, "orders": tape})

    first, second = (
        by("StreamTableJoinNode", explained(warehouse, priced(grace=15, name="held"), f"orders:0:{n}")) for n in (0, 1)
    )

    assert first == [
        "'tea' of time 60 waits until stream time 75; left because of orders:0:1 at stream time 75: "
        "'tea' = 'one for 3', as outputs/priced 0:0"
    ]
    assert second == [
        "'tea' of time 75 waits until stream time 90; still waits at the end of increment 1",
        "lets go: 'tea' = 'one for 3', time 60",
    ]


def test_a_record_of_a_global_table_is_there_for_all_tasks(tmp_path):
    builder = StreamsBuilder()
    names = builder.global_table("names", Consumed(STRING, STRING))
    stream(builder).join(names, lambda left, right: right, selector="value", returns=STRING).to("out")
    topology = builder.build()
    warehouse = played(tmp_path, topology, {"names": [("x", "Ann", 1)], "in": [("a", "x", 5)]})

    assert [step.sentences for step in explain(warehouse, "p", topology, "names:0:0").steps] == [
        ["'x' is 'Ann' from here on, for every task that looks into the global table"]
    ]
    assert by("StreamGlobalTableJoinNode", explained(warehouse, topology, "in:0:0")) == ["forwards 'a' = 'Ann'"]
