"""What has landed and is held back by ``idle="wait"``: which partition waits for which, and until when.

Owns its text, which plans keep and people read. Rule: records of a time are taken when every partition that is merged
with them, and has records at all, has got past that time (jobs/replay/planner.py); so whatever waits, waits for the
slowest.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .unread_records import PendingRecords


@dataclass(frozen=True)
class WaitingInput:
    """``records`` of a partition of a topic, with times from ``first_ms`` to ``last_ms``, wait until the partition
    ``for_partition`` of ``for_topic``, which has come to ``reached_ms``, has got past each of them.
    """

    topic: str
    partition: int
    records: int
    first_ms: int
    last_ms: int
    for_topic: str
    for_partition: int
    reached_ms: int

    def to_json(self) -> dict[str, Any]:
        """As the ledger keeps it."""
        return asdict(self)


def waiting_inputs(unread: PendingRecords, merged: Sequence[int], slowest: int, position: int) -> list[WaitingInput]:
    """Of the queues with the numbers in ``merged``, which are merged: what is held back since the queue ``slowest``
    has not got past ``position``.
    """
    waiting, last = [], unread.queues[slowest]
    for number in merged:
        queue, end = unread.queues[number], unread.ends[number]
        records = queue.records(len(queue)) - queue.records(end)
        if records:
            waiting.append(
                WaitingInput(
                    topic=queue.topic,
                    partition=int(queue.partition),
                    records=records,
                    first_ms=int(queue.rows.position[end]) // 2,
                    last_ms=int(queue.rows.position[-1]) // 2,
                    for_topic=last.topic,
                    for_partition=int(last.partition),
                    reached_ms=position // 2,
                )
            )
    return waiting
