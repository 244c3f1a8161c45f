"""The DSL: Kafka Streams' own in snake_case. Who knows one knows the other.

Rule: every call checks itself and raises TopologyError or ConfigError at once; nothing runs. A step is a polars
expression, an SQL string or a Python callable; a callable needs ``returns``, the serde of what it gives.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from jobs.expressions import Call, Expressible, Expression, Shape, Struct, bind, bind_predicate, bind_struct
from jobs.folds.aggregation import Aggregation
from jobs.folds.fold import Fold
from jobs.folds.numbers import count
from jobs.folds.python import Aggregator, PythonFold, reducer
from jobs.topology.graph import Graph
from jobs.topology.nodes import (
    AggregateNode,
    FilterNode,
    MapValuesNode,
    Node,
    RepartitionNode,
    SelectKeyNode,
    SinkNode,
    SourceNode,
    SuppressNode,
    ToStreamNode,
)
from jobs.topology.topology import Topology
from jobs.topology.windows import Materialized, SessionWindows, Suppressed, TimeWindows
from state.errors import ConfigError, TopologyError
from state.serdes import Serde

Step = Expressible | Callable[[Any, Any], Any]
"""Of (key, value) when it is a callable."""


@dataclass(frozen=True)
class Consumed:
    """Serdes of a topic's key and value."""

    key: Serde
    value: Serde


class StreamsBuilder:
    """Where a topology begins."""

    def __init__(self) -> None:
        self._graph = Graph()

    def stream(self, topic: str, consumed: Consumed, *, name: str | None = None) -> "KStream":
        """Records of ``topic``. Undecodable ones go to the dead letters."""
        name = name or self._graph.next_name("KSTREAM-SOURCE-")
        shape = Shape(consumed.key, consumed.value)
        return KStream(self._graph, self._graph.add(SourceNode(name=name, inputs=(), shape=shape, topic=topic)))

    def build(self) -> Topology:
        """Raises TopologyError when there is nothing to run."""
        return Topology(self._graph)


class KStream:
    """A stream of records."""

    def __init__(self, graph: Graph, node: Node, *, is_rekeyed: bool = False) -> None:
        self._graph, self._node, self._is_rekeyed = graph, node, is_rekeyed

    @property
    def shape(self) -> Shape:
        return self._node.shape

    def filter(self, predicate: Step, *, name: str | None = None) -> "KStream":
        """Records for which ``predicate`` is true; null is not true."""
        return self._filter(predicate, keeps=True, name=name)

    def filter_not(self, predicate: Step, *, name: str | None = None) -> "KStream":
        """Records for which ``predicate`` is not true."""
        return self._filter(predicate, keeps=False, name=name)

    def _filter(self, predicate: Step, *, keeps: bool, name: str | None) -> "KStream":
        name = name or self._graph.next_name("KSTREAM-FILTER-")
        bound: Expression | Call
        if isinstance(predicate, str | pl.Expr):
            bound = bind_predicate(predicate, self.shape, name)
        else:
            bound = _bind(predicate, self.shape, Serde.boolean(), name)
        node = FilterNode(name=name, inputs=(self._node.name,), shape=self.shape, predicate=bound, keeps=keeps)
        return self._then(node)

    def map_values(
        self, *steps: Step, returns: Serde | None = None, name: str | None = None, **columns: Expressible
    ) -> "KStream":
        """New values. One step gives a plain value; several, or named ones, the fields of a struct.

        Expressions map a tombstone to a tombstone; a callable is called with the value None.
        """
        name = name or self._graph.next_name("KSTREAM-MAPVALUES-")
        mapper = _bind_mapper(steps, columns, returns, self.shape, name)
        shape = Shape(self.shape.key, mapper.result, self.shape.window)
        return self._then(MapValuesNode(name=name, inputs=(self._node.name,), shape=shape, mapper=mapper))

    def select_key(self, selector: Step, *, returns: Serde | None = None, name: str | None = None) -> "KStream":
        """New keys; a grouping after it goes through a repartition table."""
        name = name or self._graph.next_name("KSTREAM-KEY-SELECT-")
        bound = _bind(selector, self.shape, returns, name)
        shape = Shape(bound.result, self.shape.value)
        node = SelectKeyNode(name=name, inputs=(self._node.name,), shape=shape, selector=bound)
        return KStream(self._graph, self._graph.add(node), is_rekeyed=True)

    def group_by_key(self) -> "KGroupedStream":
        """Group by the key as it is. Raises TopologyError for a windowed key: select a plain one first."""
        if self.shape.window is not None:
            raise TopologyError(
                self._node.name, "a plain key to group by", "a windowed key", 'use select_key("record_key") first'
            )
        return KGroupedStream(self._graph, self._node, is_rekeyed=self._is_rekeyed)

    def group_by(self, selector: Step, *, returns: Serde | None = None, name: str | None = None) -> "KGroupedStream":
        """``select_key`` and ``group_by_key``."""
        return self.select_key(selector, returns=returns, name=name).group_by_key()

    def to(self, topic: str, *, name: str | None = None) -> None:
        """Write to the output ``topic``."""
        name = name or self._graph.next_name("KSTREAM-SINK-")
        self._graph.add(SinkNode(name=name, inputs=(self._node.name,), shape=self.shape, topic=topic))

    def _then(self, node: Node) -> "KStream":
        return KStream(self._graph, self._graph.add(node), is_rekeyed=self._is_rekeyed)


class KGroupedStream:
    """Records grouped by key, to be aggregated as they are or by windows."""

    def __init__(
        self,
        graph: Graph,
        node: Node,
        *,
        is_rekeyed: bool,
        windows: TimeWindows | SessionWindows | None = None,
    ) -> None:
        self._graph, self._node, self._is_rekeyed, self._windows = graph, node, is_rekeyed, windows

    @property
    def shape(self) -> Shape:
        return self._node.shape

    def windowed_by(self, windows: TimeWindows | SessionWindows) -> "KGroupedStream":
        """Aggregate by windows. Raises TopologyError for anything but TimeWindows and SessionWindows."""
        if not isinstance(windows, TimeWindows | SessionWindows):
            expected, next_step = "TimeWindows or SessionWindows", 'use for example TimeWindows.of_size("1h")'
            raise TopologyError("windowed_by", expected, repr(windows), next_step)
        return KGroupedStream(self._graph, self._node, is_rekeyed=self._is_rekeyed, windows=windows)

    def count(self, materialized: Materialized | None = None, *, name: str | None = None) -> "KTable":
        """Number of records, as a long."""
        return self._aggregate({"": count()}, materialized, name, "AGGREGATE")

    def reduce(
        self,
        function: Callable[[Any, Any], Any],
        *,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> "KTable":
        """``function(aggregate, value)`` in Python; the first value is the aggregate as it is."""
        return self._aggregate({"": reducer(function, self._node.shape.value)}, materialized, name, "REDUCE")

    def aggregate(
        self,
        fold: Fold | None = None,
        *,
        initializer: Callable[[], Any] | None = None,
        aggregator: Aggregator | None = None,
        merger: Aggregator | None = None,
        returns: Serde | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        **folds: Fold,
    ) -> "KTable":
        """One fold (a plain value), named folds (a struct), or Python functions.

        Python: ``initializer()``, ``aggregator(key, value, aggregate)``, for sessions ``merger(key, one, other)``, and
        ``returns``, the aggregate's serde. A result of None deletes the aggregate.
        """
        place = name or "aggregate"
        if aggregator is not None:
            chosen: dict[str, Fold] = {"": self._python(initializer, aggregator, merger, returns, place)}
        else:
            chosen = folds if fold is None else {"": fold}
        if (fold is not None) + bool(folds) + (aggregator is not None) > 1:
            raise TopologyError(place, "a fold, named folds, or an aggregator", "more than one of them", "choose one")
        return self._aggregate(chosen, materialized, name, "AGGREGATE")

    def _python(
        self,
        initializer: Callable[[], Any] | None,
        aggregator: Aggregator,
        merger: Aggregator | None,
        returns: Serde | None,
        place: str,
    ) -> PythonFold:
        if initializer is None or returns is None:
            raise TopologyError(place, "initializer and returns beside the aggregator", "none", "give both")
        if isinstance(self._windows, SessionWindows) and merger is None:
            raise TopologyError(
                place, "a merger, since sessions merge", "none", "give merger=(key, one, other) -> aggregate"
            )
        try:
            initial = initializer()
            returns.from_python([initial])
        except Exception as error:
            got = error.got if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
            raise TopologyError(place, f"an initial value of {returns}", got, "correct the initializer") from error
        if merger is None:
            return PythonFold(initializer, aggregator, returns, starts_null=initial is None)
        return PythonFold(initializer, aggregator, returns, merger, starts_null=initial is None)

    def _aggregate(
        self, folds: dict[str, Fold], materialized: Materialized | None, name: str | None, prefix: str
    ) -> "KTable":
        materialized = materialized or Materialized()
        store = materialized.name or self._graph.next_name(f"KSTREAM-{prefix}-STATE-STORE-")
        name = name or self._graph.next_name(f"KSTREAM-{prefix}-")
        aggregation = Aggregation(folds, self._node.shape, name)
        node = self._repartitioned(store) if self._is_rekeyed else self._node
        windows = self._windows
        return KTable(
            self._graph,
            self._graph.add(
                AggregateNode(
                    name=name,
                    inputs=(node.name,),
                    shape=Shape(self._node.shape.key, aggregation.serde(), None if windows is None else windows.kind),
                    is_table=True,
                    store=store,
                    aggregation=aggregation,
                    windows=windows,
                    retention_ms=0 if windows is None else materialized.retention_ms(windows, name),
                    is_persistent=materialized.store == "persistent",
                )
            ),
        )

    def _repartitioned(self, store: str) -> Node:
        """Kafka names the three nodes of a repartition after its topic, unless the store's name is generated."""
        sink, null_filter, source = (self._graph.next_name(f"KSTREAM-{kind}-") for kind in ("SINK", "FILTER", "SOURCE"))
        topic = f"{store}-repartition"
        if not store.startswith("KSTREAM-"):
            sink, null_filter, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"
        return self._graph.add(
            RepartitionNode(
                name=source,
                inputs=(self._node.name,),
                shape=self._node.shape,
                topic=topic,
                sink_name=sink,
                filter_name=null_filter,
            )
        )


class KTable:
    """A table: the newest value of every key, forwarded as changes."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self._graph, self._node = graph, node

    @property
    def shape(self) -> Shape:
        return self._node.shape

    def suppress(self, suppressed: Suppressed) -> "KTable":
        """Hold changes until their window closes. Raises TopologyError on a table that is not windowed."""
        windows = next(
            (n.windows for n in [self._node, *self._graph.above(self._node)] if isinstance(n, AggregateNode)), None
        )
        if windows is None:
            raise TopologyError(
                self._node.name,
                "a windowed table (window close time is only defined for windowed computations)",
                "a table without windows",
                "use windowed_by() before the aggregation",
            )
        name = suppressed.name or self._graph.next_name("KTABLE-SUPPRESS-")
        store = f"{suppressed.name}-store" if suppressed.name else self._graph.next_name("KTABLE-SUPPRESS-STATE-STORE-")
        node = SuppressNode(
            name=name,
            inputs=(self._node.name,),
            shape=self.shape,
            is_table=True,
            store=store,
            windows=windows,
            max_records=suppressed.max_records,
            max_bytes=suppressed.max_bytes,
        )
        return KTable(self._graph, self._graph.add(node))

    def to_stream(self, *, name: str | None = None) -> KStream:
        """The table's changes as a stream; a deletion is a tombstone."""
        name = name or self._graph.next_name("KTABLE-TOSTREAM-")
        node = self._graph.add(ToStreamNode(name=name, inputs=(self._node.name,), shape=self.shape))
        return KStream(self._graph, node)

    def to(self, topic: str) -> None:
        """``to_stream().to(topic)``."""
        self.to_stream().to(topic)


def _bind(step: Step, shape: Shape, returns: Serde | None, place: str) -> Expression | Call:
    if isinstance(step, str | pl.Expr):
        return bind(step, shape, place)
    if not callable(step):
        expected = "an expression, SQL text or a callable of (key, value)"
        raise TopologyError(place, expected, repr(step), "correct the step")
    if returns is None:
        raise TopologyError(place, "returns= beside a Python callable", "none", "give the serde of the result")
    return Call(step, shape, returns, place)


def _bind_mapper(
    steps: tuple[Step, ...], columns: dict[str, Expressible], returns: Serde | None, shape: Shape, place: str
) -> Expression | Struct | Call:
    if len(steps) == 1 and not columns:
        return _bind(steps[0], shape, returns, place)
    if not steps and not columns:
        raise TopologyError(place, "at least one step", "none", 'give for example "air_time / 60 AS hours"')
    struct: dict[str, Expression] = {}
    for step in steps:
        bound = _bind(step, shape, returns, place)
        if not isinstance(bound, Expression):
            raise TopologyError(place, "expressions side by side", "a Python callable", "give the callable alone")
        if bound.name in struct | columns:
            next_step = "name one of them anew, with .alias() or AS"
            raise TopologyError(place, "fields of different names", f"{bound.name!r} twice", next_step)
        struct[bound.name] = bound
    return bind_struct(struct | {column: bind(step, shape, place) for column, step in columns.items()}, place)
