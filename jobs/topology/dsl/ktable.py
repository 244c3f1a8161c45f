"""A table: the newest value of every key, forwarded as changes (KTable).

Rule: whether a table has a store, sends the values that its changes replaced and is versioned is decided as Kafka does
(jobs/graph/table_traits.py).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ....state.errors import TopologyError
from ....state.serdes import Serde
from ...functions.call_arguments import checked_class
from ...functions.call_names import Hinting
from ...functions.expressions import Expressible, Shape
from ...functions.parameters import check_supplier
from ...graph.graph import Graph, Node
from ...graph.nodes import ToStreamNode
from ...graph.table_traits import add_table, send_old
from ...operators.processor.process_node import TransformValuesNode
from ...operators.suppress.suppress_node import SuppressNode, windows_and_wait
from ...operators.tables.table_nodes import TableFilterNode, TableGroupByNode, TableMapValuesNode
from ..call_options import Grouped, Named
from ..materialized import Materialized, check_materialized, check_store
from . import grouped_table, table_joins
from .step_arguments import (
    Step,
    ValueStep,
    bind_condition,
    bind_mapper,
    bind_step,
    check_serdes,
    mapped_fields,
    steps_of_pair,
    whole_value,
)
from .suppressed import Suppressed

if TYPE_CHECKING:
    from .kstream import KStream


@checked_class
class KTable(Hinting):
    """A table: the newest value of every key, forwarded as changes.

    Options of many calls:

    - ``name``: name of the processor; Kafka's generated one if not given.
    - ``returns``, ``returns_key``: serdes of the value and the key that a Python callable returns.
    - ``materialized``: with a name, the result is kept in a store of that name; without one, the store is versioned or
      not as it says, where there is a store at all.
    - ``options``: Kafka's objects for these (``Named``, ``Grouped``, ``Materialized`` and so on), beside the steps.

    ``graph``: the topology that is being built; ``node``: the table's node in it.
    """

    _stream_class: "ClassVar[type[KStream]]"
    """Of what ``to_stream`` gives. kstream.py sets it, since it imports this file."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node = graph, node

    @property
    def shape(self) -> Shape:
        """Serdes of its keys and values, and the kind of window in the keys."""
        return self.node.shape

    # --- steps -----------------------------------------------------------------------------------------------

    def filter(
        self,
        predicate: Step,
        *options: Named | Materialized,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> "KTable":
        """Keys whose value ``predicate`` is true of; the others are deleted.

        Source: ``KTable.filter``.

            >>> show(points.filter("value > 5"))
            ann: 10 at 0
            bob: 7 at 100
            ann: None at 5000
        """
        return self._filter(predicate, True, materialized, name)

    def filter_not(
        self,
        predicate: Step,
        *options: Named | Materialized,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> "KTable":
        """Keys whose value ``predicate`` is not true of; the others are deleted.

        Source: ``KTable.filterNot``.

            >>> show(users.filter_not("city = 'Rome'"))
            ann: {'name': 'Ann', 'city': 'Oslo'} at 0
            bob: None at 50
            ann: None at 3000
        """
        return self._filter(predicate, False, materialized, name)

    def _filter(self, predicate: Step, keeps: bool, materialized: Materialized | None, name: str | None) -> "KTable":
        self._take_a_number(materialized, "KTABLE-FILTER-")
        name = self.graph.name(name, "KTABLE-FILTER-")
        bound = bind_condition(predicate, self.shape, name)
        node = TableFilterNode(
            name=name, inputs=(self.node.name,), shape=self.shape, is_table=True, predicate=bound, keeps=keeps
        )
        table = self._step(node, materialized)
        if send_old(self.graph, self.node.name, force=False):  # so that what was not there is not deleted
            self.graph.tables[name].sends_old = True
        return table

    def map_values(
        self,
        /,
        *steps: ValueStep | Named | Materialized,
        returns: Serde | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        fields: Mapping[str, Expressible] | None = None,
        **columns: Expressible,
    ) -> "KTable":
        """New values by ``steps``, ``columns`` or ``fields``, as in ``KStream.map_values``. A deletion stays a
        deletion; no callable is called for it.

        Source: ``KTable.mapValues``.

            >>> show(users.map_values("upper(name) AS name", "city"))
            ann: {'name': 'ANN', 'city': 'Oslo'} at 0
            bob: {'name': 'BOB', 'city': 'Rome'} at 50
            ann: {'name': 'ANN', 'city': 'Rome'} at 3000
        """
        options = {"returns": returns, "materialized": materialized, "name": name}
        columns = mapped_fields(steps, columns, fields, options, self.shape)
        self._take_a_number(materialized, "KTABLE-MAPVALUES-")
        name = self.graph.name(name, "KTABLE-MAPVALUES-")
        mapper = bind_mapper(steps, columns, returns, self.shape, name)
        shape = Shape(self.shape.key, mapper.result, self.shape.window)
        node = TableMapValuesNode(name=name, inputs=(self.node.name,), shape=shape, is_table=True, mapper=mapper)
        return self._step(node, materialized)

    def transform_values(
        self,
        supplier: Callable[[], Any],
        *options: Named | Materialized,
        returns: Serde | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> "KTable":
        """New values by a Python transformer, a ValueTransformerWithKey, which is called for deletions, too, with None.

        ``supplier``: makes the transformer, once a task. ``returns``: serde of what it gives, that of this table's
        values if not given. TopologyError for a supplier that has parameters.

        Source: ``KTable.transformValues`` (KIP-149).

            >>> class Dated(ValueTransformerWithKey):
            ...     def transform(self, key, value):
            ...         return f"{value} at {self.context.timestamp_ms}"
            >>> show(points.transform_values(Dated, returns=STRING))
            ann: 10 at 0 at 0
            bob: 7 at 100 at 100
            ann: 4 at 5000 at 5000
        """
        name = self.graph.name(name, "KTABLE-TRANSFORMVALUES-")
        check_supplier(supplier, name, "init", "transform")
        check_serdes(name, returns=returns)
        shape = Shape(self.shape.key, returns or self.shape.value, self.shape.window)
        node = TransformValuesNode(name=name, inputs=(self.node.name,), shape=shape, is_table=True, supplier=supplier)
        return self._step(node, materialized)

    def _take_a_number(self, materialized: Materialized | None, prefix: str) -> None:
        check_materialized(materialized, prefix.strip("-"))
        if materialized is not None and materialized.name is None:
            self.graph.next_name(f"{prefix}STATE-STORE-")

    def _step(self, node: Node, materialized: Materialized | None) -> "KTable":
        """Any Materialized says whether the step is versioned; only one with a name gives it a store."""
        check_materialized(materialized, node.name)
        versioned = None if materialized is None else materialized.is_versioned
        store = None
        if materialized is not None and materialized.name is not None:
            check_store(self.shape, materialized, node.name)
            store = materialized.spec(materialized.name)
        add_table(self.graph, node, store=store, is_versioned=versioned)
        return KTable(self.graph, node)

    def to_stream(
        self,
        selector: Step | Named | None = None,
        *options: Named,
        returns: Serde | None = None,
        name: str | None = None,
    ) -> "KStream":
        """The table's changes as a stream; a deletion is a tombstone. With a ``selector`` under the keys that this step
        gives; a callable needs ``returns``, their serde.

        Source: ``KTable.toStream``.

            >>> show(users.to_stream("city").map_values("name"))
            Oslo: Ann at 0
            Rome: Bob at 50
            Rome: Ann at 3000
        """
        name = self.graph.name(name, "KTABLE-TOSTREAM-")
        node = ToStreamNode(name=name, inputs=(self.node.name,), shape=self.shape)
        changes = self._stream_class(self.graph, self.graph.add(node))
        if selector is None or isinstance(selector, Named):
            return changes
        return changes.select_key(selector, returns=returns)

    def to(self, topic: str) -> None:
        """Write the table's changes to the output ``topic``: ``to_stream().to(topic)``.

        Source: ``KTable.toStream().to``.

            >>> prices.filter("value < 5").to("cheap")
            >>> output("cheap")
            tea: 2.0 at 0
            mug: None at 500
            tea: 3.0 at 60000
        """
        self.to_stream().to(topic)

    def group_by(
        self,
        selector: Step,
        mapper: Step | Grouped | None = None,
        *options: Grouped,
        returns_key: Serde | None = None,
        returns: Serde | None = None,
        name: str | None = None,
    ) -> "grouped_table.KGroupedTable":
        """Group by the keys that the step ``selector`` gives; ``mapper`` gives the values, those of the table if there
        is none. With ``returns_key`` and ``returns``, ``selector`` alone may be a callable that gives (key, value), as
        Kafka's mapper does.

        A row whose new key or value is null is in no group. ``name``: of the step and of the repartition table.
        TopologyError for a ``mapper`` that is a mapping (select fields by ``map_values`` first), and for ``returns``
        beside an expression alone.

        Source: ``KTable.groupBy``.

            >>> show(users.group_by("city").count())
            Oslo: 1 at 0
            Rome: 1 at 50
            Oslo: 0 at 3000
            Rome: 2 at 3000
        """
        graph = self.graph
        node_name = graph.name(name, "KTABLE-SELECT-")
        check_serdes(node_name, returns_key=returns_key)
        if isinstance(mapper, Mapping):
            next_step = "select the fields first: table.map_values(fields={…}).group_by(selector)"
            raise TopologyError(node_name, "one step for the value, or none", repr(mapper), next_step)
        if mapper is None and returns is not None:
            selector, mapper = steps_of_pair(selector, node_name)
        key = bind_step(selector, self.shape, returns_key, node_name, option="returns_key")
        value = (
            whole_value(self.shape, node_name) if mapper is None else bind_step(mapper, self.shape, returns, node_name)
        )
        shape = Shape(key.result, self.shape.value if mapper is None else value.result)
        node = TableGroupByNode(name=node_name, inputs=(self.node.name,), shape=shape, selector=key, mapper=value)
        graph.add(node)
        send_old(graph, self.node.name, force=True)
        return grouped_table.KGroupedTable(self, node, topic=name)

    def suppress(self, suppressed: Suppressed) -> "KTable":
        """Hold changes back until their window closes, or for a time, as ``suppressed`` says.

        A result leaves when its window's end <= stream time - grace (sessions: - gap - grace), oldest window first.
        TopologyError on a versioned table, for anything but a Suppressed, and when it waits for windows on a table
        without them.

        Source: ``KTable.suppress`` (KIP-328).

            >>> counts = orders.group_by_key().windowed_by(TimeWindows.of_size("10s", grace="5s")).count()
            >>> show(counts.suppress(Suppressed.until_window_closes()))
            ann [0, 10000]: 1 at 1000
            bob [0, 10000]: 1 at 2000
        """
        graph = self.graph
        if not isinstance(suppressed, Suppressed):
            next_step = "use Suppressed.until_window_closes() or Suppressed.until_time_limit(wait)"
            raise TopologyError(f"suppress of {self.node.name}", "a Suppressed", repr(suppressed), next_step)
        if graph.tables[self.node.name].is_versioned:
            expected = "a table without versions to suppress (they may come from a table above)"
            next_step = "suppress before to_table(), or use a plain store"
            raise TopologyError(self.node.name, expected, "a versioned one", next_step)
        windows = None
        wait_ms = suppressed.wait_ms
        if suppressed.until == "window-closes":
            windows, wait_ms = windows_and_wait(graph, self.node)
        name = suppressed.name or graph.next_name("KTABLE-SUPPRESS-")
        store = f"{suppressed.name}-store" if suppressed.name else graph.next_name("KTABLE-SUPPRESS-STATE-STORE-")
        node = SuppressNode(
            name=name,
            inputs=(self.node.name,),
            shape=self.shape,
            is_table=True,
            store=store,
            until=suppressed.until,
            wait_ms=wait_ms,
            windows=windows,
            max_records=suppressed.buffer.records_max,
            max_bytes=suppressed.buffer.bytes_max,
            when_full=suppressed.buffer.when_full,
        )
        send_old(graph, self.node.name, force=True)
        add_table(graph, node, is_versioned=False)
        return KTable(graph, node)

    # --- joins -----------------------------------------------------------------------------------------------

    join, left_join, outer_join = table_joins.inner, table_joins.left, table_joins.outer


@checked_class
class GlobalKTable(Hinting):
    """A table that every task holds whole (Kafka's GlobalKTable); only streams can be joined with it.

    ``graph``: the topology that is being built; ``node``: the table's node in it.
    """

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node = graph, node

    @property
    def shape(self) -> Shape:
        """Serdes of its keys and values."""
        return self.node.shape
