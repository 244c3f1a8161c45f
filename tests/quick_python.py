"""Modules are compiled once, not in each of the hundreds of processes that the tests start.

Rule: where the environment forbids Python to keep what it compiled (``PYTHONDONTWRITEBYTECODE``, usual in containers),
the tests and all that they start keep it in pytest's cache folder, and write nothing beside anybody's sources.
"""

import os
import sys
from pathlib import Path

FORBIDDEN = "PYTHONDONTWRITEBYTECODE"


def keep_bytecode(folder: Path) -> None:
    """In this process and in all that it starts; ``folder``: used only where keeping is forbidden."""
    if os.environ.pop(FORBIDDEN, ""):
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(folder)
        sys.dont_write_bytecode = False
