"""Do functions that read a store or a table answer alike, wherever chunks are cut?

Owns the second question to aggregators, reducers, mergers, adders and subtractors, joiners, processors and
transformers. Rule: under new code the first records of a task are run by two more tasks with the same state, once
together and once in pieces. What their nodes forward and leave in stores is compared, and the topics and partitions
that they choose. Each piece has new processors, as the next increment has, and each but the first finds functions as
they were before (jobs/task/pure_steps.py). A function whose answers differ has chance, a clock or a counter in it, or
keeps state outside of its stores, which is named. This only looks: nothing of it is kept, plain data outside of stores
is put back, and the results that count are computed as ever. Functions that only look on (peek, foreach) are not
called; processors are, as in a run that died and is run again.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise, zip_longest
from typing import Any

import pyarrow as pa

from ...state.errors import TaskFailed
from ...state.records.batches import Batch, Chunk
from ..graph.graph import Node
from ..graph.nodes import RepartitionNode
from ..operators.base.operator import Operator, StatefulOperator, TableView
from ..tape.task_input import TapeChunk
from ..topology.topology import SubTopology
from .held_state import Kept, Outside, functions_of, outside_of
from .pure_steps import RECORDS, Answer, answers_of, cuts, held_in_a_sentence, in_a_sentence, place_in
from .task import Result, Task

_Stored = dict[str, pa.Table]
"""By node the rows of its stores that have changed."""


def asked_twice(sub_topology: SubTopology) -> list[str]:
    """Names of the nodes that call functions of the user's beside a store or a table, and of those that choose topics
    or partitions, in the order of the graph.
    """
    return [node.name for node in _asked(sub_topology) if not node.is_step]


def difference(sub_topology: SubTopology, begun: Callable[[], Task], input_: TapeChunk) -> tuple[str, str] | None:
    """The first node whose answers differ, if its functions are ``asked_twice`` or it is a step, and what differs
    first, in a sentence. Plain data that functions of the ``sub_topology`` hold is put back.

    ``begun`` makes a task with the previous state. None: nothing differs, or a record fails, which the run itself will
    report.
    """
    held = Kept([function for node in _asked(sub_topology) for function in functions_of(node)])
    try:
        return _Looks(sub_topology, begun, input_, held).difference()
    finally:
        held.put_back()


class _Looks:
    """At the first records of ``input_``, together and in pieces."""

    def __init__(self, sub_topology: SubTopology, begun: Callable[[], Task], input_: TapeChunk, held: Kept) -> None:
        self.begun, self.input_, self.held = begun, input_, held
        self.nodes = {node.name: node for node in _asked(sub_topology)}

    def difference(self) -> tuple[str, str] | None:
        rows = min(len(self.input_), RECORDS)
        kept = {name: Kept(functions_of(node)) for name, node in self.nodes.items()}
        try:
            self.task = self.begun()
            together, stored = self._answers(self.task, [0, rows])
            self.outside = {name: one.outside() for name, one in kept.items()}
        except Exception:  # the run itself will fail, and say on what
            return None
        try:
            apart, stored_apart = self._answers(self.begun(), cuts(rows))
        except TaskFailed as error:
            if error.place not in self.nodes:
                return None
            said = f"it gave results, and then failed with {error.got}"
            return error.place, said + held_in_a_sentence(self._outside(error.place))
        except Exception:
            return None
        for name in dict.fromkeys([*together, *stored]):
            one, other = together.get(name, []), apart.get(name, [])
            if one != other:
                return (name, in_a_sentence(one, other, self._outside(name))) if name in self.nodes else None
            left = _first_of(stored.get(name), stored_apart.get(name))
            if left is not None:
                return name, left + held_in_a_sentence(self._outside(name))
        return None

    def _answers(self, task: Task, ends: Sequence[int]) -> tuple[Mapping[str, list[Answer]], _Stored]:
        for node in task.sub_topology.nodes:
            if node.keeps_records:
                task.operators.pop(node.name, None)
        task.observer = listener = _Listener(task)
        for begin, end in pairwise(ends):
            if begin:
                self.held.put_back()
                for name in task.operators:
                    for part in _parts(task, name):
                        part.renew()
            listener.sent(task.process(self.input_.part(begin, end)))
        stateful = {name: operator for name in self.nodes if (operator := task.operators.get(name)) is not None}
        return listener.answers, {
            name: operator.changes() for name, operator in stateful.items() if isinstance(operator, StatefulOperator)
        }

    def _outside(self, name: str) -> Outside:
        """State outside of stores in the node; if nothing of it has changed, in those whose records or stores it may
        read.
        """
        outside = self.outside[name].with_(self._of_objects(name))
        if outside.changed:
            return outside
        for other in self.nodes:
            if other != name and (self.task.is_by_record or other in self._above(name)):
                outside = outside.with_(self.outside[other].with_(self._of_objects(other)).of(other))
        return outside

    def _above(self, name: str) -> set[str]:
        above, left = set[str](), [name]
        while left:
            node = self.task.graph.nodes[left.pop()]
            left += {*node.inputs, *node.reads} - above
            above |= {*node.inputs, *node.reads}
        return above

    @cached_property
    def new_task(self) -> Task:
        """That has processed nothing: what its objects hold is compared, and none of them is called."""
        return self.begun()

    def _of_objects(self, name: str) -> Outside:
        """What objects that run in the node hold otherwise than those of a new task."""
        fresh = {what: one for each in _parts(self.new_task, name) for what, one in each.running().items()}
        before = {what: one for each in _parts(self.task, name) for what, one in each.running().items()}
        outside = Outside()
        for what, one in before.items():
            outside = outside.with_(outside_of(what, one, fresh[what]))
        return outside


class _Listener:
    """Of every node of ``task`` all that it forwards, or sends by a partitioner, as text."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.answers: dict[str, list[Answer]] = {}

    def saw(self, node: Node, inputs: Sequence[Batch], forwarded: Batch, chunk: Chunk) -> None:
        self.chunk = chunk
        answers = answers_of(self.task.operators.get(node.name), forwarded, chunk)
        self.answers.setdefault(node.name, []).extend(answers)

    def sent(self, result: Result) -> None:
        """What a chunk caused."""
        for node in _partitioned(self.task.sub_topology):
            rows = result.repartitions[node.topic].select(["cause", "key", "value", "target"]).to_pylist()
            self.answers.setdefault(node.name, []).extend(
                (place_in(self.chunk, row["cause"]), f"key {row['key']!r}", f"partition {row['target']}")
                for row in rows
            )


def _first_of(one: pa.Table | None, other: pa.Table | None) -> str | None:
    """The first row that two looks have left otherwise, in a sentence."""
    if one is None or other is None or one.equals(other):
        return None
    rows, others = _texts(one), _texts(other)
    at = next((pair for pair in zip_longest(rows, others, fillvalue="nothing else") if pair[0] != pair[1]), None)
    return None if at is None else f"it stored {at[0]}, and then {at[1]}"


def _texts(rows: pa.Table) -> list[str]:
    return sorted(_text(row) for row in rows.to_pylist())


def _text(row: dict[str, Any]) -> str:
    where = f" in {row.pop('store')!r}" if "store" in row else ""
    return ", ".join(f"{name} {value!r}" for name, value in row.items() if value not in (None, False)) + where


def _parts(task: Task, name: str) -> list[Operator | TableView]:
    operator = task.operators.get(name)
    return [] if operator is None else [operator, *operator.context.views]


def _asked(sub_topology: SubTopology) -> list[Node]:
    nodes = [node for node in sub_topology.nodes if not node.is_source and not node.keeps_records]
    return [node for node in (*nodes, *_partitioned(sub_topology)) if node.is_step or functions_of(node)]


def _partitioned(sub_topology: SubTopology) -> list[RepartitionNode]:
    return [node for node in sub_topology.repartitions if node.has_partitioner]
