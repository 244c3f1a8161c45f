"""Facts: what the checks know of a topology."""

from dataclasses import replace

import pytest

from kstreams_replay.expectations.facts import FinalOutput, ReplayFacts, SourceTopic, SubTopologyFacts
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Suppressed, TimeWindows
from kstreams_replay.orchestration.facts import facts_of_output, replay_facts
from tests.dagster import shop
from tests.laws.joined import joined

CLICKS = SubTopologyFacts(0, (SourceTopic("clicks"),))
PAGES = SubTopologyFacts(1, (SourceTopic("open-pages-repartition", "repartition"),))


def test_an_output_below_a_suppress_is_final_and_waits_for_gap_and_grace():
    got = replay_facts(shop.topology())

    want = ReplayFacts(
        sub_topologies=(CLICKS, PAGES),
        final_outputs=(
            FinalOutput("sessions", 0, "session", wait_ms=20 + 15),
            FinalOutput("pages", 1, "time", wait_ms=10),
        ),
    )
    assert replace(got, promises=(), topology=None) == want
    assert got.topology == shop.topology().fingerprint


def test_a_topic_with_an_extractor_does_not_have_the_times_of_its_records():
    builder = StreamsBuilder()
    timed = builder.stream("timed", Consumed(Serde.string(), Serde.long(), timestamp_extractor="value"))
    builder.stream("clicks", Consumed(Serde.string(), Serde.long())).merge(timed).to("out")

    (got,) = replay_facts(builder.build()).sub_topologies

    assert got.sources == (SourceTopic("timed", has_own_times=False), SourceTopic("clicks"))


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


def test_where_topics_meet_a_sub_topology_has_several_sources_and_a_part_that_comes_back_has_books_of_its_own():
    facts = replay_facts(joined())

    assert {part.id: [(source.topic, source.kind) for source in part.sources] for part in facts.sub_topologies} == {
        0: [("orders", "landed"), ("payments", "landed"), ("users", "landed")],
        1: [
            ("items", "landed"),
            ("KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000021-topic", "repartition"),
            ("by-name-repartition", "repartition"),
        ],
        2: [("KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000029-topic", "repartition")],
    }
    assert facts.final_outputs == (FinalOutput("paid-counts", 0, "sliding", wait_ms=10),)


@pytest.mark.parametrize(("output", "through"), [("paid", [0]), ("items-and-names", [0, 1]), ("priced", [0, 1, 2])])
def test_the_books_of_an_output_are_those_of_every_sub_topology_that_it_came_through(output, through):
    assert [part.id for part in facts_of_output(joined(), output).sub_topologies] == through
