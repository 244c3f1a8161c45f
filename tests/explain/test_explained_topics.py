"""What is told of a record that goes through a topic of the topology's own."""

from kstreams_replay.jobs.topology import StreamsBuilder, Topology
from tests.explain.explained import explained, played, stream


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
        ("TopicWriterNode", "writes to the topic mid, which the topology reads"),
        ("repartition/mid", "sent on under 'a', to partition 0"),
        ("RepartitionNode", "read: 'a' = 'x', time 5"),
        ("SinkNode", "writes outputs/mid offset 0: 'a' = 'x', time 5"),
        ("MapValuesNode", "becomes 'a' = 'x!'"),
        ("SinkNode", "writes outputs/out offset 0: 'a' = 'x!', time 5"),
    ]
