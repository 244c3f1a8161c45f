"""Keys that others wrote in another form than the serde's: one key, as in Kafka's stores, wherever the tape is cut."""

from kstreams_replay.jobs.execution import task_stores
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

SPACED, COMPACT = b'{"a": 1}', b'{"a":1}'


def counts() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.json("a int"), Serde.string())).group_by_key().count().to("out")
    return builder.build()


def test_json_with_spaces_is_the_key_without_them_in_every_increment(tmp_path, monkeypatch):
    """
    A landed key is also what the rows of a large store are found by.
    """
    monkeypatch.setattr(task_stores, "ALL_BELOW_ROWS", 0)
    monkeypatch.setattr(task_stores, "ALL_BELOW_SHARE", 0)
    warehouse = Warehouse(tmp_path)
    keys = [SPACED, COMPACT, b'{"a":2}', SPACED, b"{}", None, b"x", b' {"a":1,"b":2}']
    plant(warehouse, "in", [LandedRecord(0, key, b"v", number) for number, key in enumerate(keys)], partitions=1)

    for pipeline, limit in (("whole", None), ("cut", 3)):
        list(replay(warehouse, counts(), pipeline=pipeline, runner=LocalRunner(), max_records=limit, idle="proceed"))

    for pipeline in ("whole", "cut"):
        rows = read_table(warehouse, pipeline, "outputs/out").sort_by("offset").to_pylist()
        assert [(row["key"]["a"], row["value"]) for row in rows] == [(1, 1), (1, 2), (2, 1), (1, 3), (None, 1), (1, 4)]
