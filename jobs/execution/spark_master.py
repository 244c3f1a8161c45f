"""Which master of Spark somebody names. Imported before anything that takes long."""

import os

MASTER_VARIABLE = "REPLAY_SPARK_MASTER"


def named_master(master: str | None) -> str | None:
    """``master``, else that of the environment; None: nobody names one."""
    return master or os.environ.get(MASTER_VARIABLE) or None
