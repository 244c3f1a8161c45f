"""How writers lay the records of a topic in the columns of a table.

Owns their names and columns, which the writers document. Rule: a layout fits a table that has all of its coordinates;
what else it may have (headers, the kind of the time) is taken where it is there. What is not Kafka's is the value where
the layout has no column with the value's bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa

from ..files.paths import has_column, root_of

AUTO = "auto"
COORDINATES = ("timestamp", "partition", "offset")
"""Without which the order of records is not known."""


@dataclass(frozen=True, slots=True)
class Layout:
    """``written_by``: in words. ``columns``: field of a mapping to its column. ``also``: fields beside the coordinates
    without whose columns it is another layout. ``own``: how top-level columns begin that are no part of a value.
    ``value_is_alone``: the value's column has its bytes only where the table has no other one.
    """

    name: str
    written_by: str
    columns: Mapping[str, str]
    also: tuple[str, ...] = ()
    own: str = ""
    value_is_alone: bool = False

    @property
    def needed(self) -> int:
        """How many columns a table of it has to have."""
        return len(COORDINATES) + len(self.also)

    def missing(self, schema: pa.Schema) -> list[str]:
        """Columns without which the table is not of the layout."""
        wanted = [self.columns[name] for name in (*COORDINATES, *self.also)]
        return [column for column in wanted if not has_column(schema, column)]

    def mapping(self, schema: pa.Schema) -> dict[str, str | tuple[str, ...]]:
        """Fields of a mapping to columns that the table has."""
        mapping: dict[str, str | tuple[str, ...]] = {
            name: column for name, column in self.columns.items() if has_column(schema, column)
        }
        roots = {root_of(column, schema.names) for name, column in self.columns.items() if name != "value"}
        rest = [name for name in schema.names if name not in roots and not (self.own and name.startswith(self.own))]
        if self.value_is_alone and rest != [self.columns["value"]]:
            mapping.pop("value", None)
        if "value" not in mapping and rest:
            mapping["value"] = tuple(rest)
        return mapping


def _named(prefix: str, dash: str) -> dict[str, str]:
    """Tableflow's columns of metadata."""
    names = {
        "topic_column": "topic",
        "partition": "partition",
        "offset": "offset",
        "timestamp": "timestamp",
        "timestamp_type": f"timestamp{dash}type",
        "headers": "headers",
        "key": f"raw{dash}key",
        "value": f"raw{dash}value",
    }
    return {name: f"{prefix}{column}" for name, column in names.items()}


def _kafka_connect(between: str) -> dict[str, str]:
    words = {"topic_column": "topic", "partition": "partition", "offset": "offset", "timestamp": "timestamp"}
    return {name: f"_kafka_metadata{between}{word}" for name, word in words.items()}


_ALL = (
    Layout(
        "redpanda",
        "Redpanda's Iceberg topics",
        {
            **{name: f"redpanda.{name}" for name in ("partition", "offset", "timestamp", "headers", "key")},
            "timestamp_type": "redpanda.timestamp_type",
            "value": "value",
        },
        value_is_alone=True,
    ),
    Layout("tableflow", "Confluent's Tableflow", _named("$$", "-"), own="$$"),
    Layout(
        "tableflow-portable",
        "Confluent's Tableflow with portable names",
        _named("cflt_metadata_", "_"),
        own="cflt_metadata_",
    ),
    Layout(
        "kafka-connect",
        "the Iceberg sink of Kafka Connect with KafkaMetadataTransform",
        _kafka_connect("_"),
        own="_kafka_metadata",
    ),
    Layout(
        "spark",
        "Spark's Kafka source",
        {
            **{name: name for name in ("key", "value", "partition", "offset", "timestamp", "headers")},
            "timestamp_type": "timestampType",
            "topic_column": "topic",
        },
        also=("value",),
    ),
)
LAYOUTS: Mapping[str, Layout] = MappingProxyType({each.name: each for each in _ALL})
"""By name, in the order in which they are tried."""
_NESTED = Layout("kafka-connect", LAYOUTS["kafka-connect"].written_by, _kafka_connect("."), own="_kafka_metadata")


def variants(name: str) -> tuple[Layout, ...]:
    """The forms of a layout; those of ``auto`` are all."""
    if name == AUTO:
        return tuple(form for each in LAYOUTS for form in variants(each))
    return (LAYOUTS[name], _NESTED) if name == _NESTED.name else (LAYOUTS[name],)
