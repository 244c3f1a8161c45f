"""Facts: what the checks are told of a topology."""

from expectations.facts import FinalOutput, ReplayFacts, Source, SubTopology
from jobs.topology import Consumed, Serde, StreamsBuilder, Suppressed, TimeWindows
from orchestration.facts import facts_of_output, replay_facts
from tests.dagster import shop

CLICKS = SubTopology(0, (Source("clicks"),))
PAGES = SubTopology(1, (Source("open-pages-repartition", "repartition"),))


def test_an_output_below_a_suppress_is_final_and_waits_for_gap_and_grace():
    got = replay_facts(shop.topology())

    want = ReplayFacts(
        sub_topologies=(CLICKS, PAGES),
        final_outputs=(
            FinalOutput("sessions", 0, "session", wait_ms=20 + 15),
            FinalOutput("pages", 1, "time", wait_ms=10),
        ),
    )
    assert got == want


def test_the_books_of_an_output_are_those_of_the_sub_topologies_before_it():
    topology = shop.topology()

    assert facts_of_output(topology, "sessions").sub_topologies == (CLICKS,)
    assert facts_of_output(topology, "pages").sub_topologies == (CLICKS, PAGES)
    assert [final.name for final in facts_of_output(topology, "pages").final_outputs] == ["pages"]


def test_an_output_that_lost_its_window_or_never_had_a_suppress_is_not_final():
    builder = StreamsBuilder()
    stream = builder.stream("clicks", Consumed(Serde.string(), Serde.long()))
    counts = stream.group_by_key().windowed_by(TimeWindows.of_size(10)).count()
    counts.to("updates")
    counts.suppress(Suppressed.until_window_closes()).to_stream().select_key("record_key").to("plain")

    assert replay_facts(builder.build()).final_outputs == ()
