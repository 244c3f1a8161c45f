"""Foreign-key joins from topic to topic: Kafka's worked examples, chains, and that cuts change nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, Topology
from tests.operators.tapes import piped, table
from tests.sampling import examples

TEXT = Consumed(Serde.string(), Serde.string())


def customer_of(key: str, value: str) -> str | None:
    """What is before the colon; nothing before it is no foreign key."""
    return value.partition(":")[0] or None


def pair(left: str | None, right: str | None) -> str:
    return f"{left},{right}"


def topology(kind: str = "inner", *, history_ms: int | None = None) -> Topology:
    """Orders joined with customers, and the result joined once more with their regions."""
    builder = StreamsBuilder()
    stored = Materialized.versioned("orders", history_ms) if history_ms else Materialized.as_("orders")
    orders, customers = builder.table("orders", TEXT, materialized=stored), builder.table("customers", TEXT)
    join = orders.left_join if kind == "left" else orders.join
    options = {"foreign_key": customer_of, "foreign_key_returns": Serde.string(), "returns": Serde.string()}
    joined = join(customers, pair, **options)
    joined.to("out")
    joined.join(builder.table("regions", TEXT), pair, **options).to("twice")
    return builder.build()


def test_an_inner_join_as_kafka_streams_does_it():
    got = piped(
        TopologyTestDriver(topology()),
        """
        topic     | key | value | time_ms
        orders    | p   | 1:a   | 100
        customers | 1   | x     | 50
        customers | 1   | y     | 60
        orders    | p   | 1:b   | 70
        customers | 1   | -     | 10
        orders    | p   | -     | 5
    """,
    )

    assert got.outputs() == table("""
        step | key | value | time_ms
        2    | p   | 1:a,x | 50      # the right record's time
        3    | p   | 1:a,y | 60
        4    | p   | 1:b,y | 70
        5    | p   | -     | 10
        6    | p   | -     | 5       # a tombstone that nobody needs
    """)


def test_a_left_join_as_kafka_streams_does_it():
    got = piped(
        TopologyTestDriver(topology("left")),
        """
        topic     | key | value | time_ms
        orders    | p   | 1:a   | 100
        customers | 1   | x     | 50
        orders    | p   | 2:a   | 101
        orders    | p   | :a    | 102
        orders    | p   | -     | 103
        orders    | p   | -     | 104
    """,
    )

    assert got.outputs() == table("""
        step | key | value    | time_ms
        1    | p   | 1:a,None | 100
        2    | p   | 1:a,x    | 50
        3    | p   | 2:a,None | 101
        4    | p   | :a,None  | 102
        5    | p   | -        | 103
    """)


records = st.tuples(
    st.sampled_from(["orders", "customers", "regions"]),
    st.sampled_from(["1", "2", "p", "q"]),
    st.none() | st.sampled_from(["1:a", "1:b", "2:a", ":a", "q"]),
    st.integers(0, 30),
)


def outputs(driver: TopologyTestDriver, tape: list[tuple]) -> tuple[list, list, list]:
    for record in tape:
        driver.pipe_input(*record)
    once, twice = driver.read_outputs("out"), driver.read_outputs("twice")
    return once, twice, sorted((refusal.node, refusal.reason, refusal.arrival) for refusal in driver.dropped)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["inner", "left"])
@pytest.mark.parametrize("history_ms", [None, 20])
@settings(deadline=None, max_examples=examples(15))
@given(tape=st.lists(records, max_size=25), chunk=st.integers(1, 4))
def test_a_batch_is_processed_as_record_by_record(kind, history_ms, tape, chunk):
    want = outputs(TopologyTestDriver(topology(kind, history_ms=history_ms), chunk_records=1), tape)

    got = outputs(TopologyTestDriver(topology(kind, history_ms=history_ms), chunk_records=chunk), tape)
    whole = outputs(TopologyTestDriver(topology(kind, history_ms=history_ms)), tape)

    assert got == want
    assert whole == want
