"""The letters of a chunk as a batch, for the sink of the topic of dead letters."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ...state.buffers import is_valid
from ...state.records.batches import Batch, Chunk, Letter, Values
from ...state.records.keys import Keys
from ...state.tables.warehouse import HEADERS
from .base.operator import Operator, OperatorContext
from .dead_letter_node import DeadLettersNode


class ForwardDeadLetters(Operator):
    """``keys`` codes the keys of letters, which are bytes."""

    def __init__(self, context: OperatorContext, node: DeadLettersNode) -> None:
        super().__init__(context)
        self.keys = Keys(node.shape.key)

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        return self.forward(chunk)

    def forward(self, chunk: Chunk, until: int | None = None) -> Batch:
        """Letters of causes up to ``until`` (None: of all) that nobody has forwarded."""
        return self._batch([] if chunk.letters is None else chunk.letters.take(until))

    def _batch(self, letters: Sequence[Letter]) -> Batch:
        """The ``letters`` as records, in order."""
        depth = max((len(letter.path) for letter in letters), default=0)
        paths = [(*letter.path, *[-1] * (depth - len(letter.path))) for letter in letters]
        path = np.array(paths, np.int64).reshape(len(letters), depth)
        value = pa.array([letter.value for letter in letters], pa.binary())
        headers = [[{"key": name, "value": content} for name, content in letter.headers] for letter in letters]
        return Batch(
            cause=np.array([letter.cause for letter in letters], np.int32),
            key=self.keys.intern(pa.array([letter.key for letter in letters], pa.binary())),
            keys=self.keys,
            time_ms=np.array([letter.time_ms for letter in letters], np.int64),
            valid=is_valid(value),
            value=Values(value),
            headers=pa.array(headers, HEADERS),
            path=tuple(path.T),
        )
