"""Records grouped by key, to be aggregated as they are or by windows (KGroupedStream, TimeWindowedKStream)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from ....state.errors import ConfigError, TopologyError
from ....state.serdes import Serde
from ...functions.call_arguments import checked_class
from ...functions.call_names import Hinting
from ...functions.expressions import Shape
from ...functions.folds.aggregation import Aggregation
from ...functions.folds.fold import Fold
from ...functions.folds.numbers import count
from ...functions.folds.python import Aggregator, PythonFold, reducer
from ...functions.parameters import AGGREGATOR, REDUCER, form_of
from ...graph.day_windows import DayWindows
from ...graph.name_rules import check_name
from ...graph.own_windows import OwnWindows
from ...graph.table_traits import add_table
from ...graph.windows import SessionWindows, TimeWindows, UnlimitedWindows, Windows
from ...operators.aggregates.aggregate_nodes import AggregateNode, DistinctNode
from ..call_options import Named
from ..materialized import Materialized, check_materialized, given_materialized
from . import cogrouped
from .ktable import KTable
from .rekeying import by_key, followed
from .step_arguments import (
    Step,
    as_field,
    bind_step,
    check_initializer,
    check_merges,
    checked_merger,
    checked_windows,
    functions_of,
    named_fields,
)

if TYPE_CHECKING:
    from .kstream import KStream

ON_WINDOW_UPDATE, ON_WINDOW_CLOSE = "on_window_update", "on_window_close"
_EMIT = {ON_WINDOW_UPDATE: "on_update", ON_WINDOW_CLOSE: "on_close"}


@checked_class
class KGroupedStream(Hinting):
    """Records of ``stream``, grouped by key, as ``group_by`` and ``windowed_by`` return them.

    ``topic``: what the repartition table is named after, if it has a name of its own. ``windows``: None, or those by
    which records are aggregated; ``emit``: when their results are forwarded (``emit_strategy``).

    Options of the aggregations: ``materialized`` has name, kind and retention of the store, ``name`` is that of the
    processor; ``options``: a ``Named`` and a ``Materialized`` beside the functions, as in Kafka.
    """

    def __init__(
        self,
        stream: "KStream",
        *,
        topic: str | None,
        windows: Windows | None = None,
        emit: str = ON_WINDOW_UPDATE,
    ) -> None:
        self.graph, self.stream, self.topic = stream.graph, stream, None if topic is None else check_name(topic)
        self.windows, self.emit = windows, emit

    @property
    def shape(self) -> Shape:
        """Serdes of the records, and the kind of window in their keys."""
        return self.stream.shape

    def windowed_by(self, windows: Windows) -> "KGroupedStream":
        """Aggregate by ``windows``: TimeWindows, SessionWindows, SlidingWindows or UnlimitedWindows. TopologyError for
        anything else, and when there are windows already.

        Source: ``KGroupedStream.windowedBy``.

            >>> show(clicks.group_by_key().windowed_by(TimeWindows.of_size("1m")).count())
            ann [0, 60000]: 1 at 0
            bob [0, 60000]: 1 at 1000
            ann [0, 60000]: 2 at 2000
            bob [60000, 120000]: 1 at 70000
        """
        windows = checked_windows(windows)
        if self.windows is not None:
            next_step = "begin again from the grouped stream"
            raise TopologyError("windowed_by", "a stream without windows", f"{self.windows}", next_step)
        return self._with(windows, ON_WINDOW_UPDATE)

    def emit_strategy(self, strategy: str) -> "KGroupedStream":
        """When results are forwarded. ``strategy``: "on_window_update" forwards every change of a window,
        "on_window_close" one result when it closes, at stream time >= its end + grace.

        TopologyError without windows; ConfigError for another strategy, and for unlimited windows, which never close.

        Source: ``TimeWindowedKStream.emitStrategy`` (KIP-825).

            >>> windowed = clicks.group_by_key().windowed_by(TimeWindows.of_size("1m"))
            >>> show(windowed.emit_strategy("on_window_close").count())
            ann [0, 60000]: 2 at 2000
            bob [0, 60000]: 1 at 1000
        """
        if self.windows is None:
            raise TopologyError("emit_strategy", "a windowed stream", "no windows", "use windowed_by() first")
        if not isinstance(strategy, str) or strategy not in _EMIT:
            raise ConfigError("emit_strategy", " or ".join(map(repr, _EMIT)), repr(strategy), "choose one")
        if strategy == ON_WINDOW_CLOSE and isinstance(self.windows, UnlimitedWindows):
            next_step = 'use "on_window_update"'
            raise ConfigError("emit_strategy", "windows that close", "unlimited windows", next_step)
        if strategy == ON_WINDOW_CLOSE and isinstance(self.windows, DayWindows | OwnWindows):
            expected = "windows of one length, by which Kafka Streams says when each closes"
            next_step = "use suppress(Suppressed.until_window_closes()), which goes by their ends"
            raise ConfigError("emit_strategy", expected, f"{self.windows}", next_step)
        return self._with(self.windows, strategy)

    def _with(self, windows: Windows, emit: str) -> "KGroupedStream":
        return KGroupedStream(self.stream, topic=self.topic, windows=windows, emit=emit)

    def count(
        self,
        materialized: Materialized | Named | None = None,
        *options: Named | Materialized,
        name: str | None = None,
    ) -> KTable:
        """Number of records of each key, or of each key and window, as a long.

        Source: ``KGroupedStream.count``.

            >>> show(clicks.group_by("page").count())
            home: 1 at 0
            home: 2 at 1000
            cart: 1 at 2000
            pay: 1 at 70000
        """
        check_materialized(materialized, name or "count", self.windows)
        if isinstance(materialized, Materialized) and materialized.name is None and self.windows is None:
            self.graph.next_name("KSTREAM-AGGREGATE-STATE-STORE-")  # a number that Kafka takes and never uses
        return self._aggregate({"": count()}, materialized, name, "AGGREGATE")

    def reduce(
        self,
        function: Callable[[Any, Any], Any],
        *options: Named | Materialized,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """Aggregate by ``function(aggregate, value)``, in Python; the first value of a key is its first aggregate.
        Null keys and null values are refused. TopologyError for a function of other parameters.

        Source: ``KGroupedStream.reduce``.

            >>> show(words.group_by_key().reduce(lambda aggregate, value: f"{aggregate} {value}"))
            k: to be at 0
            k: to be or not at 1
        """
        form_of(function, name or "reduce", REDUCER)
        return self._aggregate({"": reducer(function, self.shape.value)}, materialized, name, "REDUCE")

    @overload
    def aggregate(
        self,
        fold: Fold,
        *options: Named | Materialized,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable: ...

    @overload
    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Aggregator,
        merger: Aggregator | Named | Materialized | None = None,
        *options: Named | Materialized,
        returns: Serde,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable: ...

    @overload
    def aggregate(
        self,
        /,
        *options: Named | Materialized,
        materialized: Materialized | None = None,
        name: str | None = None,
        fields: Mapping[str, Fold] | None = None,
        **folds: Fold,
    ) -> KTable: ...

    def aggregate(  # type: ignore[misc]  # a fold may have the name of any option, in fields=
        self,
        /,
        *given: Any,
        fold: Fold | None = None,
        initializer: Callable[[], Any] | None = None,
        aggregator: Aggregator | None = None,
        merger: Aggregator | None = None,
        returns: Serde | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        fields: Mapping[str, Fold] | None = None,
        **folds: Fold,
    ) -> KTable:
        """Aggregate by one ``fold`` (a plain value), by named ``folds`` (a struct with a field each), or by Python
        functions. ``fields``: folds whose names are those of options.

        Python: ``initializer()``, ``aggregator(key, value, aggregate)``, for sessions ``merger(key, one, other)``, and
        ``returns``, the aggregate's serde. A result of None deletes the aggregate. ``given``: the fold, or the
        functions in this order, which is Kafka's. TopologyError for folds beside an aggregator, for an aggregator
        without initializer and serde, and for a merger without session windows.

        Source: ``KGroupedStream.aggregate``.

            >>> show(clicks.group_by_key().aggregate(clicks=fold.count(), longest=fold.max("seconds")))
            ann: {'clicks': 1, 'longest': 5} at 0
            bob: {'clicks': 1, 'longest': 1} at 1000
            ann: {'clicks': 2, 'longest': 9} at 2000
            bob: {'clicks': 2, 'longest': 2} at 70000
        """
        python: dict[str, Any] = {"initializer": initializer, "aggregator": aggregator, "merger": merger}
        options = {**python, "returns": returns, "materialized": materialized, "name": name}
        folds = named_fields("aggregate", folds, fields, options)
        place = name or "aggregate"
        python = {**functions_of(place, given, fold, python), "returns": returns}
        fold, aggregator = python.pop("fold"), python.pop("aggregator")
        if aggregator is not None:
            chosen: dict[str, Fold] = {"": self._python(aggregator, place, **python)}
        else:
            chosen = folds if fold is None else {"": fold}
        if (fold is not None) + bool(folds) + (aggregator is not None) > 1:
            next_step = "choose one" if fold is None else f"choose one; {as_field('fold')}"
            raise TopologyError(place, "a fold, named folds, or an aggregator", "more than one of them", next_step)
        left_over = [option for option, value in python.items() if value is not None and aggregator is None]
        if left_over:
            got, next_step = "none", f"give aggregator=, or leave {left_over[0]}= out"
            raise TopologyError(place, f"an aggregator beside {', '.join(left_over)}", got, next_step)
        return self._aggregate(chosen, materialized, name, "AGGREGATE")

    def distinct(
        self, id_selector: Step | None = None, *, returns: Serde | None = None, name: str | None = None
    ) -> "KStream":
        """The first record of every key, or of every id of a key, in each window (KIP-655's older proposal).
        ``id_selector``: a step that gives the id; a callable needs ``returns``, its serde.

        TopologyError without windows, or with others than time and session windows.

        Source: KIP-655, its older text.

            >>> show(clicks.group_by_key().windowed_by(TimeWindows.of_size("1m")).distinct().map_values("page"))
            ann [0, 60000]: home at 0
            bob [0, 60000]: home at 1000
            bob [60000, 120000]: pay at 70000
        """
        node_name = self.graph.name(name, "KSTREAM-DISTINCT-")
        if self.windows is None:
            raise TopologyError(node_name, "a windowed stream", "no windows", "use windowed_by() first")
        if not isinstance(self.windows, TimeWindows | DayWindows | SessionWindows):
            got, next_step = type(self.windows).__name__, "use TimeWindows or SessionWindows"
            raise TopologyError(node_name, "time or session windows", got, next_step)
        store = f"{name}-store" if name else self.graph.next_name("KSTREAM-DISTINCT-STATE-STORE-")
        above = by_key(self.stream, self.topic or store)
        selector = None if id_selector is None else bind_step(id_selector, self.shape, returns, node_name)
        node = DistinctNode(
            name=node_name,
            inputs=(above.name,),
            shape=replace(self.shape, window=self.windows.kind),
            store=store,
            windows=self.windows,
            id_selector=selector,
        )
        return followed(self.stream, node, is_rekeyed=False)

    def cogroup(self, aggregator: Aggregator) -> "cogrouped.CogroupedKStream":
        """Begin one aggregate of several grouped streams. ``aggregator(key, value, aggregate)`` is called for the
        records of this one.

        Source: ``KGroupedStream.cogroup`` (KIP-150).

            >>> def add(key, value, total):
            ...     return total + value["seconds"]
            >>> both = clicks.group_by_key().cogroup(add).cogroup(mobile.group_by_key(), add)
            >>> show(both.aggregate(lambda: 0, returns=Serde.long()))
            ann: 5 at 0
            cat: 3 at 500
            bob: 1 at 1000
            ann: 14 at 2000
            bob: 3 at 70000
        """
        return cogrouped.CogroupedKStream((cogrouped.member(self, aggregator),))

    def _python(
        self,
        aggregator: Aggregator,
        place: str,
        initializer: Callable[[], Any] | None,
        merger: Aggregator | None,
        returns: Serde | None,
    ) -> PythonFold:
        if initializer is None or returns is None:
            missing = [each for each, one in (("initializer", initializer), ("returns=", returns)) if one is None]
            got, next_step = f"no {' and no '.join(missing)}", "give aggregate(initializer, aggregator, returns=serde)"
            raise TopologyError(place, "initializer and returns beside the aggregator", got, next_step)
        form_of(aggregator, place, AGGREGATOR)
        merger = checked_merger(self.windows, merger, place)
        check_initializer(initializer, returns, place)
        fold = PythonFold(initializer, aggregator, returns)
        return fold if merger is None else replace(fold, merger=merger)

    def _aggregate(
        self, folds: dict[str, Fold], materialized: Materialized | Named | None, name: str | None, prefix: str
    ) -> KTable:
        graph, windows = self.graph, self.windows
        materialized = given_materialized(materialized, name or prefix.lower(), graph, windows)
        store = materialized.name or graph.next_name(f"KSTREAM-{prefix}-STATE-STORE-")
        name = graph.name(name, f"KSTREAM-{prefix}-")
        aggregation = Aggregation(folds, self.shape, name)
        check_merges(windows, folds.values(), name)
        retention_ms = 0 if windows is None else materialized.retention_ms(windows, name)
        node = AggregateNode(
            name=name,
            inputs=(by_key(self.stream, self.topic or store).name,),
            shape=Shape(self.shape.key, aggregation.serde(), None if windows is None else windows.kind),
            is_table=True,
            store=store,
            aggregation=aggregation,
            windows=windows,
            retention_ms=retention_ms,
            is_persistent=materialized.store != "in_memory",
            emit=_EMIT[self.emit],
            semantics=graph.semantics,
        )
        add_table(graph, node, store=materialized.spec(store), is_versioned=materialized.is_versioned)
        return KTable(graph, node)
