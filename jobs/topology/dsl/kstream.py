"""A stream of records (KStream): steps without state, and where the stateful ones begin.

Rule: every call checks itself and raises TopologyError or ConfigError at once; nothing runs.
"""

import re
from collections.abc import Collection, Mapping

import polars as pl

from ....state.errors import TopologyError
from ....state.serdes import Serde
from ...functions.call_arguments import checked_class
from ...functions.call_names import Hinting
from ...functions.expressions import Expressible, Shape
from ...functions.parameters import of_key_and_value
from ...graph.graph import Graph, Node
from ...graph.name_rules import check_name, check_table_name, check_topic
from ...graph.nodes import Partitioner, sink_node
from ...graph.repartition import check_partitions, partition_by, repartitioned
from ...graph.table_traits import add_table
from ...operators.stateless_nodes import (
    FilterNode,
    MapNode,
    MapValuesNode,
    MergeNode,
    SelectKeyNode,
)
from ...operators.tables.table_nodes import TableNode
from .. import topic_choice
from ..call_options import Grouped, Named, Produced, Repartitioned
from ..materialized import Materialized, given_materialized
from . import branched, processing, stream_joins
from . import deduplicate as deduplication
from .grouped import KGroupedStream
from .ktable import KTable
from .rekeying import by_key, followed
from .step_arguments import (
    Step,
    ValueStep,
    bind_condition,
    bind_mapper,
    bind_step,
    check_one_builder,
    check_serdes,
    mapped_fields,
    on_error_of,
    plain_key,
)


@checked_class
class KStream(Hinting):
    """A stream of records, as ``StreamsBuilder.stream`` and most calls of a stream return it.

    Options of many calls:

    - ``name``: name of the processor; Kafka's generated one if not given (KSTREAM-FILTER-0000000001).
    - ``returns``, ``returns_key``: serdes of the value and the key that a Python callable returns. Expressions and SQL
      text know their types.
    - ``on_error``: a record on which the step fails ends the run ("stop") or becomes a dead letter with the step's
      error ("dead_letter"). Dead letters need a step that records reach straight from a topic or repartition.
    - ``materialized``: name, kind and retention of the call's store.
    - ``options``: Kafka's objects for these (``Named``, ``Grouped``, ``Produced`` and so on), beside the steps.

    ``graph``: the topology that is being built; ``node``: the stream's node in it. ``is_rekeyed``: its key changed, so
    a grouping or join below goes through a repartition table. ``is_scattered``: likewise, but Kafka Streams would not
    know it.
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
        """Serdes of its records, and the kind of window in their keys."""
        return self.node.shape

    # --- steps without state ---------------------------------------------------------------------------------

    def filter(self, predicate: Step, *options: Named, name: str | None = None, on_error: str = "stop") -> "KStream":
        """Records for which ``predicate``, a step that gives a boolean, is true; null is not true.

        Source: ``KStream.filter``.

            >>> show(clicks.filter("seconds > 4"))
            ann: {'page': 'home', 'seconds': 5} at 0
            ann: {'page': 'cart', 'seconds': 9} at 2000
        """
        return self._filter(predicate, keeps=True, name=name, on_error=on_error)

    def filter_not(
        self, predicate: Step, *options: Named, name: str | None = None, on_error: str = "stop"
    ) -> "KStream":
        """Records for which ``predicate`` is not true; null is not true.

        Source: ``KStream.filterNot``.

            >>> show(clicks.filter_not("page = 'home'"))
            ann: {'page': 'cart', 'seconds': 9} at 2000
            bob: {'page': 'pay', 'seconds': 2} at 70000
        """
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
        *steps: ValueStep | Named,
        returns: Serde | None = None,
        name: str | None = None,
        on_error: str = "stop",
        fields: Mapping[str, Expressible] | None = None,
        **columns: Expressible,
    ) -> "KStream":
        """New values under the same keys and times. One of ``steps`` gives a plain value; several, or named
        ``columns``, give a struct with a field each. ``fields``: more named columns, whose names may be those of
        options (``name``, ``returns``).

        Expressions map a tombstone to a tombstone; a callable, of (key, value) or of (value), is called with None.

        Source: ``KStream.mapValues``.

            >>> show(clicks.map_values("page", "seconds * 1000 AS ms"))
            ann: {'page': 'home', 'ms': 5000} at 0
            bob: {'page': 'home', 'ms': 1000} at 1000
            ann: {'page': 'cart', 'ms': 9000} at 2000
            bob: {'page': 'pay', 'ms': 2000} at 70000
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
        mapper: Step | Named | None = None,
        *options: Named,
        returns_key: Serde | None = None,
        returns: Serde | None = None,
        name: str | None = None,
        on_error: str = "stop",
    ) -> "KStream":
        """New keys and values. ``function`` is the step for the key and ``mapper`` the one for the value; without a
        mapper, ``function`` is a callable of (key, value) that gives a (key, value).

        A grouping or join after it goes through a repartition table. TopologyError for an expression without a mapper.

        Source: ``KStream.map``.

            >>> show(orders.map("item", "amount"))
            tea: 5 at 1000
            mug: 1 at 2000
            tea: 2 at 61000
        """
        name = self.graph.name(name, "KSTREAM-MAP-")
        on_error_of(self.graph, name, self.node, on_error)
        if mapper is None:
            if isinstance(function, str | pl.Expr):
                raise TopologyError(name, "a step for the key and one for the value", "one", "give both")
            of_key_and_value(function, name)
            return processing.flat_mapped(self, processing.One(function), returns_key, returns, name)
        check_serdes(name, returns_key=returns_key)
        key = bind_step(function, self.shape, returns_key, name, option="returns_key")
        value = bind_step(mapper, self.shape, returns, name)
        shape = Shape(key.result, value.result)
        return followed(
            self, MapNode(name=name, inputs=(self.node.name,), shape=shape, selector=key, mapper=value), is_rekeyed=True
        )

    def select_key(
        self,
        selector: Step,
        *options: Named,
        returns: Serde | None = None,
        name: str | None = None,
        on_error: str = "stop",
    ) -> "KStream":
        """New keys, which the step ``selector`` gives. A grouping or join after it goes through a repartition table.

        Source: ``KStream.selectKey``.

            >>> show(orders.select_key("item"))
            tea: {'item': 'tea', 'amount': 5} at 1000
            mug: {'item': 'mug', 'amount': 1} at 2000
            tea: {'item': 'tea', 'amount': 2} at 61000
        """
        name = self.graph.name(name, "KSTREAM-KEY-SELECT-")
        on_error_of(self.graph, name, self.node, on_error)
        bound = bind_step(selector, self.shape, returns, name)
        shape = Shape(bound.result, self.shape.value)
        node = SelectKeyNode(name=name, inputs=(self.node.name,), shape=shape, selector=bound)
        return followed(self, node, is_rekeyed=True)

    flat_map, flat_map_values = processing.flat_map, processing.flat_map_values
    peek, foreach, print = processing.peek, processing.foreach, processing.print_

    def merge(self, other: "KStream", *options: Named, name: str | None = None) -> "KStream":
        """Records of this stream and of ``other``, in the order in which the task reads them. TopologyError when
        their serdes differ, and for anything but a stream.

        Source: ``KStream.merge``.

            >>> show(clicks.merge(mobile).filter("page = 'home'"))
            ann: {'page': 'home', 'seconds': 5} at 0
            cat: {'page': 'home', 'seconds': 3} at 500
            bob: {'page': 'home', 'seconds': 1} at 1000
        """
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

    def split(self, *options: Named, name: str | None = None) -> "branched.BranchedKStream":
        """Branches: each record goes to the first one whose predicate is true of it. ``name``: prefix of their names.

        Source: ``KStream.split`` (KIP-418).

            >>> pages = clicks.split(name="page-").branch("page = 'home'", name="home").default_branch(name="other")
            >>> show(pages["page-other"])
            ann: {'page': 'cart', 'seconds': 9} at 2000
            bob: {'page': 'pay', 'seconds': 2} at 70000
        """
        return branched.BranchedKStream(self, name)

    process, process_values = processing.process, processing.process_values

    def repartition(
        self,
        *options: Repartitioned,
        name: str | None = None,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
    ) -> "KStream":
        """The same records through a repartition table of ``partitions`` partitions, as many as the input has if not
        given. A windowed key goes by its bytes, window and all. TopologyError for fewer than 1 partition.

        ``partitioner``: a pure function of (topic, key, value, number of partitions), Kafka's StreamPartitioner. It
        gives the partition of a record, from 0, several in a set, or None for that of the key. A record with an empty
        set is dropped. It must put all records of a key into one partition if a join or a grouping follows.

        Source: ``KStream.repartition`` (KIP-221), ``Repartitioned.withStreamPartitioner``.

            >>> show(orders.select_key("item").repartition(name="by-item", partitions=2).map_values("amount"))
            tea: 5 at 1000
            mug: 1 at 2000
            tea: 2 at 61000
        """
        name = self.graph.next_name("KSTREAM-REPARTITION-") if name is None else check_name(name)
        check_partitions(name, partitioner, partitions)
        table = repartitioned(self.graph, self.node, name, partitions=partitions)
        return KStream(self.graph, partition_by(self.graph, table, partitioner))

    # --- grouping, tables and outputs ------------------------------------------------------------------------

    def group_by_key(self, *options: Grouped, name: str | None = None) -> KGroupedStream:
        """Group by the key as it is; ``name``: of the repartition table. TopologyError for a windowed key, which
        ``select_key`` makes plain.

        Source: ``KStream.groupByKey``.

            >>> show(orders.group_by_key().count())
            ann: 1 at 1000
            bob: 1 at 2000
            ann: 2 at 61000
        """
        plain_key(self.shape, self.node.name, "group by")
        return KGroupedStream(self, topic=name)

    def group_by(
        self, selector: Step, *options: Grouped, returns: Serde | None = None, name: str | None = None
    ) -> KGroupedStream:
        """Group by the key that the step ``selector`` gives: ``select_key`` and ``group_by_key``, both with ``name``.

        Source: ``KStream.groupBy``.

            >>> show(orders.group_by("item").aggregate(fold.sum("amount")))
            tea: 5 at 1000
            mug: 1 at 2000
            tea: 7 at 61000
        """
        return self.select_key(selector, returns=returns, name=name).group_by_key(name=name)

    def to_table(
        self, *options: Named | Materialized, materialized: Materialized | None = None, name: str | None = None
    ) -> KTable:
        """The stream as a table: a null value deletes its key, a record with a null key is dropped. TopologyError for
        a windowed key.

        Source: ``KStream.toTable`` (KIP-523).

            >>> show(orders.map_values("amount").to_table().filter("value < 5"))
            ann: None at 1000
            bob: 1 at 2000
            ann: 2 at 61000
        """
        name = self.graph.name(name, "KSTREAM-TOTABLE-")
        plain_key(self.shape, name, "make a table of")
        materialized = given_materialized(materialized, name, self.graph)
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
        return KTable(self.graph, node)

    def to(
        self,
        topic: ValueStep,
        *options: Produced,
        topics: Collection[str] | re.Pattern[str] | None = None,
        partitioner: Partitioner | None = None,
        partitions: int | None = None,
        name: str | None = None,
    ) -> None:
        """Write to the output ``topic``. TopologyError for ``dropped`` and ``dead_letter``: every pipeline has them.

        With ``topics``, the outputs that there are, ``topic`` chooses one of them for each record. It is a step that
        gives text, or a callable of (key, value), of (value) or of (key, value, context) with a ``RecordContext``,
        Kafka's TopicNameExtractor. Another name, or none, ends the run with TaskFailed, or is for the processing
        exception handler. A topic that several ``to()`` write has the records of all, in the order in which they were
        sent; TopologyError where these are in several sub-topologies, or have other serdes.

        With a callable or an expression alone, the data names the topics, of which nobody need know. Their records are
        rows of one output, called ``name``, with the topic in a column, and are read by either name. ``topics`` may be
        a pattern that whole names must match; text is a step with a pattern alone. What is no name of a topic, or the
        name of one that the topology reads or writes, ends the run as above.

        Rows of an output have the partition of the task that wrote them. With a ``partitioner``, as ``repartition``
        takes it, or a number of ``partitions`` they have partitions of the topic, and their order is that of Kafka's
        topic. All ``to()`` of the topic must say the same. A windowed key goes by its key alone, or as a ``Windowed``.

        Source: ``KStream.to``, ``Produced.withStreamPartitioner``.

            >>> orders.to("item", topics=["tea", "mug"])
            >>> output("mug")
            bob: {'item': 'mug', 'amount': 1} at 2000

            >>> orders.to(lambda key, value: f"orders-of-{key}", name="by-customer")
            >>> output("orders-of-bob")
            bob: {'item': 'mug', 'amount': 1} at 2000

            >>> orders.filter("amount > 1").to("large")
            >>> output("large")
            ann: {'item': 'tea', 'amount': 5} at 1000
            ann: {'item': 'tea', 'amount': 2} at 61000
        """
        check_partitions("to()", partitioner, partitions)
        if topic_choice.names_topics(topic, topics):
            topic_choice.to_one_of(
                self.graph,
                self.node,
                topic,
                topics,
                name=self.graph.name(name, "KSTREAM-SINK-"),
                partitioner=partitioner,
                partitions=partitions,
                add=self.graph.add,
            )
            return
        topic = check_topic("to()", topic, "give the pattern of topics that are written: to(step, topics=…)")
        check_table_name("output", topic)
        name = self.graph.name(name, "KSTREAM-SINK-")
        node = {"name": name, "inputs": (self.node.name,), "shape": self.shape, "topic": topic}
        self.graph.add(sink_node(partitioner, partitions, **node))

    # --- joins -----------------------------------------------------------------------------------------------

    join, left_join, outer_join = stream_joins.inner, stream_joins.left, stream_joins.outer

    # --- deduplication ---------------------------------------------------------------------------------------

    deduplicate_by_key = deduplication.deduplicate_by_key
    deduplicate_by_key_value = deduplication.deduplicate_by_key_value
    deduplicate, reorder_within = deduplication.deduplicate, deduplication.reorder_within


KTable._stream_class = KStream


def _said(shape: Shape) -> str:
    windowed = "" if shape.window is None else f", windowed ({shape.window})"
    return f"{shape.key} and {shape.value}{windowed}"
