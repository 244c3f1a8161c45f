"""Kernels are compiled once, before the first record, and not again for arrays that differ only in how they came to
be.
"""

import importlib
import pkgutil

from numba.core.registry import CPUDispatcher

import jobs.kernels
from jobs.replay import replay
from jobs.runner import LocalRunner
from jobs.task import compile_kernels
from state.tables import Warehouse
from tests.laws.topologies import PARTITIONS, everything, tape
from tests.planted import plant

MODULES = [
    *(f"jobs.kernels.{module.name}" for module in pkgutil.iter_modules(jobs.kernels.__path__)),
    *("state.key_table", "state.stores.slot_index", "state.stores.lanes", "state.stores.timed_records"),
]

MAKE_ARRAYS = {
    "jobs.kernels.arrivals.number_caused",
    "jobs.kernels.earlier_changes.earlier_by_key",
    "jobs.kernels.earlier_changes.earlier_by_slot",
    "jobs.kernels.suppress.by_row",
    "jobs.kernels.suppress.hashes",
    "jobs.kernels.suppress.in_order",
    "jobs.kernels.suppress.staying",
    "jobs.kernels.suppress.suppress_strictly",
    "jobs.kernels.suppress.written_out",
    "jobs.kernels.suppress_order.room_to_sort",
    "jobs.kernels.window_lists.relink",
    "state.key_table.intern_words",
}
"""Kernels that make arrays, once a call: what they do for every record stands in another."""


def kernels() -> dict[str, CPUDispatcher]:
    """By module and name, each where it is written."""
    return {
        f"{name}.{kernel.__name__}": kernel
        for name in MODULES
        for kernel in vars(importlib.import_module(name)).values()
        if isinstance(kernel, CPUDispatcher) and kernel.__module__ == name
    }


def signatures() -> dict[str, int]:
    """Compiled versions of every kernel that is called from Python."""
    return {name: len(kernel.nopython_signatures) for name, kernel in kernels().items()}


def test_after_compile_kernels_a_replay_of_many_increments_compiles_nothing_more(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "clicks", tape(8, 60), partitions=PARTITIONS)
    compile_kernels(everything())
    before = signatures()

    reports = list(replay(warehouse, everything(), pipeline="p", runner=LocalRunner(), max_records=20))

    assert len(reports) > 1
    assert {name: count for name, count in signatures().items() if count != before[name]} == {}


def test_a_loop_over_records_counts_no_references():
    """
    Numba counts them for every array that comes out of a tuple, which costs more than the record.
    """
    counting = {
        name
        for name, kernel in kernels().items()
        if kernel.targetoptions.get("_nrt", True) and kernel.targetoptions.get("inline") != "always"
    }
    assert counting == MAKE_ARRAYS
