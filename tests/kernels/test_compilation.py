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


def signatures() -> dict[str, int]:
    """Compiled versions of every kernel that is called from Python."""
    names = [f"jobs.kernels.{module.name}" for module in pkgutil.iter_modules(jobs.kernels.__path__)]
    modules = [importlib.import_module(name) for name in [*names, "state.key_table", "state.stores.slot_index"]]
    return {
        f"{module.__name__}.{name}": len(kernel.nopython_signatures)
        for module in modules
        for name, kernel in vars(module).items()
        if isinstance(kernel, CPUDispatcher)
    }


def test_after_compile_kernels_a_replay_of_many_increments_compiles_nothing_more(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "clicks", tape(8, 60), partitions=PARTITIONS)
    compile_kernels(everything())
    before = signatures()

    reports = list(replay(warehouse, everything(), pipeline="p", runner=LocalRunner(), max_records=20))

    assert len(reports) > 1
    assert {name: count for name, count in signatures().items() if count != before[name]} == {}
