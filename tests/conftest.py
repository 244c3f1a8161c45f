"""What every test may ask for, and which tests a run has.

Rule: one Spark session a process, started by the first test that needs it. Tests that need the same costly program run
in one process one after the other (`GROUPS`), so that it is started once; different programs may run side by side.
"""

from __future__ import annotations

import gc
import os
import random
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from kstreams_replay.state import hidden_values
from kstreams_replay.state.compilation.kernel_tiers import tiers
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.once_a_run import run_folder
from tests.quick_java import QUICK_JAVA
from tests.quick_python import keep_bytecode
from tests.ratchet import CpuSeconds, Durations
from tests.sampling import SEED_VARIABLE, is_nightly, played, seed, takes_long, tier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUPS = ("spark", "broker", "oracle")
"""Fixtures that start a program of their own: the tests of one run in one process, those of two in the first's."""

PIPELINES = (
    "laws",
    "dagster",
    "branches",
    "history",
    "compare",
    "replay",
    "growth",
    "old_warehouses",
    "expectations",
    "quality",
    "explain",
)
"""Folders whose tests run whole pipelines: all are slow."""

LEFT_OUT = {"not slow": PIPELINES, "not browser": ("browser",)}
"""Folders all of whose tests the words of ``-m`` leave out."""


# --- which tests there are -----------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    """All processes of the run share a seed and a folder: the first one chooses them."""
    os.environ.setdefault(SEED_VARIABLE, str(random.randrange(10**9)))
    run_folder()
    hypothesis.settings.register_profile("tier", derandomize=not is_nightly())
    hypothesis.settings.load_profile("tier")
    keep_bytecode(config.rootpath / ".pytest_cache" / "bytecode")
    os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(QUICK_JAVA))  # of every Spark that a test starts
    os.environ.setdefault("HYPOTHESIS_NO_PLUGINS", "1")  # selenium brings one whose start takes half a second
    config.pluginmanager.register(CpuSeconds(), "cpu-seconds")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations(limited=not is_nightly()), "durations")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Where several processes will run tests, all kernels are compiled before, once and side by side. Spark's
    classes are not kept: that takes 46 CPU seconds and saves three at each start, of which there are a few.
    """
    asked = session.config.option
    if getattr(asked, "numprocesses", None) and not asked.collectonly:
        command = [sys.executable, "-m", "kstreams_replay.orchestration.cli.main", "warm-up"]
        subprocess.run(command, cwd=session.config.rootpath, check=True)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A run whose marks leave out all tests of a folder does not import them."""
    is_left_out = any(
        marks in config.option.markexpr and collection_path.name in folders for marks, folders in LEFT_OUT.items()
    )
    return True if is_left_out and collection_path.is_dir() else None


def pytest_collection(session: pytest.Session) -> None:
    """Nothing that is made while tests are found goes before they end, so nobody looks for it."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """From here on the collector looks at what tests make, and no more at thousands of tests and modules."""
    gc.freeze()
    gc.enable()


def pytest_report_header() -> str:
    return f"tier: {tier()}, seed {seed()}" + (f" (${SEED_VARIABLE} repeats it)" if is_nightly() else "")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Group tests by the program they need, leave out what the tier does not play, and begin with what takes long.

    A name with an address of memory is another one in every process, so that neither xdist nor the sample knows it.
    """
    nameless = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if nameless:
        raise pytest.UsageError(f"give these tests ids, since theirs have addresses of memory: {', '.join(nameless)}")
    for item in items:
        group = next((name for name in GROUPS if name in getattr(item, "fixturenames", ())), None)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
        if item.path.parent.name in PIPELINES:
            item.add_marker(pytest.mark.slow)
    kept = played(items)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]
    items.sort(key=_when)


def _when(item: pytest.Item) -> int:
    """Groups first, then single long tests, then the many short ones, which fill both processes to the end."""
    if item.get_closest_marker("xdist_group"):
        return 0
    return 1 if takes_long(item) else 2


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How to play again what failed."""
    failed = [report.nodeid.partition("@")[0] for report in terminalreporter.stats.get("failed", [])]
    if failed:
        variables = f"REPLAY_TIER=whole {SEED_VARIABLE}={seed()} " if is_nightly() else ""
        terminalreporter.section("again", sep="=")
        terminalreporter.line(f"{variables}.venv/bin/python -m pytest {shlex.join(dict.fromkeys(failed))}")


# --- what tests ask for --------------------------------------------------------------------------------------


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Warm copies of this test run alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPLAY_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _own_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test hands over as a credential is hidden in no other test's errors."""
    monkeypatch.setattr(hidden_values, "_hidden", set(hidden_values._hidden))


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """Kernels run compiled, however few the records of a test, unless $REPLAY_KERNELS says otherwise; processes that
    tests start decide for themselves.
    """
    if tiers.mode == "auto":
        tiers.is_compiled = True


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of this process, on two cores; mark the test ``jvm``."""
    from kstreams_replay.jobs.execution.spark_session import (
        open_spark,  # here, so that tests without a JVM do not import Spark
    )

    session = open_spark("local[2]", app_name="replay-tests")
    yield session
    session.stop()


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """An empty warehouse of this test alone."""
    return Warehouse(str(tmp_path / "warehouse"))
