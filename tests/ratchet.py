"""How long tests take: no test of the default tier may take long, and each run prints the slowest.

Rule: a test's call phase (without its fixtures) takes at most CALL_SECONDS_MAX; who needs more is named here, and there
are at most five of them. A test that is slower makes the run fail.
"""

import pytest

CALL_SECONDS_MAX = 20.0
SLOWEST = 20
EXCEPTED = {
    "tests/cluster/test_two_workers.py::"
    "test_two_workers_share_the_tasks_of_every_stage_and_leave_the_tables_of_one_process": "starts a cluster",
}
"""Test by file and name: why it cannot be shorter."""
EXCEPTED_MAX = 5


class Durations:
    """A pytest plugin of the process that reports. ``limited``: a test that is too slow fails the run."""

    def __init__(self, *, limited: bool) -> None:
        self.limited = limited
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.seconds[report.nodeid.partition("@")[0]] = report.duration

    def too_slow(self) -> list[str]:
        """Tests above the limit that are not excepted."""
        return [
            test
            for test, seconds in self.seconds.items()
            if seconds > CALL_SECONDS_MAX and test.partition("[")[0] not in EXCEPTED
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
            terminalreporter.line(f"{seconds:6.1f} s  {test}")
        if self.limited and self.too_slow():
            terminalreporter.section("too slow")
            terminalreporter.line(
                f"A test takes at most {CALL_SECONDS_MAX:.0f} s; cut it, or name it in EXCEPTED of tests/ratchet.py:"
            )
            for test in self.too_slow():
                terminalreporter.line(f"  {test}: {self.seconds[test]:.1f} s")
