"""A node names the columns that its store has, without anything that runs: those of the rows that a task writes."""

import pyarrow as pa
import pytest

from kstreams_replay.jobs.execution.table_schemas import table_schema
from kstreams_replay.jobs.task.task import Task
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.orchestration.cli import every_operator
from tests.every_store import every_store
from tests.laws.joined import joined
from tests.laws.topologies import everything
from tests.old_warehouses.topologies import steps, tables, together, windows

TOPOLOGIES = [
    every_store,
    every_operator.topology,
    everything,
    joined,
    steps,
    windows,
    together,
    tables,
]


@pytest.mark.parametrize("build", TOPOLOGIES)
def test_the_columns_that_a_node_says_are_those_of_the_rows_that_its_operator_writes(build):
    topology: Topology = build()
    said, written = {}, {}
    for sub in topology.sub_topologies:
        operators = Task(topology, sub).stores
        for store, node in sub.stores.items():
            operator, rows = operators[store], node.store_rows(topology.graph)
            operator.resume(rows.schema.empty_table(), {})
            said[store] = list(rows.schema), [*rows.schema, pa.field("deleted", pa.bool_())], rows.key_columns
            columns = operator.rows().schema
            row_key = [column for column in operator.row_key if column in columns.names]
            written[store] = list(columns), list(operator.changes().schema), row_key

    assert said == written
    assert said


def test_the_schema_of_a_store_needs_no_task(monkeypatch):
    topology = every_store()
    monkeypatch.setattr(Task, "__init__", lambda *_args, **_kwargs: pytest.fail("a task was built to read a schema"))

    session = topology.state_schema("session-count")
    history = table_schema(topology, "state/versioned-count")

    head = ["partition: int32", "increment: int64", "deleted: bool"]
    assert [f"{field.name}: {field.type}" for field in session] == [
        *head, "key: string", "window_start_ms: int64", "window_end_ms: int64", "aggregate: int64",
        "record_time_ms: int64",
    ]  # fmt: skip
    assert [f"{field.name}: {field.type}" for field in history] == [
        *head, "key: string", "valid_from_ms: int64", "valid_to_ms: int64", "value: int64", "is_mark: bool",
        "aggregate: int64", "record_time_ms: int64",
    ]  # fmt: skip
