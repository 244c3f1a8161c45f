"""What one call of an aggregate's kernel decided, and the values that follow from it.

Rule: a program is carried out once, in its order; values are computed when asked for, so that a suppress below pays
only for what leaves it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import pyarrow as pa

from ....state.buffers import masked
from ....state.records.batches import Batch, Column, Drops
from ...functions.folds.aggregation import AggregationState
from ...functions.folds.fold import WantedUpdates
from ...functions.folds.fold_program import FoldProgram
from .earlier_updates_kernel import earlier_by_slot


@dataclass(frozen=True, slots=True)
class Decisions:
    """Updates of one kernel call, one element each, and what was refused. Columns as in Batch; ``row``: of it."""

    row: np.ndarray
    key: np.ndarray
    time_ms: np.ndarray
    valid: np.ndarray
    old_valid: np.ndarray
    program: FoldProgram
    window_start_ms: np.ndarray | None = None
    window_end_ms: np.ndarray | None = None
    stream_time_ms: np.ndarray | None = None
    earlier: np.ndarray | None = None
    is_final: np.ndarray | None = None
    """Which are results of windows that closed; None: none."""
    drops: list[Drops] = field(default_factory=list)

    def take(self, updates: np.ndarray) -> "Decisions":
        """The updates in another order; their program has been carried out."""

        def pick(column: np.ndarray | None) -> np.ndarray | None:
            return None if column is None else column[updates]

        columns = {name: pick(getattr(self, name)) for name in _COLUMNS}
        return Decisions(program=self.program, drops=self.drops, **columns)  # type: ignore[arg-type]

    def chained(self, capacity: int) -> "Decisions":
        """The same, of windows, with ``earlier``. ``capacity``: of the store."""
        start, end = self.window_start_ms, self.window_end_ms
        return replace(self, earlier=earlier_by_slot(tuple(self.program), self.key, start, end, capacity))

    def forward(self, batch: Batch, value: Column, old: Column | None, *, wants_old: bool, has_headers: bool) -> Batch:
        """What continues because of ``batch``, with the updates' values."""
        return batch.forward(
            self.row,
            key=self.key,
            time_ms=self.time_ms,
            valid=self.valid,
            value=value,
            window_start_ms=self.window_start_ms,
            window_end_ms=self.window_end_ms,
            old=old,
            old_valid=self.old_valid if wants_old else None,
            stream_time_ms=self.stream_time_ms,
            earlier=self.earlier,
            has_headers=has_headers,
        )


_COLUMNS = [f.name for f in fields(Decisions) if f.name not in ("program", "drops", "earlier")]


def joined(pieces: Sequence[Decisions]) -> Decisions:
    """Decisions of consecutive calls as one."""
    if len(pieces) == 1:
        return pieces[0]

    def join(name: str) -> np.ndarray | None:
        columns = [getattr(piece, name) for piece in pieces]
        if name == "is_final":
            columns = [np.zeros(len(p.row), np.bool_) if c is None else c for p, c in zip(pieces, columns, strict=True)]
        return None if columns[0] is None else np.concatenate(columns)

    return Decisions(
        program=FoldProgram(
            *(np.concatenate(column) for column in zip(*(piece.program for piece in pieces), strict=True))
        ),
        drops=[drops for piece in pieces for drops in piece.drops],
        **{name: join(name) for name in _COLUMNS},  # type: ignore[arg-type]
    )


class Updates:
    """Values of updates, which exist once the program has been run: on the first ``take``, and on no other."""

    def __init__(self, state: AggregationState, batch: Batch, decisions: Decisions) -> None:
        self._state, self._batch, self._decisions = state, batch, decisions
        self._whole: pa.Array | None = None
        self._has_run = False

    def take(self, rows: np.ndarray) -> pa.Array:
        if self._whole is not None:
            return self._whole.take(pa.array(rows))
        assert not self._has_run, "the values of a lazy batch were asked for twice"
        return self.run(rows)[0]

    def all(self) -> pa.Array:
        if self._whole is None:
            self._whole = self.take(np.arange(len(self._decisions.row)))
        return self._whole

    def run(self, rows: np.ndarray, *, with_old: bool = False) -> tuple[pa.Array, pa.Array]:
        """New values of ``rows``, and old values of all rows if asked; states move on."""
        self._has_run = True
        decided = self._decisions
        wanted = np.full(len(decided.row), -1, np.int64)
        wanted[rows] = np.arange(len(rows))
        wanted[~decided.valid] = -1
        wanted_old = np.full(len(decided.row) if with_old else 0, -1, np.int64)
        if with_old:
            wanted_old[decided.old_valid] = np.flatnonzero(decided.old_valid)
        asked = WantedUpdates(wanted, wanted_old, len(rows), len(decided.row) if with_old else 0)
        new, old = self._state.run(decided.program, self._batch, asked)
        return masked(new, decided.valid[rows]), masked(old, decided.old_valid) if with_old else old

    def finish(self) -> None:
        """Run the program if nobody asked for a value."""
        if not self._has_run:
            self.run(np.zeros(0, np.int64))
