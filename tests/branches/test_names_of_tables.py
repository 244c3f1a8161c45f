"""Outputs and stores whose names are those of our own tables, or begin with _: increments, a restore, increments."""

import pytest
from deltalake import DeltaTable

from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_changelog, read_state
from kstreams_replay.jobs.history.current_values import keep_current
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, Topology
from kstreams_replay.state.tables.names import TableName
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant


def counted(output: str, store: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), Serde.string()))
    stream.group_by_key().count(Materialized.as_(store)).to(output)
    return builder.build()


@pytest.mark.parametrize("pipeline", ["p", "retractions"])
@pytest.mark.parametrize("name", ["plain", "_plain", "ledger", "recorded_time", "retractions", "outputs"])
def test_a_restore_takes_back_rows_and_state_whatever_they_are_called(tmp_path, pipeline, name):
    warehouse, topology = Warehouse(tmp_path / "w"), counted(name, name)
    plant(warehouse, "in", [LandedRecord(0, b"ab"[n % 2 : n % 2 + 1], b"v", n) for n in range(12)], partitions=1)

    def run() -> None:
        list(replay(warehouse, topology, pipeline=pipeline, runner=LocalRunner(), idle="proceed", max_records=4))

    def values() -> list[tuple[str, int]]:
        rows = read_changelog(warehouse, pipeline, name)
        return list(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))

    run()
    keep_current(warehouse, pipeline, name)
    restore(warehouse, pipeline, 1)
    keep_current(warehouse, pipeline, name)
    assert values() == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    run()

    assert values() == [(key, count) for count in range(1, 7) for key in "ab"]
    assert len(read_state(warehouse, pipeline, name)) == 2
    keep_current(warehouse, pipeline, name)
    current = DeltaTable(warehouse.pipeline(pipeline).table(TableName.current(name))).to_pyarrow_table()
    assert sorted(zip(current["key"].to_pylist(), current["value"].to_pylist(), strict=True)) == [("a", 6), ("b", 6)]
