"""What a step of a topology says, as text that can be compared with what it said before.

Rule: expressions and names of folds are quoted, since a change of theirs can be seen. A Python function is only named,
beside a few digits of its code: what it computes cannot be compared, that it is another one can. The text holds for one
version of polars, of Python and of this module (``made_with``); between versions texts may differ though nothing
changed.
"""

import platform
import re
from typing import Any

import polars as pl

from ...state.serdes.function_text import function_text
from ..functions.expression_text import expressible_text, expression_text
from ..functions.expressions import Call, Expression, Struct
from ..functions.folds.lists import ListFold
from ..functions.folds.numbers import MeanFold, NumberFold
from ..functions.folds.python import PythonFold
from ..functions.folds.references import ReferenceFold
from ..functions.timestamp_extractors import A_FUNCTION, RecordFunction
from ..functions.value_joiners import CallJoiner, ExpressionJoiner
from ..graph.graph import Node

STEPS = (
    "predicate", "mapper", "selector", "id_selector", "foreign_key", "joiner", "function", "supplier", "initializer",
    "aggregators", "merger", "adder", "subtractor",
)  # fmt: skip
"""Attributes of nodes that hold what a user wrote."""

_TEXTS = 5
"""Rises when the same step gets another text; 5: all that a function holds is distinguished, docstrings are not."""

_NUMBERS = ("count", "sum", "min", "max")
_REFERENCES = ("first", "last", "min_by", "max_by", "latest")


def made_with() -> str:
    """Versions for which texts are comparable."""
    return f"polars {pl.__version__}, Python {platform.python_version()}, texts {_TEXTS}"


def describe_operator(node: Node) -> str:
    """Kind of a node in plain words: "stream table join"."""
    return " ".join(re.findall("[A-Z][a-z]+", type(node).__name__.removesuffix("Node"))).lower()


def describe_node(node: Node, *, shows_functions: bool) -> str:
    """A node with everything that a user wrote in it. ``shows_functions``: distinguish Python functions."""
    said = [describe_operator(node)]
    for name in ("keeps", "keeps_key", "kind"):
        if hasattr(node, name):
            value = getattr(node, name)
            said.append(value if isinstance(value, str) else f"{name}={value}")
    for name in STEPS:
        step = getattr(node, name, None)
        if step is not None and not isinstance(step, str):
            said.append(describe_step(step, shows_functions=shows_functions))
    return " ".join(said)


def describe_step(step: Any, *, shows_functions: bool) -> str:
    """An expression, a struct of some, a joiner, or a Python function."""
    if isinstance(step, Expression):
        return expression_text(step.expression)
    if isinstance(step, Struct | ExpressionJoiner):
        columns = step.columns if isinstance(step, Struct) else step.expressions
        return ", ".join(f"{expression_text(column.expression)} AS {name}" for name, column in columns.items())
    if isinstance(step, tuple):
        return ", ".join(describe_step(one, shows_functions=shows_functions) for one in step)
    function = step.function if isinstance(step, Call | CallJoiner) else step
    return function_text(function) if shows_functions else A_FUNCTION


def describe_times(node: Node) -> list[str]:
    """Of a source with a timestamp extractor, its step, with Python functions distinguished."""
    times = node.time_step
    if times is None:
        return []
    function = f" {function_text(times.step.function)}" if isinstance(times.step, RecordFunction) else ""
    return [f"times {times.words}{function}"]


def describe_fold(fold: Any) -> str:
    """A fold and what it folds: "sum ms", "max_by page by record_time_ms"."""
    if isinstance(fold, PythonFold):
        return A_FUNCTION
    if fold.words:
        return str(fold.words)
    if isinstance(fold, MeanFold | ListFold):
        return f"{'mean' if isinstance(fold, MeanFold) else 'collect'} {expressible_text(fold.of)}"
    if isinstance(fold, NumberFold):
        return " ".join([_NUMBERS[fold.kind], *([] if fold.of is None else [expressible_text(fold.of)])])
    assert isinstance(fold, ReferenceFold), f"no words for {fold!r}"
    by = "" if fold.by is None else f" by {expressible_text(fold.by)}"
    return f"{_REFERENCES[fold.kind]} {expressible_text(fold.of)}{by}"


def functions_of(fold: Any) -> list[str]:
    """The Python functions of a fold."""
    if not isinstance(fold, PythonFold):
        return []
    return [function_text(function) for function in (fold.initializer, fold.aggregator, fold.merger)]
