"""The rules of Counts.java: clicks by key in windows of 10 s, without grace."""

from kstreams_replay import Consumed, Serde, StreamsBuilder, TimeWindows, Topology


def topology() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(Serde.string(), Serde.string()))
    clicks.group_by_key().windowed_by(TimeWindows.of_size("10s")).count().to_stream().to("counts")
    return builder.build()
