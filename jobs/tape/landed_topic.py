"""One landed topic, as a plan sees it: what has landed, its recorded times, and how far its partitions go."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...state.errors import ConfigError, LandingError
from ...state.tables.branch_files import landed_files, refuse_older_landing_ledger
from ...state.tables.data_files import DataFile, OpenTables
from ...state.tables.ledger import LandingLedger
from ...state.tables.warehouse import Warehouse
from ...state.times import UNBOUNDED
from ..landing.recorded_time import Recorded, RecordedTimes, recorded_times
from .landed_slice import Slice, slice_of


@dataclass(frozen=True)
class Landed:
    """A landed topic: its files, and the next offset that landing will write, by partition."""

    topic: str
    path: str
    files: list[DataFile]
    ends: dict[str, int]
    recorded: RecordedTimes = field(default_factory=dict)
    excluded: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Offsets of records that are taken out of play, by partition."""
    restarts: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Offsets of records before which production restarted, by partition."""
    is_complete: bool = False
    """Nothing more of it comes (jobs/landing/complete_topics.py)."""
    topic_id: str | None = None
    """Kafka's, of the topic of this name from which it was landed; None: it is not known."""

    @classmethod
    def of(cls, warehouse: Warehouse, topic: str, begin: Mapping[str, int] | None = None) -> "Landed":
        """``begin``: next offset to read, by partition; files before all of them are left out. Raises ConfigError for a
        topic that was never landed, LandingError for one whose first landing has not ended.
        """
        ledger = LandingLedger(warehouse.landing_ledger(topic))
        last = ledger.last_done()
        opened: OpenTables = {}
        refuse_older_landing_ledger(warehouse, topic, ledger, last, opened)
        if last is None and (pending := ledger.pending()) is not None:
            got = f"increment {pending.increment}, which is planned and not done"
            next_step = f"wait for the landing that is at work, or land topic {topic} again, which finishes it"
            raise LandingError(ledger.path, "a landing that has ended", got, next_step)
        if last is None:
            raise ConfigError(
                f"topic {topic!r}", "a landed topic", f"landed topics {warehouse.topics()}", "land it before replaying"
            )
        path = warehouse.landed(topic)
        ends = dict.fromkeys(map(str, range(last.content.partitions)), 0) | last.content.cut_to
        first = min(((begin or {}).get(partition, 0) for partition in ends), default=0)
        files = landed_files(warehouse, topic, last, within=("offset", first, UNBOUNDED), opened=opened)
        recorded = recorded_times(warehouse, topic, increment=last.increment)
        out, restarts = last.content.excluded or {}, last.content.restarts or {}
        source = last.content.source
        topic_id = source.get("topic_id") if source.get("topic") == topic else None
        return cls(topic, path, files, ends, recorded, out, restarts, bool(last.content.complete), topic_id)

    def arrival(self, recorded: Recorded) -> int:
        """Raises LandingError when a recorded time does not have it."""
        if recorded.arrival is None:
            expected, got = "an arrival with every recorded time", f"none with {recorded.time_ms} ms"
            raise LandingError(self.path, expected, got, 'record times with arrival, or replay with order="time"')
        return recorded.arrival

    def slice(self, partition: str, begin: int, end: int) -> Slice:
        return slice_of(self.path, self.files, int(partition), begin, end, self.excluded.get(partition, ()))
