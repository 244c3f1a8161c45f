"""A store of a Python processor is its own: no other processor's and no table's, which Kafka Streams would share."""

import pytest

from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor
from kstreams_replay.jobs.topology import Materialized, StreamsBuilder
from tests.topology.streams import LONG, LONGS, STRING, refused, stream, table


class Silent(Processor):
    def process(self, record):
        pass


SEEN = KeyValues("seen", STRING, LONG)
ITS_OWN = "let one processor do what both do, or give each a store of its own name"


@pytest.mark.parametrize("second", [SEEN, "seen"], ids=["the same", "a name, of the same types"])
def test_two_processors_share_no_store(second):
    """In Kafka Streams they would see each other's values; two stores of one name would be something else."""
    numbers = stream()
    numbers.process(Silent, [SEEN], name="first")

    got = refused(lambda: numbers.process(Silent, ["other", second], name="second"))

    assert got == f"second store 'seen': expected a store of one processor, got that of first too; {ITS_OWN}"


def test_two_processors_have_stores_of_different_names_where_their_types_differ():
    numbers = stream()
    numbers.process(Silent, [SEEN], name="first")

    got = refused(lambda: numbers.process(Silent, [KeyValues("seen", STRING, STRING)], name="second"))

    assert got == (
        "second store 'seen': expected stores of different names, got a state store with the name seen that is "
        "already added, with other types, by first; rename one of them"
    )


@pytest.mark.parametrize(
    ("made", "owner"),
    [
        (lambda b: table("t", b, materialized=Materialized.as_("s"), name="owner"), "owner"),
        (lambda b: b.global_table("g", LONGS, materialized=Materialized.as_("s"), name="owner"), "owner"),
        (lambda b: stream("a", b).group_by_key().count(Materialized.as_("s"), name="owner"), "owner"),
    ],
    ids=["table", "global table", "aggregate"],
)
def test_a_store_of_a_table_is_no_store_of_a_processor(made, owner):
    """In Kafka Streams the processor would see the table's values; an empty store would be something else."""
    builder = StreamsBuilder()
    made(builder)

    got = refused(lambda: stream(builder=builder).process(Silent, ["s"], name="here"))

    assert got == (
        f"here store 's': expected a store of the processor's own, got that of {owner}; "
        "join the table to see its values (stream.join, table.join), or give the store another name"
    )


def test_a_table_made_later_gets_no_store_of_a_processor():
    builder = StreamsBuilder()
    stream(builder=builder).process(Silent, ["s"], name="first")

    got = refused(lambda: table("t", builder, materialized=Materialized.as_("s")))

    assert got == "store 's': expected one operator, got two; give them different names"
