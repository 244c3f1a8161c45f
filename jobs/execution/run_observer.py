"""Who looks on while a task runs: called before and after each part of its tape.

Rule: an observer changes no result. It may cut a chunk into parts, since chunks may be cut anywhere, and end the run.
"""

from collections.abc import Iterator, Mapping, Sequence

from ...state.records.batches import Batch, Chunk
from ..graph.graph import Node
from ..tape.task_input import TapeChunk
from ..tape.task_tape import CausalColumns
from ..task.task import Result, Task


class RunObserver:
    """Sees nothing and changes nothing; an observer says what it wants to know by overriding methods."""

    looks_into_stores = False
    """It reads stores while the task runs, so that each table puts into its own, and no view does."""
    counts_bytes = False
    """Suppress buffers measure their bytes, whether they are bounded by bytes or not."""
    needs_places = False
    """Rows have their causes, though they stay in the task."""
    is_over = False
    """It has seen enough: the run ends with the part at hand."""

    def begins(self, task: Task, next_offsets: Mapping[str, int]) -> None:
        """Before ``task`` loads its stores; again, with another one, where a trial is repeated. ``next_offsets``: of
        each table that it writes, kept up to date.
        """

    def resumed(self, task: Task) -> None:
        """Its stores are loaded, and it has processed nothing."""

    def parts(self, task: Task, chunk: TapeChunk, places: CausalColumns) -> Iterator[tuple[TapeChunk, CausalColumns]]:
        """Parts of a chunk that is to be processed, each together with its places, in order. ``took`` and ``wrote`` are
        called for a part before the next one is asked for.
        """
        yield chunk, places

    def saw(self, node: Node, inputs: Sequence[Batch], forwarded: Batch, chunk: Chunk) -> None:
        """As jobs/task/chunk_run.py has it, if ``task.observer`` is this."""

    def took(self, task: Task, part: TapeChunk, result: Result) -> None:
        """A part was processed, and nothing of its result is written."""

    def wrote(self, part: TapeChunk) -> None:
        """The sink has what a part resulted in."""

    def advanced(self, task: Task, result: Result) -> None:
        """The task took a recorded time, and nothing of its result is written."""

    def ended(self, task: Task) -> None:
        """All parts are processed, and none has failed."""


NO_OBSERVER = RunObserver()
"""Where nobody looks on."""


def leave_out_lookers(task: Task) -> None:
    """Let a task that runs again not call functions that only look on (peek, foreach)."""
    for node in task.sub_topology.nodes:
        if node.keeps_records:
            task.operators.pop(node.name, None)
