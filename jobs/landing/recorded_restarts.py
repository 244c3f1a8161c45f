"""Recorded restarts: "production restarted before this record", written beside a landed topic, so that every replay
does what the live application did. Kafka Streams forgets its stream times whenever a task starts again; without a
recorded restart a replay never does. Off unless asked for.

Owns the landing increments that record them. Rule: a restart is before a landed record, which stays in play. What is
planned later takes it, and increments that were planned before do not. It is never taken back.
"""

from collections.abc import Callable, Iterable

from ...state.argument_types import checked_types
from ...state.errors import ConfigError
from ...state.tables.warehouse import Warehouse
from ...state.wall_clock import now_ms
from .exclusions import by_partition_of, refuse_missing, with_more
from .recorded_time import land_no_records, last_landing


@checked_types
def record_restarts(
    warehouse: Warehouse,
    topic: str,
    before: Iterable[tuple[int, int]],
    *,
    clock_ms: Callable[[], int] = now_ms,
) -> list[tuple[int, int]]:
    """Record that production restarted ``before`` these records (partition, offset) of the landed ``topic`` of
    ``warehouse``: the task that reads the partition began again with this record, its stream times at -1.

    ``clock_ms``: when, for the ledger. Returns those that are new, by partition and offset. Raises ConfigError for a
    topic that was never landed, and for a record that is not there or out of play; LandingError while a landing is
    unfinished, LedgerConflict when another runner lands meanwhile. Source: none; what it repeats is that StreamTask
    and its processors keep stream times in memory alone.
    """
    last = last_landing(warehouse, topic, clock_ms)
    known, out = last.content.restarts or {}, last.content.excluded or {}
    wanted = sorted(set(before))
    new = [(p, offset) for p, offset in wanted if offset not in known.get(str(p), [])]
    by_partition = by_partition_of(new)
    for p, offsets in by_partition.items():
        refuse_missing(warehouse, topic, last, p, offsets)
        for offset in sorted(set(offsets) & set(out.get(p, []))):
            expected, next_step = "a record that is in play", "name the next record of the partition"
            raise ConfigError(f"record {topic}:{p}:{offset}", expected, "one that was taken out of play", next_step)
    if new:
        restarts = with_more(known, by_partition)
        land_no_records(warehouse, topic, last, clock_ms, restarts=restarts, restart=by_partition)
    return new
