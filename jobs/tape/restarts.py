"""Recorded restarts on a task's tape: before which row the task begins again with its stream times at -1.

Rule: a restart is no row. It is before the record that it was recorded for, behind all that the tape has before that,
so it changes no order, and is at the same place wherever increments are cut.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .task_input import TapeChunk, integers


@dataclass(frozen=True, slots=True)
class TaskRestart:
    """The task begins again before the record at ``before_offset`` of its source number ``source``."""

    source: int
    before_offset: int


class WaitingRestarts:
    """Restarts that are ahead of a tape. ``offsets``: by source, rising."""

    def __init__(self, offsets: dict[int, Sequence[int]]) -> None:
        self._offsets = {source: list(of_source) for source, of_source in offsets.items() if of_source}

    def parts(self, chunk: TapeChunk) -> Iterator[tuple[int, int, TaskRestart | None]]:
        """Rows ``[begin, end)`` of the next chunk of the tape, and the restart before them."""
        begin, before = 0, None
        for at, restart in self._within(chunk):
            if at > begin:
                yield begin, at, before
            begin, before = at, restart
        yield begin, len(chunk), before

    def _within(self, chunk: TapeChunk) -> list[tuple[int, TaskRestart]]:
        restarts: dict[int, TaskRestart] = {}
        for source, offsets in self._offsets.items():
            own = integers(chunk.tables[source], "offset", -1)
            while offsets and len(own) and offsets[0] <= own[-1]:
                offset = offsets.pop(0)
                row = int(chunk.rows(source)[np.searchsorted(own, offset)])
                restarts[row] = TaskRestart(source, offset)
        return sorted(restarts.items(), key=lambda each: each[0])
