"""The environment of a Python process that is started beside this one, and finds the modules that this one finds.

Rule: the path of this process counts, and not $PYTHONPATH alone. A script's folder is on it, and on a worker what
travelled with Spark's job (--py-files).
"""

import os
import sys


def environment_with_path() -> dict[str, str]:
    """This process's, for a child."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
