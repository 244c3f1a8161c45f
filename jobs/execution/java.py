"""The Java of this machine: which one Spark would start, and whether it can.

Rule: this imports nothing of Spark, so that it answers where Spark is not installed.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from ...state.errors import MachineError

JAVA_LOWEST = 17


def check_java() -> int:
    """The major version of the Java that Spark will start; MachineError when there is none or it is below 17."""
    advice = f"install a JDK {JAVA_LOWEST} or newer and put it on PATH, or set JAVA_HOME to it"
    java = java_command()
    if java is None:
        raise MachineError("Java", f"version {JAVA_LOWEST} or newer", "no java command", advice)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    # `java -version` writes to stderr, and Java up to 8 calls itself "1.8.0_…".
    match = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    if said.returncode != 0 or match is None:
        raise MachineError(
            f"Java at {java}", f"version {JAVA_LOWEST} or newer", "no version from `java -version`", advice
        )
    if int(match[1]) < JAVA_LOWEST:
        raise MachineError(f"Java at {java}", f"version {JAVA_LOWEST} or newer", f"version {match[1]}", advice)
    return int(match[1])


def java_command() -> str | None:
    """Path of the command: that of $JAVA_HOME where it is set, else the one on PATH; None: there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
