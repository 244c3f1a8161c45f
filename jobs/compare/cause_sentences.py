"""The sentence of a difference: its cause, and the evidence that is there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .alignment import RowVerdict
from .case import Case, Cause
from .restarts import LetIn, Restart
from .tried_causes import Tried
from .tried_orders import TakenPair

Row = Mapping[str, Any]
"""Of the differences: the numbers of both sides, `row` and `topic_row`, -1 where there is none."""


@dataclass(frozen=True, eq=False)
class CauseSentences:
    """``partitioner``: of production, None where none is known. ``say_time``: how sentences say a time. ``tried``:
    what trials found. ``deployed``: the pipeline that ran the versions of the code. ``clocks``: processors that the
    wall clock calls.
    """

    case: Case
    let_in: LetIn
    partitioner: str | None
    say_time: Callable[[int], str] = str
    tried: Tried = field(default_factory=Tried)
    deployed: str | None = None
    clocks: Sequence[str] = ()

    @property
    def restarts(self) -> tuple[Restart, ...]:
        """The fewest that are known, by topic and place. Those that trials found are exact, so one of late records with
        such a place in its span is the same; and where they explain a whole partition, there are no others.
        """
        by_trial = [restart for each in self.tried.restarts for restart in each.restarts]
        whole = {each.partition for each in self.tried.restarts if each.is_whole}
        known = [
            each for each in self.let_in.restarts if each.partition not in whole and not any(map(each.has, by_trial))
        ]
        return tuple(sorted([*known, *by_trial], key=lambda each: (each.topic, each.partition, each.before)))

    def sentence(self, row: Row) -> str:
        """Why it differs, without a full stop."""
        cause = next(cause for cause in Cause if str(cause) == row["cause"])
        said: dict[Cause, Callable[[Row], str]] = {
            Cause.RESTART: self._restart,
            Cause.PUBLISHED_TWICE: self._twice,
            Cause.PROCESSED_TWICE: self._again,
            Cause.RECORD_CACHE: self._cache,
            Cause.PARTITION_COUNT: self._count,
            Cause.PARTITIONER: self._partitioner,
            Cause.COMPACTED: lambda _: (
                f"{self._topic} is compacted: a later row of the key is there, and a hole before it"
            ),
            Cause.RETENTION: self._retention,
            Cause.TOMBSTONES: self._tombstones,
            Cause.NOT_YET: self._not_yet,
            Cause.INTERLEAVING: self._interleaving,
            Cause.APPEND_TIME: lambda _: f"the broker stamps what it appends to {self._topic} (LogAppendTime)",
            Cause.CRASH: self._crash,
            Cause.CODE_VERSION: self._version,
            Cause.WALL_CLOCK: self._wall_clock,
            Cause.UNREADABLE: lambda _: f"the serde of the output does not read these bytes of {self._topic}",
            Cause.NOT_EXPLAINED: lambda _: "no rule explains it",
        }
        return said[cause](row)

    def record(self, row: Row) -> str | None:
        """TOPIC:PARTITION:OFFSET of the record behind it, as `replay explain` takes it; None: not known."""
        ours, theirs = row["row"], row["topic_row"]
        pair = self._pair(row)
        if pair is not None:
            return pair.record
        cause = self._cause(theirs) if theirs >= 0 else None
        if cause is Cause.RESTART and self.case.theirs_evidence[theirs] >= 0:
            late = self.let_in.late.rows.slice(int(self.case.theirs_evidence[theirs]), 1).to_pylist()[0]
            return f"{late['topic']}:{late['partition']}:{late['offset']}"
        if ours < 0 and theirs >= 0:
            evidence = int(self.case.theirs_evidence[theirs])
            twice = cause in (Cause.PUBLISHED_TWICE, Cause.PROCESSED_TWICE)
            ours = int(self.case.alignment.theirs_mate[evidence]) if twice and evidence >= 0 else -1
        return self.case.record_of(ours)

    # --- cause by cause --------------------------------------------------------------------------------------

    @property
    def _topic(self) -> str:
        return self.case.landed.topic

    def _cause(self, theirs: int) -> Cause:
        return Cause(int(self.case.theirs_cause[theirs]))

    def _is_ours(self, row: Row, cause: Cause) -> bool:
        """Our row is the one that production does not have."""
        return row["row"] >= 0 and bool(self.case.ours_cause[row["row"]] == cause)

    def _restart(self, row: Row) -> str:
        evidence = int(self.case.theirs_evidence[row["topic_row"]]) if self._is_theirs(row) else -1
        if evidence < 0:
            return f"of a restart: with one {say_restart(self._tried(row))}, its task writes the rows of production"
        late = self.let_in.late.rows.slice(evidence, 1).to_pylist()[0]
        restart = self.let_in.restarts[int(self.let_in.restart[evidence])]
        return (
            f"let in by a restart: {late['topic']}:{late['partition']}:{late['offset']} of time "
            f"{self.say_time(late['record_time_ms'])} was late by the task's stream time "
            f"{self.say_time(late['stream_time_ms'])}, and early by one that began again at -1 {say_restart(restart)}"
        )

    def _tried(self, row: Row) -> Restart:
        is_theirs = self._is_theirs(row)
        side, number = (self.case.theirs, row["topic_row"]) if is_theirs else (self.case.ours, row["row"])
        tried = next(each for each in self.tried.restarts if each.partition == side.partition[number])
        return tried.of_row(number) if is_theirs else tried.of_our_row(number)

    def _is_theirs(self, row: Row) -> bool:
        """The row of production has the cause RESTART, and not ours alone."""
        return row["topic_row"] >= 0 and self._cause(row["topic_row"]) is Cause.RESTART

    def _crash(self, row: Row) -> str:
        if self.case.alignment.theirs[row["topic_row"]] == RowVerdict.OTHER_ORDER:
            return "in another place because of a crash under at-least-once, which wrote the rows around it again"
        return (
            "of a crash under at-least-once: its record was processed again, or it is of a late one that was let in "
            "by a clock that began again at -1"
        )

    def _twice(self, row: Row) -> str:
        return (
            f"published twice by at-least-once: {self._earlier(row)} is the same row, and its record was processed "
            "again after a crash"
        )

    def _again(self, row: Row) -> str:
        return (
            "counted twice by at-least-once: the store had the record already when it was processed again after a "
            f"crash, behind {self._earlier(row)}"
        )

    def _cache(self, row: Row) -> str:
        evidence = int(self.case.ours_evidence[row["row"]])
        if evidence < 0:
            return "swallowed by a record cache: the window was made and merged away within one commit interval"
        return (
            "swallowed by a record cache: only the last update of a commit interval is published, here "
            f"{self._place(evidence)}"
        )

    def _count(self, row: Row) -> str:
        return (
            f"another partition count: {self._topic} has {self.case.landed.partitions} partitions and our tasks "
            f"{self.case.partitions}; murmur2 of the key gives {row['topic_partition']} of "
            f"{self.case.landed.partitions}"
        )

    def _partitioner(self, row: Row) -> str:
        return (
            f"another partitioner: {self.partitioner} gives partition {row['topic_partition']} of "
            f"{self.case.landed.partitions}, and our row is in that of its task, {row['partition']}"
        )

    def _retention(self, row: Row) -> str:
        partition = int(self.case.ours.target[row["row"]])
        first = self.case.landed.first_offsets()[partition]
        return f"expired: partition {partition} of {self._topic} begins at offset {first}, what was before is gone"

    def _tombstones(self, row: Row) -> str:
        if self._is_ours(row, Cause.TOMBSTONES):
            return f"another tombstone policy: {self._topic} has no tombstones at all"
        return "another tombstone policy: the output has no tombstones at all"

    def _version(self, row: Row) -> str:
        has = "does not have it either" if self._is_ours(row, Cause.CODE_VERSION) else "has the row of production"
        return f"another version of the code: {self.deployed}, which ran the versions as production did, {has}"

    def _wall_clock(self, row: Row) -> str:
        return (
            f"forwarded by the wall clock, which calls {' and '.join(self.clocks)}: no tick is recorded that says when "
            "(replay advance --tick)"
        )

    def _not_yet(self, row: Row) -> str:
        if self._is_ours(row, Cause.NOT_YET):
            return f"not there yet: {self._topic} has nothing of this time or later in the partition"
        return (
            "not there yet: the output has nothing of this time or later in the partition; land and replay its inputs"
        )

    def _pair(self, row: Row) -> TakenPair | None:
        """What a trial took the other way round for this row."""
        case, ours, theirs = self.case, row["row"], row["topic_row"]
        sides = (theirs, case.theirs_cause, case.theirs_evidence), (ours, case.ours_cause, case.ours_evidence)
        for number, causes, evidence in sides:
            if number >= 0 and causes[number] == Cause.INTERLEAVING and evidence[number] >= 0:
                return self.tried.pairs[int(evidence[number])]
        return None

    def _interleaving(self, row: Row) -> str:
        pair = self._pair(row)
        if pair is not None:
            order, other = ("before", "first") if pair.is_before else ("behind", "later")
            return (
                f"another interleaving: production took {pair.record} {order} {pair.update}, which a replay takes "
                f"{other}; in this order its task writes the rows of production"
            )
        topics = [source.topic for source in self.case.output.causing]
        if len(topics) > 1:
            return (
                f"another interleaving: its task reads {' and '.join(topics)}, whose records have no order among them"
            )
        return (
            f"another interleaving: several tasks write {topics[0]}, and no rule says in which order their records "
            "come there"
        )

    def _earlier(self, row: Row) -> str:
        return self._place(int(self.case.theirs_evidence[row["topic_row"]]))

    def _place(self, theirs: int) -> str:
        return f"{self._topic}:{self.case.theirs.partition[theirs]}:{self.case.theirs.offset[theirs]}"


def say_restart(restart: Restart) -> str:
    """Where it was."""
    topic, partition = restart.topic, restart.partition
    if restart.after < 0:
        return f"somewhere before {topic}:{partition}:{restart.before}"
    return f"between {topic}:{partition}:{restart.after} and {topic}:{partition}:{restart.before}"
