"""``to`` and ``add_sink`` with a step that names the topic of each record (TopicNameExtractor)."""

import re
from collections.abc import Callable, Collection
from typing import Any

import polars as pl

from ...state.errors import TopologyError
from ...state.serdes import Serde
from ..functions.expressions import Call, ContextCall, Expression, Shape, bind
from ..functions.parameters import KEY_VALUE, KEY_VALUE_CONTEXT, VALUE, form_of, of_key_and_value
from ..graph.graph import Graph, Node
from ..graph.name_rules import check_table_name, check_topic, table_name_of
from ..graph.nodes import Partitioner
from ..operators.dynamic_topics_node import DynamicSinkNode
from ..operators.stateless_nodes import TopicByRecordNode, routed_sink


def _bind_extractor(extractor: Any, shape: Shape, place: str) -> Expression | Call:
    """A step that gives text, or a callable of (key, value), of (value) or of (key, value, context). TopologyError for
    anything else.
    """
    text = Serde.string()
    if isinstance(extractor, str | pl.Expr):
        step = bind(extractor, shape, place)
        if step.result.arrow_type != text.arrow_type:
            expected = "a step that gives text, the name of a topic"
            raise TopologyError(place, expected, f"{step.result}", "correct the step")
        return step
    form = form_of(extractor, place, KEY_VALUE, VALUE, KEY_VALUE_CONTEXT)
    if form is KEY_VALUE_CONTEXT:
        return ContextCall(extractor, shape, text, place)
    return Call(of_key_and_value(extractor, place, may_take_value=True), shape, text, place)


def _said_of(extractor: Any) -> str:
    """An extractor as Kafka's description calls it: by its class."""
    return extractor if isinstance(extractor, str) else getattr(extractor, "__name__", type(extractor).__name__)


def to_one_of(
    graph: Graph,
    above: Node,
    extractor: Any,
    topics: Any,
    *,
    name: str,
    partitioner: Partitioner | None,
    partitions: int | None,
    add: Callable[[Node], Any],
) -> None:
    """Each record that ``above`` forwards to the output, one of ``topics``, that ``extractor`` names; all have the same
    ``partitioner`` and number of ``partitions``. Topics of a pattern, and those of None, which are any, are rows of one
    output. ``add``: puts the node into the graph.
    """
    if topics is None or isinstance(topics, re.Pattern):
        if partitioner is not None or partitions is not None:
            expected, next_step = "partitions of topics that are known", "name the topics: topics=['a', 'b']"
            raise TopologyError(name, expected, "topics that the records name", next_step)
        add(_dynamic_sink(above, extractor, topics, name))
        return
    if isinstance(topics, str) or not isinstance(topics, Collection) or not topics:
        expected, next_step = "topics= to be the names of the outputs that there are", "name them: topics=['a', 'b']"
        raise TopologyError(name, expected, repr(topics), next_step)
    names = tuple(dict.fromkeys(check_topic("to()", one, "give names of topics") for one in topics))
    for one in names:
        check_table_name("output", one)
    step = _bind_extractor(extractor, above.shape, name)
    node = TopicByRecordNode(
        name=name, inputs=(above.name,), shape=above.shape, extractor=step, topics=names, said=_said_of(extractor)
    )
    add(node)
    for one in names:
        fields = {"name": node.sink_name(one), "inputs": (name,), "shape": above.shape, "topic": one}
        sink = routed_sink(partitioner, partitions, **fields)
        graph.nodes[sink.name] = sink  # by a name that no user can give
        graph.note_call(sink.name)


def _dynamic_sink(above: Node, extractor: Any, pattern: re.Pattern[str] | None, name: str) -> DynamicSinkNode:
    """A sink of topics that ``extractor`` names, those that ``pattern`` matches whole."""
    return DynamicSinkNode(
        name=name,
        inputs=(above.name,),
        shape=above.shape,
        topic=check_table_name("output", table_name_of(name)),
        extractor=_bind_extractor(extractor, above.shape, name),
        said=_said_of(extractor),
        regex=None if pattern is None else pattern.pattern,
        flags=0 if pattern is None else pattern.flags,
    )


def names_topics(topic: Any, topics: Any) -> bool:
    """Whether a sink that is given ``topic`` and ``topics`` chooses the topic of each record."""
    return topics is not None or callable(topic) or isinstance(topic, pl.Expr)
