"""A table of a lake as the source of a topic, as a user names it.

Owns the configuration only. Rule: the rows are those of the table's own log. The layout names Kafka's columns, and a
column that is named by the user wins over it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ....state.argument_types import check_fields, path_text
from ....state.errors import ConfigError
from ....state.hidden_values import hide
from ..file_source import SERDE_TYPES, TIMESTAMP_UNITS, FileSource
from .layouts import AUTO, LAYOUTS

OWN_COLUMNS = (
    "timestamp", "key", "value", "partition", "offset", "headers", "timestamp_type", "topic_column",
)  # fmt: skip
"""Fields of a mapping that a layout gives, unless they are named."""


@dataclass(frozen=True, slots=True)
class LakeSource:
    """A table of a lake that has the records of a topic, with Kafka's partitions and offsets.

    ``delta``: the path or URI of a Delta table, ``iceberg``: ``catalog.namespace.table``, as PyIceberg names it; one of
    them. ``version`` of Delta, ``snapshot`` of Iceberg: up to which rows are taken; None: the newest.
    ``catalog``: properties of the Iceberg catalog over those of PyIceberg's own configuration; they are never written
    down, and what is a credential among them is not shown.

    ``layout``: which columns are Kafka's: one of ``LAYOUTS``, or ``auto``: the one whose columns the table has.
    ``timestamp``, ``timestamp_unit``, ``key``, ``value``, ``key_type``, ``value_type``, ``partition``, ``offset``,
    ``headers``, ``timestamp_type``, ``topic_column``, ``zone``: as of ``FileSource``. Each wins over the layout's, and
    with ``timestamp``, ``partition`` and ``offset`` no layout is needed. ``topic``: only rows of it are landed (None:
    the name of the landed topic), where the table has a column of topics. ``partitions``: of the topic; None: as landed
    before, or up to the largest in the table. ``in_place``: the records stay where they are, and the ledger registers
    the files of the table (docs/landing.md).
    """

    delta: str | None = None
    iceberg: str | None = None
    version: int | None = None
    snapshot: int | None = None
    layout: str = AUTO
    topic: str | None = None
    partitions: int | None = None
    timestamp: str | None = None
    timestamp_unit: str = "ms"
    key: str | tuple[str, ...] | None = None
    value: str | tuple[str, ...] | None = None
    key_type: str | None = None
    value_type: str | None = None
    partition: str | None = None
    offset: str | None = None
    headers: str | None = None
    timestamp_type: str | None = None
    topic_column: str | None = None
    zone: str | None = None
    in_place: bool = False
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.delta is not None:
            object.__setattr__(self, "delta", path_text(self.delta, "LakeSource delta"))
        for name in ("key", "value"):
            given = getattr(self, name)
            object.__setattr__(self, name, tuple(given) if isinstance(given, list) else given)
        check_fields(self)
        hide(self.catalog)
        given = [name for name in ("delta", "iceberg") if getattr(self, name) is not None]
        _refuse("delta, iceberg", given, len(given) == 1, "one of both")
        for name, of in (("version", "delta"), ("snapshot", "iceberg"), ("catalog", "iceberg")):
            got = getattr(self, name)
            _refuse(name, got, not got or getattr(self, of) is not None, f"nothing: it is of {of}")
        parts = [] if self.iceberg is None else self.iceberg.split(".")
        named = self.iceberg is None or (len(parts) >= 3 and all(parts))
        _refuse("iceberg", self.iceberg, named, "catalog.namespace.table")
        _refuse("layout", self.layout, self.layout in (AUTO, *LAYOUTS), f"one of {', '.join((AUTO, *LAYOUTS))}")
        _refuse("version", self.version, self.version is None or self.version >= 0, "a version of 0 or more")
        enough = self.partitions is None or self.partitions >= 1
        _refuse("partitions", self.partitions, enough, "a number of at least 1")
        unit_known = self.timestamp_unit in TIMESTAMP_UNITS
        _refuse("timestamp_unit", self.timestamp_unit, unit_known, f"one of {', '.join(TIMESTAMP_UNITS)}")
        for name in ("key_type", "value_type"):
            known = getattr(self, name) in (None, *SERDE_TYPES)
            _refuse(name, getattr(self, name), known, f"one of {', '.join(SERDE_TYPES)}")

    @property
    def place(self) -> str:
        """What a user calls the table."""
        return self.delta if self.delta is not None else self.iceberg or ""

    @property
    def asked(self) -> int | None:
        """The version or snapshot that was asked for."""
        return self.version if self.delta is not None else self.snapshot

    def own_columns(self) -> dict[str, Any]:
        """Columns that are named, and do not come of a layout."""
        return {name: getattr(self, name) for name in OWN_COLUMNS if getattr(self, name) is not None}

    @property
    def needs_no_layout(self) -> bool:
        """Whether the columns that are named say of each row when and where it was."""
        return None not in (self.timestamp, self.partition, self.offset)


def _refuse(name: str, got: object, is_right: bool, expected: str) -> None:
    if not is_right:
        raise ConfigError(f"LakeSource {name}", expected, repr(got), "correct the declaration of the source")


assert {field.name for field in fields(FileSource)} >= set(OWN_COLUMNS), "a column is no file's"
