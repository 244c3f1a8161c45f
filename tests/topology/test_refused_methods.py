"""Kafka's calls that are refused on purpose: each says what the page of methods says that it says."""

import re

import pytest

from kstreams_replay import (
    Consumed,
    Materialized,
    Processor,
    Serde,
    Stores,
    StreamsBuilder,
    Topology,
    TopologyTestDriver,
)
from kstreams_replay.state.errors import ConfigError
from tests.topology.test_methods import TABLE, rows

TEXT = Serde.string()
WORDS = Consumed(TEXT, TEXT)


def written():
    """What the page has of each refused call, by Kafka's name."""
    _, _, section = TABLE.read_text(encoding="utf-8").partition("## What refused calls say")
    return dict(re.findall(r"^\| `([\w.]+)` \| (.*) \|$", section, re.MULTILINE))


def said_in_a_processor(call):
    said = []

    class Asking(Processor):
        def init(self, context):
            try:
                call(context)
            except ConfigError as error:
                said.append(str(error))

        def process(self, record):
            pass

    builder = StreamsBuilder()
    builder.stream("in", WORDS).process(Asking)
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", "x", 1)
    driver.run()
    return said[0]


def said(call):
    with pytest.raises((ConfigError, AttributeError)) as caught:
        call()
    return str(caught.value)


CALLS = {
    "kstream.Consumed.withOffsetResetPolicy": lambda: said(lambda: WORDS.with_offset_reset_policy("latest")),
    "kstream.Materialized.withCachingEnabled": lambda: said(lambda: Materialized.as_("s").with_caching_enabled()),
    "Topology.addReadOnlyStateStore": lambda: said(lambda: Topology().add_read_only_state_store),
    "processor.api.ProcessingContext.applicationId": lambda: said_in_a_processor(lambda one: one.application_id()),
    "processor.api.ProcessingContext.appConfigs": lambda: said_in_a_processor(lambda one: one.app_configs()),
    "processor.api.ProcessingContext.appConfigsWithPrefix": lambda: said_in_a_processor(
        lambda one: one.app_configs_with_prefix("my.")
    ),
    "processor.api.ProcessingContext.metrics": lambda: said_in_a_processor(lambda one: one.metrics()),
    "state.Stores.lruMap": lambda: said(lambda: Stores.lru_map("s", 5)),
}
REFUSED = [row.method for row in rows() if row.state == "refused"]


def test_each_refused_call_is_tried_and_written_down():
    assert sorted(REFUSED) == sorted(CALLS) == sorted(written())


@pytest.mark.parametrize("method", sorted(CALLS))
def test_a_refused_call_says_what_the_page_says(method):
    assert CALLS[method]() == written()[method]
