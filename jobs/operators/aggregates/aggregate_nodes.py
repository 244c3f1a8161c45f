"""Nodes of aggregates of streams: how each is configured, and what it says of itself."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from ....state.promises import Deletions, Promise, SessionsPromise
from ....state.serdes import Serde
from ....state.serdes.packed import packed
from ....state.tables.names import TableName
from ...functions.expressions import Call, Expression, Shape
from ...functions.folds.aggregation import Aggregation
from ...functions.folds.numbers import NumberFold
from ...graph.graph import Graph, Node, compacted
from ...graph.kafka_processors import KafkaNode, kafka_processor
from ...graph.kafka_traits import KafkaTrait
from ...graph.observations import Observation
from ...graph.reach import UNBOUNDED_REACH, Reach
from ...graph.store_rows import TIME, VERSION_KEY, StoreRowSchema, aggregate_schema, version_schema
from ...graph.windows import SessionWindows, SlidingWindows, TimeWindows, Windows, grace_of, with_grace
from ...graph.wording import Wording
from ..base.promised_tables import outputs_of
from .aggregate_sentences import say_aggregate


@dataclass(frozen=True, eq=False, kw_only=True)
class AggregateNode(Node):
    """Of streams. ``windows`` None: one aggregate a key. ``retention_ms`` 0 without windows.

    ``emit``: "on_update" or "on_close". ``semantics``: "kafka", or "kip": results depend on no store's retention.
    """

    store: str
    aggregation: Aggregation
    windows: Windows | None
    retention_ms: int
    is_persistent: bool
    emit: str = "on_update"
    semantics: str = "kafka"

    operator = ".build:build"

    @property
    def results_may_be_null(self) -> bool:  # type: ignore[override]
        plain = self.aggregation.folds.get("")  # a row of named folds is never null; a plain count or sum is a number
        return plain is not None and (plain.may_be_null or not isinstance(plain, NumberFold))

    @property
    def windowed_by(self) -> Windows | None:
        return self.windows

    @property
    def windows_for_processors(self) -> Windows | None:
        """Of a length that a start says, or sessions, and results that no window's close decides."""
        is_known = isinstance(self.windows, TimeWindows | SessionWindows) and self.emit == "on_update"
        return self.windows if is_known and self.semantics == "kafka" else None

    def reach(self, graph: Graph) -> Reach:
        return _reach(self.windows)

    @property
    def waits_for_close(self) -> bool:
        return self.emit == "on_close"

    @property
    def given_grace_ms(self) -> int | None:
        return grace_of(self.windows)

    def with_grace(self, grace_ms: int) -> "AggregateNode":
        return _with_grace(self, grace_ms)

    def changelog_settings(self, graph: Graph, store: str) -> Mapping[str, str]:
        return super().changelog_settings(graph, store) if self.windows is None else compacted(self.retention_ms)

    def kafka_traits(self, graph: Graph) -> Iterable[KafkaTrait]:
        yield from super().kafka_traits(graph)
        yield from _traits_of_windows(self.windows, is_persistent=self.is_persistent)
        if self.emit == "on_close":
            yield KafkaTrait.EMIT_ON_CLOSE

    def promises(self, graph: Graph) -> Iterable[Promise]:
        yield from super().promises(graph)
        yield from _of_sessions(self, graph, self.windows, self.retention_ms)

    def store_settings(self, graph: Graph) -> Mapping[str, Any]:
        return {"folds": self.aggregation.folds}

    def store_rows(self, graph: Graph) -> StoreRowSchema:
        spec, saved = graph.tables[self.name].store, self.aggregation.saved_type
        if self.windows is None and spec is not None and spec.is_versioned:
            return StoreRowSchema(versioned_aggregate_schema(self.shape, saved), VERSION_KEY)
        return _aggregates(self, saved)

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        return say_aggregate(seen, say, self.shape.window, is_final=self.emit == "on_close")


@dataclass(frozen=True, eq=False, kw_only=True)
class CogroupNode(Node):
    """One aggregate of several grouped streams; ``aggregators[i]`` takes the records of ``inputs[i]``.

    ``semantics``: as of an AggregateNode, and with "kip" all streams share one stream time.
    """

    store: str
    initializer: Callable[[], Any]
    aggregators: tuple[Callable[[Any, Any, Any], Any], ...]
    merger: Callable[[Any, Any, Any], Any] | None
    windows: Windows | None
    retention_ms: int
    is_persistent: bool
    semantics: str = "kafka"

    operator = ".cogroup:build"

    @property
    def windowed_by(self) -> Windows | None:
        return self.windows

    def reach(self, graph: Graph) -> Reach:
        return _reach(self.windows)

    @property
    def given_grace_ms(self) -> int | None:
        return grace_of(self.windows)

    def with_grace(self, grace_ms: int) -> "CogroupNode":
        return _with_grace(self, grace_ms)

    def changelog_settings(self, graph: Graph, store: str) -> Mapping[str, str]:
        return super().changelog_settings(graph, store) if self.windows is None else compacted(self.retention_ms)

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        parts = graph.parts[self.name]
        streams = zip(parts, self.inputs, strict=True)
        return [
            *(kafka_processor(name, (above,), (self.store,)) for name, above in streams),
            kafka_processor(self.name, parts),
        ]

    def kafka_traits(self, graph: Graph) -> Iterable[KafkaTrait]:
        yield from super().kafka_traits(graph)
        yield from _traits_of_windows(self.windows, is_persistent=self.is_persistent)

    def promises(self, graph: Graph) -> Iterable[Promise]:
        yield from super().promises(graph)
        yield from _of_sessions(self, graph, self.windows, self.retention_ms)

    def store_settings(self, graph: Graph) -> Mapping[str, Any]:
        return {"streams": len(self.inputs)}

    def store_rows(self, graph: Graph) -> StoreRowSchema:
        return _aggregates(self, self.shape.value.arrow_type)

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        return say_aggregate(seen, say, self.shape.window, is_final=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class DistinctNode(Node):
    """``windowed_by(...).distinct()`` of KIP-655's older proposal: the first record of every key and window."""

    store: str
    windows: Windows
    id_selector: Expression | Call | None = None

    operator = ".distinct:build"

    @property
    def windowed_by(self) -> Windows | None:
        return self.windows

    def reach(self, graph: Graph) -> Reach:
        return _reach(self.windows)

    @property
    def given_grace_ms(self) -> int | None:
        return grace_of(self.windows)

    def with_grace(self, grace_ms: int) -> "DistinctNode":
        return replace(self, windows=with_grace(self.windows, grace_ms))

    def store_settings(self, graph: Graph) -> Mapping[str, Any]:
        return {"id": self.id_selector}

    def store_rows(self, graph: Graph) -> StoreRowSchema:
        counted = counted_by(self.shape.key, self.id_selector)
        return StoreRowSchema(aggregate_schema(counted.arrow_type, pa.int64(), is_windowed=True))

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        return say_aggregate(seen, say, self.shape.window, is_final=False)


def _traits_of_windows(windows: Windows | None, *, is_persistent: bool) -> Iterable[KafkaTrait]:
    if windows is not None and is_persistent:
        yield KafkaTrait.PERSISTENT_WINDOWS
    if isinstance(windows, SlidingWindows):
        yield KafkaTrait.SLIDING_WINDOWS


def _reach(windows: Windows | None) -> Reach:
    return UNBOUNDED_REACH if windows is None else windows.reach


def counted_by(key: Serde, id_selector: Expression | Call | None) -> Serde:
    """Of what a distinct counts by: the key, or (key, id, number of a record without an id)."""
    return key if id_selector is None else packed(key=key, id=id_selector.result, number=Serde.long())


def _of_sessions(
    node: AggregateNode | CogroupNode, graph: Graph, windows: Windows | None, retention_ms: int
) -> Iterable[Promise]:
    """Sessions are apart; one that was merged is taken back, in the outputs that have all updates. A null result is a
    tombstone as well, which takes nothing back.
    """
    if not isinstance(windows, SessionWindows):
        return
    yield SessionsPromise(TableName.state(node.store), windows.gap_ms, retention_ms)
    for output in () if node.results_may_be_null else outputs_of(graph, node, unchanged=True):
        yield Deletions(output, never=False, store=TableName.state(node.store))


def _aggregates(node: AggregateNode | CogroupNode, saved: pa.DataType) -> StoreRowSchema:
    return StoreRowSchema(aggregate_schema(node.shape.key.arrow_type, saved, is_windowed=node.windows is not None))


_Windowed = TypeVar("_Windowed", AggregateNode, CogroupNode)


def _with_grace(node: _Windowed, grace_ms: int) -> _Windowed:
    """A retention that is the windows' own goes with them; one that was asked for stays, if it is long enough."""
    assert node.windows is not None, f"{node.name} has windows"
    windows = with_grace(node.windows, grace_ms)
    least_ms, is_own = windows.retention_ms, node.retention_ms == node.windows.retention_ms
    return replace(node, windows=windows, retention_ms=least_ms if is_own else max(node.retention_ms, least_ms))


def versioned_aggregate_schema(table: Shape, saved: pa.DataType) -> pa.Schema:
    """Versions of the results, and of every key a row with its aggregate (``saved``: the durable form)."""
    return pa.schema([*version_schema(table), pa.field("aggregate", saved), TIME])
