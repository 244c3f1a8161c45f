"""Do functions that read a store or a table answer alike, wherever chunks are cut?

Owns the second question to aggregators, reducers, mergers, adders and subtractors, joiners, processors and
transformers. Rule: under new code the first records of a task are run by two more tasks with the same state, once
together and once in pieces, and what their nodes forward is compared. A function whose answers differ has chance, a
clock or a counter in it. This only looks: nothing of it is kept, and the results that count are computed as ever.
Functions that only look on (peek, foreach) are not called; processors are, as in a run that died and is run again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np

from ...state.records.batches import Batch, Chunk
from ..functions.expressions import Call
from ..functions.folds.aggregation import Aggregation
from ..functions.folds.python import PythonFold
from ..functions.value_joiners import CallJoiner
from ..graph.graph import Node
from ..tape.task_input import Input
from ..topology.topology import SubTopology
from .pure_steps import PIECES, RECORDS, Answer, in_a_sentence, told
from .task import Task


def asked_twice(sub_topology: SubTopology) -> list[str]:
    """Names of the nodes that call functions of the user's beside a store or a table, in the order of the graph."""
    return [node.name for node in sub_topology.nodes if not node.is_step and _calls_functions(node)]


def difference(begun: Callable[[], Task], input_: Input) -> tuple[str, str] | None:
    """The first node whose answers differ, if its functions are ``asked_twice``, and what differs first, in a sentence.

    ``begun`` makes a task with the previous state. None: nothing differs, or the difference is in a step
    (jobs/task/pure_steps.py), or a record fails, which the run itself will report.
    """
    rows = min(len(input_), RECORDS)
    cuts = [int(piece[0]) for piece in np.array_split(np.arange(rows), PIECES) if len(piece)]
    try:
        task = begun()
        together = _answers(task, input_, [0, rows])
        apart = _answers(begun(), input_, [*cuts, rows])
    except Exception:  # the run itself will fail, and say on what
        return None
    asked = asked_twice(task.sub_topology)
    for name in together:
        if together[name] != apart.get(name, []):
            return (name, in_a_sentence(together[name], apart.get(name, []))) if name in asked else None
    return None


class _Listener:
    """Of every node all that it forwards, as text."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {}

    def saw(self, node: Node, inputs: Sequence[Batch], forwarded: Batch, chunk: Chunk) -> None:
        self.answers.setdefault(node.name, []).extend(told(forwarded, chunk))


def _answers(task: Task, input_: Input, cuts: Sequence[int]) -> Mapping[str, list[Answer]]:
    for node in task.sub_topology.nodes:
        if node.keeps_records:
            task.operators.pop(node.name, None)
    listener = _Listener()
    task.observer = listener
    for begin, end in pairwise(cuts):
        task.process(input_.part(begin, end))
    return listener.answers


def _calls_functions(node: Node) -> bool:
    return not node.keeps_records and any(_is_function(getattr(node, field.name)) for field in fields(node))


def _is_function(value: Any) -> bool:
    if isinstance(value, Aggregation):
        return any(isinstance(fold, PythonFold) for fold in value.folds.values())
    if isinstance(value, tuple):
        return any(map(_is_function, value))
    return isinstance(value, Call | CallJoiner) or callable(value)
