"""Work that is done again while an object store fails."""

import pytest

from kstreams_replay.state.tables import patience
from kstreams_replay.state.tables.patience import patiently

PASSING = OSError("Generic S3 error: error sending request")


class Clock:
    """In the place of the modules `time` and `random`: a sleep passes at once and is written down."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def uniform(self, least: float, most: float) -> float:
        assert least == most / 2
        return most


@pytest.fixture
def clock(monkeypatch):
    stands_in = Clock()
    monkeypatch.setattr(patience, "time", stands_in)
    monkeypatch.setattr(patience, "random", stands_in)
    return stands_in


def failing(*errors: Exception):
    left = list(errors)

    def work() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return work


def test_waits_double_up_to_the_longest(clock):
    assert patiently(failing(*[PASSING] * 8), 120) == "done"
    assert clock.slept == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_when_the_time_is_over_the_error_goes_through(clock):
    with pytest.raises(OSError, match="error sending request"):
        patiently(failing(*[PASSING] * 100), 1)

    assert sum(clock.slept) == pytest.approx(1.5)


def test_what_is_refused_is_asked_once(clock):
    with pytest.raises(ValueError, match="no"):
        patiently(failing(ValueError("no")), 120)

    assert clock.slept == []
