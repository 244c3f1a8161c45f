"""The engine that a command asks for: this process, Spark, or whichever suits the size of an increment.

Rule: a session of Spark that is sure to be needed starts beside what else is to do, since it takes seconds, and is
awaited when it is needed.
"""

from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING

from ..jobs.execution.spark_master import named_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..jobs.execution.task_description import Runner
    from ..jobs.placement.settings import PlacementSettings

LOOK_SECONDS = 0.2


class SparkStart:
    """The session of this process, which starts in a thread: one that ends with the process, so that nobody who stops a
    command waits for Spark. Called, it waits for the session, and raises what starting it raised.
    """

    def __init__(self, master: str | None) -> None:
        from ..jobs.execution.spark_session import (
            open_spark,  # in this thread, so that two do not import the same at one time
        )

        self._session: Future[SparkSession] = Future()
        self._step = "starting Spark"
        Thread(target=self._open, args=(open_spark, master), name="replay-spark", daemon=True).start()

    def __call__(self, say: Callable[[str], None] = lambda step: None) -> "SparkSession":
        """``say``: called repeatedly with what the engine waits for."""
        while True:
            try:
                return self._session.result(LOOK_SECONDS)
            except TimeoutError:
                if self._session.done():
                    raise  # by the start itself
                say(self._step)

    def _open(self, open_spark: "Callable[..., SparkSession]", master: str | None) -> None:
        try:
            self._session.set_result(open_spark(master, say=self._say))
        except BaseException as error:
            self._session.set_exception(error)

    def _say(self, step: str) -> None:
        self._step = step


def start_spark(master: str | None) -> SparkStart:
    """Start the session of this process."""
    return SparkStart(master)


def wait_for(spark: SparkStart, step: str, say: Callable[[str], None] = lambda step: None) -> None:
    """At the step of a replay behind which tasks run; so the wait is no part of the increment's seconds."""
    if step.startswith("planned"):
        spark(say)


def chosen_runner(
    *, local: bool, master: str | None, placement: "PlacementSettings | None" = None, say: Callable[[str], None]
) -> "tuple[Runner, Callable[[str], None]]":
    """The runner of a command, and what it does as a step of the replay begins. ``local``: this process. A ``master``
    that is named, also by the environment, or a ``placement``: Spark, which starts at once. Else small increments run
    in this process, and Spark starts when a large one comes. ``say``: called with what the engine waits for.
    """
    if local:
        return runner_of(None), lambda step: None
    if named_master(master) or placement is not None:
        spark = start_spark(master)
        return runner_of(spark, placement), lambda step: wait_for(spark, step, say)
    from ..jobs.execution.auto_runner import AutoRunner
    from ..state.runs.local_copies import default_cache

    return AutoRunner(lambda: runner_of(partial(start_spark(None), say)), default_cache()), lambda step: None


def spark_to_land(
    *, local: bool, master: str | None, say: Callable[[str], None]
) -> "SparkSession | Callable[[], SparkSession] | None":
    """What a command lands with: Spark where somebody names a master, which is awaited, else what starts it for large
    files. ``local``: None, this process. ``say``: called with what the engine waits for.
    """
    if local:
        return None
    return start_spark(master)(say) if named_master(master) else lambda: start_spark(None)(say)


def runner_of(spark: "Callable[[], SparkSession] | None", placement: "PlacementSettings | None" = None) -> "Runner":
    """Runs tasks on the session that ``spark`` gives; None: in this process. ``placement``: where on a cluster."""
    from ..state.runs.local_copies import default_cache

    if spark is None:
        from ..jobs.execution.task_run import LocalRunner

        return LocalRunner(default_cache())
    from ..jobs.execution.spark_runner import SparkRunner

    return SparkRunner(spark, default_cache(), placement)
