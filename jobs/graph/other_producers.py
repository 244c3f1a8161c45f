"""Which landed records of a topic other producers wrote, where the topology writes the topic, too.

Rule: what a topology writes is computed, so its own records must not be read as landed ones as well; only the user
knows which are whose (``Consumed(others=)``).
"""

from collections.abc import Callable
from typing import Any

import polars as pl

from ...state.errors import TopologyError
from ...state.serdes import Serde
from ..functions.expressions import Call, Expressible, Expression, Shape, bind_predicate
from ..functions.parameters import of_key_and_value
from .graph import Graph

Others = Expressible | Callable[[Any, Any], Any] | bool | None


def note_others(graph: Graph, topics: tuple[str, ...], others: Others, shape: Shape, name: str) -> None:
    """Note which landed records of ``topics``, the topics of source ``name``, other producers wrote, as Consumed says.

    ``others``: a predicate that is true of their records, True if all landed records are theirs, or None if nobody
    else writes the topics.

    Raises TopologyError for anything else.
    """
    if others is None:
        return
    place = f"Consumed of {' and '.join(map(repr, topics))}"
    predicate: Expression | Call | None = None
    if isinstance(others, str | pl.Expr):
        predicate = bind_predicate(others, shape, name)
    elif callable(others):
        predicate = Call(of_key_and_value(others, place), shape, Serde.boolean(), name)
    elif others is not True:
        expected = "others= to be True, an expression, SQL text or a callable of (key, value)"
        raise TopologyError(place, expected, repr(others), "leave it out where nobody else writes the topic")
    graph.others_write |= dict.fromkeys(topics, predicate)
    graph.others_named.append(topics)
