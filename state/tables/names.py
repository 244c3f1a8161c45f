"""Names of tables and tasks, as ledgers, reports, commands and Dagster spell them.

Owns the spelling. Rule: a name is made here and taken apart here, and nowhere else is a kind of table written as text.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

OUTPUTS, STATE, REPARTITION, RETRACTIONS, LANDED = "outputs", "state", "repartition", "retractions", "landed"
LANDED_DEAD_LETTER, CURRENT = "landed_dead_letter", "current"
"""Kinds of tables that there are several of."""
_NUMBERED = re.compile(r"-\d{10}(-|$)")
"""In names that a topology makes: KSTREAM-AGGREGATE-STATE-STORE-0000000002."""


def given_names(tables: Iterable[str]) -> list[str]:
    """Those of ``tables`` that people named; without stores and topics to which the topology gave a number."""
    return [table for table in tables if _NUMBERED.search(table) is None]


class TableName(str):
    """A table: its kind, and its name among those of the kind: "outputs/clicks", "state/c", "dropped".

    It is the text itself, so that it can be in JSON and name a folder.
    """

    __slots__ = ()

    @classmethod
    def output(cls, topic: str) -> "TableName":
        """The changelog of the output ``topic``."""
        return cls(f"{OUTPUTS}/{topic}")

    @classmethod
    def state(cls, store: str) -> "TableName":
        """The rows of ``store``."""
        return cls(f"{STATE}/{store}")

    @classmethod
    def repartition(cls, topic: str) -> "TableName":
        """The records between two sub-topologies."""
        return cls(f"{REPARTITION}/{topic}")

    @classmethod
    def retractions(cls, output: str) -> "TableName":
        """What restatements took back of ``output``."""
        return cls(f"{RETRACTIONS}/{output}")

    @classmethod
    def current(cls, output: str) -> "TableName":
        """The newest row of every key and window of ``output``; no increment names it."""
        return cls(f"{CURRENT}/{output}")

    @classmethod
    def landed(cls, topic: str) -> "TableName":
        """The records of ``topic``, as they came."""
        return cls(f"{LANDED}/{topic}")

    @classmethod
    def landed_dead_letter(cls, topic: str) -> "TableName":
        """What was found in the sources of ``topic`` and became no record."""
        return cls(f"{LANDED_DEAD_LETTER}/{topic}")

    @property
    def kind(self) -> str:
        """What is before the slash; all of it where there is none."""
        return self.partition("/")[0]

    @property
    def name(self) -> str:
        """What is behind it; "" where there is none."""
        return self.partition("/")[2]


DROPPED, DEAD_LETTER = TableName("dropped"), TableName("dead_letter")
QUALITY_RESULTS, QUALITY_METRICS = TableName("quality_results"), TableName("quality_metrics")
LEDGER = TableName("ledger")
RECORDED_TIME, LANDING, BRANCHES = "recorded_time", "landing", "branches"


def is_only_appended(path: str) -> bool:
    """Whether of the table at ``path`` no row is ever taken out or changed: files are added, or merged unchanged."""
    above, kind, name = ["", "", "", *path.split("/")][-3:]
    # The last folder alone does not say it: a store may be called "ledger", and a pipeline "retractions".
    if above != LANDING and kind in (OUTPUTS, STATE, REPARTITION, CURRENT, LANDED_DEAD_LETTER):
        return False
    if kind == RETRACTIONS and name in (DROPPED, DEAD_LETTER, QUALITY_RESULTS, QUALITY_METRICS):
        return False
    return kind in (LANDED, RETRACTIONS) or name in (LEDGER, RECORDED_TIME)


class TaskId(NamedTuple):
    """A task, in Kafka's order: by sub-topology, then by partition. It prints as Kafka's: "0_3"."""

    sub_topology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.sub_topology}_{self.partition}"

    @classmethod
    def of(cls, text: str) -> "TaskId":
        """The task that prints as ``text``."""
        sub_topology, _, partition = text.partition("_")
        return cls(int(sub_topology), int(partition))
