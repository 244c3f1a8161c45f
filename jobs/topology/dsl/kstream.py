"""A stream of records (KStream): steps without state, and where the stateful ones begin.

Rule: every call checks itself and raises TopologyError or ConfigError at once; nothing runs.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import polars as pl

from ....state.errors import TopologyError
from ....state.serdes import Serde
from ....state.times import Duration
from ...functions.call_arguments import checked_class
from ...functions.call_names import Hinting
from ...functions.expressions import Expressible, Shape
from ...functions.parameters import NOTHING, form_of, of_key_and_value
from ...functions.printed import Printed
from ...functions.processor_api import KeyValues
from ...graph.graph import Graph, Node
from ...graph.name_rules import check_name, check_table_name, check_topic
from ...graph.nodes import SinkNode
from ...graph.repartition import repartitioned
from ...graph.table_traits import add_table
from ...operators.processor.given_stores import given_stores
from ...operators.processor.process_node import ProcessNode, ProcessValuesNode
from ...operators.stateless_nodes import (
    FilterNode,
    FlatMapNode,
    MapNode,
    MapValuesNode,
    MergeNode,
    PeekNode,
    SelectKeyNode,
)
from ...operators.tables.table_nodes import TableNode
from . import branched, grouped, ktable, stream_joins
from . import deduplicate as deduplication
from .materialized import Materialized, given_materialized
from .rekeying import by_key, followed
from .step_arguments import (
    Step,
    ValueStep,
    bind_condition,
    bind_mapper,
    bind_step,
    both_serdes,
    check_one_builder,
    check_serdes,
    mapped_fields,
    on_error_of,
    plain_key,
)


@checked_class
class KStream(Hinting):
    """A stream of records.

    ``is_rekeyed``: its key changed, so what needs equal keys in one partition comes after a repartition.
    ``is_scattered``: likewise, but Kafka Streams would not know it. ``name``: of Kafka's processor, after which
    repartition tables are named.
    """

    def __init__(
        self,
        graph: Graph,
        node: Node,
        *,
        is_rekeyed: bool = False,
        is_scattered: bool = False,
        name: str | None = None,
    ) -> None:
        self.graph, self.node, self.is_rekeyed, self.is_scattered = graph, node, is_rekeyed, is_scattered
        self.name = name or node.name
        self.repartition_for_joins: Node | None = None

    @property
    def shape(self) -> Shape:
        return self.node.shape

    # --- steps without state ---------------------------------------------------------------------------------

    def filter(self, predicate: Step, *, name: str | None = None, on_error: str = "stop") -> "KStream":
        """Records for which ``predicate`` is true; null is not true.

        ``on_error``, of all steps: a record on which the step fails ends the run ("stop"), or becomes a dead letter
        with what the step said ("dead_letter"); only of a step that records reach straight from a topic or repartition.
        """
        return self._filter(predicate, keeps=True, name=name, on_error=on_error)

    def filter_not(self, predicate: Step, *, name: str | None = None, on_error: str = "stop") -> "KStream":
        """Records for which ``predicate`` is not true."""
        return self._filter(predicate, keeps=False, name=name, on_error=on_error)

    def _filter(self, predicate: Step, *, keeps: bool, name: str | None, on_error: str) -> "KStream":
        name = self.graph.name(name, "KSTREAM-FILTER-")
        on_error_of(self.graph, name, self.node, on_error)
        bound = bind_condition(predicate, self.shape, name)
        return followed(
            self, FilterNode(name=name, inputs=(self.node.name,), shape=self.shape, predicate=bound, keeps=keeps)
        )

    def map_values(
        self,
        /,
        *steps: ValueStep,
        returns: Serde | None = None,
        name: str | None = None,
        on_error: str = "stop",
        fields: Mapping[str, Expressible] | None = None,
        **columns: Expressible,
    ) -> "KStream":
        """New values. One step gives a plain value; several, or named ones, the fields of a struct. ``fields``: named
        ones too, also such as are called ``name`` or ``returns``.

        Expressions map a tombstone to a tombstone; a callable, of (key, value) or of (value), is called with None.
        """
        options = {"returns": returns, "name": name, "on_error": on_error}
        columns = mapped_fields(steps, columns, fields, options, self.shape)
        name = self.graph.name(name, "KSTREAM-MAPVALUES-")
        on_error_of(self.graph, name, self.node, on_error, may_be_field=True)
        mapper = bind_mapper(steps, columns, returns, self.shape, name)
        shape = Shape(self.shape.key, mapper.result, self.shape.window)
        return followed(self, MapValuesNode(name=name, inputs=(self.node.name,), shape=shape, mapper=mapper))

    def map(
        self,
        function: Step,
        mapper: Step | None = None,
        *,
        returns_key: Serde | None = None,
        returns: Serde | None = None,
        name: str | None = None,
        on_error: str = "stop",
    ) -> "KStream":
        """New keys and values: a step for each, or one callable of (key, value) that gives a (key, value)."""
        name = self.graph.name(name, "KSTREAM-MAP-")
        on_error_of(self.graph, name, self.node, on_error)
        if mapper is None:
            if isinstance(function, str | pl.Expr):
                raise TopologyError(name, "a step for the key and one for the value", "one", "give both")
            of_key_and_value(function, name)
            return self._flat_map(_One(function), returns_key, returns, name)
        check_serdes(name, returns_key=returns_key)
        key = bind_step(function, self.shape, returns_key, name, option="returns_key")
        value = bind_step(mapper, self.shape, returns, name)
        shape = Shape(key.result, value.result)
        return followed(
            self, MapNode(name=name, inputs=(self.node.name,), shape=shape, selector=key, mapper=value), is_rekeyed=True
        )

    def select_key(
        self, selector: Step, *, returns: Serde | None = None, name: str | None = None, on_error: str = "stop"
    ) -> "KStream":
        """New keys; a grouping after it goes through a repartition table."""
        name = self.graph.name(name, "KSTREAM-KEY-SELECT-")
        on_error_of(self.graph, name, self.node, on_error)
        bound = bind_step(selector, self.shape, returns, name)
        shape = Shape(bound.result, self.shape.value)
        node = SelectKeyNode(name=name, inputs=(self.node.name,), shape=shape, selector=bound)
        return followed(self, node, is_rekeyed=True)

    def flat_map(
        self,
        function: Callable[[Any, Any], Iterable[tuple[Any, Any]]],
        *,
        returns_key: Serde | None = None,
        returns: Serde | None = None,
        name: str | None = None,
        on_error: str = "stop",
    ) -> "KStream":
        """Any number of (key, value) for each record, forwarded in their order."""
        name = self.graph.name(name, "KSTREAM-FLATMAP-")
        on_error_of(self.graph, name, self.node, on_error)
        return self._flat_map(function, returns_key, returns, name)

    def _flat_map(
        self, function: Callable[[Any, Any], Any], returns_key: Serde | None, returns: Serde | None, name: str
    ) -> "KStream":
        of_key_and_value(function, name)
        shape = Shape(*both_serdes(name, returns_key, returns))
        node = FlatMapNode(name=name, inputs=(self.node.name,), shape=shape, function=function, keeps_key=False)
        return followed(self, node, is_rekeyed=True)

    def flat_map_values(
        self,
        function: Callable[..., Iterable[Any]],
        *,
        returns: Serde | None = None,
        name: str | None = None,
        on_error: str = "stop",
    ) -> "KStream":
        """Any number of values for each record, forwarded in their order under its key; ``function`` is of (key, value)
        or of (value).
        """
        name = self.graph.name(name, "KSTREAM-FLATMAPVALUES-")
        on_error_of(self.graph, name, self.node, on_error)
        called = of_key_and_value(function, name, may_take_value=True)
        if returns is None:
            raise TopologyError(name, "returns= beside a Python callable", "none", "give the serde of the result")
        check_serdes(name, returns=returns)
        shape = Shape(self.shape.key, returns, self.shape.window)
        return followed(
            self, FlatMapNode(name=name, inputs=(self.node.name,), shape=shape, function=called, keeps_key=True)
        )

    def peek(self, function: Callable[[Any, Any], None], *, name: str | None = None) -> "KStream":
        """``function(key, value)`` is called for every record, which goes on unchanged.

        An increment that dies is run again, and then so are these calls.
        """
        return self._peek(function, self.graph.name(name, "KSTREAM-PEEK-"))

    def foreach(self, function: Callable[[Any, Any], None], *, name: str | None = None) -> None:
        """``function(key, value)`` is called for every record, which ends here."""
        self._peek(function, self.graph.name(name, "KSTREAM-FOREACH-"))

    def print(self, printed: Printed) -> None:
        """A line for every record, which ends here. TopologyError for anything but a Printed."""
        if not isinstance(printed, Printed):
            next_step = "use for example Printed.to_sys_out()"
            raise TopologyError("print", "a Printed, which says where to", repr(printed), next_step)
        self._peek(printed.printer(self.name), self.graph.name(printed.name, "KSTREAM-PRINTER-"))

    def _peek(self, function: Callable[[Any, Any], None], name: str) -> "KStream":
        of_key_and_value(function, name)
        return followed(self, PeekNode(name=name, inputs=(self.node.name,), shape=self.shape, function=function))

    def merge(self, other: "KStream", *, name: str | None = None) -> "KStream":
        """Records of both streams, each as it comes. TopologyError when their serdes differ."""
        name = self.graph.name(name, "KSTREAM-MERGE-")
        if not isinstance(other, KStream):
            raise TopologyError(name, "a stream", type(other).__name__, "merge a stream (to_stream() of a table)")
        if other.shape != self.shape:
            next_step = "map them to the same"
            raise TopologyError(name, f"records of {_said(self.shape)}", _said(other.shape), next_step)
        check_one_builder(self.graph, other.graph, name)
        inputs = tuple(dict.fromkeys((self.node.name, other.node.name)))  # a stream merged with itself is itself
        node = MergeNode(name=name, inputs=inputs, shape=self.shape)
        self.graph.add(node)
        is_rekeyed, is_scattered = self.is_rekeyed or other.is_rekeyed, self.is_scattered or other.is_scattered
        return KStream(self.graph, node, is_rekeyed=is_rekeyed, is_scattered=is_scattered)

    def split(self, *, name: str | None = None) -> "branched.BranchedKStream":
        """Branches, each with the records that its predicate is the first to say yes to."""
        return branched.BranchedKStream(self, name)

    def process(
        self,
        supplier: Callable[[], Any],
        stores: Iterable[KeyValues | str] = (),
        *,
        returns_key: Serde | None = None,
        returns: Serde | None = None,
        name: str | None = None,
    ) -> "KStream":
        """A Python processor, record by record (jobs/functions/processor_api.py).

        ``stores``: a list of its key-value stores. One name is one store: that of a processor, table or global table
        above, or of ``add_state_store``, is shared with it, and the task then runs record by record; a mere name that
        nobody has means a store of this stream's key and value types. TopologyError for a store of other types than
        the one of that name, and for the store of a table with windows or versions.
        ``returns_key`` and ``returns``: serdes of what it forwards, those of its input if not given.
        Source: KStream.process, InternalTopologyBuilder.connectProcessorAndStateStores.
        """
        name = self.graph.name(name, "KSTREAM-PROCESSOR-")
        check_serdes(name, returns_key=returns_key, returns=returns)
        shape = Shape(returns_key or self.shape.key, returns or self.shape.value)
        node = ProcessNode(shape=shape, **self._processor(supplier, stores, name))
        return followed(self, node, is_rekeyed=True)

    def process_values(
        self,
        supplier: Callable[[], Any],
        stores: Iterable[KeyValues | str] = (),
        *,
        returns: Serde | None = None,
        name: str | None = None,
    ) -> "KStream":
        """A Python processor that keeps keys, windowed ones too: what is grouped or joined below needs no repartition.

        ``supplier``: of FixedKeyProcessor (jobs/functions/processor_api.py), whose records have no ``with_key``.
        ``stores``: as of ``process``. ``returns``: serde of the values that it forwards, that of its input by default.
        Example: ``clicks.process_values(Numbered, [KeyValues("seen", Serde.string(), Serde.long())])``.
        Source: KStream.processValues (KIP-820).
        """
        name = self.graph.name(name, "KSTREAM-PROCESSVALUES-")
        check_serdes(name, returns=returns)
        shape = Shape(self.shape.key, returns or self.shape.value, self.shape.window)
        return followed(self, ProcessValuesNode(shape=shape, **self._processor(supplier, stores, name)))

    def _processor(self, supplier: Callable[[], Any], stores: Any, name: str) -> dict[str, Any]:
        """What nodes of processors have in common."""
        form_of(supplier, name, NOTHING)
        given = given_stores(self.graph, stores, self.shape, name)
        kept = {"store": f"{name}-stores", "stores": given.stores, "shared": given.shared, "tables": given.tables}
        return {"name": name, "inputs": (self.node.name,), "supplier": supplier} | kept

    def repartition(self, *, name: str | None = None, partitions: int | None = None) -> "KStream":
        """The same records through a repartition table. TopologyError for a windowed key and fewer than 1 partition."""
        name = self.graph.next_name("KSTREAM-REPARTITION-") if name is None else check_name(name)
        plain_key(self.shape, self.node.name, "repartition by")
        if partitions is not None and (type(partitions) is not int or partitions < 1):
            raise TopologyError(name, "1 partition or more", repr(partitions), "correct the number")
        return KStream(self.graph, repartitioned(self.graph, self.node, name, partitions=partitions))

    # --- grouping, tables and outputs ------------------------------------------------------------------------

    def group_by_key(self, *, name: str | None = None) -> "grouped.KGroupedStream":
        """Group by the key as it is; ``name``: of the repartition table. TopologyError for a windowed key: select a
        plain one first.
        """
        plain_key(self.shape, self.node.name, "group by")
        return grouped.KGroupedStream(self, topic=name)

    def group_by(
        self, selector: Step, *, returns: Serde | None = None, name: str | None = None
    ) -> "grouped.KGroupedStream":
        """``select_key`` and ``group_by_key``; both get the ``name``."""
        return self.select_key(selector, returns=returns, name=name).group_by_key(name=name)

    def to_table(self, *, materialized: Materialized | None = None, name: str | None = None) -> "ktable.KTable":
        """The stream as a table: a null value deletes its key, a null key is dropped."""
        name = self.graph.name(name, "KSTREAM-TOTABLE-")
        plain_key(self.shape, name, "make a table of")
        materialized = given_materialized(materialized, name)
        store = materialized.name or self.graph.next_name("KSTREAM-TOTABLE-STATE-STORE-")
        above = by_key(self, name)
        spec = materialized.spec(store)
        node = TableNode(name=name, inputs=(above.name,), shape=self.shape, is_table=True)
        add_table(
            self.graph,
            node,
            store=None if materialized.name is None else spec,
            on_demand=spec,
            is_versioned=materialized.is_versioned,
        )
        return ktable.KTable(self.graph, node)

    def to(self, topic: str, *, name: str | None = None) -> None:
        """Write to the output ``topic``. TopologyError for ``dropped`` and ``dead_letter``: every pipeline has them."""
        check_topic("to()", topic, "split() the stream, and write each branch to() an output of its own")
        check_table_name("output", topic)
        name = self.graph.name(name, "KSTREAM-SINK-")
        self.graph.add(SinkNode(name=name, inputs=(self.node.name,), shape=self.shape, topic=topic))

    # --- joins -----------------------------------------------------------------------------------------------

    join, left_join, outer_join = stream_joins.inner, stream_joins.left, stream_joins.outer

    # --- deduplication ---------------------------------------------------------------------------------------

    def deduplicate_by_key(self, interval: Duration, *, name: str | None = None) -> "KStream":
        """The first record of every key within ``interval``, closed on both sides; null keys go on (KIP-655)."""
        return deduplication.by_key(self, interval, name)

    def deduplicate_by_key_value(
        self, id_selector: Step, interval: Duration, *, returns: Serde | None = None, name: str | None = None
    ) -> "KStream":
        """The first record of every key and id within ``interval``; records without either go on (KIP-655)."""
        return deduplication.by_key_value(self, id_selector, interval, returns, name)

    def deduplicate(
        self, id_selector: Step, interval: Duration, *, returns: Serde | None = None, name: str | None = None
    ) -> "KStream":
        """The first record of every id within ``interval``, whatever its key; records without an id go on (KIP-655).

        The records go through a repartition table by id and keep their keys.
        """
        return deduplication.by_id(self, id_selector, interval, returns, name)

    def reorder_within(self, grace: Duration, *, name: str | None = None) -> "KStream":
        """Records wait until stream time has passed them by ``grace``, then go on by time."""
        return deduplication.reorder_within(self, grace, name)


class _One:
    """A function that gives one pair, as one that gives a list of them."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def __call__(self, key: Any, value: Any) -> list[Any]:
        return [self.function(key, value)]


def _said(shape: Shape) -> str:
    windowed = "" if shape.window is None else f", windowed ({shape.window})"
    return f"{shape.key} and {shape.value}{windowed}"
