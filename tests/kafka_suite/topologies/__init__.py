"""Topologies of Kafka's unit tests, written here by hand: one function for all tests that have the same one."""

from collections.abc import Callable
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path

from tests.kafka_suite.playing import Play
from tests.kafka_suite.tapes import RecordedTape

PLAYS: dict[str, Play] = {}
"""By pattern of a tape's name: of the test, which then serves all of its parameters and drivers, or of one of these."""


def plays(*patterns: str) -> Callable[[Play], Play]:
    """The function writes the topology of the tapes whose test, ``Class.method``, or name is like one of these."""

    def register(write: Play) -> Play:
        for pattern in patterns:
            assert pattern not in PLAYS, f"two topologies for {pattern}"
            PLAYS[pattern] = write
        return write

    return register


def is_like(tape: RecordedTape, pattern: str) -> bool:
    """Whether ``pattern`` is the tape's test or name, or fits it (``*`` represents anything)."""
    return pattern in (tape.test, tape.name) or ("*" in pattern and fnmatchcase(tape.name, pattern))


def topology_of(tape: RecordedTape) -> Play | None:
    """The topology written for a tape; the longest pattern that is like its name decides."""
    for module in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        import_module(f"{__name__}.{module.stem}")
    fitting = [pattern for pattern in PLAYS if is_like(tape, pattern)]
    return PLAYS[max(fitting, key=len)] if fitting else None
