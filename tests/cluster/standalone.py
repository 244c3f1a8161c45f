"""A standalone Spark cluster as child processes: a master and workers of one core each, on this machine.

Owns the processes and their folder. Rule: ports are those that the system gives, a cluster counts as started when the
master has registered its workers, and all of it is dead when the block ends, whatever happens in it.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark

from kstreams_replay.jobs.execution.spark_session import SCALA
from tests.quick_java import QUICK_JAVA

START_LIMIT_S = 120.0
EXECUTOR_MEMORY = "512m"
SPARK_HOME = Path(pyspark.__file__).parent
CHECKOUT = Path(__file__).parents[2]
_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True)
class Cluster:
    """``environment``: what a driver, as a child process, needs to run on it."""

    master: str
    environment: Mapping[str, str]
    folder: Path
    daemons: contextlib.ExitStack

    def start_worker(
        self, name: str, *, host: str = "127.0.0.1", environment: Mapping[str, str] = _NOTHING
    ) -> "ClusterDaemon":
        """A worker more, of one core, in ``folder``/``name``; ``environment``: of its processes, on top."""
        words = ["worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / name), self.master]
        own = {**self.environment, "SPARK_LOCAL_IP": host, **environment}
        return self.daemons.enter_context(ClusterDaemon.running(self.folder / name, words, own, host))


@contextlib.contextmanager
def standalone(
    folder: Path, *, workers: int, environment: Mapping[str, str], cores_max: int | None = None
) -> Iterator[Cluster]:
    """A cluster with everything in ``folder``; the folder of worker n is ``folder``/worker-n. ``environment``: of all
    its processes, on top of ours. ``cores_max``: so many may a driver have, of which ``workers`` are there when it
    starts (None: that number).
    """
    cores = cores_max or workers
    conf = folder / "conf"
    conf.mkdir(parents=True)
    (conf / "spark-defaults.conf").write_text(
        f"spark.executor.memory {EXECUTOR_MEMORY}\n"
        f"spark.cores.max {cores}\n"
        "spark.decommission.enabled true\n"  # SIGPWR to a worker
        f"spark.scheduler.minRegisteredResourcesRatio {workers / cores}\n"  # a driver starts when all are there
    )
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SPARK_")},
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_SCALA_VERSION": SCALA,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(conf),
        "PYTHONPATH": os.pathsep.join([str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        **environment,
    }
    with contextlib.ExitStack() as stack:
        master = stack.enter_context(ClusterDaemon.running(folder / "master", ["master.Master"], environment))
        cluster = Cluster(master.says(r"Starting Spark master at (spark://\S+)"), environment, folder, stack)
        for number in range(workers):
            cluster.start_worker(f"worker-{number}")
        if workers:
            master.says(*[r"Registering worker"] * workers)
        yield cluster


@dataclass(frozen=True)
class ClusterDaemon:
    """A process of the cluster, and those that it has started."""

    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    @contextlib.contextmanager
    def running(
        cls, folder: Path, words: list[str], environment: Mapping[str, str], host: str = "127.0.0.1"
    ) -> Iterator["ClusterDaemon"]:
        folder.mkdir(parents=True, exist_ok=True)
        home = os.environ.get("JAVA_HOME")
        java = shutil.which("java", path=str(Path(home) / "bin")) if home else "java"
        jars = str(SPARK_HOME / "jars" / "*")
        small = [*QUICK_JAVA, "-Xmx256m"]
        name, *options = words
        command = [java or "java", *small, "-cp", jars, f"org.apache.spark.deploy.{name}"]
        command += ["--host", host, "--port", "0", "--webui-port", "0", *options]
        log = folder / "log"
        with log.open("wb") as printed:
            process = subprocess.Popen(
                command, stdout=printed, stderr=printed, stdin=subprocess.DEVNULL, cwd=folder,
                env=dict(environment), start_new_session=True,
            )  # fmt: skip
        try:
            yield cls(process, log)
        finally:
            cls(process, log).kill()

    def kill(self) -> None:
        """SIGKILL, to its executors, too, which are of its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def says(self, *patterns: str) -> str:
        """Wait until the log has as many matches as there are patterns; the first group of the last, or the match."""
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            found = list(re.finditer(patterns[0], self.log.read_text(errors="replace")))
            if len(found) >= len(patterns):
                return found[-1][found[-1].re.groups]
            time.sleep(0.05)
        said = self.log.read_text(errors="replace")[-2000:]
        raise AssertionError(f"{patterns[0]} was not logged within {START_LIMIT_S:.0f} s; what was:\n{said}")


def replay_command(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The ``replay`` command, as somebody types it who has set REPLAY_SPARK_MASTER."""
    words, environment = _replay_words(cluster, arguments)
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=600)


@contextlib.contextmanager
def replay_beside(cluster: Cluster, *arguments: str) -> Iterator[ClusterDaemon]:
    """The same, which runs meanwhile; killed at the end, if it was not before."""
    words, environment = _replay_words(cluster, arguments)
    log = cluster.folder / "replay-log"
    with log.open("wb") as printed:
        process = subprocess.Popen(words, env=environment, stdout=printed, stderr=printed, start_new_session=True)
    try:
        yield ClusterDaemon(process, log)
    finally:
        ClusterDaemon(process, log).kill()


def _replay_words(cluster: Cluster, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    words = [sys.executable, "-m", "kstreams_replay.orchestration.cli.main", *arguments]
    return words, {**cluster.environment, "REPLAY_SPARK_MASTER": cluster.master}
