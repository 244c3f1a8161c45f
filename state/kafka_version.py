"""Which Kafka is meant: the one that judges, and those whose rows a replay makes.

Owns these versions. Rule: all else takes them from here, so that a newer judge is a change of one line, and a test
names the documents that still speak of the one before.
"""

from .errors import ConfigError

JUDGE = "4.3.0"
"""Kafka Streams that answered the scenarios, the broker of the tests, and what documents call Kafka Streams."""
DEFAULT = JUDGE.rpartition(".")[0]
"""Of a pipeline that never said another."""
JUDGES = (JUDGE, "4.4.0")
"""Versions whose own tasks play the recorded scenarios in the nightly tier, with the same answers."""
REPLAYED = ("4.3", "4.4")
"""Versions whose rows a replay makes. They are the same: Kafka Streams 4.4.0 gave the judge's answers to all 437
recorded scenarios, and to 300 random ones. A version with other rows needs its answers here first.
"""


def replayed_version(given: str | None, before: str | None = None) -> str:
    """The version that a run follows: ``given``, else that of the increment ``before``, else DEFAULT. Raises
    ConfigError for one that is not in REPLAYED.
    """
    chosen = given or before or DEFAULT
    if chosen not in REPLAYED:
        expected = " or ".join(map(repr, REPLAYED))
        next_step = "choose one; `replay upgrade-advice` names the operators that differ in another one"
        raise ConfigError("kafka_version", expected, repr(chosen), next_step)
    return chosen
