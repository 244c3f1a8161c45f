"""Records that are taken out of play: they stay in the landed table, and no plan that is made later reads them. Kafka
Streams has no such thing; it is for a record that stops a pipeline, or whose time makes all others late.

Owns the landing increments that book them, with the reason. Rule: whoever reads without them finds what a topic has
that was landed without them, a gap of offsets. An exclusion is never taken back.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...state.errors import ConfigError
from ...state.tables.branch_files import landed_files
from ...state.tables.data_files import read_rows
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow
from ...state.tables.out_of_play import exclusions
from ...state.tables.warehouse import Warehouse
from ...state.wall_clock import now_ms
from .recorded_time import land_no_records, last_landing


def book_exclusion(
    warehouse: Warehouse,
    topic: str,
    records: Iterable[tuple[int, int]],
    reason: str,
    *,
    clock_ms: Callable[[], int] = now_ms,
) -> LedgerRow[LandingDoneRow]:
    """Take ``records`` (partition, offset) of a landed topic out of play; all of them or none. Returns the row.

    Raises ConfigError for a topic that was never landed, a record that is not there or is out of play already, and
    without a record or a reason. Raises LandingError while a landing is unfinished, LedgerConflict when another runner
    lands meanwhile.
    """
    wanted = sorted(set(records))
    if not wanted:
        raise ConfigError(f"topic {topic!r}", "a record to take out of play", "none", "name it as PARTITION:OFFSET")
    if not reason.strip():
        next_step = "say for those who find the record missing why it is"
        raise ConfigError(f"topic {topic!r}", "a reason", repr(reason), next_step)
    last = last_landing(warehouse, topic, clock_ms)
    _refuse_excluded(warehouse, topic, wanted)
    by_partition = by_partition_of(wanted)
    for p, offsets in by_partition.items():
        refuse_missing(warehouse, topic, last, p, offsets)
        for offset in sorted(set(offsets) & set((last.content.restarts or {}).get(p, ()))):
            next_step = "land the topic under another name, and record the restart before the next record there"
            raise ConfigError(_name(topic, p, offset), "a record without a restart before it", "one", next_step)
    exclusion = {"records": by_partition, "reason": reason.strip()}
    return _book(warehouse, topic, last, exclusion, clock_ms)


def book_erasure(
    warehouse: Warehouse,
    topic: str,
    records: Mapping[str, Sequence[int]],
    reason: str,
    by: str,
    *,
    clock_ms: Callable[[], int] = now_ms,
) -> LedgerRow[LandingDoneRow]:
    """Take the content of ``records`` (partition → offsets, which are landed) out of a topic, and them out of play.

    Returns the row, which says who did it (``by``) and why, and nothing of what they were. Raises as
    ``book_exclusion``.
    """
    last = last_landing(warehouse, topic, clock_ms)
    exclusion = {"records": {p: [*offsets] for p, offsets in records.items()}, "reason": reason, "erased_by": by}
    return _book(warehouse, topic, last, exclusion, clock_ms)


def _book(
    warehouse: Warehouse,
    topic: str,
    last: LedgerRow[LandingDoneRow],
    exclusion: Mapping[str, Any],
    clock_ms: Callable[[], int],
) -> LedgerRow[LandingDoneRow]:
    excluded = with_more(last.content.excluded or {}, exclusion["records"])
    return land_no_records(warehouse, topic, last, clock_ms, excluded=excluded, exclusion=exclusion)


def by_partition_of(records: Iterable[tuple[int, int]]) -> dict[str, list[int]]:
    """Offsets of ``records`` (partition, offset) by partition, as ledgers have them, in their order."""
    offsets: dict[str, list[int]] = {}
    for partition, offset in records:
        offsets.setdefault(str(partition), []).append(offset)
    return offsets


def with_more(before: Mapping[str, Sequence[int]], more: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Offsets of both, rising, each once, by partition."""
    return {p: sorted({*before.get(p, []), *more.get(p, [])}) for p in sorted({*before, *more}, key=int)}


def _refuse_excluded(warehouse: Warehouse, topic: str, wanted: Sequence[tuple[int, int]]) -> None:
    known = {(each.partition, each.offset): each for each in exclusions(warehouse, topic)}
    for record in wanted:
        if record in known:
            got = f"one that landing increment {known[record].increment} took out ({known[record].why})"
            raise ConfigError(_name(topic, *record), "a record that is in play", got, "leave it out of the command")


def refuse_missing(
    warehouse: Warehouse, topic: str, last: LedgerRow[LandingDoneRow], partition: str, offsets: Sequence[int]
) -> None:
    """Raises ConfigError for offsets at which nothing has landed."""
    name, partitions = _name(topic, partition, offsets[0]), last.content.partitions
    if int(partition) not in range(partitions):
        raise ConfigError(name, f"a partition of 0 to {partitions - 1}", partition, "name a partition of the topic")
    end = last.content.cut_to.get(partition, 0)
    if offsets[-1] >= end or offsets[0] < 0:
        wrong = offsets[0] if offsets[0] < 0 else offsets[-1]
        expected, next_step = f"an offset of 0 or more, below {end}, the next one to land", "name a landed record"
        raise ConfigError(_name(topic, partition, wrong), expected, str(wrong), next_step)
    files = landed_files(warehouse, topic, last, within=("offset", offsets[0], offsets[-1]))
    mine = [file for file in files if file.partition == int(partition)]
    rows = read_rows(warehouse.landed(topic), mine, pa.schema([("offset", pa.int64())]))
    there = set(rows["offset"].filter(pc.is_in(rows["offset"], pa.array(offsets, pa.int64()))).to_pylist())
    for offset in offsets:
        if offset not in there:
            next_step = "Kafka has no record there (compaction, transactions); no pipeline reads one"
            raise ConfigError(_name(topic, partition, offset), "a landed record", "none at this offset", next_step)


def _name(topic: str, partition: int | str, offset: int) -> str:
    return f"record {topic}:{partition}:{offset}"
