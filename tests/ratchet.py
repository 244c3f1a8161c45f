"""How long tests take: no test of the default tier may take long, and each run prints the slowest and the sum.

Rule: the call phase of a test (without its fixtures) takes at most CPU_SECONDS_MAX in its process and the programs that
it has started and ended, and at most WALL_SECONDS_MAX on the clock. A test of the default tier aims at half of the
first number; the rest is for what two programs that share a core do to each other's caches. The second is six times as
much, because on a shared machine the clock says up to five times what it says on a quiet one. CPU seconds are those of
a machine of REFERENCE_S. After a test that took many, a loop of known length measures how fast the core is just now,
since on a core that two programs share each may need half as long again. Tests that need more are named here; there are
at most EXCEPTED_MAX. A test that is slower makes the run fail.
"""

import resource
import statistics
import time
from collections.abc import Iterator

import pytest

CPU_SECONDS_MAX, WALL_SECONDS_MAX = 40.0, 240.0
SLOWEST = 20
REFERENCE_S = 0.075
"""CPU seconds of ``_loop_s`` on a quiet core of the machine on which the limit was set."""
EXCEPTED = {
    "tests/cluster/test_two_workers.py::"
    "test_two_workers_share_the_tasks_of_every_stage_and_leave_the_tables_of_one_process": "starts a cluster",
    "tests/dagster/test_partitions.py::"
    "test_an_old_day_runs_again_only_when_its_config_says_so": "runs seven days, each with all checks",
}
"""Test by file and name: why it cannot be shorter."""
EXCEPTED_MAX = 5
CPU = "cpu_seconds"


def cpu_seconds() -> float:
    """That this process, and its children that have ended, have taken so far."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def cpu_seconds_of_reference(seconds: float) -> float:
    """What ``seconds`` that were measured just now would be on the machine of REFERENCE_S; never more than they are."""
    if seconds < CPU_SECONDS_MAX / 2:
        return seconds
    return seconds * min(1.0, REFERENCE_S / statistics.median(_loop_s() for _ in range(5)))


def _loop_s() -> float:
    began = time.process_time()
    total = 0
    for number in range(1_000_000):
        total += number * number % 7
    return time.process_time() - began


class CpuSeconds:
    """A pytest plugin of every process: adds to a test's report what its call phase took."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        began = cpu_seconds()
        try:
            return (yield)
        finally:
            item.user_properties.append((CPU, cpu_seconds_of_reference(cpu_seconds() - began)))


class Durations:
    """A pytest plugin of the process that reports. ``limited``: a test that is too slow fails the run."""

    def __init__(self, *, limited: bool) -> None:
        self.limited = limited
        self.seconds: dict[str, float] = {}
        self.cpu_seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            test = report.nodeid.partition("@")[0]
            self.seconds[test] = report.duration
            self.cpu_seconds[test] = sum(seconds for name, seconds in report.user_properties if name == CPU)

    def too_slow(self) -> list[str]:
        """Tests above the limit that are not excepted."""
        return [
            test
            for test, seconds in self.seconds.items()
            if (seconds > WALL_SECONDS_MAX or self.cpu_seconds[test] > CPU_SECONDS_MAX)
            and test.partition("[")[0] not in EXCEPTED
        ]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.limited and self.too_slow() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        slowest = sorted(self.seconds.items(), key=lambda each: -each[1])[:SLOWEST]
        if not slowest:
            return
        terminalreporter.section(f"slowest {len(slowest)} tests, without their fixtures")
        for test, seconds in slowest:
            terminalreporter.line(f"{seconds:6.1f} s, CPU {self.cpu_seconds[test]:5.1f} s  {test}")
        total, total_cpu = sum(self.seconds.values()), sum(self.cpu_seconds.values())
        terminalreporter.line(f"{total:6.0f} s, CPU {total_cpu:5.0f} s  all {len(self.seconds)} tests")
        if self.limited and self.too_slow():
            terminalreporter.section("too slow")
            terminalreporter.line(
                f"A test takes at most {CPU_SECONDS_MAX:.0f} CPU seconds and {WALL_SECONDS_MAX:.0f} s on the clock; "
                "cut it, or name it in EXCEPTED of tests/ratchet.py:"
            )
            for test in self.too_slow():
                terminalreporter.line(f"  {test}: {self.seconds[test]:.1f} s, CPU {self.cpu_seconds[test]:.1f} s")
