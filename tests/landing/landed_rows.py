"""Reading a landed table back in tests."""

from typing import Any

from kstreams_replay.state.tables.data_files import read_files, read_rows
from kstreams_replay.state.tables.warehouse import LANDED_SCHEMA, Warehouse


class KilledError(Exception):
    """Simulates the death of the process."""


def landed(warehouse: Warehouse, topic: str, *columns: str) -> list[tuple[Any, ...]]:
    """Rows of the landed table in the order in which they lie in its files, files by partition and first offset."""
    path = warehouse.landed(topic)
    rows = read_rows(path, read_files(path), LANDED_SCHEMA).to_pylist()
    return [tuple(row[column] for column in columns) for row in rows]


def values(warehouse: Warehouse, topic: str = "t") -> list[bytes]:
    """Values of the landed table, in the same order."""
    return [value for (value,) in landed(warehouse, topic, "value")]
