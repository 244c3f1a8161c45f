"""Spark Connect, which is refused in a sentence.

Owns that refusal. Rule: tasks go to Spark through its driver, which also knows the executors. A client of Spark Connect
has no driver.
"""

import os
from typing import TYPE_CHECKING

from ...state.errors import ConfigError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

REMOTE_VARIABLE = "SPARK_REMOTE"
"""Where it is set, every session that PySpark opens is one of Spark Connect."""


def refuse_connect() -> None:
    """Raises ConfigError where the environment asks for Spark Connect."""
    if os.environ.get(REMOTE_VARIABLE):
        next_step = f"unset {REMOTE_VARIABLE}, and name the cluster in REPLAY_SPARK_MASTER or --master"
        raise _refused(f"Spark Connect ({REMOTE_VARIABLE} is set)", next_step)


def driver_of(session: "SparkSession") -> "SparkContext":
    """The driver of a session. Raises ConfigError for one of Spark Connect."""
    driver: SparkContext | None = getattr(session, "sparkContext", None)
    if driver is None:
        raise _refused("Spark Connect", "open the session with the cluster as its master, and not as a remote")
    return driver


def _refused(got: str, next_step: str) -> ConfigError:
    return ConfigError("Spark session", "a session with a driver (local, spark://, yarn, k8s)", got, next_step)
