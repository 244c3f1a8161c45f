"""Landing from Apache Kafka, by librdkafka as a read of planned offset ranges.

Owns which offsets are new and the read of them. Rule: the plan says ``[from, to)`` of each partition and is in the
ledger before anything is read, so a retry reads the same. ``to`` is the last stable offset: nothing of an open
transaction, and nothing after it. Offsets that hold no record (compaction, transaction markers, aborted records) are no
gaps. Offsets that the broker deleted before they were landed are a RetentionGap. Before anything is committed, the
broker is asked again whether the topic is still the planned one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...state.errors import ConfigError, LandingError, RetentionGap
from ...state.tables.commit import commit_files
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow, LandingPlanRow
from ...state.tables.warehouse import LANDED_SCHEMA, Warehouse
from .bad_rows import commit_dead_letters
from .file_source import KAFKA_OFFSETS
from .kafka_files import ReadFailedError, WrittenRanges, write_ranges
from .kafka_offsets import TopicState, topic_state
from .kafka_source import KafkaSource
from .landing_rules import LandingRules, RowRules


@dataclass(frozen=True)
class KafkaLander:
    """Lands what the broker has after the last landed offsets, at most ``max_records`` offsets."""

    warehouse: Warehouse
    topic: str
    source: KafkaSource
    max_records: int | None = None
    rules: LandingRules = field(default_factory=LandingRules)
    kind: str = "kafka"
    schema = LANDED_SCHEMA
    known_offsets = KAFKA_OFFSETS

    def __post_init__(self) -> None:
        if self.max_records is not None and self.max_records < 1:
            raise ConfigError("max_records", "at least 1", str(self.max_records), "give a number of records or None")

    @property
    def source_topic(self) -> str:
        """The topic's name at the broker."""
        return self.source.topic or self.topic

    def next_plan(
        self, last: LedgerRow[LandingDoneRow] | None, _planned: object, clock_ms: int, *, must: bool, warn: object
    ) -> LandingPlanRow | None:
        """Ranges from the last landed offsets to the last stable ones; None when they are empty."""
        state = topic_state(self.source_topic, self.source)
        landed = None if last is None else last.content
        following = {int(p): offset for p, offset in landed.cut_to.items()} if landed is not None else {}
        self._refuse_other_topic(state, landed, following)
        # A partition that was added to the topic since has no landed offset, and begins at its earliest one.
        cut_from = {p: following.get(p, earliest) for p, earliest in state.earliest.items()}
        gaps = self._gaps(state, cut_from)
        begins = _behind(gaps, cut_from)
        available = {p: state.stable[p] - first for p, first in begins.items()}
        taken = share_out(available, self.max_records)
        # A new partition makes an increment even if it is empty, so that the topic has as many as the broker's.
        is_quiet = landed is not None and not any(taken.values()) and not gaps and len(following) == len(cut_from)
        if is_quiet and not must:
            return None
        return LandingPlanRow(
            partitions=len(cut_from),
            cut_from=_as_json(cut_from),
            cut_to=_as_json({p: first + taken[p] for p, first in begins.items()}),
            gaps={str(p): list(gap) for p, gap in gaps.items()},
            source={**_mapping_of(landed), "kind": self.kind, "topic": self.source_topic, "topic_id": state.topic_id},
            rules=RowRules(latest_ms=self.rules.latest_ms(clock_ms)).to_dict(),
        )

    def write(self, row: LedgerRow[LandingPlanRow], app_id: str) -> dict[str, Any]:
        """Append the planned ranges to the landed table; the gaps known when they were read."""
        state = topic_state(self.source_topic, self.source)
        self._refuse_other_topic(state, row.content, {})
        cut_to = {int(p): offset for p, offset in row.content.cut_to.items()}
        cut_from = {int(p): offset for p, offset in row.content.cut_from.items()}
        gaps = self._planned_gaps(row, state, cut_from, cut_to)
        begins = _behind(gaps, cut_from)
        ranges = {p: (begin, cut_to[p]) for p, begin in begins.items() if begin < cut_to[p]}
        try:
            written = self._read_ranges(ranges, row)
        except ReadFailedError as error:
            raise self._explained(error, row, cut_from, cut_to) from error
        # librdkafka reads by name: a topic that is deleted and created
        # again meanwhile gives records of the new one without an error.
        if ranges:
            after = topic_state(self.source_topic, self.source)
            self._refuse_other_topic(after, row.content, {})
        # Before the records: the mark of the landed table is what
        # counts as committed, and nothing is written behind it.
        commit_dead_letters(self.warehouse, self.topic, written.dead_letters, app_id, row.increment)
        path = self.warehouse.landed(self.topic)
        commit_files(path, LANDED_SCHEMA, written.files, app_id=app_id, increment=row.increment)
        return {"gaps": {str(p): list(gap) for p, gap in gaps.items()}}

    def _read_ranges(self, ranges: Mapping[int, tuple[int, int]], row: LedgerRow[LandingPlanRow]) -> WrittenRanges:
        """Files of the records, which nobody sees yet; those later than the plan allows become dead letters."""
        latest_ms = RowRules.from_dict(row.content.rules or {}).latest_ms
        directories = self.warehouse.landed(self.topic), self.warehouse.landed_dead_letter(self.topic)
        return write_ranges(self.source, self.source_topic, ranges, directories, row.increment, latest_ms)

    def _gaps(self, state: TopicState, cut_from: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """Offsets ``[from, to)`` that come next and are gone; RetentionGap unless they are to be skipped."""
        gaps = {p: (first, state.earliest[p]) for p, first in cut_from.items() if state.earliest[p] > first}
        return self._skipped(gaps)

    def _skipped(self, gaps: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        if gaps and self.source.on_gap == "refuse":
            gone = ", ".join(f"[{first}, {to}) of partition {p}" for p, (first, to) in gaps.items())
            next_offsets = ", ".join(f"{first} in partition {p}" for p, (first, _) in gaps.items())
            raise RetentionGap(
                f"topic {self.topic}",
                f"next offset {next_offsets}",
                f"deleted by the broker's retention before they were landed: {gone}",
                'to continue without them land with on_gap="skip", which records the gap in the ledger',
            )
        return gaps

    def _planned_gaps(
        self, row: LedgerRow[LandingPlanRow], state: TopicState, cut_from: Mapping[int, int], cut_to: Mapping[int, int]
    ) -> dict[int, tuple[int, int]]:
        """Gaps of the plan, and what the broker has deleted of the planned ranges since."""
        gaps = {int(p): (first, to) for p, (first, to) in row.content.gaps.items()}
        begins = _behind(gaps, cut_from)
        # Retention may have passed the end of the plan, too; what is gone behind it is a gap of the next plan.
        grown = {p for p, begin in begins.items() if begin < min(state.earliest[p], cut_to[p])}
        return gaps | self._skipped({p: (cut_from[p], min(state.earliest[p], cut_to[p])) for p in sorted(grown)})

    def _refuse_other_topic(
        self, state: TopicState, landed: LandingDoneRow | LandingPlanRow | None, following: Mapping[int, int]
    ) -> None:
        # KIP-516: a topic that is created again has another id. A topic that only files have landed has none.
        if landed is not None and landed.source.get("topic_id", state.topic_id) != state.topic_id:
            raise LandingError(
                f"topic {self.topic}",
                f"the topic of id {landed.source['topic_id']}, from which it has been landed",
                f"{self.source_topic} of id {state.topic_id}, created again: its offsets mean other records",
                "land it into a topic of another name",
            )
        if missing := sorted(p for p in following if p not in state.stable):
            raise LandingError(
                f"topic {self.topic}",
                f"{len(following)} partitions, as landed before",
                f"{self.source_topic} without partition {missing[0]}",
                "correct the topic's name (--source-topic), or land it into a topic of another name",
            )
        for p, offset in following.items():
            # After an unclean leader election a log may end before offsets that were read already.
            if state.stable[p] < offset:
                raise LandingError(
                    f"topic {self.topic}, partition {p}",
                    f"offsets up to {offset}, which are landed",
                    f"an end at {state.stable[p]}: the broker lost records",
                    "land the topic again under another name, or wait until the broker has its replica back",
                )

    def _explained(
        self,
        error: Exception,
        row: LedgerRow[LandingPlanRow],
        cut_from: Mapping[int, int],
        cut_to: Mapping[int, int],
    ) -> Exception:
        """What made the write fail, if it is one of the things that are known to."""
        state = topic_state(self.source_topic, self.source)
        self._refuse_other_topic(state, row.content, {})
        self._planned_gaps(row, state, cut_from, cut_to)
        return LandingError(
            f"topic {self.topic}, increment {row.increment}",
            f"the records up to {dict(cut_to)}",
            str(error).splitlines()[0],
            "land the topic again: the plan is kept and reads the same offsets",
        )


def share_out(available: Mapping[int, int], limit: int | None) -> dict[int, int]:
    """How many offsets of each partition to take: all, or ``limit`` in all, as equal as they can be."""
    left = sum(available.values()) if limit is None else limit
    taken = {}
    # The fewest first: what a partition leaves of its equal share goes to those that have more.
    for index, p in enumerate(sorted(available, key=lambda p: (available[p], p))):
        taken[p] = min(available[p], left // (len(available) - index))
        left -= taken[p]
    return taken if limit is not None else dict(available)


def _behind(gaps: Mapping[int, tuple[int, int]], cut_from: Mapping[int, int]) -> dict[int, int]:
    """Where reading begins: behind the gap of a partition that has one."""
    return {p: gaps[p][1] if p in gaps else first for p, first in cut_from.items()}


def _mapping_of(landed: LandingDoneRow | None) -> dict[str, Any]:
    """The mapping of files that have landed before, for those that may come again."""
    kept = {} if landed is None else landed.source
    return {name: kept[name] for name in ("mapping", "offsets") if name in kept}


def _as_json(cut: Mapping[int, int]) -> dict[str, int]:
    return {str(p): offset for p, offset in sorted(cut.items())}
