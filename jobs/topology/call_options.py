"""Kafka's names of what a call is given beside its steps (Named, Grouped, Joined, StreamJoined, TableJoined,
Repartitioned, Produced): each represents keywords of the call.

Rule: ``stream.filter("paid", Named.as_("paid-ones"))`` is ``stream.filter("paid", name="paid-ones")``; serdes of what a
stream or table knows already are taken and change nothing.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Self

from ...state.serdes import Serde
from ...state.times import Duration
from ..functions.call_arguments import CallOptions
from ..functions.call_names import Hinting
from ..graph.nodes import Partitioner
from .materialized import Materialized


@dataclass(frozen=True)
class Named(CallOptions, Hinting):
    """``name=`` of any call. Example: ``stream.merge(other, Named.as_("all"))``. Source: ``Named``."""

    name: str | None = None

    @classmethod
    def as_(cls, name: str) -> Self:
        """One with this name."""
        return cls(name)

    def with_name(self, name: str) -> Self:
        """The same with another name."""
        return replace(self, name=name)

    def _keywords(self, parameters: Collection[str]) -> dict[str, Any]:
        return {} if self.name is None else {"name": self.name}


@dataclass(frozen=True)
class Grouped(Named):
    """``name=`` of a grouping's repartition, and the serdes of the ``key`` and ``value`` that its selector gives.
    Example: ``stream.group_by(by_page, Grouped.with_(Serde.string(), CLICK))``. Source: ``Grouped``.
    """

    key: Serde | None = None
    value: Serde | None = None

    @classmethod
    def with_(cls, key: Serde, value: Serde, name: str | None = None) -> "Grouped":
        """One with these serdes."""
        return cls(name, key, value)

    def _keywords(self, parameters: Collection[str]) -> dict[str, Any]:
        """Of a stream the selector gives the key alone, of a table both."""
        serdes = {"returns_key": self.key, "returns": self.value}
        if "returns_key" not in parameters:
            serdes = {"returns": self.key}
        return super()._keywords(parameters) | {
            name: serde for name, serde in serdes.items() if serde is not None and name in parameters
        }


@dataclass(frozen=True)
class Joined(Named):
    """``name=`` and ``grace=`` of a join of a stream and a table. Example: ``orders.join(prices, "right",
    Joined.as_("priced").with_grace_period("1m"))``. Source: ``Joined``.
    """

    grace: Duration | None = None

    def with_grace_period(self, grace: Duration) -> "Joined":
        """The same with a grace period (KIP-923)."""
        return replace(self, grace=grace)

    def _keywords(self, parameters: Collection[str]) -> dict[str, Any]:
        return super()._keywords(parameters) | ({} if self.grace is None else {"grace": self.grace})


@dataclass(frozen=True)
class StreamJoined(Named):
    """``name=`` of a join of streams, and name and kind of its stores (``materialized=``). Example:
    ``left.join(right, "left", windows, StreamJoined.as_("pairs"))``. Source: ``StreamJoined``.
    """

    materialized: Materialized | None = None

    @classmethod
    def as_(cls, name: str) -> Self:
        """One whose stores are named after ``name``."""
        return cls(materialized=Materialized.as_(name))

    def with_store_name(self, name: str) -> "StreamJoined":
        """The same, its stores named after ``name``."""
        return replace(self, materialized=Materialized.as_(name))

    def _keywords(self, parameters: Collection[str]) -> dict[str, Any]:
        stores = {} if self.materialized is None else {"materialized": self.materialized}
        return super()._keywords(parameters) | stores


@dataclass(frozen=True)
class TableJoined(Named):
    """``name=`` of a join of tables; ``partitioner=`` and ``other_partitioner=`` of one by foreign key. Example:
    ``orders.join(users, "right", TableJoined.as_("with-user"), foreign_key="user")``. Source: ``TableJoined``.
    """

    partitioner: Partitioner | None = None
    other_partitioner: Partitioner | None = None

    @classmethod
    def with_(cls, partitioner: Partitioner | None, other_partitioner: Partitioner | None) -> "TableJoined":
        """One with partitioners of the left table's keys and of the other's."""
        return cls(None, partitioner, other_partitioner)

    def with_partitioner(self, partitioner: Partitioner | None) -> "TableJoined":
        """The same with another partitioner of the left table's keys."""
        return replace(self, partitioner=partitioner)

    def with_other_partitioner(self, other_partitioner: Partitioner | None) -> "TableJoined":
        """The same with another partitioner of the other table's keys, the foreign ones."""
        return replace(self, other_partitioner=other_partitioner)

    def _keywords(self, parameters: Collection[str]) -> dict[str, Any]:
        options = {"partitioner": self.partitioner, "other_partitioner": self.other_partitioner}
        return super()._keywords(parameters) | {name: one for name, one in options.items() if one is not None}


@dataclass(frozen=True)
class Repartitioned(Named):
    """``name=``, ``partitions=`` and ``partitioner=`` of ``repartition``. Example:
    ``stream.repartition(Repartitioned.as_("by-page").with_number_of_partitions(4))``. Source: ``Repartitioned``.
    """

    partitions: int | None = None
    partitioner: Partitioner | None = None

    def with_number_of_partitions(self, partitions: int) -> "Repartitioned":
        """The same with so many partitions."""
        return replace(self, partitions=partitions)

    def with_stream_partitioner(self, partitioner: Partitioner) -> "Repartitioned":
        """The same with a partitioner of (topic, key, value, number of partitions)."""
        return replace(self, partitioner=partitioner)

    def _keywords(self, parameters: Collection[str]) -> dict[str, Any]:
        options = {"partitions": self.partitions, "partitioner": self.partitioner}
        return super()._keywords(parameters) | {name: one for name, one in options.items() if one is not None}


@dataclass(frozen=True)
class Produced(Named):
    """``name=`` and ``partitioner=`` of ``to``. Example: ``stream.to("out", Produced.as_("write"))``. Source:
    ``Produced``.
    """

    partitioner: Partitioner | None = None

    def with_stream_partitioner(self, partitioner: Partitioner) -> "Produced":
        """The same with a partitioner of (topic, key, value, number of partitions)."""
        return replace(self, partitioner=partitioner)

    def _keywords(self, parameters: Collection[str]) -> dict[str, Any]:
        return super()._keywords(parameters) | ({} if self.partitioner is None else {"partitioner": self.partitioner})
