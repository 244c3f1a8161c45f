"""ProcessorTopologyTest: topologies by the Processor API alone."""

from kstreams_replay import ConsumerRecord, KeyValues, Processor, Record, Topology
from tests.kafka_suite.playing import STRING, STRINGS, Stage
from tests.kafka_suite.topologies import plays

TEST = "ProcessorTopologyTest."


class Forwards(Processor):
    def process(self, record: Record) -> None:
        self.context.forward(record)


class Delays(Processor):
    """Ten milliseconds."""

    def process(self, record: Record) -> None:
        self.context.forward(record.with_timestamp(record.timestamp_ms + 10))


class AddsHeader(Processor):
    def process(self, record: Record) -> None:
        self.context.forward(record.with_headers((*record.headers, ("key", b"value"))))


def keeps(store: str) -> type[Processor]:
    """A processor that puts every record into ``store``, and forwards nothing."""

    class Keeps(Processor):
        def process(self, record: Record) -> None:
            self.context.store(store).put(record.key, record.value)

    return Keeps


SIMPLE = {
    f"{TEST}testDrivingSimpleTopology": Forwards,
    f"{TEST}shouldConsiderTimeStamps": Forwards,
    f"{TEST}shouldConsiderHeaders": Forwards,
    f"{TEST}shouldConsiderModifiedTimeStamps": Delays,
    f"{TEST}shouldAddHeaders": AddsHeader,
}


@plays(*SIMPLE)
def one_processor(stage: Stage) -> None:
    topology = _source(stage).add_processor("processor", SIMPLE[stage.tape.test], "source")
    topology.add_sink("sink", "output-topic-1", "processor")
    stage.sees("output-topic-1")


@plays(f"{TEST}testDrivingSimpleMultiSourceTopology")
def two_sources(stage: Stage) -> None:
    topology = stage.by_processors()
    for number in (1, 2):
        topology.add_source(f"source-{number}", STRINGS, f"input-topic-{number}")
        topology.add_processor(f"processor-{number}", Forwards, f"source-{number}")
        topology.add_sink(f"sink-{number}", f"output-topic-{number}", f"processor-{number}")
        stage.sees(f"output-topic-{number}")


@plays(f"{TEST}testDrivingForwardToSourceTopology", f"{TEST}testDrivingInternalRepartitioningTopology")
def written_and_read(stage: Stage) -> None:
    """Through an output of the first half, or a topic that the application's name begins."""
    between, end = "output-topic-1", "output-topic-2"
    if "Internal" in stage.tape.test:
        between, end = "through-topic-1", "output-topic-1"
    topology = _source(stage).add_sink("sink-1", between, "source")
    topology.add_source("source-2", STRINGS, between).add_sink("sink-2", end, "source-2")
    for topic in (between, end):
        stage.sees(topic)


class WithoutTime(Processor):
    """The value up to ``@``, which precedes its time."""

    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(record.value.split("@")[0]))


@plays(f"{TEST}testDrivingInternalRepartitioningForwardingTimestampTopology")
def of_times_in_values(stage: Stage) -> None:
    def time_of(record: ConsumerRecord) -> int:
        return int(record.value.split("@")[1])

    consumed = STRINGS.with_timestamp_extractor(time_of)
    topology = stage.by_processors().add_source("source", consumed, "input-topic-1")
    topology.add_processor("processor", WithoutTime, "source").add_sink("sink0", "through-topic-1", "processor")
    topology.add_source("source1", STRINGS, "through-topic-1").add_sink("sink1", "output-topic-1", "source1")
    for topic in ("through-topic-1", "output-topic-1"):
        stage.sees(topic)


class FansOut(Processor):
    """To both children, to each alone, and to both again."""

    def process(self, record: Record) -> None:
        self.context.forward(record)
        self.context.forward(record.with_timestamp(record.timestamp_ms + 5), child="child1")
        self.context.forward(record, child="child2")
        self.context.forward(record.with_timestamp(record.timestamp_ms + 2))


@plays(f"{TEST}shouldConsiderModifiedTimeStampsForMultipleProcessors")
def children(stage: Stage) -> None:
    topology = _source(stage).add_processor("processor", FansOut, "source")
    topology.add_processor("child1", Forwards, "processor").add_processor("child2", Delays, "processor")
    for number in (1, 2):
        topology.add_sink(f"sink{number}", f"output-topic-{number}", f"child{number}")
        stage.sees(f"output-topic-{number}")


STORES = {
    f"{TEST}testDrivingStatefulTopology": "entries",
    f"{TEST}testDrivingConnectedStateStoreTopology": "connectedStore",
}


@plays(*STORES, f"{TEST}testPrefixScan*")
def one_store(stage: Stage) -> None:
    store = STORES.get(stage.tape.test, "prefixScanStore")
    number = "" if stage.tape.test in STORES else "1"
    topology = stage.by_processors().add_source(f"source{number}", STRINGS, "input-topic-1")
    topology.add_processor(f"processor{number}", keeps(store), f"source{number}")
    topology.add_state_store(KeyValues(store, STRING, STRING), f"processor{number}")
    topology.add_sink("counts", "output-topic-1", f"processor{number}")
    stage.sees("output-topic-1")


def _source(stage: Stage) -> Topology:
    return stage.by_processors().add_source("source", STRINGS, "input-topic-1")
