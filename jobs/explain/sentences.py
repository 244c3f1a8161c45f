"""Sentences on what became of a row: read, refused, left; what a node did with it, the node says itself.

Owns the words of refusals. Rule: a sentence has the numbers that decided.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...state.records.drop_reasons import DropReason
from ..graph.observations import Row
from ..graph.wording import Wording
from ..topology.topology import Topology
from .observations import NodeObservation, ReleasedRow, Taken


@dataclass(frozen=True)
class SentenceWriter:
    """``say_time``: how a time is said."""

    topology: Topology
    say_time: Callable[[int], str] = str

    @cached_property
    def wording(self) -> Wording:
        """How nodes say rows, windows and times."""
        return Wording(self.say_time)

    def sentences_of(self, observation: NodeObservation, taken: Taken) -> list[str]:
        """What ``observation.node`` did, a sentence a fact."""
        if not observation.received and not observation.node.takes_letters:
            return [self._read(row, taken) for row in observation.forwarded]
        return [
            *(self.refusal(row) for row in observation.refusals),
            *observation.node.explain(observation, self.wording),
        ]

    def refusal(self, row: dict[str, Any]) -> str:
        """A row of the table `dropped`: the reason, and the numbers that decided."""
        window = ""
        if row["window_start_ms"] is not None:
            window = (
                f" by the window from {self.say_time(row['window_start_ms'])} to {self.say_time(row['window_end_ms'])}"
            )
        reason = DropReason(row["reason"])
        said = f"refused ({reason}){window}: {reason.sentence}"
        if not reason.has_limit or row["limit_ms"] is None:
            return said
        stream, limit, time_ms = row["stream_time_ms"], row["limit_ms"], row["record_time_ms"]
        return (
            f"{said}; stream time is {self.say_time(stream)}, the limit {stream - limit} ms before it is "
            f"{self.say_time(limit)}, the record is {stream - time_ms} ms late"
        )

    def left(self, left: ReleasedRow) -> str:
        """What waited and left in the same increment."""
        topic, partition, offset = left.because_of
        window = self.topology.graph.nodes[left.wait.node].shape.window
        written = "".join(f", as outputs/{name} {partition}:{offset}" for name, offset in left.written)
        return (
            f"left because of {topic}:{partition}:{offset} at stream time {self.say_time(left.stream_time_ms)}: "
            f"{self.wording.row(left.row, window)}{written}"
        )

    def _read(self, row: Row, taken: Taken) -> str:
        behind = taken.stream_time_ms - row.record_time_ms
        late = f", {behind} ms behind stream time {self.say_time(taken.stream_time_ms)}" if behind > 0 else ""
        landed = (
            "" if taken.landed_ms is None else f" by its extractor (it landed with {self.say_time(taken.landed_ms)})"
        )
        return f"read: {self.wording.row(row)}, time {self.say_time(row.record_time_ms)}{landed}{late}"
