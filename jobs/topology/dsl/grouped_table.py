"""A table grouped again (KGroupedTable): every change takes the old value out of its group and adds the new one."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, overload

from ....state.errors import TopologyError
from ....state.serdes import Serde
from ...functions.call_arguments import checked_class
from ...functions.call_names import Hinting
from ...functions.expressions import Shape
from ...functions.folds.aggregation import Aggregation
from ...functions.folds.fold import Fold
from ...functions.folds.python import Aggregator
from ...functions.parameters import AGGREGATOR, REDUCER, form_of
from ...graph.graph import Node
from ...graph.repartition import add_repartition, found_repartition
from ...graph.table_traits import add_table
from ...operators.table_aggregates.table_aggregate_node import TableAggregateNode
from ...operators.table_aggregates.table_fold_node import TableFoldNode
from ..call_options import Named
from ..materialized import Materialized, given_materialized
from .step_arguments import as_field, check_initializer, functions_of, named_fields

if TYPE_CHECKING:
    from .ktable import KTable

Reducer = Callable[[Any, Any], Any]
"""(aggregate, value) -> aggregate."""


@checked_class
class KGroupedTable(Hinting):
    """A table grouped by new keys, as ``KTable.group_by`` returns it.

    ``node``: groups the changes of ``table``. ``topic``: what the repartition table is named after, if it has a name of
    its own. Options of the aggregations: ``materialized`` has name and kind of the store, ``name`` is that of the
    processor; ``options``: a ``Named`` and a ``Materialized`` beside the functions, as in Kafka.
    """

    def __init__(self, table: "KTable", node: Node, *, topic: str | None) -> None:
        self.graph, self.table, self.node, self.topic = table.graph, table, node, topic

    @property
    def shape(self) -> Shape:
        """Serdes of the groups' keys and of the values in them."""
        return self.node.shape

    def count(
        self,
        materialized: Materialized | Named | None = None,
        *options: Named | Materialized,
        name: str | None = None,
    ) -> "KTable":
        """Number of keys in every group, as a long; a group that is empty again stays, with 0.

        Source: ``KGroupedTable.count``.

            >>> show(users.group_by("city").count())
            Oslo: 1 at 0
            Rome: 1 at 50
            Oslo: 0 at 3000
            Rome: 2 at 3000
        """
        return self._aggregate("AGGREGATE", Serde.long(), materialized, name, function="count")

    def sum(
        self, *options: Named | Materialized, materialized: Materialized | None = None, name: str | None = None
    ) -> "KTable":
        """Sum of the values, which must be longs, else TopologyError.

        Source: a ``KGroupedTable.reduce`` of longs.

            >>> show(points.group_by("'all'").sum())
            all: 10 at 0
            all: 17 at 100
            all: 11 at 5000
        """
        if self.shape.value != Serde.long():
            next_step = "give group_by() a mapper to a long"
            raise TopologyError(name or self.node.name, "longs to sum", f"{self.shape.value}", next_step)
        return self._aggregate("AGGREGATE", Serde.long(), materialized, name, function="sum")

    def reduce(
        self,
        adder: Reducer,
        subtractor: Reducer,
        *options: Named | Materialized,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> "KTable":
        """``adder(aggregate, value)``, ``subtractor(aggregate, value)``; the first value is the aggregate as it is.

        The subtractor may get a value that was never added (see ``aggregate``).

        Source: ``KGroupedTable.reduce``.

            >>> show(points.group_by("'all'").reduce(lambda total, new: total + new, lambda total, old: total - old))
            all: 10 at 0
            all: 17 at 100
            all: 11 at 5000
        """
        for function in (adder, subtractor):
            form_of(function, name or "reduce", REDUCER)
        return self._aggregate(
            "REDUCE",
            self.shape.value,
            materialized,
            name,
            adder=WithoutKey(adder),
            subtractor=WithoutKey(subtractor),
        )

    @overload
    def aggregate(
        self,
        fold: Fold,
        *options: Named | Materialized,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> "KTable": ...

    @overload
    def aggregate(
        self,
        initializer: Callable[[], Any],
        adder: Aggregator,
        subtractor: Aggregator,
        *options: Named | Materialized,
        returns: Serde,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> "KTable": ...

    @overload
    def aggregate(
        self,
        /,
        *options: Named | Materialized,
        materialized: Materialized | None = None,
        name: str | None = None,
        fields: Mapping[str, Fold] | None = None,
        **folds: Fold,
    ) -> "KTable": ...

    def aggregate(  # type: ignore[misc]  # a fold may have the name of any option, in fields=
        self,
        /,
        *given: Any,
        fold: Fold | None = None,
        initializer: Callable[[], Any] | None = None,
        adder: Aggregator | None = None,
        subtractor: Aggregator | None = None,
        returns: Serde | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        fields: Mapping[str, Fold] | None = None,
        **folds: Fold,
    ) -> "KTable":
        """Aggregate each group: by one fold (a plain value), by named folds (a struct), or by Python functions.

        A change takes its old value out of its group first, then adds the new one. Folds must be able to take values
        back; ``first``, ``last``, ``earliest`` and ``latest`` are refused (TopologyError). ``min``, ``max``, ``top``,
        ``collect`` and ``count_distinct`` keep every value, in order of adding. ``fields`` takes folds whose names are
        options of this call. Python: ``initializer()``, ``adder(key, value, aggregate)``, ``subtractor(...)`` and
        ``returns``, the aggregate's serde; None deletes the group. ``given``: the fold, or the functions in this order,
        which is Kafka's. docs/topologies.md has the limits.

        Source: ``KGroupedTable.aggregate``.

            >>> show(users.group_by("city").aggregate(people=fold.count(), names=fold.collect("name")))
            Oslo: {'people': 1, 'names': ['Ann']} at 0
            Rome: {'people': 1, 'names': ['Bob']} at 50
            Oslo: {'people': 0, 'names': []} at 3000
            Rome: {'people': 2, 'names': ['Bob', 'Ann']} at 3000
        """
        place = name or "aggregate"
        python: dict[str, Any] = {"initializer": initializer, "adder": adder, "subtractor": subtractor}
        options = {**python, "returns": returns, "materialized": materialized, "name": name}
        folds = named_fields("aggregate", folds, fields, options)
        python = {**functions_of(place, given, fold, python), "returns": returns}
        fold = python.pop("fold")
        missing = [option for option, value in python.items() if value is None]
        if fold is not None or folds:
            if len(missing) < len(python) or (fold is not None and folds):
                next_step = "choose one" if fold is None else f"choose one; {as_field('fold')}"
                expected = "a fold, named folds, or an adder and a subtractor"
                raise TopologyError(place, expected, "more than one of them", next_step)
            return self._fold(folds if fold is None else {"": fold}, materialized, name)
        if missing or returns is None:
            got, next_step = (
                f"no {', '.join(f'{one}=' for one in missing)}",
                "give them, or folds such as n=fold.count()",
            )
            raise TopologyError(place, "initializer=, adder=, subtractor= and returns=", got, next_step)
        del python["returns"]
        for function in (python["adder"], python["subtractor"]):
            form_of(function, place, AGGREGATOR)
        check_initializer(python["initializer"], returns, place)
        return self._aggregate("AGGREGATE", returns, materialized, name, **python)

    def _fold(self, folds: Mapping[str, Fold], materialized: Materialized | None, name: str | None) -> "KTable":
        place = name or "aggregate"
        aggregation = Aggregation(folds, self.shape, place)
        returns, saved = aggregation.serde(), aggregation.start_taking().saved_type
        if materialized is not None and materialized.is_versioned and saved != returns.arrow_type:
            expected = "folds whose value is all that they know, in a versioned store: count, count_if, sum, collect"
            next_step = "use a plain store, or initializer=, adder=, subtractor="
            raise TopologyError(place, expected, ", ".join(map(repr, folds)), next_step)
        return self._made(
            "AGGREGATE", returns, materialized, name, lambda **given: TableFoldNode(aggregation=aggregation, **given)
        )

    def _aggregate(
        self, prefix: str, returns: Serde, materialized: Materialized | Named | None, name: str | None, **functions: Any
    ) -> "KTable":
        return self._made(prefix, returns, materialized, name, lambda **given: TableAggregateNode(**functions, **given))

    def _made(
        self,
        prefix: str,
        returns: Serde,
        materialized: Materialized | Named | None,
        name: str | None,
        make: Callable[..., Node],
    ) -> "KTable":
        """The table of the node that ``make`` makes of what any node is given."""
        graph = self.graph
        materialized = given_materialized(materialized, name or prefix.lower(), self.graph)
        store = materialized.name or graph.next_name("KTABLE-AGGREGATE-STATE-STORE-")
        sink = graph.name(name, "KSTREAM-SINK-", "-sink")
        source = graph.name(name, "KSTREAM-SOURCE-", "-source")
        node_name = graph.name(name, f"KTABLE-{prefix}-")
        above = self._repartitioned(f"{self.topic or store}-repartition", sink, source)
        made = make(
            name=node_name,
            inputs=(above.name,),
            shape=Shape(self.shape.key, returns),
            is_table=True,
        )
        add_table(graph, made, store=materialized.spec(store), is_versioned=materialized.is_versioned)
        return type(self.table)(graph, made)

    def _repartitioned(self, topic: str, sink: str, source: str) -> Node:
        existing = found_repartition(self.graph, self.node, topic)
        if existing is not None:
            return existing
        return add_repartition(self.graph, self.node, topic, sink=sink, source=source, carries_change=True)


class WithoutKey:
    """A reducer called as an aggregator is."""

    def __init__(self, reducer: Reducer) -> None:
        self.reducer = reducer

    def __call__(self, key: Any, value: Any, aggregate: Any) -> Any:
        return self.reducer(aggregate, value)
