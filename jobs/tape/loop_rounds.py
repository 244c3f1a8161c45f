"""How often what one landed record caused went round a loop, and where that is too often to be meant.

Rule: a row that is sent to the topic of a loop has gone one topic further than the row whose processing sent it. Kafka
would never end; here more than ROUNDS_MAX for each topic of a loop are an error.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from ...state.errors import TaskFailed

ROUNDS_MAX = 250
"""A retry counts to ten, a matching of orders ends when one side is used up."""


class LoopRounds:
    """``paths``: of every topic of a loop the path from it back to it (``Topology.loop_topics``)."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths, self._rounds = paths, dict[int, int]()
        """By row, how many topics of loops it has gone through."""

    def begin(self) -> None:
        """Another landed record."""
        self._rounds = {}

    def add(self, topic: str, parents: np.ndarray, numbers: np.ndarray, rows: pa.Table) -> None:
        """``rows`` were sent to ``topic``; ``numbers``, ``parents``: of each and of the row whose processing sent it
        (below 0: a landed one). Raises TaskFailed for one that has gone round too often.
        """
        if not self._paths:
            return
        for row, (parent, number) in enumerate(zip(parents.tolist(), numbers.tolist(), strict=True)):
            self._rounds[number] = self._rounds.get(parent, 0) + (topic in self._paths)
            if self._rounds[number] > ROUNDS_MAX * len(self._paths):
                raise endless(topic, self._paths[topic], f"{ROUNDS_MAX} rounds", rows["key"][row].as_py())


def endless(topic: str, path: str, after: str, key: bytes | None, otherwise: str = "") -> TaskFailed:
    """A record of ``key`` still goes round ``after`` so much; ``otherwise``: what else can be done."""
    return TaskFailed(
        f"topic {topic!r}",
        f"records that leave the loop {path} after a while",
        f"after {after} one of the key {key!r} that still goes round",
        "end the loop before to(): filter what is done, or count the rounds in the value or in a header" + otherwise,
    )
