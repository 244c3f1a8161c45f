"""A record of a test driver on which the run ended: found among those of its batch, and reported with its contents.

Rule: it is the first record, in the order of arrival, up to which the records of the batch cannot be run.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ...state.errors import TaskFailed
from ...state.serdes import Serde
from ..topology.topology import Topology
from .driver_records import PipedRecord
from .driver_tasks import DriverStep

Landed = Mapping[str, tuple[pa.Table, np.ndarray]]


def first_records(landed: Landed, count: int) -> DriverStep:
    """The first ``count`` records of a batch, by arrival."""
    kept = {}
    arrivals = np.sort(np.concatenate([at for _, at in landed.values()]))
    if count > 0:
        for topic, (rows, at) in landed.items():
            is_before = at <= arrivals[count - 1]
            if is_before.any():
                kept[topic] = rows.filter(pa.array(is_before)), at[is_before]
    return DriverStep(kept)


def find_first(landed: Landed, error: TaskFailed, run: Callable[[DriverStep], None]) -> tuple[int, TaskFailed] | None:
    """How many records of the batch that ended with ``error`` can be run, and the error of the one after them.

    ``run`` runs records after all that was before the batch, and raises as they do. None when they do not fail again.
    """
    # Halving is right because every beginning that includes the failing record fails, too. The whole batch runs first:
    # a callable that answers differently each time may not fail again.
    good, bad = 0, sum(len(rows) for rows, _ in landed.values())
    failure = None
    while bad - good > 1 or failure is None:
        middle = bad if failure is None else (good + bad) // 2
        try:
            run(first_records(landed, middle))
        except TaskFailed as again:
            bad, failure = middle, again
        else:
            if failure is None:
                return None
            good = middle
    arrivals = np.sort(np.concatenate([at for _, at in landed.values()]))
    failure.arrival = int(arrivals[good])
    return good, failure


def note_on(failure: TaskFailed, topology: Topology, landed: Landed) -> None:
    """Give ``failure`` the record of its arrival, which is among ``landed``."""
    failure.record = piped_record(topology, landed, failure.arrival)
    if failure.record is not None:
        failure.add_note(failure.record.note())


def piped_record(topology: Topology, landed: Landed, arrival: int) -> PipedRecord | None:
    """The record of an arrival among what ``landed``; None when a recorded time came then."""
    for topic, (rows, arrivals) in landed.items():
        for index in np.flatnonzero(arrivals == arrival).tolist():
            row = rows.slice(index, 1).to_pylist()[0]
            node = next(node for node in topology.graph.nodes.values() if node.landed_topic == topic)
            headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
            shape = node.shape
            key, value = _read(shape.key, row["key"]), _read(shape.value, row["value"])
            # What the test gave is what operators see and what it looks for; without it this is the place in the topic.
            offset = row["offset"] if row["context_offset"] is None else row["context_offset"]
            return PipedRecord(topic, 0, offset, key, value, row["timestamp"], headers, arrival)
    return None


def _read(serde: Serde, data: bytes | None) -> Any:
    decoded = serde.decode(pa.array([data], pa.binary()))
    return data if decoded.reasons else serde.to_python(decoded.values)[0]
