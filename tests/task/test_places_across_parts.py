"""A topic that goes back into its own sub-topology cuts that into parts: refusals and errors name the same records."""

import pytest

from kstreams_replay import Processor, PunctuationType, Record
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.state.errors import TaskFailed
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

TEXT = Serde.string()
TEXTS = Consumed(TEXT, TEXT)


class Reminding(Processor):
    """Forwards records without a value: at every new stream time one of its own, and those that have the key "late"
    with another time.
    """

    def init(self, context):
        self.context = context
        context.schedule("10ms", PunctuationType.STREAM_TIME, lambda now: self.remind())

    def remind(self):
        self.context.forward(Record("k", None, 0))

    def process(self, record):
        self.context.forward(Record("late", None, 5) if record.key == "late" else record)


def reminded(*, is_cut: bool) -> Topology:
    builder = StreamsBuilder()
    names = builder.global_table("names", TEXTS)
    clicks = builder.stream("clicks", TEXTS)
    clicks.filter("value LIKE 'again%'").to("again")
    joined = clicks.process(Reminding, name="reminding")
    if is_cut:
        joined = joined.merge(builder.stream("again", TEXTS))
    joined.join(
        names, lambda one, _: one, selector=lambda key, value: key, selector_returns=TEXT, returns=TEXT, name="join"
    ).to("out")
    return builder.build()


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_refusal_names_the_record_of_a_topic_that_caused_it(tmp_path, is_cut):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "names", [LandedRecord(0, b"k", b"Ann", 0)], partitions=1)
    records = [(b"k", 100), (b"late", 120), (b"k", 140)]
    plant(warehouse, "clicks", [LandedRecord(0, key, b"1", time_ms) for key, time_ms in records], partitions=1)

    list(replay(warehouse, reminded(is_cut=is_cut), pipeline="p", runner=LocalRunner(), idle="proceed"))

    rows = read_table(warehouse, "p", "dropped").sort_by([("offset", "ascending")]).to_pylist()
    assert [(row["node"], row["reason"], row["topic"], row["offset"], row["record_time_ms"]) for row in rows] == [
        ("join", "null-value", "clicks", offset, time_ms)
        for offset, time_ms in ((0, 100), (1, 120), (1, 120), (2, 140))
    ]


@pytest.mark.parametrize("is_cut", [False, True])
def test_an_error_names_the_record_of_a_topic_and_no_node(tmp_path, is_cut):
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", TEXTS)
    clicks.filter("value LIKE 'again%'").to("again")
    copied = clicks.map_values(lambda value: value, returns=TEXT, name="copied")
    copied = copied.merge(builder.stream("again", TEXTS)) if is_cut else copied
    copied.map_values(lambda value: int(value), returns=Serde.long(), name="number").to("out")
    warehouse = Warehouse(tmp_path)
    values = (b"1", b"x", b"3")
    plant(warehouse, "clicks", [LandedRecord(0, b"k", value, at) for at, value in enumerate(values)], partitions=1)

    with pytest.raises(TaskFailed, match=r"of the record clicks-0, offset 1; "):
        list(replay(warehouse, builder.build(), pipeline="p", runner=LocalRunner(), idle="proceed"))
