"""Lineage: an edge between two tables says that records go from the one to the other with no table between."""

from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, TimeWindows
from kstreams_replay.orchestration.lineage import column_lineage, tables_of
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


def test_what_is_written_and_read_again_is_an_output_and_no_table_of_another_name():
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed(Serde.string(), Serde.long()))
    orders.to("mid")
    mid = builder.stream("mid", Consumed(Serde.string(), Serde.long()))
    mid.group_by("value").windowed_by(TimeWindows.of_size(10)).count(Materialized.as_("mid")).to("out")
    topology = builder.build()

    got = {table.name: table.upstream for sub in topology.sub_topologies for table in tables_of(topology, sub)}

    assert got == {
        "outputs/mid": ("landed/orders",),
        "repartition/mid-repartition": ("outputs/mid",),
        "state/mid": ("repartition/mid-repartition",),
        "outputs/out": ("state/mid",),
    }


def test_a_column_is_made_of_those_above_that_its_keys_windows_values_and_times_come_from():
    """
    A page is the key of its count: it comes from the value of a click, which gives the records new keys.
    """
    topology = shop.topology()
    tables = {table.name: table for sub in topology.sub_topologies for table in tables_of(topology, sub)}
    clicks, by_page, pages = "landed/clicks", "repartition/open-pages-repartition", "state/open-pages"

    got = {name: column_lineage(topology, tables[name]) for name in (by_page, pages, "outputs/pages")}

    held = "state/held-pages-store"
    same = ("key", "window_start_ms", "window_end_ms", "value", "record_time_ms", "headers")
    assert got == {
        by_page: {
            "timestamp": [(clicks, "timestamp")],
            "key": [(clicks, "key"), (clicks, "value")],
            "value": [(clicks, "value")],
            "headers": [(clicks, "headers")],
            "old": [(clicks, "value")],
        },
        pages: {
            "key": [(by_page, "key")],
            "window_start_ms": [(by_page, "timestamp")],
            "window_end_ms": [(by_page, "timestamp")],
            "aggregate": [(by_page, "value")],
            "record_time_ms": [(by_page, "timestamp")],
        },
        "outputs/pages": {name: [(held, name)] for name in same},
    }


def test_columns_of_a_join_are_made_of_both_sides():
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed(Serde.string(), Serde.string()))
    users = builder.table("users", Consumed(Serde.string(), Serde.string()), materialized=Materialized.as_("users"))
    orders.join(users, lambda order, user: order + user, returns=Serde.string()).to("named")
    topology = builder.build()
    (named,) = (table for table in tables_of(topology, topology.sub_topologies[0]) if table.name == "outputs/named")

    got = column_lineage(topology, named)

    assert got["value"] == [("landed/orders", "value"), ("state/users", "value")]
    assert got["key"] == [("landed/orders", "key"), ("state/users", "key")]
