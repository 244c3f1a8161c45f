"""Schemas of a pipeline's tables, by topology."""

import pyarrow as pa

from ...state.tables.names import DEAD_LETTER, DROPPED, OUTPUTS, STATE, TableName
from ...state.tables.schema_evolution import stored_schema
from ...state.tables.warehouse import DEAD_LETTER_SCHEMA, DROPPED_SCHEMA, HEADERS, output_schema
from ..tape.input_queues import PLACE_COLUMNS
from ..topology.topology import Topology


def table_schema(topology: Topology, table: str) -> pa.Schema:
    """Schema of a table of the pipeline, by the name it has in reports: "outputs/x", "state/y", "repartition/z", ...

    Columns are as Delta has them: a time of day is a long (state/tables/schema_evolution.py).
    """
    return stored_schema(_schema(topology, table))


def _schema(topology: Topology, table: str) -> pa.Schema:
    kind, name = TableName(table).kind, TableName(table).name
    if kind == DROPPED:
        return DROPPED_SCHEMA
    if kind == DEAD_LETTER:
        return DEAD_LETTER_SCHEMA
    if kind == OUTPUTS:
        sink = next(node for node in topology.sinks() if node.topic == name)
        shape, windowed = sink.shape, sink.shape.window is not None
        return output_schema(
            shape.key.arrow_type, shape.value.arrow_type, windowed=windowed, has_topics=sink.has_topics
        )
    if kind == STATE:
        return topology.state_schema(name)
    return REPARTITION_SCHEMA


REPARTITION_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("old", pa.binary()),
        *[(name, pa.int64()) for name in PLACE_COLUMNS[:-1]],
        ("increment", pa.int64()),
    ]
)
"""A landed table of our own, the value that a table's change replaced, and the cause of every record."""
