"""Few records run interpreted; with more, a process switches to compiled kernels. Both tiers leave the same rows."""

import importlib
import json
import os
import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numba import typeof

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.state.compilation import compiler, kernel_compilation, kernel_tiers
from kstreams_replay.state.compilation.kernel_cache import (
    _type_of,
    compile_version,
    from_json,
    missing,
    to_json,
    versions_called,
)
from kstreams_replay.state.compilation.kernel_compilation import Kernel, interpreted, kind_of
from kstreams_replay.state.compilation.kernel_tiers import KernelTiers, tiers
from kstreams_replay.state.compilation.numba_cache import WRITING
from kstreams_replay.state.errors import ConfigError, MachineError
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.topologies import PARTITIONS, everything, tape
from tests.planted import plant, tables_of
from tests.state.compilation.small_kernels import SMALL, call, is_compiled


@pytest.fixture(autouse=True)
def _nothing_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test starts as a process does that has called no kernel."""
    monkeypatch.setattr(kernel_compilation, "called", {})
    monkeypatch.setattr("kstreams_replay.state.compilation.kernel_cache.called", kernel_compilation.called)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Modules of two kernels, of which no cache knows anything."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name: str) -> ModuleType:
        name = f"{name}_{tmp_path.name}"
        (tmp_path / f"{name}.py").write_text(SMALL)
        return importlib.import_module(name)

    return make


# --- the two ways ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(3),
        np.zeros(3, np.uint8)[::2],
        np.zeros((2, 3), np.int32).T,
        np.frombuffer(b"12345678", np.int64),
        np.frombuffer(b"123456789", np.uint8)[1:].view(np.int64),
        (np.zeros(1), np.zeros(1)),
        (np.zeros(1), (np.zeros(1, np.bool_), 3)),
        (),
        np.uint64(7),
        np.int32(7),
        np.bool_(True),
        -7,
        2**63,
        True,
        0.5,
        None,
    ],
    ids=repr,
)
def test_arguments_are_taken_for_what_numba_takes_them_for(value):
    assert _type_of(kind_of(value)) == typeof(value)


def test_a_file_in_memory_is_an_array(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(4))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")

    assert _type_of(kind_of(mapped)) == typeof(mapped)


def test_interpreted_kernels_count_as_compiled_ones_and_say_nothing_of_hashes_that_wrap():
    words = Serde.string().encode(Serde.string().from_python([f"key {n}" for n in range(300)] * 2))
    with interpreted(is_on=False):
        want = Keys(Serde.string())
        codes = want.intern(words)
    with interpreted(), warnings.catch_warnings():
        warnings.simplefilter("error")
        got = Keys(Serde.string())
        assert got.intern(words).tolist() == codes.tolist()
        assert got.lookup(b"key 299") == want.lookup(b"key 299") == 299


def test_a_kernel_for_kernels_says_so_interpreted_too(small):
    with interpreted(), pytest.raises(TypeError, match=r"twice: expected a call from a kernel, got one from Python"):
        small("refused").twice(1)


def test_a_kernel_that_fails_leaves_calls_from_python_as_they_were(small):
    module = small("fails")
    with interpreted(), pytest.raises(AttributeError):
        module.double(None, 1)
    with interpreted(), pytest.raises(TypeError, match="expected a call from a kernel"):
        module.twice(1)


def test_a_thread_that_leaves_a_kernel_leaves_other_threads_in_theirs(small):
    module, entered, may_leave = small("threads"), threading.Event(), threading.Event()

    class InterruptingNumber(int):
        """Calls ``then`` in the middle of the kernel."""

        def __radd__(self, other: int) -> int:
            self.then()
            return other + int(self)

    def double(then: Callable[[], object]) -> list[int]:
        numbers, by = np.array([1, 2], object), InterruptingNumber(1)
        by.then = then
        with interpreted():
            module.double(numbers, by)
        return numbers.tolist()

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(double, lambda: entered.set() or may_leave.wait(30))
        assert entered.wait(30)
        got = double(lambda: may_leave.set() or other.result())

    assert got == other.result() == [3, 5]


def test_versions_travel_as_text(small):
    module = small("travels")
    with interpreted():
        call(module)
        module.double(np.zeros((2, 0))[0], 3)

    found = versions_called()

    assert [from_json(json.loads(json.dumps(to_json(each)))) for each in found] == found
    assert len(found) == 2
    assert from_json(["no_such_module", "double", []]) is None


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(3))
def test_a_replay_that_switches_tier_anywhere_leaves_the_same_rows(tmp_path, monkeypatch, seed):
    """
    Outputs, state, drops: a run that switches between two chunks of seven records, and one compiled from the start.
    """
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "clicks", tape(seed, 90), partitions=PARTITIONS)

    def run(pipeline: str) -> None:
        for _ in replay(warehouse, everything(), pipeline=pipeline, runner=LocalRunner(), max_records=60):
            pass

    monkeypatch.setattr(tiers, "is_compiled", True)
    run("compiled")
    looks, place = iter(range(10_000)), random.Random(seed).randrange(1, 30)

    def switch_or_compile() -> None:
        tiers.is_compiled = next(looks) == place

    monkeypatch.setattr(tiers, "is_compiled", False)
    monkeypatch.setattr(tiers, "mode", "auto")
    monkeypatch.setattr(tiers, "switch_or_compile", switch_or_compile)
    monkeypatch.setattr(tiers, "expect", lambda *_: None)
    monkeypatch.setattr(kernel_tiers, "FEW_RECORDS", 0)
    monkeypatch.setattr(kernel_tiers, "INTERPRETED_CHUNK_RECORDS", 7)
    run("over")

    assert next(looks) == place + 1, "it switched"
    assert tables_of(warehouse, "over", everything()) == tables_of(warehouse, "compiled", everything())


def test_a_driver_that_switches_tier_gives_the_same_records_and_stores(monkeypatch):
    def play() -> tuple[object, ...]:
        driver = TopologyTestDriver(everything())
        for record in tape(5, 80):
            driver.pipe_bytes("clicks", record.key, record.value, max(record.timestamp_ms, 0), headers=record.headers)
        outputs = [driver.read_outputs(topic) for topic in ("sessions", "counts", "initials", "pages")]
        dropped = sorted(driver.dropped, key=lambda each: (each.arrival, each.node))
        return *outputs, dropped, driver.metrics()

    monkeypatch.setattr(tiers, "is_compiled", True)
    want = play()
    looks = iter(range(10_000))

    def switch_or_compile() -> None:
        tiers.is_compiled = next(looks) == 4

    monkeypatch.setattr(tiers, "is_compiled", False)
    monkeypatch.setattr(tiers, "mode", "auto")
    monkeypatch.setattr(tiers, "switch_or_compile", switch_or_compile)
    monkeypatch.setattr(tiers, "expect", lambda *_: None)
    monkeypatch.setattr(kernel_tiers, "FEW_RECORDS", 0)
    monkeypatch.setattr(kernel_tiers, "INTERPRETED_CHUNK_RECORDS", 9)

    assert play() == want
    assert next(looks) == 5


# --- when a process switches ------------------------------------------------------------------------------------


def test_few_records_stay_interpreted_however_they_are_cut():
    process = KernelTiers()
    assert list(process.chunks(5_000)) == [(0, 5_000)]
    assert list(process.chunks(1_000, 400)) == [(0, 400), (400, 800), (800, 1_000)]
    assert list(process.chunks(0)) == [(0, 0)]
    assert not process.is_compiled


def test_more_records_go_over_at_once_where_all_is_cached(small):
    module, process = small("cached"), KernelTiers()
    with interpreted():
        call(module)
    for version in versions_called():
        compile_version(*version)

    with process.running():
        process.take(kernel_tiers.FEW_RECORDS + 1)
        assert process.is_compiled
        assert call(module) == [1, 3, 5]
    assert len(versions_called()) == 1, "the second call was compiled"


@pytest.mark.slow
def test_what_is_missing_is_compiled_by_another_process_and_records_come_in_small_pieces_until_then(small):
    module, process, pieces = small("missing"), KernelTiers(), list[int]()
    with process.running():
        call(module)
        for begin, end in process.chunks(1_000_000):
            pieces.append(end - begin)
            assert call(module) == [1, 3, 5]
            if not process.is_compiled and process._compiler is not None:
                assert process._compiler.wait() == 0

    # The fourth is more than a few; the fifth finds all compiled, and the sixth is the rest.
    assert pieces == [kernel_tiers.INTERPRETED_CHUNK_RECORDS] * 5 + [
        1_000_000 - 5 * kernel_tiers.INTERPRETED_CHUNK_RECORDS
    ]
    assert not missing(versions_called())
    assert not is_compiled(module.twice), "this process has loaded what the other compiled"


@pytest.mark.slow
def test_where_waiting_is_quicker_it_waits_and_tells_how_far_the_compiler_is(small):
    module, process, told = small("waits"), KernelTiers(), list[tuple[str, int, int]]()

    process.expect(10_000_000, lambda: call(module), lambda *said: told.append(said))

    assert process.is_compiled
    assert told[0] == ("compiling kernels", 0, 1)
    assert {(words, of) for words, _, of in told} == {("compiling kernels", 1)}
    assert not missing(versions_called())


@pytest.mark.slow
def test_a_compiler_that_dies_hurts_nobody(small, monkeypatch):
    monkeypatch.setattr(
        kernel_tiers, "start_compiler", lambda _: subprocess.Popen([sys.executable, "-c", "import os; os.abort()"])
    )
    module, process = small("dies"), KernelTiers()
    with process.running():
        call(module)
        process.take(10_000)
        assert not process.is_compiled
        assert process._compiler is not None
        process._compiler.wait()
        process.take(10_000)
        assert process.is_compiled
        assert call(module) == [1, 3, 5]
    assert is_compiled(module.twice), "compiled here"


def test_a_compiler_that_cannot_be_told_anything_hurts_nobody(small, monkeypatch):
    module = small("deaf")
    with interpreted():
        call(module)
    monkeypatch.setattr(sys, "executable", "/bin/true")

    assert compiler.start_compiler(versions_called() * 5_000).wait() == 0


def test_without_a_folder_to_write_to_kernels_are_compiled_where_they_are_called():
    names: dict[str, object] = {"__name__": "nowhere"}
    exec(SMALL, names)  # no file, so there is no place beside it
    double, process = names["double"], KernelTiers()
    assert isinstance(double, Kernel)
    with process.running():
        double(np.arange(3), 1)
        process.take(10_000)
        assert process.is_compiled
        numbers = np.arange(3)
        double(numbers, 1)
    assert numbers.tolist() == [1, 3, 5]


def test_a_way_that_there_is_not_is_refused():
    with pytest.raises(ConfigError, match="REPLAY_KERNELS: expected one of auto, compiled, interpreted, got 'fast'"):
        KernelTiers("fast")


def test_a_process_told_to_stay_interpreted_stays_so():
    process = KernelTiers("interpreted")

    process.expect(10**9, lambda: pytest.fail("nothing is looked for"))

    assert list(process.chunks(10**9)) == [(0, 10**9)]
    assert not process.is_compiled


# --- the compiler and its cache ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_warming_up_compiles_what_is_called_and_says_how_much_was_new(small):
    module, told = small("warm"), list[tuple[str, int, int]]()

    first = KernelTiers().warm_up(lambda: call(module), lambda *said: told.append(said))
    again = KernelTiers().warm_up(lambda: call(module))

    assert (first, again) == ((1, 1), (1, 0))
    assert told[-1] == ("compiling kernels", 1, 1)


def test_warming_up_names_what_could_not_be_compiled(small, monkeypatch):
    monkeypatch.setattr(kernel_tiers, "start_compiler", lambda _: subprocess.Popen([sys.executable, "-c", "pass"]))
    module = small("cold")

    with pytest.raises(MachineError, match=r"expected 1 versions of kernels, got none of cold_\w+\.double"):
        KernelTiers().warm_up(lambda: call(module))


@pytest.mark.slow
def test_several_modules_are_compiled_side_by_side(small, monkeypatch):
    monkeypatch.setattr(compiler, "cores", lambda: 2)
    modules = small("one"), small("two")
    with interpreted():
        for module in modules:
            call(module)

    assert compiler.compile_side_by_side(versions_called())

    assert not missing(versions_called())
    assert not any(is_compiled(module.double) for module in modules), "it was done by others"


def test_a_version_is_written_under_a_lock_and_its_code_before_its_name(small):
    import fcntl

    module = small("locked")
    dispatcher = module.double.dispatcher
    file, seen = dispatcher._cache._cache_file, list[bool]()
    save_index = file._save_index

    def save(names: dict[object, str]) -> None:
        seen.append(all(os.path.exists(file._data_path(name)) for name in names.values()))
        with open(Path(file._cache_path) / WRITING, "a") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        save_index(names)

    file._save_index = save
    for numbers in (np.zeros(1, np.int64), np.zeros(1, np.float64)):
        module.double(numbers, 1)

    assert seen == [True, True]
    assert len(set(file._load_index().values())) == 2
