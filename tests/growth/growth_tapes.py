"""Hot-key tapes in columns, and a test driver that takes them: what growth is measured on."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kstreams_replay.jobs.task.task import Task
from kstreams_replay.jobs.testing.driver_inputs import DriverInputs
from kstreams_replay.jobs.testing.driver_outputs import DriverOutputs
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.state.tables.warehouse import HEADERS

STEP_MS, FIRST_MS = 10, 1_000


class GrowthRecords(NamedTuple):
    """Records of one topic in the order in which they come; keys and values as the topic's serdes take them."""

    time_ms: np.ndarray
    keys: pa.Array
    values: pa.Array


def hot_times(records: int, *, late: float = 0.2, step_ms: int = STEP_MS) -> np.ndarray:
    """One record every ``step_ms``, but a share of them anywhere before."""
    generator = np.random.default_rng(3)
    time_ms = np.arange(records, dtype=np.int64) * step_ms + FIRST_MS
    is_late = generator.random(records) < late
    time_ms[is_late] = (time_ms[is_late] * generator.random(int(is_late.sum()))).astype(np.int64)
    return time_ms


def hot_keys(records: int, share: float = 0.5, name: str = "k") -> pa.Array:
    """Key ``k0`` for a share of the records, others of many keys."""
    generator = np.random.default_rng(4)
    numbers = 1 + generator.integers(0, max(1, records // 4), records)
    numbers[generator.random(records) < share] = 0
    return pa.array([f"{name}{number}" for number in numbers.tolist()], pa.string())


def hot(records: int, **options: Any) -> GrowthRecords:
    """Half of the records of one key, a fifth of them late; values are small numbers."""
    return GrowthRecords(hot_times(records, **options), hot_keys(records), pa.array(np.arange(records) % 1_000))


class ColumnInputs(DriverInputs):
    """Records that are piped as columns."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        self._columns: dict[str, tuple[GrowthRecords, np.ndarray]] = {}

    def pipe_columns(self, topics: dict[str, GrowthRecords]) -> None:
        lengths = [len(records.time_ms) for records in topics.values()]
        order = np.argsort(np.concatenate([np.arange(n) / max(n, 1) for n in lengths]), kind="stable")
        arrival = np.empty(len(order), np.int64)
        arrival[order] = self.arrivals + np.arange(len(order))
        self.arrivals += len(order)
        for (topic, records), part in zip(topics.items(), np.split(arrival, np.cumsum(lengths)[:-1]), strict=True):
            self._columns[topic] = records, part
            self._piped[topic] = [None]  # type: ignore[list-item]

    def _rows(self, topic: str) -> tuple[pa.Table, np.ndarray]:
        self._piped[topic] = []
        (records, arrival), node = self._columns.pop(topic), self._sources[topic]
        first = self._next_offset[topic]
        self._next_offset[topic] += len(arrival)
        offset = pa.array(np.arange(first, first + len(arrival)))
        columns = {
            "offset": offset,
            "timestamp": records.time_ms,
            "key": node.shape.key.encode(records.keys),
            "value": node.shape.value.encode(records.values),
            "headers": pa.nulls(len(arrival), HEADERS),
            "context_offset": offset,
        }
        return pa.table(columns), arrival


class _Counts(DriverOutputs):
    """``sent``: records by output; they are kept nowhere."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        self.sent: dict[str, int] = {}

    def collect(self, chunks: Iterable[tuple[np.ndarray, dict[str, pa.Table]]]) -> None:
        for _, outputs in chunks:
            for topic, table in outputs.items():
                self.sent[topic] = self.sent.get(topic, 0) + len(table)

    def book(self, *refused: Any) -> None:
        pass


class ColumnDriver(TopologyTestDriver):
    """A test driver that is piped columns, and only counts what comes out."""

    def __init__(self, topology: Topology, **options: Any) -> None:
        super().__init__(topology, **options)
        self._in, self._out = ColumnInputs(topology), _Counts(topology)

    @property
    def tasks(self) -> list[Task]:
        return self._tasks

    @property
    def sent(self) -> dict[str, int]:
        """Records by output."""
        return self._out.sent

    def pipe_columns(self, topics: dict[str, GrowthRecords]) -> None:
        """All records of the topics, spread evenly over each other."""
        self._in.pipe_columns(topics)

    def saved(self) -> dict[str, pa.Table]:
        """Live rows of all stores."""
        return {name: store.rows() for task in self._tasks for name, store in task.stores.items()}

    def go_on_from(self, before: "ColumnDriver") -> None:
        """Begin with the state of another driver, as an increment does."""
        rows = before.saved()
        for task, other in zip(self._tasks, before._tasks, strict=True):
            task.resume({name: rows[name] for name in task.stores}, other.counters())
