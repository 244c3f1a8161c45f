"""The classes of Spark's JVM, loaded and verified beforehand: a class-data archive of the JVM itself (JEP 350).

A JVM of Spark loads some 15,000 classes before its first job; with an archive of them it starts in half the time. Owns
the archive, a file beside Ivy's cache, one for each Java and each list of jars. Rule: it is only ever a hint: the JVM
compares it with its own version and class path, and continues without it when something differs.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyspark

from ...state.errors import MachineError

QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""A JVM that does not take an archive says so on standard output, where a command's result goes."""


def archive_of(jars: Sequence[Path], folder: Path, java: str | None) -> Path:
    """Where the archive of Spark with ``jars`` on this ``java`` lies beneath ``folder``, whether it is there or not.

    Its name changes when Java or PySpark is installed again, since the JVM would not take it any more.
    """
    installed = [(path, os.stat(path).st_mtime_ns) for path in (java, pyspark.__file__) if path]
    asked = repr(([str(jar) for jar in jars], installed))
    return folder / f"{hashlib.sha256(asked.encode()).hexdigest()[:16]}.jsa"


def options_to_use(archive: Path) -> str:
    """Of a JVM, to start with ``archive``; nothing when it is not there. Its path has no space (``make_archive``)."""
    return f"-XX:SharedArchiveFile={archive} {QUIET}" if archive.exists() else ""


def make_archive(archive: Path, module: str) -> bool:
    """Start ``module`` once in a process of its own, with an empty folder as its argument, and keep the classes that
    its JVM loaded: it is to use Spark as a replay does.

    False when the archive is there already. Raises MachineError when no Spark starts, or its JVM keeps no archives.
    """
    if archive.exists():
        return False
    if any(map(str.isspace, str(archive))):  # options of a JVM are separated by spaces, and have no quotes
        next_step = (
            "set REPLAY_IVY_CACHE to a folder without one, or continue without it: Spark then starts more slowly"
        )
        raise MachineError(str(archive.parent), "a path without a space", "one", next_step)
    archive.parent.mkdir(parents=True, exist_ok=True)
    # Beside the archive, since a rename is atomic within one filesystem only: a JVM that
    # starts meanwhile gets the whole archive or none.
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        made = Path(scratch) / "classes.jsa"
        options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -XX:ArchiveClassesAtExit={made} {QUIET}"
        said = subprocess.run(
            [sys.executable, "-m", module, scratch],
            env={**os.environ, "SPARK_SUBMIT_OPTS": options.strip()},
            capture_output=True,
            text=True,
            check=False,
        )
        if said.returncode != 0 or not made.exists():
            reason = (said.stderr.strip().splitlines() or ["no archive, and no word why"])[-1]
            raise MachineError(
                "Spark's JVM", "an archive of its classes", reason, "continue without it: Spark then starts more slowly"
            )
        made.replace(archive)
    return True
