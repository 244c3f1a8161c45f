"""The Spark session and the JVM packages it needs.

Owns every setting of Spark. Rule: one session a process, opened here and nowhere else: of threads that ask at once one
starts it, and the others wait. A start that fails leaves nothing behind, so the next call starts again. A machine that
cannot run it is a MachineError with the next step, never a stack trace.

    REPLAY_SPARK_MASTER         default ``local[n]``, n = all cores
    REPLAY_SPARK_DRIVER_MEMORY  default ``2g``
    REPLAY_IVY_SETTINGS         an Ivy settings file instead of ours (a company's mirror)
    REPLAY_IVY_CACHE            default ``~/.ivy2/cache``; one that others may write is refused
"""

import hashlib
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from threading import Lock

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from ...state.compilation.numba_cache import alone
from ...state.errors import MachineError
from ...state.private_folders import private_folder, refuse_shared
from .java import check_java, java_command
from .spark_class_archive import archive_of, make_archive, options_to_use
from .spark_connect import driver_of, refuse_connect
from .spark_jvm import start_context
from .spark_master import named_master

SCALA = "2.13"
SPARK_LINE = ".".join(pyspark.__version__.split(".")[:2])
DELTA_PACKAGE = f"io.delta:delta-spark_{SPARK_LINE}_{SCALA}:{version('delta-spark')}"
KAFKA_PACKAGE = f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{pyspark.__version__}"
PACKAGES = (DELTA_PACKAGE, KAFKA_PACKAGE)
"""Coordinates follow the installed Python packages, so the two cannot drift apart."""

STANDBY_WAIT = "500ms"
"""So long does a placed task wait for the executor of its owner, dead or busy, before the host of a standby may have
it; without a standby it continues to wait for ``spark.locality.wait``. No other task of ours prefers an executor."""

PROVIDED_BY_SPARK = (
    "com.fasterxml.jackson.core",
    "com.fasterxml.jackson.datatype",
    "com.github.luben",
    "com.google.code.findbugs",
    "io.airlift",
    "org.apache.hadoop",
    "org.apache.logging.log4j",
    "org.apache.parquet",
    "org.lz4",
    "org.roaringbitmap",
    "org.scala-lang",
    "org.scala-lang.modules",
    "org.slf4j",
    "org.xerial.snappy",
)
"""Organisations whose jars come with PySpark; fetching them once more costs half a minute."""

_IVY_VARIABLE = "REPLAY_IVY_CACHE"
_LOG = logging.getLogger(__name__)
_STARTING = Lock()
_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"


def open_spark(
    master: str | None = None,
    *,
    app_name: str = "replay",
    extra: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda step: None,
) -> SparkSession:
    """The session of this process, started on the first call. Threads that call at once get the same one.

    ``master``: Spark's, such as "local[2]"; None: $REPLAY_SPARK_MASTER, or all cores of this machine. ``app_name``: as
    Spark's pages show it. ``extra``: settings, which win over ours. ``say``: gets a line when something slow begins.

    Raises MachineError: no Java or one below 17, a package that cannot be resolved, a session of somebody else;
    ConfigError where it would be one of Spark Connect.
    """
    refuse_connect()
    with _STARTING:
        return _checked_session(_running() or _started(master, app_name, extra, say))


def _running() -> SparkSession | None:
    """The session of this process, whichever thread opened it: Spark itself knows one active session a thread."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    opened = SparkSession._instantiatedSession
    return None if opened is None or opened._sc._jsc is None else opened


def _started(
    master: str | None, app_name: str, extra: Mapping[str, str] | None, say: Callable[[str], None]
) -> SparkSession:
    check_java()
    say("resolving Spark's packages")
    jars = resolve(PACKAGES, provided=PROVIDED_BY_SPARK)
    say("starting Spark")
    master = named_master(master) or f"local[{os.cpu_count() or 1}]"
    settings = {
        "spark.master": master,
        "spark.app.name": app_name,
        **_settings(jars),
        **(_small_machine() if master.startswith("local") else {}),
        **(extra or {}),
    }
    # Else workers on this machine are the ``python3`` on PATH, which need not have this project.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        if SparkContext._gateway is None:  # else a session of before was stopped, and its JVM lives
            start_context(settings)
        return SparkSession.builder.config(map={**settings}).getOrCreate()
    except BaseException as error:
        _leave_nothing()
        if not isinstance(error, PySparkRuntimeError | Py4JError | OSError):
            raise
        raise MachineError(
            f"Spark at {master}",
            "a session",
            _reason(error),
            "check the master; --traceback shows what the JVM printed",
        ) from error


def _leave_nothing() -> None:
    """End a JVM whose session failed to start, and let PySpark forget it: it would ask this JVM for ever."""
    gateway, context = SparkContext._gateway, SparkContext._active_spark_context
    with suppress(Exception):  # half of a context may not even have what its own stop() asks for
        if context is not None:
            context.stop()
    SparkSession._instantiatedSession = None
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    if gateway is None:
        return
    with suppress(Exception):  # of a JVM that is dead
        gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.kill()
        process.wait()


def resolve(coordinates: Sequence[str], cache: Path | None = None, *, provided: Sequence[str] = ()) -> list[Path]:
    """Jars of ``group:artifact:version`` coordinates and all that they need, by the Ivy that comes with PySpark.

    ``provided`` names organisations to leave out. Order: that of a class path. The answer is remembered in the cache,
    so a second call starts no JVM; of programs that ask at once one fetches, and the others wait for it. Raises
    MachineError naming the coordinates that were not found.
    """
    settings = Path(os.environ.get("REPLAY_IVY_SETTINGS") or Path(__file__).with_name("ivysettings.xml"))
    cache = cache or _ivy_cache()
    question = repr((sorted(coordinates), sorted(provided))).encode()
    digest = hashlib.sha256(settings.read_bytes() + question).hexdigest()[:16]
    remembered = cache / "replay" / f"{digest}.classpath"
    jars = _read_classpath(remembered)
    if not jars:
        check_java()
        with alone(str(remembered.parent), "fetching.lock"):  # Ivy locks artifacts, but not the report of a module
            jars = _read_classpath(remembered)
            if not jars:
                _LOG.info("fetching %s (the first time only)", ", ".join(coordinates))
                _run_ivy(settings, cache, _ivy_module(digest, coordinates, provided), remembered, coordinates)
                jars = _read_classpath(remembered)
    assert jars, f"Ivy wrote no class path to {remembered}"
    return jars


def keep_classes() -> bool:
    """Keep the classes that Spark loads, so that every later start takes half the time; False when that was done
    before. Seconds, and 180 MB beside Ivy's cache. Raises MachineError as `open_spark`, or when Java cannot do it.
    """
    check_java()
    return make_archive(_archive(resolve(PACKAGES, provided=PROVIDED_BY_SPARK)), __name__)


def _archive(jars: Sequence[Path]) -> Path:
    return archive_of(jars, _ivy_cache() / "replay", java_command())


def _ivy_cache() -> Path:
    """Raises StorageError for one that is named and that others may write, since jars are code."""
    named = os.environ.get(_IVY_VARIABLE)
    if named and os.path.lexists(named):
        refuse_shared(named, _IVY_VARIABLE, owners={0, os.geteuid(), os.stat(__file__).st_uid})
    return Path(named or Path.home() / ".ivy2" / "cache")


def _settings(jars: Sequence[Path]) -> dict[str, str]:
    logging_rules = Path(__file__).with_name("log4j2.xml").as_uri()
    driver_options = f"-Duser.timezone=UTC -Dlog4j2.configurationFile={logging_rules} {options_to_use(_archive(jars))}"
    return {
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.sql.extensions": _DELTA_EXTENSION,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.memory": os.environ.get("REPLAY_SPARK_DRIVER_MEMORY") or "2g",
        "spark.driver.extraJavaOptions": driver_options.rstrip(),
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.locality.wait.process": STANDBY_WAIT,
        "spark.python.daemon.module": "kstreams_replay.jobs.execution.spark_worker_daemon",
        "spark.python.worker.faulthandler.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": private_folder(f"{tempfile.gettempdir()}/replay-spark-{os.geteuid()}", "TMPDIR"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _small_machine() -> dict[str, str]:
    """What a laptop needs: no name service, few partitions (Delta reads its log in 50 tasks by default)."""
    return {
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }


def _checked_session(session: SparkSession) -> SparkSession:
    driver_of(session)
    extensions = session.conf.get("spark.sql.extensions", "") or ""
    if _DELTA_EXTENSION not in extensions:
        raise MachineError(
            "Spark session", f"extension {_DELTA_EXTENSION}", extensions or "none", "stop that session; open ours first"
        )
    return session


def _reason(error: Exception) -> str:
    """What Python says, or, of an error in the JVM, the line with Java's own message."""
    lines = str(error).splitlines() or [type(error).__name__]
    return next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0]).rstrip(".")


def _ivy_module(name: str, coordinates: Sequence[str], provided: Sequence[str]) -> str:
    """An Ivy file that depends on ``coordinates``; its ``name`` keeps apart what runs at the same time."""
    lines = ['<ivy-module version="2.0">', f'  <info organisation="replay" module="{name}"/>']
    lines += ['  <configurations><conf name="default"/></configurations>', "  <dependencies>"]
    for coordinate in coordinates:
        parts = coordinate.split(":")
        if len(parts) != 3:
            raise MachineError("JVM package", "group:artifact:version", repr(coordinate), "correct the coordinate")
        lines.append('    <dependency org="{}" name="{}" rev="{}" conf="default->default"/>'.format(*parts))
    lines += [f'    <exclude org="{organisation}"/>' for organisation in provided]
    return "\n".join([*lines, "  </dependencies>", "</ivy-module>"])


def _run_ivy(settings: Path, cache: Path, wanted: str, classpath: Path, coordinates: Sequence[str]) -> None:
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    with tempfile.TemporaryDirectory(dir=classpath.parent) as scratch:
        module, resolved = Path(scratch) / "ivy.xml", Path(scratch) / "classpath"
        module.write_text(wanted)
        # In ms. Java's default is to wait without an end.
        timeouts = ["-Dsun.net.client.defaultConnectTimeout=20000", "-Dsun.net.client.defaultReadTimeout=120000"]
        command = [
            java_command() or "java",
            *timeouts,
            "-jar",
            str(ivy),
            "-settings",
            str(settings),
            "-cache",
            str(cache),
        ]
        command += ["-ivy", str(module), "-confs", "default", "-cachepath", str(resolved), "-warn"]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        if said.returncode != 0 or not resolved.exists():
            raise _unresolved(said.stdout + said.stderr, coordinates, settings)
        # The scratch folder is beside it, so this rename is atomic: who reads without the lock
        # sees a whole list or none.
        resolved.replace(classpath)


def _unresolved(said: str, coordinates: Sequence[str], settings: Path) -> MachineError:
    missing = re.findall(r":: (\S+#\S+;[^\s:]+): (.*)", said)
    got = "; ".join(f"{module.replace('#', ':').replace(';', ':')} {why}" for module, why in missing)
    return MachineError(
        f"JVM packages {', '.join(coordinates)}",
        "every jar from the Maven repository",
        got or said.strip()[-400:] or "no answer",
        f"check the network, or set REPLAY_IVY_SETTINGS to settings that name your mirror (now {settings.name})",
    )


def _read_classpath(remembered: Path) -> list[Path]:
    """Jars of a remembered answer; [] when there is none or a jar has gone."""
    if not remembered.exists():
        return []
    jars = [Path(jar) for jar in remembered.read_text().strip().split(os.pathsep) if jar]
    return jars if all(jar.exists() for jar in jars) else []


def _use_spark(scratch: Path) -> None:
    """What a replay does with the JVM, whose classes ``keep_classes`` keeps: Delta tables, a stage of Python."""
    no_archive = {"spark.driver.extraJavaOptions": "-Duser.timezone=UTC"}  # a JVM that makes one may not take one
    spark = open_spark("local[2]", extra=no_archive)
    table = str(scratch / "table")
    # The first append makes the table, the second one reads its log.
    for _ in range(2):
        spark.range(10).write.format("delta").mode("append").save(table)
    spark.read.format("delta").load(table).count()
    spark.sparkContext.parallelize([1, 2], 2).map(lambda number: number).collect()
    spark.stop()


if __name__ == "__main__":
    _use_spark(Path(sys.argv[1]))
