"""What the stages of one increment hand to each other: files nobody else sees, and the tree of causes."""

import numpy as np
import pyarrow.parquet as pq

from jobs.arrivals import Causes
from jobs.runner import TaskReport
from jobs.task_tape import Pieces, Queue
from jobs.topology.topology import SubTopology
from state.tables import open_filesystem


class Exchange:
    """``order`` "arrival": every piece's rows are numbered in the tree of causes."""

    def __init__(self, order: str) -> None:
        self.order = order
        self._paths: dict[tuple[str, int], list[str]] = {}
        self._causes = Causes()
        self._numbers: dict[str, np.ndarray] = {}

    def add(self, sub: SubTopology, reports: list[TaskReport]) -> None:
        """Enter the pieces that a stage wrote."""
        topics = {node.topic for node in sub.repartitions if not node.is_ours}
        for report in reports:
            for name, by_target in report.pieces.items():
                for target, path in by_target.items():
                    self._paths.setdefault((name, int(target)), []).append(path)
                    if self.order == "arrival" and name in topics:
                        self._number(name, path)

    def _number(self, topic: str, path: str) -> None:
        filesystem, root = open_filesystem(path)
        rows = pq.read_table(
            root, filesystem=filesystem, columns=["cause_time_ms", "cause_number", "send", "timestamp"]
        )
        self._numbers[path] = self._causes.add(topic, *(rows[name].to_numpy() for name in rows.column_names))

    def queue(self, source: int, name: str, partition: int, *, is_topic: bool) -> Queue:
        """What was written for one source of one task. ``is_topic`` False: taken as part of the record that sent it."""
        paths = tuple(self._paths.get((name, partition), ()))
        numbered = [self._numbers[path] for path in paths if path in self._numbers]
        first = tuple(int(numbers[0]) for numbers in numbered)
        pieces = Pieces(paths, first, tuple(self._causes.sequence(numbers) for numbers in numbered))
        return Queue(source, None, pieces, inlined=not is_topic)
