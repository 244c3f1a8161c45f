"""A topology by the Processor API alone: what is added by name runs, and what Kafka refuses is refused."""

import pickle

import pytest

from kstreams_replay import Topology, TopologyTestDriver, Warehouse, replay
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor
from kstreams_replay.jobs.history.committed_tables import read_changelog
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder
from kstreams_replay.state.errors import TopologyError
from tests.planted import LandedRecord, plant

STRING, LONG = Serde.string(), Serde.long()
WORDS = Consumed(STRING, STRING)
SEEN = KeyValues("seen", STRING, LONG)


class Loud(Processor):
    def process(self, record):
        self.context.forward(record.with_value(record.value.upper()))


class Twice(Processor):
    def process(self, record):
        for _ in range(2):
            self.context.forward(record)


class Count(Processor):
    """The value, and how often its key has come."""

    def init(self, context):
        super().init(context)
        self.seen = context.store("seen")

    def process(self, record):
        count = (self.seen.get(record.key) or 0) + 1
        self.seen.put(record.key, count)
        self.context.forward(record.with_value(f"{record.value}{count}"))


def diamond() -> Topology:
    """Two processors see each record, and both forward to one that counts."""
    topology = Topology().add_source("read", WORDS, "words")
    topology.add_processor("loud", Loud, "read").add_processor("twice", Twice, "read")
    topology.add_processor("count", Count, "loud", "twice").add_state_store(SEEN, "count")
    return topology.add_sink("write", "counts", "count").add_sink("copy", "copies", "read", "loud")


RECORDS = [("k", "a"), ("j", "b"), ("k", "c")]
COUNTS = ["A1", "a2", "a3", "B1", "b2", "b3", "C4", "c5", "c6"]
COPIES = ["A", "a", "B", "b", "C", "c"]


@pytest.mark.parametrize("chunk_records", [1, 2, None])
def test_a_record_goes_down_one_child_after_the_other(chunk_records):
    """
    Kafka takes a record through the first child and all below it, then through the next.
    """
    driver = TopologyTestDriver(diamond(), chunk_records=chunk_records)
    for at, (key, value) in enumerate(RECORDS):
        driver.pipe_input("words", key, value, timestamp_ms=at)

    assert [record.value for record in driver.read_outputs("counts")] == COUNTS
    assert [record.value for record in driver.read_outputs("copies")] == COPIES


@pytest.mark.parametrize("max_records", [None, 1])
def test_a_replay_of_it_gives_the_same_wherever_the_tape_is_cut(tmp_path, max_records):
    warehouse = Warehouse(tmp_path)
    landed = [LandedRecord(0, key.encode(), value.encode(), at) for at, (key, value) in enumerate(RECORDS)]
    plant(warehouse, "words", landed, partitions=1)

    for _ in replay(warehouse, diamond(), pipeline="p", runner=LocalRunner(), max_records=max_records):
        pass

    assert [row["value"] for row in read_changelog(warehouse, "p", "counts").to_pylist()] == COUNTS
    assert [row["value"] for row in read_changelog(warehouse, "p", "copies").to_pylist()] == COPIES


def test_a_source_takes_records_at_the_times_that_its_extractor_gives():
    topology = Topology().add_source("words", WORDS.with_timestamp_extractor("CAST(value AS BIGINT)"), "words")
    topology.add_processor("loud", Loud, "words").add_sink("out", "out", "loud")
    driver = TopologyTestDriver(topology)
    driver.pipe_input("words", "a", "1000", timestamp_ms=5)

    assert [record.timestamp_ms for record in driver.read_outputs("out")] == [1000]


def test_it_is_described_before_and_after_it_travelled():
    assert pickle.loads(pickle.dumps(diamond())).describe() == diamond().describe()


def test_what_a_processor_forwards_may_be_of_other_types():
    class Lengths(Processor):
        def process(self, record):
            self.context.forward(record.with_value(len(record.value)))

    topology = Topology().add_source("read", WORDS, "words").add_processor("lengths", Lengths, "read", returns=LONG)
    driver = TopologyTestDriver(topology.add_sink("write", "out", "lengths"))
    driver.pipe_input("words", "k", "four", timestamp_ms=0)

    assert driver.read_output("out").value == 4


def begun() -> Topology:
    return Topology().add_source("read", WORDS, "words").add_processor("loud", Loud, "read")


REFUSED = {
    "a name twice": (lambda t: t.add_processor("read", Loud, "loud"), "names that differ, got 'read' twice"),
    "a source's name twice": (lambda t: t.add_source("loud", WORDS, "more"), "names that differ, got 'loud' twice"),
    "a sink's name twice": (lambda t: t.add_sink("loud", "out", "read"), "names that differ, got 'loud' twice"),
    "an unknown parent": (
        lambda t: t.add_processor("more", Loud, "quiet"),
        r"processor 'more': expected a parent that is added, one of \['read', 'loud'\], got 'quiet'; add it first",
    ),
    "an unknown parent of a sink": (lambda t: t.add_sink("write", "out", "quiet"), "sink 'write': .* got 'quiet'"),
    "a parent of itself": (
        lambda t: t.add_processor("more", Loud, "read", "more"),
        "got itself; a topology has no circ",
    ),
    "no parent": (lambda t: t.add_processor("more", Loud), "processor 'more': expected at least one parent, got none"),
    "a sink without a parent": (lambda t: t.add_sink("write", "out"), "sink 'write': expected at least one parent"),
    "a sink as a parent": (
        lambda t: t.add_sink("write", "out", "loud").add_processor("more", Loud, "write"),
        "a source or a processor as parent, got the sink 'write'",
    ),
    "no topic": (lambda t: t.add_source("more", WORDS), "source 'more': expected names of topics, .*, got none"),
    "a topic twice": (
        lambda t: t.add_source("more", WORDS, "words"),
        "source 'more': expected a topic 'words' of its own, got that of read, too; make read the parent",
    ),
    "a source without serdes": (lambda t: t.add_source("more", "words", "more"), "expected a Consumed, the serdes of"),
    "parents of two types": (
        lambda t: t.add_processor("numbers", Loud, "read", returns=LONG).add_sink("write", "out", "read", "numbers"),
        "got Serde.string.* and Serde.long.* of numbers; let processors between make the same of them",
    ),
    "a store that is not added": (
        lambda t: t.connect_processor_and_state_stores("loud", "seen"),
        "processor 'loud': expected a store that is added, one of .*, got 'seen'",
    ),
    "no store": (lambda t: t.connect_processor_and_state_stores("loud"), "expected the name of a store, got none"),
    "a store of an unknown processor": (
        lambda t: t.add_state_store(SEEN, "quiet"),
        "store 'seen': expected a processor that is added, got 'quiet'",
    ),
    "a store of a source": (lambda t: t.add_state_store(SEEN, "read"), "store 'seen': expected a processor, got read"),
    "another store of the name": (
        lambda t: t.add_state_store(SEEN).add_state_store(KeyValues("seen", STRING, STRING)),
        "store 'seen': .* got a different one that is added already",
    ),
    "a name of a store alone": (
        lambda t: t.add_state_store("seen"),
        "add_state_store: expected a KeyValues, got 'seen'",
    ),
    "a supplier that takes something": (lambda t: t.add_processor("more", lambda x: Loud(), "read"), "no parameters"),
    "something after it was used": (
        lambda t: (t.describe(), t.add_sink("write", "out", "loud")),
        "a topology that is not used yet, got one that was built, described or run; add everything first",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_kafkas_refusals_are_made_when_something_is_added(what):
    add, said = REFUSED[what]

    with pytest.raises(TopologyError, match=said):
        add(begun())


def test_a_topology_without_a_source_has_nothing_to_do():
    assert Topology().add_state_store(SEEN).describe() == "Topologies:\n "


def test_a_refusal_leaves_the_topology_as_it_was():
    topology, other = begun(), begun()
    with pytest.raises(TopologyError, match="text that can be printed, without a colon"):
        topology.add_sink("not:legal", "out", "read", "loud")

    assert list(topology.graph.nodes) == list(other.graph.nodes)


def test_what_a_builder_made_is_not_added_to():
    builder = StreamsBuilder()
    builder.stream("words", WORDS).to("out")

    with pytest.raises(TopologyError, match="a topology that is not used yet"):
        builder.build().add_source("read", WORDS, "more")


def test_kafkas_names_are_recognised():
    with pytest.raises(AttributeError, match="Kafka's addSource is add_source here"):
        Topology().addSource("read", "words")


def spaced() -> Topology:
    """Nodes with the names of a real application, which are any text in Kafka's Topology."""
    topology = Topology().add_source("Desired State Events", WORDS, "words")
    topology.add_processor("Count them (all)", Count, "Desired State Events").add_state_store(SEEN, "Count them (all)")
    return topology.add_sink("Desired State/Zürich", "counts", "Count them (all)")


def test_names_of_the_processor_api_are_any_text_and_those_of_tables_stay_legal(tmp_path):
    assert spaced().describe() == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: Desired State Events (topics: [words])\n"
        "      --> Count them (all)\n"
        "    Processor: Count them (all) (stores: [seen])\n"
        "      --> Desired State/Zürich\n"
        "      <-- Desired State Events\n"
        "    Sink: Desired State/Zürich (topic: counts)\n"
        "      <-- Count them (all)\n\n"
    )
    assert list(spaced().stores()) == ["Count-them-all-5d44d5a8-stores"]
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "words", [LandedRecord(0, b"k", b"a", 0), LandedRecord(0, b"k", b"b", 1)], partitions=1)

    for _ in replay(warehouse, spaced(), pipeline="p", runner=LocalRunner(), max_records=1):
        pass

    assert [row["value"] for row in read_changelog(warehouse, "p", "counts").to_pylist()] == ["a1", "b2"]


@pytest.mark.parametrize("name", ["", "a:b", "a\nb", 5, None])
def test_a_name_that_is_no_text_or_has_a_colon_is_refused(name):
    with pytest.raises(TopologyError, match=r"name: expected text that can be printed, without a colon, got"):
        Topology().add_source(name, WORDS, "words")


def test_names_of_the_dsl_stay_those_that_kafka_takes_there():
    with pytest.raises(TopologyError, match="name: expected 1 to 249 ASCII letters"):
        StreamsBuilder().stream("words", WORDS, name="all words")
