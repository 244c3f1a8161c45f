"""What the stages of one increment hand to each other: files nobody else sees, and the tree of causes."""

import numpy as np

from jobs.advances import Told
from jobs.arrivals import Causes
from jobs.exchange_files import read_exchange_file
from jobs.runner import TaskReport
from jobs.task_queues import Pieces, Queue
from jobs.topology.topology import SubTopology, Topology


class Exchange:
    """``order`` "arrival": every piece's rows are numbered in the tree of causes. ``partitions``: of the plan."""

    def __init__(self, order: str, topology: Topology, partitions: dict[str, int]) -> None:
        self.order, self.topology, self.partitions = order, topology, partitions
        self._paths: dict[tuple[str, int], list[tuple[int, str]]] = {}
        self._told: dict[str, list[Told]] = {}
        self._causes = Causes()
        self._numbers: dict[str, np.ndarray] = {}

    def add(self, sub: SubTopology, reports: list[TaskReport]) -> None:
        """Enter the pieces that a stage wrote."""
        topics = {node.topic for node in sub.repartitions if not node.is_ours}
        for report in reports:
            for name, by_target in report.pieces.items():
                for target, path in by_target.items():
                    self._paths.setdefault((name, int(target)), []).append((report.partition, path))
                    if self.order == "arrival" and name in topics:
                        self._number(name, path)
            for name, told in report.told:
                self._told.setdefault(name, []).append(Told(*told))

    def _number(self, topic: str, path: str) -> None:
        rows = read_exchange_file(path, ["cause_time_ms", "cause_number", "send", "timestamp"])
        self._numbers[path] = self._causes.add(topic, *(rows[name].to_numpy() for name in rows.column_names))

    def queue(self, source: int, name: str, partition: int, *, is_topic: bool) -> Queue:
        """What was written for one source of one task. ``is_topic`` False: taken as part of the record that sent it."""
        written = self._paths.get((name, partition), [])
        writers, paths = self._writers(name, partition), tuple(path for _, path in written)
        numbered = [self._numbers[path] for path in paths if path in self._numbers]
        pieces = Pieces(
            paths,
            tuple(int(numbers[0]) for numbers in numbered),
            tuple(self._causes.sequence(numbers) for numbers in numbered),
            tuple(sender for sender, _ in written),
            tuple(told for told in self._told.get(name, ()) if told.writer in writers),
            writers,
        )
        return Queue(source, None, pieces, inlined=not is_topic)

    def _writers(self, name: str, partition: int) -> tuple[int, ...]:
        """Partitions of the tasks that write what a task of ``partition`` reads as ``name``: of a topic all, and of an
        earlier part of the same task that part.
        """
        for sub in self.topology.sub_topologies:
            if name in {node.topic for node in sub.repartitions}:
                return tuple(range(self.partitions[str(sub.id)]))
        return (partition,)
