"""Whose store a processor uses: one name is one store, and who uses it is in one sub-topology, as in Kafka Streams."""

import pytest

from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor
from kstreams_replay.jobs.functions.state_stores import Stores
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Materialized, SlidingWindows, StreamsBuilder, Topology
from tests.topology.streams import LONG, LONGS, STRING, refused, stream, table


class Silent(Processor):
    def process(self, record):
        pass


SEEN = KeyValues("seen", STRING, LONG)


@pytest.mark.parametrize("second", [SEEN, "seen"], ids=["the same", "a name, of the same types"])
def test_two_processors_that_name_one_store_share_it(second):
    """
    The first keeps its rows; the second is described with it too.
    """
    builder = StreamsBuilder()
    stream("a", builder).process(Silent, [SEEN], name="first")
    stream("b", builder).process(Silent, [KeyValues("other", STRING, LONG), second], name="second")

    topology = builder.build()

    (sub,) = topology.sub_topologies
    assert sub.stores.keys() == {"first-stores", "second-stores"}
    assert {line.strip() for line in topology.describe().splitlines() if "Processor" in line} == {
        "Processor: first (stores: [seen])",
        "Processor: second (stores: [other, seen])",
    }


def test_processors_of_streams_that_share_nothing_are_in_two_sub_topologies():
    builder = StreamsBuilder()
    stream("a", builder).process(Silent, [KeyValues("one", STRING, LONG)])
    stream("b", builder).process(Silent, [KeyValues("two", STRING, LONG)])

    assert len(builder.build().sub_topologies) == 2


def test_two_processors_have_stores_of_different_names_where_their_types_differ():
    numbers = stream()
    numbers.process(Silent, [SEEN], name="first")

    got = refused(lambda: numbers.process(Silent, [KeyValues("seen", STRING, STRING)], name="second"))

    assert got == (
        "second store 'seen': expected stores of different names, got a state store with the name seen that is "
        "already added, with other types, by first; rename one of them"
    )


# --- added stores --------------------------------------------------------------------------------------------


def test_a_store_is_added_once_and_named_by_any_processor():
    builder = StreamsBuilder()
    builder.add_state_store(SEEN)
    stream("a", builder).process(Silent, ["seen"], name="first")
    stream("b", builder).process(Silent, ["seen"], name="second")

    topology = builder.build()

    (first, second) = (topology.graph.nodes[name] for name in ("first", "second"))
    assert (first.stores, second.stores, second.shared) == ((SEEN,), (), {"seen": "first"})
    assert len(topology.sub_topologies) == 1


def test_a_store_that_nobody_names_is_nowhere():
    builder = StreamsBuilder().add_state_store(SEEN)
    stream("a", builder).process(Silent, [KeyValues("own", STRING, LONG)], name="first")

    assert "seen" not in builder.build().describe()


@pytest.mark.parametrize(
    ("add", "why"),
    [
        (lambda b: b.add_state_store(KeyValues("seen", STRING, STRING)), "a state store with the name seen that is"),
        (lambda b: table("t", b, materialized=Materialized.as_("seen")), "two, one of which add_state_store() adds"),
        (lambda b: b.add_state_store("seen"), "expected a KeyValues, got 'seen'; use KeyValues(name, key serde, val"),
        (
            lambda b: b.add_state_store(Silent()),
            "or a builder of Stores, which increments hand on; what a store of your own does beside, do in the pro",
        ),
        (
            lambda b: b.add_state_store(Stores.persistent_versioned_key_value_store("s", "1d")),
            "; give it serdes: Stores.versioned_key_value_store_builder(supplier, key serde, value serde)",
        ),
        (lambda b: stream("a", b).process(Silent, [KeyValues("seen", LONG, LONG)]), "with other types"),
    ],
    ids=["other types", "a table", "a mere name", "a class of one's own", "a supplier", "a processor's of other types"],
)
def test_the_name_of_an_added_store_is_taken(add, why):
    builder = StreamsBuilder().add_state_store(SEEN)

    assert why in refused(lambda: add(builder))


# --- the order of the calls, and names that nobody has ---------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        lambda b: b.add_state_store(SEEN),
        lambda b: stream("b", b).process(Silent, [SEEN], name="second"),
        lambda b: table("t", b, materialized=Materialized.as_("seen")),
        lambda b: stream("b", b).group_by_key().count(Materialized.as_("seen")),
    ],
    ids=["add_state_store", "a processor's", "a table's", "an aggregate's"],
)
def test_a_store_may_be_added_after_a_processor_names_it(made):
    builder = StreamsBuilder()
    stream("a", builder).process(Silent, ["seen"], name="first")
    made(builder)

    topology = builder.build()

    assert "Processor: first (stores: [seen])" in topology.describe()
    assert len(topology.sub_topologies) == 1


def test_a_global_store_may_be_added_after_a_processor_names_it():
    builder = StreamsBuilder()
    stream("a", builder).process(Silent, ["seen"], name="first")
    builder.global_table("g", LONGS, materialized=Materialized.as_("seen"))

    (sub,) = builder.build().sub_topologies
    assert [node.topic for node in sub.globals] == ["g"]


class Count(Processor):
    """Forwards what the table knows of the key."""

    def process(self, record):
        row = self.context.store("counts").get(record.key)
        self.context.forward(record.with_value(0 if row is None else row.value))


@pytest.mark.parametrize(("is_before", "want"), [(True, [0, 1, 2]), (False, [1, 2, 3])])
def test_a_processor_sees_a_table_as_it_is_when_its_turn_comes(is_before, want):
    """
    Kafka forwards a record to the children in the order of their calls: one before the table does not see it counted.
    """
    builder = StreamsBuilder()
    numbers = stream("a", builder)
    steps = [
        lambda: numbers.process(Count, ["counts"]).to("out"),
        lambda: numbers.group_by_key().count(Materialized.as_("counts")),
    ]
    for step in steps if is_before else steps[::-1]:
        step()
    driver = TopologyTestDriver(builder.build())
    for time_ms in range(3):
        driver.pipe_input("a", "k", 7, time_ms)

    assert [row.value for row in driver.read_outputs("out")] == want


@pytest.mark.parametrize("call", ["process", "process_values"])
def test_a_name_that_nobody_has_is_refused_when_the_topology_is_built(call):
    builder = StreamsBuilder()
    builder.table("prices", LONGS, materialized=Materialized.as_("price-store"))
    getattr(stream("a", builder), call)(Silent, ["prices-store"], name="first")

    assert refused(builder.build).startswith(
        "first store 'prices-store': expected a store that is added, got StateStore prices-store is not added yet; "
        "did you mean 'price-store'? For a store of its own write "
        "KeyValues('prices-store', Serde.string(), Serde.long())"
    )


@pytest.mark.parametrize(
    ("materialized", "next_step"),
    [
        (Materialized.as_("price-store"), "name its store, 'price-store'"),
        (None, "name one: materialized=Materialized.as_('prices')"),
    ],
)
def test_the_topic_of_a_table_is_no_store(materialized, next_step):
    builder = StreamsBuilder()
    builder.table("prices", LONGS, materialized=materialized)
    stream("a", builder).process(Silent, ["prices"], name="first")

    assert refused(builder.build) == (
        "first store 'prices': expected a store that is added, got the topic of the table KTABLE-SOURCE-"
        f"000000000{1 if materialized else 2}; {next_step}"
    )


def test_the_topic_of_a_global_table_is_no_store():
    builder = StreamsBuilder()
    builder.global_table("everywhere", LONGS, materialized=Materialized.as_("all"))
    stream("a", builder).process(Silent, ["everywhere"], name="first")

    assert refused(builder.build).endswith("; name its store, 'all'")


def test_after_a_refusal_the_store_can_be_added():
    builder = StreamsBuilder()
    stream("a", builder).process(Silent, ["far", "from"], name="first")
    assert "StateStore far is not added yet; write KeyValues(" in refused(builder.build)

    builder.add_state_store(KeyValues("far", STRING, LONG))
    assert "StateStore from is not added yet" in refused(builder.build)

    builder.add_state_store(KeyValues("from", STRING, LONG))
    assert builder.build().graph.nodes["first"].inner_stores == ("far", "from")


# --- stores of tables ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        lambda b: table("t", b, materialized=Materialized.as_("s"), name="owner"),
        lambda b: stream("a", b).group_by_key().count(Materialized.as_("s"), name="owner"),
    ],
    ids=["table", "aggregate"],
)
def test_a_processor_that_names_the_store_of_a_table_is_in_its_sub_topology(made):
    builder = StreamsBuilder()
    made(builder)
    stream(builder=builder).process(Silent, ["s"], name="here")

    topology = builder.build()

    assert len(topology.sub_topologies) == 1
    assert "Processor: here (stores: [s])" in topology.describe()


def test_a_global_table_s_store_is_named_and_connects_nothing():
    """
    Kafka's processors ask for it without naming it, so it is not described with them.
    """
    builder = StreamsBuilder()
    builder.global_table("g", LONGS, materialized=Materialized.as_("s"))
    stream(builder=builder).process(Silent, ["s"], name="here")

    topology = builder.build()

    (sub,) = topology.sub_topologies
    assert [node.topic for node in sub.globals] == ["g"]
    assert "Processor: here (stores: [])" in topology.describe()


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (
            lambda b: table("t", b, materialized=Materialized.versioned("s", 10), name="owner"),
            "emitted on update, got a versioned store, that of owner",
        ),
        (
            lambda b: (
                stream("a", b)
                .group_by_key()
                .windowed_by(SlidingWindows.of_time_difference(5, grace=0))
                .count(Materialized.as_("s"), name="owner")
            ),
            "or that of TimeWindows or SessionWindows emitted on update, got a store of other windows, that of owner",
        ),
        (
            lambda b: stream("a", b).deduplicate_by_key(5, name="owner"),
            "expected a store of a table or of a processor, got that of owner",
        ),
    ],
    ids=["versions", "windows", "no table"],
)
def test_a_store_that_is_no_key_value_store_of_a_table_is_refused(made, why):
    builder = StreamsBuilder()
    made(builder)
    name = "owner-store" if "no table" in why or "of a processor" in why else "s"
    store = builder._graph.store_of(builder._graph.nodes["owner"]) if name != "s" else "s"

    assert why in refused(lambda: stream(builder=builder).process(Silent, [store], name="here"))


def test_the_store_of_a_table_is_named_without_types():
    builder = StreamsBuilder()
    table("t", builder, materialized=Materialized.as_("s"), name="owner")

    got = refused(lambda: stream(builder=builder).process(Silent, [KeyValues("s", STRING, LONG)], name="here"))

    assert got.startswith("here store 's': expected the name of the store of owner, got KeyValues(")
    assert got.endswith("; write 's' alone: the table says what is in its store")


def test_a_table_made_later_gets_no_store_of_a_processor():
    builder = StreamsBuilder()
    stream(builder=builder).process(Silent, [KeyValues("s", STRING, LONG)], name="first")

    got = refused(lambda: table("t", builder, materialized=Materialized.as_("s")))

    assert got == "store 's': expected one operator, got two; give them different names"


def test_a_shared_store_beside_what_comes_back_is_refused():
    """
    A foreign-key join is run in parts, one after the other; a processor there would see all of the first part at once.
    """
    builder = StreamsBuilder()
    left = table("l", builder, materialized=Materialized.as_("s"))
    left.join(table("r", builder), "left + right", foreign_key="CAST(value AS STRING)")
    stream(builder=builder).process(Silent, ["s"], name="here")

    got = refused(builder.build)

    assert got.startswith("here: expected a shared store in a sub-topology that runs at once, got one that reads what")


# --- the Processor API alone ---------------------------------------------------------------------------------


@pytest.mark.parametrize("connected", [("one", "two"), ("two", "one")], ids=["in order", "the later one first"])
def test_a_store_that_is_connected_with_two_processors_is_kept_by_the_first_of_the_topology(connected):
    topology = Topology()
    for name, topic in (("one", "a"), ("two", "b")):
        topology.add_source(f"in-{name}", LONGS, topic).add_processor(name, Silent, f"in-{name}")
    topology.add_state_store(SEEN, *connected)

    (first, second) = (topology.graph.nodes[name] for name in ("one", "two"))
    assert (first.stores, first.shared, second.stores, second.shared) == ((SEEN,), {}, (), {"seen": "one"})
    assert len(topology.sub_topologies) == 1
