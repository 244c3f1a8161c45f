"""A plan while its increment runs: which recorded times it takes, and what comes after it.

Rule: a plan is never changed once it is written down, and is run again as written.
"""

from dataclasses import dataclass

from ...state.tables.ledger_rows import PlanRow
from ...state.times import END_OF_TIME_MS, FOREVER
from ..kernels.partition_group import NO_MORE
from ..landing.recorded_time import Recorded
from ..tape.landed_topic import Landed


@dataclass(frozen=True)
class Plan:
    """One increment, and its row in the ledger. ``is_rerun``: the row is written already."""

    increment: int
    row: PlanRow
    is_rerun: bool = False

    def taken_before(self, topic: str, partition: str) -> int:
        """How many of the recorded times of a partition increments before have taken."""
        return (self.row.recorded_from or {}).get(topic, {}).get(partition, 0)

    def taken(self, topic: str, partition: str) -> int:
        """How many of them are taken with this one."""
        return (self.row.recorded_to or {}).get(topic, {}).get(partition, 0)

    def recorded(self, landed: "Landed", partition: str) -> tuple[Recorded, ...]:
        """Recorded times of a partition that the increment takes."""
        first, after = self.taken_before(landed.topic, partition), self.taken(landed.topic, partition)
        recorded = landed.recorded.get(partition, ())[first:after]
        end = self.row.cut_to.get(landed.topic, {}).get(partition, 0)
        return (*recorded, Recorded(end, END_OF_TIME_MS, FOREVER)) if self.row.flushes else recorded

    def beyond(self, landed: "Landed", partition: str, record: tuple[int, int] | None) -> tuple[int, bool]:
        """Time of what comes after the increment, and whether that is a recorded time (then plus one); NO_MORE when
        nothing does. ``record``: offset and time of the next record, if there is one.
        """
        later = landed.recorded.get(partition, ())[self.taken(landed.topic, partition) :]
        if later and not self.row.flushes and (record is None or later[0].before_offset <= record[0]):
            # A recorded time T is behind all records of T and before those of T + 1, so on tapes it counts as a row of
            # time T + 1.
            return later[0].time_ms + 1, True
        return (NO_MORE, False) if record is None else (record[1], False)
