"""Streams and tables of longs that the DSL's tests begin with."""

from typing import Any

import pytest

from kstreams_replay.jobs.topology import Consumed, KStream, KTable, Materialized, Serde, StreamsBuilder
from kstreams_replay.state.errors import ConfigError, ReplayError, TopologyError

STRING, LONG = Serde.string(), Serde.long()
LONGS = Consumed(STRING, LONG)


def stream(topic: str = "in", builder: StreamsBuilder | None = None) -> KStream:
    return (builder or StreamsBuilder()).stream(topic, LONGS)


def table(topic: str = "t", builder: StreamsBuilder | None = None, **options: Any) -> KTable:
    return (builder or StreamsBuilder()).table(topic, LONGS, **options)


def versioned(topic: str = "v", builder: StreamsBuilder | None = None, history: int = 100) -> KTable:
    return table(topic, builder, materialized=Materialized.versioned(f"{topic}-history", history))


def refused(call, error: type[ReplayError] = TopologyError) -> str:
    """What the error says; a TopologyError is Kafka's TopologyException, a plain ConfigError an
    IllegalArgumentException.
    """
    with pytest.raises(ConfigError) as caught:
        call()
    assert type(caught.value) is error
    return str(caught.value)
