"""Starts Spark's Python workers from the installed PySpark.

Spark puts archives (``pyspark.zip``, a jar) first on the path of its workers and forgets what it knows of imports
before every task, so that each task reads the archives' directories anew: 90 ms a task, now 30. Our packages must be
installed where workers run anyway, and PySpark with them.
"""

import sys

if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
    from pyspark.daemon import manager

    manager()  # type: ignore[no-untyped-call]
