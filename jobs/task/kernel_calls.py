"""Every kernel of a topology called once, so that none is compiled or loaded in the middle of its records."""

import pyarrow as pa

from ...state.records.keys import Keys
from ...state.runs.sorted_runs import key_hashes
from ...state.serdes import Serde
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
