"""Where a pipeline's tables and topics are, as resources of Dagster: their settings may be environment variables.

Owns the way from a resource to what the engine takes. Rule: a variable is read when a run, a tick or a check needs it,
so definitions load without it; nothing of it is written down in Dagster, except where the tables lie.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from ...jobs.landing.landing import FileSource, KafkaSource, LakeSource
from ...jobs.publish.kafka_target import KafkaTarget
from ...state.errors import ConfigError
from ...state.tables.warehouse import Warehouse


@dataclass(frozen=True)
class LandedBy:
    """In the place of a source: another pipeline of the same warehouse lands the topic; its asset is the other's.

    ``pipeline``: the other's name. The two need one translator, or two that give landed topics the same keys.
    """

    pipeline: str


class WarehouseResource(dg.ConfigurableResource["WarehouseResource"]):
    """Where all tables are: ``root``, ``storage_options`` and ``storage_timeout``, as ``kstreams_replay.Warehouse``
    takes them.
    """

    root: str
    storage_options: dict[str, str] = {}  # noqa: RUF012  (pydantic copies it)
    storage_timeout: str | None = None

    def warehouse(self) -> Warehouse:
        """Raises ConfigError for an environment variable that is not set."""
        options = {name: value_of(text, name) for name, text in self.storage_options.items()}
        return Warehouse(value_of(self.root, "warehouse"), options or None, self.storage_timeout)


class FilesResource(dg.ConfigurableResource["FilesResource"]):
    """A directory of files as the source of a topic, in the words of ``kstreams_replay.FileSource``."""

    path: str
    timestamp: str
    format: str | None = None
    key: str | None = None
    value: list[str] | None = None
    partition: str | None = None
    partitions: int = 1
    timestamp_unit: str = "ms"
    pattern: str = "*"
    delimiter: str = ""
    columns: list[str] | None = None
    types: dict[str, str] = {}  # noqa: RUF012  (pydantic copies it)
    nulls: list[str] = [""]  # noqa: RUF012
    key_type: str | None = None
    value_type: str | None = None
    offset: str | None = None
    order_by: list[str] | None = None
    headers: str | None = None
    timestamp_type: str | None = None
    topic_column: str | None = None
    topic: str | None = None
    path_pattern: str | None = None
    beside: list[str] = []  # noqa: RUF012
    envelope: str | None = None
    null_lines: str = "bad"
    encoding: str = "utf-8"
    decimal_comma: bool = False
    zone: str | None = None

    def source(self) -> FileSource:
        """Raises ConfigError for a mapping that cannot be, or an environment variable that is not set."""
        given = {name: _plain(getattr(self, name), name) for name in type(self).model_fields}
        columns = given["value"]
        # One column alone is the value itself; in a list, it would be a JSON object with one field.
        value = columns[0] if columns is not None and len(columns) == 1 else columns
        return FileSource(**given | {"value": value})


class LakeResource(dg.ConfigurableResource["LakeResource"]):
    """A table of a lake as the source of a topic, in the words of ``kstreams_replay.LakeSource``."""

    delta: str | None = None
    iceberg: str | None = None
    version: int | None = None
    snapshot: int | None = None
    layout: str = "auto"
    topic: str | None = None
    partitions: int | None = None
    timestamp: str | None = None
    timestamp_unit: str = "ms"
    key: str | None = None
    value: list[str] | None = None
    key_type: str | None = None
    value_type: str | None = None
    partition: str | None = None
    offset: str | None = None
    headers: str | None = None
    timestamp_type: str | None = None
    topic_column: str | None = None
    zone: str | None = None
    in_place: bool = False
    catalog: dict[str, str] = {}  # noqa: RUF012  (pydantic copies it)

    def source(self) -> LakeSource:
        """Raises ConfigError for a table that cannot be, or an environment variable that is not set."""
        given = {name: _plain(getattr(self, name), name) for name in type(self).model_fields}
        columns = given["value"]
        value = columns[0] if columns is not None and len(columns) == 1 else columns
        return LakeSource(**given | {"value": value})


class KafkaResource(dg.ConfigurableResource["KafkaResource"]):
    """A topic of a broker, in the words of ``kstreams_replay.KafkaSource``."""

    bootstrap_servers: str
    topic: str | None = None
    options: dict[str, str] = {}  # noqa: RUF012  (pydantic copies it)
    on_gap: str = "refuse"

    def source(self) -> KafkaSource:
        """Raises ConfigError for an environment variable that is not set."""
        return KafkaSource(**{name: _plain(getattr(self, name), name) for name in type(self).model_fields})


class KafkaTargetResource(dg.ConfigurableResource["KafkaTargetResource"]):
    """A topic to which an output is published, in the words of ``kstreams_replay.KafkaTarget``."""

    bootstrap_servers: str
    topic: str
    options: dict[str, str] = {}  # noqa: RUF012  (pydantic copies it)
    position_topic: str | None = None
    registry: str | None = None
    registry_options: dict[str, str] = {}  # noqa: RUF012  (pydantic copies it)
    register_schemas: bool = False

    def target(self) -> KafkaTarget:
        """Raises ConfigError for an environment variable that is not set."""
        return KafkaTarget(**{name: _plain(getattr(self, name), name) for name in type(self).model_fields})


SourceResource = FilesResource | LakeResource | KafkaResource
Source = FileSource | LakeSource | KafkaSource


def warehouse_of(storage: Warehouse | WarehouseResource) -> Warehouse:
    """The current value of ``storage``."""
    return storage.warehouse() if isinstance(storage, WarehouseResource) else storage


def source_of(source: Source | SourceResource) -> Source:
    """The current value of ``source``."""
    return source.source() if isinstance(source, FilesResource | LakeResource | KafkaResource) else source


def known_root(storage: Warehouse | WarehouseResource) -> str | None:
    """Where the tables lie, as far as it is known while definitions load; None: its variable is not set there."""
    if isinstance(storage, Warehouse):
        return storage.root
    root = storage.root.get_value() if isinstance(storage.root, dg.EnvVar) else storage.root
    return None if root is None else Warehouse(root).root


def value_of(text: str, name: str) -> str:
    """``text``, or the value of the environment variable that it is."""
    if not isinstance(text, dg.EnvVar):
        return text
    value = text.get_value()
    if value is None:
        variable = text.env_var_name
        raise ConfigError(name, f"a value of the environment variable {variable}", "none", f"set {variable}")
    return value


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return value_of(value, name)
    if isinstance(value, Mapping):
        return {key: _plain(each, name) for key, each in value.items()}
    return [_plain(each, name) for each in value] if isinstance(value, list) else value
