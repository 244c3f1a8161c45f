"""The plan of an increment: a cut of every source topic, as the ledger keeps it.

Owns the form of a plan row. Rule: a plan is never changed once it is written down, and is run again as written.
"""

from dataclasses import dataclass, field
from typing import Any

from ...state.times import END_OF_TIME_MS
from ..kernels.partition_group import NO_MORE
from ..landing.recorded_time import Recorded
from ..tape.landed_topic import Landed

Cut = dict[str, dict[str, int]]
"""topic → partition (as text, since it is JSON) → next offset to read."""

LAST_ARRIVAL = 2**62
"""Of the end of time: behind every landed record."""


@dataclass(frozen=True)
class Plan:
    """One increment. ``records`` in ``[cut_from, cut_to)``; ``waiting``: landed, but held back by ``idle="wait"``.

    ``partitions``: sub-topology (as text) → number of its tasks, "repartition/<name>" → number of its partitions.
    ``changes``: of the code since the increment before; ``migrate``: stores that this increment rewrites, reading no
    records (jobs/code_changes/state_migration.py); both None mostly.
    """

    increment: int
    cut_from: Cut
    cut_to: Cut
    records: int
    waiting: int
    partitions: dict[str, int]
    topology: str
    recorded_from: Cut = field(default_factory=dict)
    recorded_to: Cut = field(default_factory=dict)
    """How many of the recorded times of each partition were taken before, and are with this increment."""
    flushes: bool = False
    """At the end of history: every task is advanced to the end of time."""
    is_rerun: bool = False
    changes: list[dict[str, Any]] | None = None
    migrate: dict[str, Any] | None = None

    def recorded(self, landed: "Landed", partition: str) -> tuple[Recorded, ...]:
        """Recorded times of a partition that the increment takes."""
        first, after = (cut.get(landed.topic, {}).get(partition, 0) for cut in (self.recorded_from, self.recorded_to))
        found = landed.recorded.get(partition, ())[first:after]
        end = self.cut_to[landed.topic].get(partition, 0)
        return (*found, Recorded(end, END_OF_TIME_MS, LAST_ARRIVAL)) if self.flushes else found

    def beyond(self, landed: "Landed", partition: str, record: tuple[int, int] | None) -> tuple[int, bool]:
        """Time of what comes after the increment, and whether that is a recorded time (then plus one); NO_MORE when
        nothing does. ``record``: offset and time of the next record, if there is one.
        """
        later = landed.recorded.get(partition, ())[self.recorded_to.get(landed.topic, {}).get(partition, 0) :]
        if later and not self.flushes and (record is None or later[0].before_offset <= record[0]):
            return later[0].time_ms + 1, True
        return (NO_MORE, False) if record is None else (record[1], False)

    def content(self) -> dict[str, Any]:
        """What the ledger keeps."""
        code = {name: part for name in ("changes", "migrate") if (part := getattr(self, name)) is not None}
        return code | {
            "topology": self.topology,
            "cut_from": self.cut_from,
            "cut_to": self.cut_to,
            "records": self.records,
            "waiting": self.waiting,
            "partitions": self.partitions,
            **({"recorded_from": self.recorded_from, "recorded_to": self.recorded_to} if self.recorded_to else {}),
            **({"flushes": True} if self.flushes else {}),
        }
