"""Nodes of aggregates of streams: how each is configured, and what it says of itself."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...folds.aggregation import Aggregation
from ...functions.expressions import Call, Expression
from ...graph.graph import Graph, Node
from ...graph.kafka_processors import KafkaNode, kafka_processor
from ...graph.observations import Observation
from ...graph.windows import Windows
from ...graph.wording import Wording
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
    def windowed_by(self) -> Windows | None:
        return self.windows

    def store_settings(self, graph: Graph) -> Mapping[str, Any]:
        return {"folds": self.aggregation.folds}

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

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        parts = graph.parts[self.name]
        streams = zip(parts, self.inputs, strict=True)
        return [
            *(kafka_processor(name, (above,), (self.store,)) for name, above in streams),
            kafka_processor(self.name, parts),
        ]

    def store_settings(self, graph: Graph) -> Mapping[str, Any]:
        return {"streams": len(self.inputs)}

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

    def store_settings(self, graph: Graph) -> Mapping[str, Any]:
        return {"id": self.id_selector}

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        return say_aggregate(seen, say, self.shape.window, is_final=False)
