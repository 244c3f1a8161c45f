"""What members are asked, when Spark does not answer."""

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError

from kstreams_replay.jobs.execution.spark_members import SparkWorkers
from kstreams_replay.state.failures import stop_below


class Failing(SparkWorkers):
    """Workers of a session whose calls fail, because of a signal or for another reason."""

    def __init__(self, *, is_stopped: bool) -> None:
        nothing = SimpleNamespace(get=lambda *_: "false")
        self._context = SimpleNamespace(  # type: ignore[assignment]
            getConf=lambda: nothing, getLocalProperty=lambda name: None, setLocalProperty=lambda name, value: None
        )
        self.is_stopped = is_stopped

    def executors(self):
        return []

    def _ran_on(self, group):
        return {}

    def run_placed(self, work, places):
        if not self.is_stopped:
            raise Py4JError("the executor was lost")
        try:
            raise KeyboardInterrupt
        finally:
            raise Py4JError("Target Object ID does not exist for this gateway")


def test_members_that_do_not_answer_have_no_answer():
    assert Failing(is_stopped=False).ask_each([], str) == {}


def test_ctrl_c_while_members_are_asked_ends_the_run():
    with pytest.raises(Py4JError) as found:
        Failing(is_stopped=True).ask_each([], str)

    assert isinstance(stop_below(found.value), KeyboardInterrupt)
