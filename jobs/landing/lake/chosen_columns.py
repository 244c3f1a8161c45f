"""Which columns of a table are Kafka's: those of a layout that fits, or those that were named.

Owns the choice, and the refusal of tables that are no history. Rule: what is not recognised is not guessed; a table
that has not every record of its topic, or does not say where it was, is refused with the reason.
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from ....state.errors import LandingError
from ..files.paths import has_column
from .lake_rows import LakeMapping
from .lake_source import LakeSource
from .lake_table import LakeTable
from .layouts import AUTO, COORDINATES, Layout, variants


def lake_mapping(source: LakeSource, table: LakeTable, topic: str) -> tuple[LakeMapping, str]:
    """The mapping of the table's rows, and in words why it is this one. Raises LandingError where no layout fits, and
    for a named column that the table does not have.
    """
    schema = table.columns.schema
    own = source.own_columns()
    given: dict[str, Any] = {}
    why = "columns that are named"
    if not (source.layout == AUTO and source.needs_no_layout):
        layout = _layout(source, table, topic, schema, own)
        given = layout.mapping(schema)
        coordinates = ", ".join(layout.columns[name] for name in COORDINATES)
        why = f"layout {layout.name} ({layout.written_by}), since the table has columns {coordinates}"
    columns: dict[str, Any] = given | own
    for name in _flat(columns.values()):
        if not has_column(schema, name):
            got = f"columns {', '.join(schema.names)}"
            raise LandingError(table_place(topic, table), f"a column {name}", got, "correct the mapping")
    if "topic_column" in columns:
        columns["topic"] = source.topic or topic
    elif source.topic is not None:
        expected, got = f"a column with the topic {source.topic!r}", f"none in columns {', '.join(schema.names)}"
        next_step = "name it (--topic-column), or leave the topic out (--source-topic)"
        raise LandingError(table_place(topic, table), expected, got, next_step)
    mapping = LakeMapping(
        path=table.root,
        format="parquet",
        timestamp_unit=source.timestamp_unit,
        key_type=source.key_type,
        value_type=source.value_type,
        zone=source.zone,
        columns_of=table.columns,
        files={file.name: file for file in table.files},
        **columns,
    )
    return mapping, why


def _layout(source: LakeSource, table: LakeTable, topic: str, schema: pa.Schema, own: dict[str, object]) -> Layout:
    tried = [(layout, _missing(layout, schema, own)) for layout in variants(source.layout)]
    for layout, missing in tried:
        if not missing:
            return layout
    nearest, missing = min(tried, key=lambda each: len(each[1]) / each[0].needed)
    asked = "a known layout" if source.layout == AUTO else f"layout {source.layout}"
    got = f"columns {', '.join(schema.names)}, without {', '.join(missing)} of {nearest.name}"
    raise LandingError(
        table_place(topic, table),
        f"the columns of {asked}",
        got,
        "name the columns (--timestamp, --partition, --offset, --key, --value). A table without Kafka's partitions and "
        "offsets (deliveries such as that of AWS MSK, upserts) does not say in which order its records came. Land from "
        "Kafka, or write its rows to a folder and land them with --order-by",
    )


def _missing(layout: Layout, schema: pa.Schema, own: dict[str, object]) -> list[str]:
    named = {layout.columns[name] for name in own if name in layout.columns}
    return [column for column in layout.missing(schema) if column not in named]


def refuse_no_history(table: LakeTable, topic: str) -> None:
    """Raises LandingError for a table that keeps the last value of a key alone."""
    if (known_by := table.upserts()) is not None:
        raise LandingError(
            table_place(topic, table),
            "a table with every record of the topic",
            f"one that keeps the last value of a key: {known_by}",
            "land the topic from where all its records are; to take the rows that there are, --on-change ignore",
        )


def _flat(columns: Iterable[str | tuple[str, ...]]) -> list[str]:
    names: list[str] = []
    for each in columns:
        names += [each] if isinstance(each, str) else each
    return names


def table_place(topic: str, table: LakeTable) -> str:
    """As an error calls it."""
    return f"topic {topic}, {table.format} table {table.place}"
