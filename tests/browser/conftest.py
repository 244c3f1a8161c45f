"""Dagster on the example, as `dagster dev` serves it, and a Chromium that looks at it."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from selenium import webdriver

from examples.flights.definitions import flights
from examples.flights.topics import write_topics
from kstreams_replay.orchestration.resources import LocalEngine

ROOT = Path(__file__).parents[2]
CODE_LOCATION = "examples.flights.definitions"
MONTHS = ("2013-01", "2013-02")
SETTINGS = "telemetry: {enabled: false}\nnux: {enabled: false}\n"
START_SECONDS_MAX, END_SECONDS_MAX = 90, 60
RUN_SECONDS_MAX = 900
"""Of thirty days on a busy machine: on a quiet one they take two minutes, and one of them goes to the checks."""


@pytest.fixture(scope="session")
def flown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two months of flights, materialized month by month, and Dagster's home beside them."""
    folder = tmp_path_factory.mktemp("flights")
    home = make_home(folder)
    write_topics(folder / "all")
    job = flights(folder / "warehouse", engine=LocalEngine()).resolve_job_def("flights_replay")
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for month in MONTHS:
            for file in (folder / "all").rglob(f"{month}*"):
                arrived = folder / "warehouse" / "incoming" / file.relative_to(folder / "all")
                arrived.parent.mkdir(parents=True, exist_ok=True)
                file.rename(arrived)
            assert job.execute_in_process(instance=instance).success
    return folder


@pytest.fixture(scope="session")
def address(flown: Path) -> Iterator[str]:
    """Where `dagster dev` answers."""
    with dagster_dev(flown, CODE_LOCATION) as address:
        yield address


def make_home(folder: Path) -> Path:
    """Dagster's home in ``folder``, as tests want it."""
    home = folder / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(SETTINGS)
    return home


def finished_runs(folder: Path, job: str) -> list[dg.DagsterRun]:
    """All runs of ``job``, as soon as there are any and none is at work."""
    deadline, of_job = time.monotonic() + RUN_SECONDS_MAX, dg.RunsFilter(job_name=job)
    with dg.DagsterInstance.from_config(str(folder / "home")) as instance:
        found = instance.get_runs(of_job)
        while not found or not all(run.is_finished for run in found):
            assert time.monotonic() < deadline, f"no run of {job} has ended"
            time.sleep(0.1)
            found = instance.get_runs(of_job)
    return list(found)


@contextmanager
def dagster_dev(folder: Path, location: str) -> Iterator[str]:
    """`dagster dev` in ``folder``, whose home is beside it, while the block runs: its address."""
    port = _free_port()
    command = [sys.executable, "-m", "dagster", "dev", "-m", location, "-h", "127.0.0.1", "-p", str(port)]
    settings = {"DAGSTER_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    with (folder / "dagster-dev.log").open("w") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=os.environ | settings, stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/server_info", server, folder / "dagster-dev.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        _end(server)


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    """Debian's Chromium without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1800,1150"):
        options.add_argument(flag)
    chromium = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    yield chromium
    chromium.quit()


@pytest.fixture
def offline(browser: webdriver.Chrome) -> Iterator[webdriver.Chrome]:
    """The browser without a network."""
    browser.execute_cdp_cmd("Network.enable", {})
    conditions = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)
    yield browser
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", {**conditions, "offline": False})


@pytest.fixture(scope="session")
def artifacts() -> Path:
    """Where CI picks up screenshots."""
    folder = ROOT / "artifacts"
    folder.mkdir(exist_ok=True)
    return folder


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not _answers(url):
        assert server.poll() is None, f"dagster dev ended:\n{log.read_text()[-4000:]}"
        assert time.monotonic() < deadline, f"no answer from {url}:\n{log.read_text()[-4000:]}"
        time.sleep(0.1)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
    return True


def _end(server: subprocess.Popen[bytes]) -> None:
    """Ask as Ctrl-C does; what does not end by then is killed with all that it started."""
    os.killpg(server.pid, signal.SIGINT)
    try:
        server.wait(END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
