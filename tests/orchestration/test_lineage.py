"""Lineage: an edge between two tables says that records go from the one to the other with no table between."""

from jobs.topology import Consumed, Serde, StreamsBuilder
from orchestration.lineage import tables_of
from tests.dagster import shop


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
