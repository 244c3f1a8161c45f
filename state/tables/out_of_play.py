"""Records of landed topics that are out of play, as their ledgers have booked them: excluded ones, and erased ones.

Owns reading them. They are booked by jobs/landing/exclusions.py.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from .ledger import LandingLedger
from .ledger_rows import Cut, DoneRow, PlanRow, cut_of
from .warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A record that is out of play since the landing increment ``increment``, booked at ``booked_at_ms``.
    ``is_erased``: its content is gone, too.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    increment: int
    booked_at_ms: int
    is_erased: bool = False

    @property
    def why(self) -> str:
        """The reason; of one that was erased, that it was."""
        return f"erased: {self.reason}" if self.is_erased else self.reason


def exclusions(warehouse: Warehouse, topic: str) -> list[Exclusion]:
    """What is out of play of a landed topic, in the order in which it was booked; what was erased after it was taken
    out, as erased. Reads the whole ledger if anything is.
    """
    ledger = LandingLedger(warehouse.landing_ledger(topic))
    last = ledger.last_done()
    if last is None or last.content.excluded is None:
        return []
    booked = [(row, row.content.exclusion) for row in ledger.done_rows() if row.content.exclusion is not None]
    by_record = {
        (int(partition), offset): Exclusion(
            topic, int(partition), offset, exclusion["reason"], row.increment, row.written_at_ms,
            is_erased="erased_by" in exclusion,
        )
        for row, exclusion in booked
        for partition, offsets in exclusion["records"].items()
        for offset in offsets
    }  # fmt: skip
    return list(by_record.values())


def erased_offsets(warehouse: Warehouse, topic: str) -> dict[int, list[int]]:
    """By partition, of a landed topic's records whose content was erased."""
    offsets: dict[int, list[int]] = {}
    for each in erased_records(warehouse, [topic]):
        offsets.setdefault(each.partition, []).append(each.offset)
    return offsets


def erased_records(warehouse: Warehouse, topics: Iterable[str]) -> list[Exclusion]:
    """Those of ``topics`` that were erased, as of ``exclusions``."""
    return [each for topic in sorted(topics) for each in exclusions(warehouse, topic) if each.is_erased]


def erased_since(erased: Iterable[Exclusion], begin: Cut, row: PlanRow | DoneRow) -> list[Exclusion]:
    """Those of ``erased`` that an increment has read, so that they were erased afterwards. ``begin``: where the
    increment of ``row`` begins.
    """
    return [each for each in erased if is_read_by(row, begin, each.topic, each.partition, each.offset)]


def is_read_by(row: PlanRow | DoneRow, begin: Cut, topic: str, partition: int | str, offset: int) -> bool:
    """Whether the increment of ``row``, which begins at ``begin``, reads a record, as of its plan."""
    is_within = cut_of(begin, topic, partition) <= offset < cut_of(row.cut_to, topic, partition)
    return is_within and offset not in (row.excluded or {}).get(topic, {}).get(str(partition), ())
