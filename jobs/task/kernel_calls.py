"""Every kernel of a topology called once, so that none is compiled or loaded in the middle of its records."""

import numpy as np
import pyarrow as pa

from ...state.records.keys import Keys
from ...state.runs.sorted_runs import key_hashes
from ...state.serdes import Serde
from ..kernels.causal_order import number_caused
from ..kernels.partition_group import NO_MORE, QueueOrder
from ..topology.topology import Topology
from .task import Task, empty_input


def call_kernels(topology: Topology) -> None:
    """Call every kernel that ``topology`` runs, by running it over no records. Where kernels run compiled, that
    compiles them, or loads them from Numba's cache on disk.
    """
    Keys(Serde.string()).intern(pa.array([b"key"]))
    key_hashes(pa.array([b"key"]))
    for sub_topology in topology.sub_topologies:
        task = Task(topology, sub_topology)
        task.resume({}, {})
        task.process(empty_input(task))
        for operator in task.stores.values():
            operator.changes()


def call_ordering_kernels() -> None:
    """Call the kernels that put records of several queues into the order of a task: landed ones, and those that landed
    records cause.
    """
    QueueOrder([iter([np.zeros(1, np.int64)])], np.full(1, NO_MORE), []).take(1)
    none = np.zeros(0, np.int64)
    number_caused(none, none, none, none, none, none, 1, none)
