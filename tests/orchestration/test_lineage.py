"""Lineage: an edge between two tables says that records go from the one to the other with no table between."""

from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder
from kstreams_replay.orchestration.lineage import tables_of
from tests.dagster import shop
from tests.laws.joined import joined


def test_tables_of_a_sub_topology_stand_in_order_with_those_they_are_made_from():
    topology = shop.topology()

    got = [[(table.name, table.upstream) for table in tables_of(topology, sub)] for sub in topology.sub_topologies]

    want = [
        [
            ("state/open-sessions", ("landed/clicks",)),
            ("state/held-sessions-store", ("state/open-sessions",)),
            ("outputs/sessions", ("state/held-sessions-store",)),
            ("repartition/open-pages-repartition", ("landed/clicks",)),
        ],
        [
            ("state/open-pages", ("repartition/open-pages-repartition",)),
            ("state/held-pages-store", ("state/open-pages",)),
            ("outputs/pages", ("state/held-pages-store",)),
        ],
    ]
    assert got == want


def test_a_step_that_keeps_nothing_is_no_table():
    builder = StreamsBuilder()
    stream = builder.stream("clicks", Consumed(Serde.string(), Serde.long()))
    stream.filter("value > 0").map_values("value * 2").to("doubled")
    topology = builder.build()

    (got,) = tables_of(topology, topology.sub_topologies[0])

    assert (got.name, got.upstream, got.kind) == ("outputs/doubled", ("landed/clicks",), "outputs")


def test_a_join_comes_from_all_that_meet_in_it_and_what_comes_back_is_a_part_of_its_own():
    """
    Part 2 is what sub-topology 0 makes of the answers to its foreign keys.
    """
    topology = joined()
    questions = "repartition/KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000021-topic"
    answers = "repartition/KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000029-topic"
    asked = "state/KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000025"
    paid = "state/KSTREAM-OUTERTHIS-0000000013-store"

    got = {
        sub.id: {table.name: table.upstream for table in tables_of(topology, sub)} for sub in topology.sub_topologies
    }

    want = {
        0: {
            "state/users": ("landed/users",),
            "state/unique-store": ("landed/orders",),
            "state/with-user-Buffer": ("state/unique-store", "state/users"),
            "outputs/orders-with-users": ("state/with-user-Buffer",),
            "outputs/orders-and-users": ("state/unique-store", "state/users"),
            paid: ("landed/orders", "landed/payments"),
            "outputs/paid": (paid,),
            "state/paid-counts": (paid,),
            "state/paid-final-store": ("state/paid-counts",),
            "outputs/paid-counts": ("state/paid-final-store",),
            "state/newest": ("landed/orders",),
            "outputs/orders-or-users": ("state/newest", "state/users"),
            questions: ("state/newest",),
            "repartition/by-name-repartition": ("state/users",),
        },
        1: {
            "state/items": ("landed/items",),
            asked: (questions, "state/items"),
            answers: (asked,),
            "state/users-by-name": ("repartition/by-name-repartition",),
            "state/calm-store": ("state/users-by-name",),
            "outputs/users-by-name": ("state/calm-store",),
            "outputs/items-and-names": ("state/items", "state/users-by-name"),
        },
        2: {"state/priced": (answers, "state/newest"), "outputs/priced": ("state/priced",)},
    }
    assert got == want
