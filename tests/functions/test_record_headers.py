"""Headers that the user gives: the same are taken, and the same refused, where a processor forwards them, where it puts
them into a store, and where a test pipes them.
"""

import pytest

from kstreams_replay import (
    Consumed,
    Processor,
    Record,
    Serde,
    Stores,
    StreamsBuilder,
    TopologyTestDriver,
    ValueTimestampHeaders,
)
from kstreams_replay.state.errors import ReplayError

STRING = Serde.string()
STORE = Stores.timestamped_key_value_store_with_headers_builder(
    Stores.in_memory_key_value_store("kept"), STRING, STRING
)


def forwarded(headers):
    class Forwards(Processor):
        def process(self, record):
            self.context.forward(Record("k", "v", 0, headers))
            spoil(headers)

    return passed(Forwards)


def stored(headers):
    class Puts(Processor):
        def process(self, record):
            store = self.context.store("kept")
            store.put("k", ValueTimestampHeaders("v", 0, headers))
            spoil(headers)
            self.context.forward(record.with_headers(store.get("k").headers))

    return passed(Puts)


def piped(headers):
    return passed(None, headers)


def passed(cls, headers=()):
    """Headers of the record in the output."""
    builder = StreamsBuilder()
    read = builder.stream("in", Consumed(STRING, STRING))
    (read if cls is None else read.process(cls, [STORE], returns_key=STRING, returns=STRING)).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", "v", timestamp_ms=0, headers=headers)
    spoil(headers)
    return driver.read_output("out").headers


def spoil(headers):
    if isinstance(headers, list):
        headers.append(("later", b""))
        if isinstance(content := headers[0][1], bytearray):
            content[:] = b"spoilt"


PLACES = {"forward": forwarded, "store": stored, "pipe_input": piped}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("headers", "want"),
    [
        ([("a", b"1")], (("a", b"1"),)),
        ([["a", None], ("a", b"")], (("a", None), ("a", b""))),
        ([("a", bytearray(b"1"))], (("a", b"1"),)),
        ((("a", memoryview(b"abcd")[::2]),), (("a", b"ac"),)),
        ({"a": b"1"}.items(), (("a", b"1"),)),
        ((), ()),
    ],
    ids=["a list", "lists and a null", "a bytearray", "a memoryview", "items of a dict", "none"],
)
def test_headers_are_what_they_were_when_they_were_given(place, headers, want):
    given = [(name, bytearray(c)) if isinstance(c, bytearray) else (name, c) for name, c in headers]

    assert PLACES[place](given if isinstance(headers, list) else headers) == want


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "headers", [[("a", "text")], [("a",)], [(1, b"x")], [("a", 5)], {"a": b"1"}, "ab", 5], ids=repr
)
def test_what_is_no_pairs_of_a_name_and_bytes_is_refused(place, headers):
    with pytest.raises(ReplayError) as raised:
        PLACES[place](headers)

    assert raised.value.expected.removeprefix("forwarded ") == "headers as (name, bytes or None) pairs"
    assert raised.value.got.startswith(repr(headers))
    assert raised.value.next_step.startswith("write [(name, bytes), …]; text.encode() gives bytes")
