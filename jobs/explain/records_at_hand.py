"""Explains a record that is in no warehouse. It and the records around it are landed in a folder of their own and
replayed, and the record is explained as one of a pipeline is (explanation.py).

Rule: records are landed with their arrivals and replayed in that order. Functions of the topology are called again.
"""

from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from ...state.errors import ConfigError
from ...state.tables.warehouse import HEADERS, Warehouse
from ..execution.task_run import LocalRunner
from ..landing.landing import land_records
from ..replay.pipeline_run import replay
from ..tape.task_input import LANDED_TIME
from ..topology.topology import Topology
from .explanation import explain, say_place

RecordsOfTopics = Mapping[str, Sequence[tuple[pa.Table, np.ndarray]]]
"""Of each topic tables with timestamp, key, value, headers and context_offset, and int64 arrivals of their rows."""

_PIPELINE = "test"


def explain_arrival(topology: Topology, records: RecordsOfTopics, arrival: int) -> tuple[str, list[str]]:
    """The place of the record of an arrival ("topic:partition:offset"), and sentences, each with its node.

    ``records``: all that the topology read up to it and after it; a topic without records may be absent.
    Raises ConfigError: no record has this arrival.
    """
    record = None
    with TemporaryDirectory() as folder:
        warehouse = Warehouse(folder)
        for topic in topology.source_topics():
            # The replay writes such a topic itself, and refuses one that was landed as well (Planner).
            if topic in topology.intermediate_topics():
                continue
            table, arrivals = _landed_rows(records.get(topic, ()))
            land_records(warehouse, topic, table)
            for offset in np.flatnonzero(arrivals == arrival).tolist():
                record = topic, 0, offset
        if record is None:
            raise ConfigError("explanation", "a record that was piped", f"number {arrival}", "ask for another one")
        list(replay(warehouse, topology, pipeline=_PIPELINE, runner=LocalRunner(), idle="proceed", order="arrival"))
        explanation = explain(warehouse, _PIPELINE, topology, record, order="arrival")
    return say_place(record), [f"{step.node}: {sentence}" for step in explanation.steps for sentence in step.sentences]


def _at_landed_times(rows: pa.Table) -> pa.Table:
    """Rows with the times that they were piped with: the replay extracts again."""
    if LANDED_TIME not in rows.column_names:
        return rows
    return rows.set_column(rows.column_names.index("timestamp"), "timestamp", rows[LANDED_TIME])


def _landed_rows(parts: Sequence[tuple[pa.Table, np.ndarray]]) -> tuple[pa.Table, np.ndarray]:
    """Rows of one topic, as they are landed, and their arrivals."""
    columns = ("timestamp", "key", "value", "headers", "context_offset")
    types = (pa.int64(), pa.binary(), pa.binary(), HEADERS, pa.int64())
    empty = pa.schema(list(zip(columns, types, strict=True))).empty_table()
    table = pa.concat_tables([empty, *(_at_landed_times(rows).select(columns) for rows, _ in parts)])
    arrivals = np.concatenate([np.zeros(0, np.int64), *(at for _, at in parts)])
    partition = pa.array(np.zeros(len(table), np.int32))
    return table.append_column("partition", partition).append_column("arrival", pa.array(arrivals)), arrivals
