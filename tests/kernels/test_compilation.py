"""Kernels are compiled once, before the first record, and not again for arrays that differ only in how they came to
be, nor for what nobody calls.
"""

import ast
import importlib
import re
from typing import NamedTuple

import numpy as np
import pytest
from numba import types

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.task.kernel_calls import call_kernels, call_ordering_kernels
from kstreams_replay.orchestration.cli import every_operator
from kstreams_replay.state.compilation import kernel_compilation
from kstreams_replay.state.compilation.kernel_compilation import Kernel, inner_kernel, interpreted, kernel
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.topologies import PARTITIONS, everything, tape
from tests.planted import plant
from tests.source_tree import PACKAGES, files, modules, package_modules, refuse

pytestmark = pytest.mark.sampled(share=3)

MODULES = [
    *(
        f"kstreams_replay.{path[:-3].replace('/', '.')}"
        for path in files()
        if path.split("/")[0] in PACKAGES and re.search(r"/kernels/\w+\.py$|_kernel\.py$", path)
    ),
    *(
        "kstreams_replay.state.records.key_interning",
        "kstreams_replay.state.records.murmur2",
        "kstreams_replay.state.stores.slot_index",
        "kstreams_replay.state.stores.skip_lists",
        "kstreams_replay.state.stores.timed_records",
    ),
]

MAKE_ARRAYS = {
    "kstreams_replay.jobs.kernels.causal_order.number_caused",
    "kstreams_replay.jobs.kernels.earlier_changes.earlier_by_key",
    "kstreams_replay.jobs.operators.aggregate_parts.earlier_updates_kernel.earlier_by_slot",
    "kstreams_replay.jobs.operators.suppress.suppress_kernel.by_row",
    "kstreams_replay.jobs.operators.suppress.suppress_kernel.hashes",
    "kstreams_replay.jobs.operators.suppress.suppress_kernel.milestones",
    "kstreams_replay.jobs.operators.suppress.suppress_order_kernel.in_order",
    "kstreams_replay.jobs.operators.suppress.suppress_kernel.staying",
    "kstreams_replay.jobs.operators.suppress.suppress_kernel.suppress_strictly",
    "kstreams_replay.jobs.operators.suppress.suppress_order_kernel.taken",
    "kstreams_replay.jobs.operators.suppress.suppress_kernel.written_out",
    "kstreams_replay.jobs.operators.suppress.suppress_order_kernel.room_to_sort",
    "kstreams_replay.state.records.key_interning.intern_words",
}
"""Kernels that make arrays, once a call: what they do for every record is in another."""


NEED_RECORDS = {
    "kstreams_replay.jobs.functions.folds.folding_kernel.combine",
    "kstreams_replay.jobs.functions.folds.folding_kernel.prefer",
    "kstreams_replay.jobs.kernels.earlier_changes.is_same",
    "kstreams_replay.jobs.kernels.slot_lifecycle.enter_slot",
    "kstreams_replay.jobs.kernels.slot_lifecycle.find_slot",
    "kstreams_replay.jobs.kernels.slot_lifecycle.remove",
    "kstreams_replay.jobs.operators.aggregate_parts.slots_by_key_kernel.enter_window",
    "kstreams_replay.jobs.operators.aggregate_parts.slots_by_key_kernel.first_from",
    "kstreams_replay.jobs.operators.aggregate_parts.slots_by_key_kernel.unlink",
    "kstreams_replay.jobs.operators.aggregates.session_windows_kernel.enter",
    "kstreams_replay.jobs.operators.aggregates.session_windows_kernel.has_closed",
    "kstreams_replay.jobs.operators.aggregates.session_windows_kernel.show",
    "kstreams_replay.jobs.operators.joins.complete_history_join_kernel.join_versions",
    "kstreams_replay.jobs.operators.suppress.suppress_order_kernel.room_to_sort",
    "kstreams_replay.jobs.operators.table_aggregates.table_aggregate_kernel.settle_group",
    "kstreams_replay.jobs.operators.tables.versioned_store_kernel.lookup",
    "kstreams_replay.jobs.operators.tables.versioned_store_kernel.take_back",
    "kstreams_replay.state.records.key_interning._word",
    "kstreams_replay.state.records.key_interning.compare_serialized",
    "kstreams_replay.state.records.key_interning.compare_serialized_sessions",
    "kstreams_replay.state.records.key_interning.first_uses",
    "kstreams_replay.state.records.key_interning.lookup",
    "kstreams_replay.state.records.key_interning.rebuild",
    "kstreams_replay.state.records.murmur2.murmur2",
    "kstreams_replay.state.serdes.avro.decode_kernel.decode_rows",
    "kstreams_replay.state.serdes.avro.decode_kernel.gather_rows",
    "kstreams_replay.state.serdes.avro.encode_kernel.encode_rows",
    "kstreams_replay.state.stores.skip_lists.last_above",
    "kstreams_replay.state.stores.slot_index.home",
    "kstreams_replay.state.stores.timed_records._copy",
    "kstreams_replay.state.stores.timed_records.named",
    "kstreams_replay.state.stores.timed_records.wider",
    "kstreams_replay.state.kafka.message_kernel.describe",
    "kstreams_replay.state.kafka.message_kernel.describe_headers",
    "kstreams_replay.state.kafka.message_kernel.destroy",
    "kstreams_replay.state.kafka.message_kernel.gather",
}
"""Kernels that only records call: those for a single record, those of a serde, and those for a table that grows."""


def kernels() -> dict[str, Kernel]:
    """By module and name, each where it is written."""
    return {
        f"{name}.{kernel.__name__}": kernel
        for name in MODULES
        for kernel in vars(importlib.import_module(name)).values()
        if isinstance(kernel, Kernel) and kernel.__module__ == name
    }


def signatures() -> dict[str, int]:
    """Compiled versions of every kernel that is called from Python."""
    return {name: len(kernel.dispatcher.nopython_signatures) for name, kernel in kernels().items()}


@pytest.mark.slow
def test_after_compile_kernels_a_replay_of_many_increments_compiles_nothing_more(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "clicks", tape(8, 60), partitions=PARTITIONS)
    call_kernels(everything())
    before = signatures()

    reports = list(replay(warehouse, everything(), pipeline="p", runner=LocalRunner(), max_records=20))

    assert len(reports) > 1
    assert {name: count for name, count in signatures().items() if count != before[name]} == {}


def test_warming_up_without_a_topology_calls_every_kernel_but_those_that_need_records(monkeypatch):
    monkeypatch.setattr(kernel_compilation, "called", {})
    with interpreted():
        call_kernels(every_operator.topology())
        call_ordering_kernels()

    from_python = {name for name, kernel in kernels().items() if not kernel.is_inner}
    assert from_python - {kernel.name for kernel in kernel_compilation.called} == NEED_RECORDS


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


# --- who calls a kernel ------------------------------------------------------------------------------------------


@inner_kernel
def _sum_of(number, flag):  # type: ignore[no-untyped-def]
    return number + flag


@kernel
def _sum_all(numbers, total):  # type: ignore[no-untyped-def]
    """Hands on an int32 and a boolean, a literal and an int64, and two literals."""
    for i in range(numbers.shape[0]):
        total[0] += _sum_of(numbers[i], numbers[i] > 2) + _sum_of(7, total[0]) + _sum_of(-1, 1)


def test_numbers_that_kernels_hand_on_keep_their_values():
    total = np.zeros(1, np.int64)
    _sum_all(np.array([1, 3], np.int32), total)

    assert total[0] == (1 + 0) + (7 + 0) + 0 + (3 + 1) + (7 + 8) + 0


def test_numbers_that_kernels_hand_on_make_one_version_of_the_next():
    for kinds in [(types.int32, types.boolean), (types.literal(7), types.int64), (types.literal(-1), types.literal(1))]:
        _sum_of.dispatcher.get_call_template(kinds, {})  # what Numba asks where a kernel calls it

    assert {str(each.args) for each in _sum_of.dispatcher.nopython_signatures} == {"(int64, int64)", "(int64, bool)"}


def test_a_kernel_for_kernels_says_so_when_python_calls_it():
    _sum_of.dispatcher.compile((types.int64, types.int64))

    with pytest.raises(TypeError, match=r"test_compilation\._sum_of: expected a call from a kernel"):
        _sum_of(1, 2)


class _KernelNumbers(NamedTuple):
    numbers: np.ndarray


@kernel
def _first_of(bundle):  # type: ignore[no-untyped-def]
    return bundle[0][0]


def test_python_hands_kernels_plain_tuples():
    """
    A task calls its kernels interpreted before its first record, so that a NamedTuple, which Numba takes long to look
    at, does not go unnoticed.
    """
    bundle = _KernelNumbers(np.array([7], np.int64))
    with interpreted():
        assert _first_of(tuple(bundle)) == 7
        with pytest.raises(TypeError, match=r"expected plain tuples, got a _KernelNumbers; hand over tuple\(…\) of it"):
            _first_of(bundle)
        with pytest.raises(TypeError, match="expected plain tuples, got a _KernelNumbers"):
            _first_of((bundle, 1))


@pytest.mark.slow
def test_kernels_say_who_calls_them():
    """
    An entry from Python that nobody uses is compiled all the same, which takes as long as most kernels themselves.
    """
    is_inner = {name: "inner" in decorator for name, decorator in _decorators().items()}
    called = _called_from_python(set(is_inner))
    assert len(called) > 40
    refuse(
        [f"{module}.{name}" for (module, name), inner in is_inner.items() if inner == ((module, name) in called)],
        "`kernel`, `array_kernel`: Python calls it; `inner_kernel`, `inner_array_kernel`: kernels alone do",
    )


_COMPILED = re.compile("kernel")


def _decorators() -> dict[tuple[str, str], str]:
    """By module and name of every function of a package that kstreams_replay.state.compilation.kernel_compilation
    decorates.
    """
    return {
        (_dotted(path), node.name): ast.unparse(decorator)
        for path, tree in package_modules().items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if ast.unparse(decorator) in ("kernel", "inner_kernel", "array_kernel", "inner_array_kernel")
    }


def _called_from_python(found: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those that are named outside of functions that Numba compiles."""
    called = set()
    for path, tree in modules().items():
        names = {name: (module, name) for module, name in found if module == _dotted(path)}
        within = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                names |= {each.asname or each.name: (_module_of(path, node), each.name) for each in node.names}
            if isinstance(node, ast.FunctionDef) and _COMPILED.search(" ".join(map(ast.unparse, node.decorator_list))):
                within |= set(ast.walk(node))
        for node in ast.walk(tree):
            if node not in within and isinstance(node, ast.Name):
                called.add(names.get(node.id))
            elif node not in within and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                called.add((".".join(names.get(node.value.id, ())), node.attr))
    return called & found


def _module_of(path: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    above = _dotted(path).split(".")[: -node.level]
    return ".".join([*above, *filter(None, [node.module])])


def _dotted(path: str) -> str:
    return f"kstreams_replay.{path[:-3].replace('/', '.')}"
