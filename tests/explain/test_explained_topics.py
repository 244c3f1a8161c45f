"""The explanation of a record that goes through a topic of the topology's own."""

from kstreams_replay.jobs.topology import Consumed, StreamsBuilder, Topology
from tests.explain.explained import STRING, explained, played, stream


def through() -> Topology:
    builder = StreamsBuilder()
    stream(builder).filter("value <> 'no'").to("mid")
    stream(builder, "mid").map_values("value || '!'").to("out")
    return builder.build()


def test_a_record_is_followed_through_the_topic_to_what_it_leads_to(tmp_path):
    warehouse = played(tmp_path, through(), {"in": [("a", "no", 3), ("a", "x", 5)]})

    assert explained(warehouse, through(), "in:0:1") == [
        ("SourceNode", "read: 'a' = 'x', time 5"),
        ("FilterNode", "passes"),
        ("TopicWriterNode", "writes to the partitions of the topic mid"),
        ("repartition/mid", "sent on under 'a', to partition 0"),
        ("RepartitionNode", "read: 'a' = 'x', time 5"),
        ("SinkNode", "writes outputs/mid offset 0: 'a' = 'x', time 5"),
        ("MapValuesNode", "becomes 'a' = 'x!'"),
        ("SinkNode", "writes outputs/out offset 0: 'a' = 'x!', time 5"),
    ]


def test_a_record_with_an_extracted_time_is_told_with_the_time_that_it_landed_with(tmp_path):
    builder = StreamsBuilder()
    builder.stream("in", Consumed(STRING, STRING, timestamp_extractor="record_time_ms - 2")).to("out")
    topology = builder.build()
    warehouse = played(tmp_path, topology, {"in": [("a", "x", 5), ("a", "y", 1)]})

    assert explained(warehouse, topology, "in:0:0") == [
        ("SourceNode", "read: 'a' = 'x', time 3 by its extractor (it landed with 5)"),
        ("SinkNode", "writes outputs/out offset 0: 'a' = 'x', time 3"),
    ]
    assert explained(warehouse, topology, "in:0:1") == [
        ("KSTREAM-SOURCE-0000000000", "refused (negative-timestamp): its time is negative")
    ]
