"""One aggregate of several grouped streams (CogroupedKStream; KIP-150)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....state.errors import TopologyError
from ....state.serdes import Serde
from ...functions.call_arguments import checked_class
from ...functions.call_names import Hinting
from ...functions.expressions import Shape
from ...functions.folds.python import Aggregator
from ...functions.parameters import AGGREGATOR, form_of
from ...graph.copartitioning import copartition
from ...graph.table_traits import add_table
from ...graph.windows import Windows
from ...operators.aggregates.aggregate_nodes import CogroupNode
from ..call_options import Named
from ..materialized import Materialized, given_materialized
from .ktable import KTable
from .rekeying import by_key
from .step_arguments import check_initializer, check_one_builder, checked_merger, checked_windows, same_keys

if TYPE_CHECKING:
    from .grouped import KGroupedStream

_PREFIX = "COGROUPKSTREAM-AGGREGATE-"


@checked_class
class CogroupedKStream(Hinting):
    """Grouped streams with an aggregator each, as ``KGroupedStream.cogroup`` returns them. Every stream has a stream
    time of its own, as in Kafka. ``members``: (stream, aggregator) pairs; ``windows``: None, or those of the aggregate.
    """

    def __init__(
        self,
        members: "tuple[tuple[KGroupedStream, Aggregator], ...]",
        windows: Windows | None = None,
    ) -> None:
        self._members, self._windows = members, windows

    def cogroup(self, stream: "KGroupedStream", aggregator: Aggregator) -> "CogroupedKStream":
        """One more stream, with ``aggregator(key, value, aggregate)`` of its records. TopologyError for keys of another
        serde, and for a stream that has windows already.

        Source: ``CogroupedKStream.cogroup`` (KIP-150).

            >>> ordered = orders.group_by_key().cogroup(lambda key, order, seen: seen + order["item"][0])
            >>> both = ordered.cogroup(payments.group_by_key(), lambda key, paid, seen: seen + paid[0].upper())
            >>> show(both.aggregate(lambda: "", returns=STRING))
            ann: t at 1000
            ann: tC at 1500
            bob: m at 2000
            ann: tCt at 61000
            bob: mC at 90000
        """
        first, _ = self._members[0]
        if not isinstance(stream, type(first)):
            got, next_step = type(stream).__name__, "use group_by_key() or group_by() first"
            raise TopologyError("cogroup", "a grouped stream", got, next_step)
        added = member(stream, aggregator)
        check_one_builder(first.graph, stream.graph, "cogroup")
        same_keys(first.shape, stream.shape, "cogroup")
        return CogroupedKStream((*self._members, added), self._windows)

    def windowed_by(self, windows: Windows) -> "CogroupedKStream":
        """Aggregate by ``windows``: TimeWindows, SessionWindows, SlidingWindows or UnlimitedWindows. TopologyError for
        anything else.

        Source: ``CogroupedKStream.windowedBy``.

            >>> ordered = orders.group_by_key().cogroup(lambda key, order, amount: amount + order["amount"])
            >>> show(ordered.windowed_by(TimeWindows.of_size("1m")).aggregate(lambda: 0, returns=Serde.long()))
            ann [0, 60000]: 5 at 1000
            bob [0, 60000]: 1 at 2000
            ann [60000, 120000]: 2 at 61000
        """
        return CogroupedKStream(self._members, checked_windows(windows))

    def aggregate(
        self,
        initializer: Callable[[], Any],
        merger: Aggregator | Named | Materialized | None = None,
        *options: Named | Materialized,
        returns: Serde,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """The table of aggregates. ``initializer()`` gives the first aggregate of a key, ``returns`` is its serde;
        session windows need ``merger(key, one, other)``. An aggregator that returns None deletes the aggregate.

        ``materialized``: name, kind and retention of the store; ``name``: of the processor; ``options``: a ``Named``
        and a ``Materialized`` beside the functions. TopologyError for a merger without session windows, and for none
        with them.

        Source: ``CogroupedKStream.aggregate``.

            >>> counted = payments.group_by_key().cogroup(lambda key, paid, number: number + 1)
            >>> show(counted.aggregate(lambda: 0, returns=Serde.long()))
            ann: 1 at 1500
            bob: 1 at 90000
        """
        first, _ = self._members[0]
        graph, windows = first.graph, self._windows
        materialized = given_materialized(materialized, name or "cogroup", graph, windows)
        store = materialized.name or graph.next_name(f"{_PREFIX}STATE-STORE-")
        place = name or "cogroup"
        merger = checked_merger(windows, merger, place)
        check_initializer(initializer, returns, place)
        above = [by_key(member.stream, member.topic or store) for member, _ in self._members]
        copartition(graph, *(node.name for node in above))
        parts = tuple(graph.name(name, _PREFIX, f"-cogroup-agg-{number}") for number in range(len(above)))
        node = CogroupNode(
            name=graph.name(name, "COGROUPKSTREAM-MERGE-", "-cogroup-merge"),
            inputs=tuple(node.name for node in above),
            shape=Shape(first.shape.key, returns, None if windows is None else windows.kind),
            is_table=True,
            store=store,
            initializer=initializer,
            aggregators=tuple(aggregator for _, aggregator in self._members),
            merger=merger,
            windows=windows,
            retention_ms=0 if windows is None else materialized.retention_ms(windows, place),
            is_persistent=materialized.store != "in_memory",
            semantics=graph.semantics,
        )
        graph.parts[node.name] = parts
        add_table(graph, node, store=materialized.spec(store), is_versioned=materialized.is_versioned)
        return KTable(graph, node)


def member(stream: "KGroupedStream", aggregator: Aggregator) -> "tuple[KGroupedStream, Aggregator]":
    """Raises TopologyError for an aggregator of other parameters, and for a stream that has windows."""
    form_of(aggregator, "cogroup", AGGREGATOR)
    if stream.windows is not None:
        raise TopologyError("cogroup", "a stream without windows", "a windowed one", "use windowed_by() after it")
    return stream, aggregator
