"""What every operator did with a record that was piped into a test driver: it is landed and replayed, and explained as
records of a pipeline are (jobs/explain/explanation.py).

Rule: all that was piped is landed in a folder of its own with its arrivals, and replayed in their order, as the driver
ran it. Functions of the topology are called again.
"""

from collections import defaultdict
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from ...state.errors import ConfigError
from ...state.tables.warehouse import HEADERS, Warehouse
from ..execution.task_run import LocalRunner
from ..explain.explanation import explain, say_place
from ..landing.landing import land_records
from ..replay.pipeline_run import replay
from .test_driver import TopologyTestDriver

_PIPELINE = "test"


def explained(driver: TopologyTestDriver, arrival: int) -> tuple[str, list[str]]:
    """The place of the record of an arrival ("topic:partition:offset"), and sentences, each with its node.

    Raises ConfigError where stream time or the wall clock was advanced without a record, which is not landed here.
    """
    topology = driver.topology
    parts: dict[str, list[tuple[pa.Table, np.ndarray]]] = defaultdict(list)
    for batch in driver.batches():
        if batch.recorded is not None:
            got = "advance_wall_clock_time" if batch.recorded[0] is None else "advance_stream_time"
            next_step = "land the records, and ask replay explain"
            raise ConfigError("explanation", "records alone", got, next_step)
        for topic, part in batch.landed.items():
            parts[topic].append(part)
    place = None
    with TemporaryDirectory() as folder:
        warehouse = Warehouse(folder)
        for topic in topology.source_topics():
            if topic in topology.intermediate_topics():
                continue
            records, arrivals = _records(parts[topic])
            land_records(warehouse, topic, records)
            for offset in np.flatnonzero(arrivals == arrival).tolist():
                place = topic, 0, offset
        if place is None:
            raise ConfigError("explanation", "a record that was piped", f"number {arrival}", "ask for another one")
        list(replay(warehouse, topology, pipeline=_PIPELINE, runner=LocalRunner(), idle="proceed", order="arrival"))
        found = explain(warehouse, _PIPELINE, topology, place, order="arrival")
    return say_place(place), [f"{step.node}: {sentence}" for step in found.steps for sentence in step.sentences]


def _records(parts: list[tuple[pa.Table, np.ndarray]]) -> tuple[pa.Table, np.ndarray]:
    """Rows of one topic, as they are landed, and their arrivals."""
    columns = ("timestamp", "key", "value", "headers", "context_offset")
    types = (pa.int64(), pa.binary(), pa.binary(), HEADERS, pa.int64())
    empty = pa.schema(list(zip(columns, types, strict=True))).empty_table()
    table = pa.concat_tables([empty, *(rows.select(columns) for rows, _ in parts)])
    arrivals = np.concatenate([np.zeros(0, np.int64), *(at for _, at in parts)])
    partition = pa.array(np.zeros(len(table), np.int32))
    return table.append_column("partition", partition).append_column("arrival", pa.array(arrivals)), arrivals
