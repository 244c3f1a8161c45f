"""Do functions that read a store or a table answer alike, wherever chunks are cut?

Owns the second question to aggregators, reducers, mergers, adders and subtractors, joiners, processors and
transformers. Rule: under new code the first records of a task are run by two more tasks with the same state, once
together and once in pieces, and what their nodes forward is compared. Each piece has new processors, as the next
increment has, and each but the first finds functions as they were before (jobs/task/pure_steps.py). A function whose
answers differ has chance, a clock or a counter in it, or keeps state outside of its stores, which is named. This only
looks: nothing of it is kept, plain data outside of stores is put back, and the results that count are computed as ever.
Functions that only look on (peek, foreach) are not called; processors are, as in a run that died and is run again.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from ...state.errors import TaskFailed
from ...state.records.batches import Batch, Chunk
from ..graph.graph import Node
from ..operators.base.operator import Operator, TableView
from ..tape.task_input import TapeChunk
from ..topology.topology import SubTopology
from .held_state import Kept, Outside, functions_of, outside_of
from .pure_steps import PIECES, RECORDS, Answer, forwarded_answers, held_in_a_sentence, in_a_sentence
from .task import Task


def asked_twice(sub_topology: SubTopology) -> list[str]:
    """Names of the nodes that call functions of the user's beside a store or a table, in the order of the graph."""
    return [node.name for node in sub_topology.nodes if not node.is_step and _calls_functions(node)]


def difference(sub_topology: SubTopology, begun: Callable[[], Task], input_: TapeChunk) -> tuple[str, str] | None:
    """As ``_difference``. Plain data that functions of the ``sub_topology`` hold is put back."""
    held = Kept([function for node in sub_topology.nodes for function in functions_of(node)])
    try:
        return _difference(begun, input_, held.put_back)
    finally:
        held.put_back()


def _difference(begun: Callable[[], Task], input_: TapeChunk, put_back: Callable[[], None]) -> tuple[str, str] | None:
    """The first node whose answers differ, if its functions are ``asked_twice`` or it is a step, and what differs
    first, in a sentence.

    ``begun`` makes a task with the previous state. None: nothing differs, or a record fails, which the run itself will
    report.
    """
    rows = min(len(input_), RECORDS)
    cuts = [int(piece[0]) for piece in np.array_split(np.arange(rows), PIECES) if len(piece)]
    try:
        task = begun()
        nodes = {node.name: node for node in task.sub_topology.nodes if node.is_step or _calls_functions(node)}
        held = {name: Kept(functions_of(node)) for name, node in nodes.items()}
        together = _answers(task, input_, [0, rows], put_back)
        outside = {name: one.outside() for name, one in held.items()}
    except Exception:  # the run itself will fail, and say on what
        return None
    try:
        apart = _answers(begun(), input_, [*cuts, rows], put_back)
    except TaskFailed as error:
        if error.place not in nodes:
            return None
        said = f"it gave results, and then failed with {error.got}"
        return error.place, said + held_in_a_sentence(outside[error.place].with_(_attributes(begun, task, error.place)))
    except Exception:
        return None
    for name in together:
        if together[name] != apart.get(name, []):
            if name not in nodes:
                return None
            held_there = outside[name].with_(_attributes(begun, task, name))
            return name, in_a_sentence(together[name], apart.get(name, []), held_there)
    return None


def _attributes(begun: Callable[[], Task], ran: Task, name: str) -> Outside:
    """What objects that run in the node hold otherwise than those of a new task."""
    fresh = {what: one for each in _parts(begun(), name) for what, one in each.running().items()}
    before = {what: one for each in _parts(ran, name) for what, one in each.running().items()}
    found = Outside()
    for what, one in before.items():
        found = found.with_(outside_of(what, one, fresh[what]))
    return found


def _parts(task: Task, name: str) -> list[Operator | TableView]:
    operator = task.operators.get(name)
    return [] if operator is None else [operator, *operator.context.views]


class _Listener:
    """Of every node all that it forwards, as text."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {}

    def saw(self, node: Node, inputs: Sequence[Batch], forwarded: Batch, chunk: Chunk) -> None:
        self.answers.setdefault(node.name, []).extend(forwarded_answers(forwarded, chunk))


def _answers(
    task: Task, input_: TapeChunk, cuts: Sequence[int], put_back: Callable[[], None]
) -> Mapping[str, list[Answer]]:
    for node in task.sub_topology.nodes:
        if node.keeps_records:
            task.operators.pop(node.name, None)
    listener = _Listener()
    task.observer = listener
    for begin, end in pairwise(cuts):
        if begin:
            put_back()
            for name in task.operators:
                for part in _parts(task, name):
                    part.renew()
        task.process(input_.part(begin, end))
    return listener.answers


def _calls_functions(node: Node) -> bool:
    return not node.keeps_records and bool(functions_of(node))
