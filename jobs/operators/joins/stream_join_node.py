"""The node of a join of two streams: how it is configured, what waits in it, and what it says of itself."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import only_chunk
from ....state.promises import JoinedStreams, Promise
from ....state.tables.names import TableName
from ...functions.expressions import Shape
from ...functions.value_joiners import Joiner
from ...graph.graph import Graph, Node, compacted
from ...graph.kafka_processors import KafkaNode, kafka_processor
from ...graph.kafka_traits import KafkaTrait
from ...graph.observations import Observation, Wait
from ...graph.reach import Reach
from ...graph.store_rows import TIME, StoreRowSchema
from ...graph.wording import Wording
from ..base.promised_tables import input_of, outputs_of


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamJoinNode(Node):
    """``inputs``: left and right. A left record joins right records in ``[ts - before, ts + after]``."""

    store: str
    kind: str
    before_ms: int
    after_ms: int
    grace_ms: int
    joiner: Joiner
    is_persistent: bool

    operator = ".stream_join:build"
    emits_at_once = False
    """A record of an outer side without a match continues alone at once, and waits for none."""

    nulls_move_time = True

    @property
    def given_grace_ms(self) -> int:
        return self.grace_ms

    def with_grace(self, grace_ms: int) -> "StreamJoinNode":
        return replace(self, grace_ms=grace_ms)

    @property
    def waits_for_close(self) -> bool:
        return self.kind != "inner" and not self.emits_at_once

    @property
    def wants_null_keys(self) -> bool:
        return self.kind != "inner"

    def changelogs(self, graph: Graph) -> tuple[str, ...]:
        """Of the left side, of the right one, and of what waits."""
        return tuple(graph.parts[self.name][4:])

    def changelog_settings(self, graph: Graph, store: str) -> Mapping[str, str]:
        waits = store in self.changelogs(graph)[2:]
        return compacted(None if waits else self.before_ms + self.after_ms + self.grace_ms)

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        this_windowed, other_windowed, this, other, this_store, other_store, *shared = graph.parts[self.name]
        left, right = self.inputs
        return [
            kafka_processor(this_windowed, (left,), (this_store,)),
            kafka_processor(other_windowed, (right,), (other_store,)),
            kafka_processor(this, (this_windowed,), (other_store, *shared)),
            kafka_processor(other, (other_windowed,), (this_store, *shared)),
            kafka_processor(self.name, (this, other)),
        ]

    def kafka_traits(self, graph: Graph) -> Iterable[KafkaTrait]:
        yield from (KafkaTrait.TASK_STATE, KafkaTrait.DSL_STORE)
        if self.is_persistent:
            yield from (KafkaTrait.PERSISTENT_STORE, KafkaTrait.PERSISTENT_WINDOWS)
        if self.kind != "inner":
            yield KafkaTrait.JOIN_OF_NULL_KEYS
        if self.waits_for_close:
            yield KafkaTrait.STREAM_JOIN_AFTER_CLOSE
            if self.before_ms != self.after_ms:
                yield KafkaTrait.STREAM_JOIN_UNEVEN

    def reach(self, graph: Graph) -> Reach:
        """A store shows records until they are older than both sides of the window and the grace."""
        return Reach(max(self.before_ms, 0) + max(self.after_ms, 0) + self.grace_ms + 1)

    def store_rows(self, graph: Graph) -> StoreRowSchema:
        left, right = (graph.nodes[name].shape for name in self.inputs)
        return StoreRowSchema(joined_schema(left, right), JOINED_KEY)

    def promises(self, graph: Graph) -> Iterable[Promise]:
        """What it forwards are pairs within the window, and records without a match."""
        left, right = (input_of(graph, name) for name in self.inputs)
        outputs = outputs_of(graph, self, unchanged=False)
        ahead = (self.before_ms, self.after_ms, self.emits_at_once)
        if left is None or right is None or not outputs:
            why_not = "no table has what the join reads by key and time" if outputs else "no output has all its rows"
            yield JoinedStreams(TableName.state(self.store), None, None, self.kind, *ahead, why_not=why_not)
            return
        for output in outputs:
            yield JoinedStreams(output, left, right, self.kind, *ahead)

    def records_kept(self, rows: pa.Table) -> tuple[pa.Table, ...]:
        """Of both sides, those that a later record may join, or that wait."""
        sides = []
        for side in ("left", "right"):
            of_side = rows.filter(pc.is_in(rows["kind"], value_set=pa.array([side, f"unmatched-{side}"])))
            once = of_side.take(pa.array(np.unique(of_side["sequence"].to_numpy(), return_index=True)[1]))
            key = self.shape.key.encode(only_chunk(once, "key"))
            sides.append(pa.table({"timestamp": once["record_time_ms"], "key": key.cast(pa.binary())}))
        return tuple(sides)

    def _until_ms(self, kind: str, time_ms: int) -> int | None:
        """The first stream time past the close of the window of a record without a match; None for another row."""
        ahead = {"unmatched-left": self.after_ms, "unmatched-right": self.before_ms}.get(kind)
        return None if ahead is None else time_ms + ahead + self.grace_ms + 1

    def waits_until(self, rows: pa.Table) -> pa.Array | None:
        times = zip(rows["kind"].to_pylist(), rows["record_time_ms"].to_pylist(), strict=True)
        return pa.array([self._until_ms(kind, time) for kind, time in times], "int64")

    def waits(self, seen: Observation) -> list[Wait]:
        entries = [change.after for change in seen.changes if change.after is not None]
        return [
            self.wait(entry["key"], until_ms, record_time_ms=entry["record_time_ms"])
            for entry in entries
            if (until_ms := self._until_ms(entry["kind"], entry["record_time_ms"])) is not None
        ]

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        said, partner_count = [], 0
        for side, rows in zip(("left", "right"), seen.received, strict=True):
            back, ahead = (self.before_ms, self.after_ms) if side == "left" else (self.after_ms, self.before_ms)
            other = "right" if side == "left" else "left"
            for row in rows:
                low, high = row.record_time_ms - back, row.record_time_ms + ahead
                partners = [
                    entry
                    for entry in seen.shown
                    if (entry["kind"], entry["key"]) == (other, row.key) and low <= entry["record_time_ms"] <= high
                ]
                partner_count += len(partners)
                said += [
                    f"meets {other} {entry[other]!r} of time {say.time(entry['record_time_ms'])}" for entry in partners
                ]
                if not partners and row.key is not None and row.value is not None:
                    span = f"[{say.time(max(0, low))}, {say.time(high)}]"
                    said.append(f"meets no {other} record of {row.key!r} in {span}")
        return [*said, *self._say_waiting(seen, say, partner_count)]

    def _say_waiting(self, seen: Observation, say: Wording, partner_count: int) -> list[str]:
        waits = self.waits(seen)
        said = [f"waits for one until {say.until(seen, wait)}" for wait in waits]
        own = {(repr(row.key), row.record_time_ms) for row in seen.rows}
        for number, row in enumerate(seen.forwarded):
            is_own = number >= len(seen.forwarded) - partner_count or (
                not waits and (repr(row.key), row.record_time_ms) in own
            )
            verb = "forwards" if is_own else "lets go alone"
            said.append(f"{verb} {say.row(row)}, time {say.time(row.record_time_ms)}")
        return said


@dataclass(frozen=True, eq=False, kw_only=True)
class ImmediateStreamJoinNode(StreamJoinNode):
    """Of JoinWindows.of, without a store of those that wait."""

    emits_at_once = True


JOINED_KEY = ("kind", "key", "record_time_ms", "sequence")


def joined_schema(left: Shape, right: Shape) -> pa.Schema:
    """Records of both sides in one table; ``kind`` says of which side, and whether one waits for a match."""
    values = [("sequence", pa.int64()), ("left", left.value.arrow_type), ("right", right.value.arrow_type)]
    head = [("kind", pa.string()), ("key", left.key.arrow_type)]
    return pa.schema([*(pa.field(*column) for column in head), TIME, *(pa.field(*column) for column in values)])
