"""What has landed and was not read, asked by time: how much is before it, and which partitions have not got so far.

Owns the answers. Rule: a partition has got to a time when a record, or a recorded time, of that time or later has
landed in it. Then nothing before that time can come any more (Kafka's ``offsetsForTimes`` has an answer).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ...state.times import NO_TIMESTAMP_MS
from .unread_records import PendingQueue


@dataclass(frozen=True)
class Backlog:
    """``queues``: one a partition; ``last_places``: of all that has landed in each, read or not. ``complete``: topics
    of which nothing more comes.
    """

    queues: Sequence[PendingQueue]
    last_places: Sequence[int]
    complete: frozenset[str] = frozenset()

    def records_before(self, time_ms: int) -> int:
        """Unread records that are before a time."""
        # Places are doubled milliseconds: a record of time t is at 2 t, a recorded time at 2 T + 1
        # (jobs/tape/recorded_time_order.py), so half a place, rounded down, is a time.
        return sum(queue.records(queue.before(2 * time_ms, len(queue))) for queue in self.queues)

    @property
    def furthest_ms(self) -> int:
        """The latest time of a record, or recorded time, of any partition; NO_TIMESTAMP_MS before the first."""
        return max((last // 2 for last in self.last_places), default=NO_TIMESTAMP_MS)

    def not_yet_at(self, time_ms: int) -> list[tuple[str, str, int | None]]:
        """Topic, partition and time of every partition that has landed nothing of ``time_ms`` or later, so that records
        before it may still come; None: it has no record at all.
        """
        return [
            (queue.topic, queue.partition, None if last == 2 * NO_TIMESTAMP_MS else last // 2)
            for queue, last in zip(self.queues, self.last_places, strict=True)
            if last < 2 * time_ms and queue.topic not in self.complete
        ]
