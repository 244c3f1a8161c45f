"""Recorded time on a task's tape: where stream time moves on without a record, and how far each source has got.

Owns the values; what they do to the nodes of a task is in jobs/task/advance_stream_time.py. Rule: where several inputs
are merged, a time that was recorded for one of them counts as far as all of them have reached.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...state.times import FOREVER, NO_TIMESTAMP_MS


class SourceProgress(NamedTuple):
    """Of a source or node: the largest time recorded for it, and the time that it has reached by whatever means, in
    ms; NO_TIMESTAMP_MS for none. A source that holds nobody back has reached FOREVER.
    """

    recorded_ms: int
    reached_ms: int


NO_PROGRESS = SourceProgress(NO_TIMESTAMP_MS, NO_TIMESTAMP_MS)
HOLDS_NONE_BACK = SourceProgress(NO_TIMESTAMP_MS, FOREVER)


def combine(above: Iterable[SourceProgress]) -> SourceProgress:
    """Where several inputs are merged: the largest recorded time, as far as all of them have reached."""
    progress = list(above) or [NO_PROGRESS]
    reached_ms = min(each.reached_ms for each in progress)
    return SourceProgress(min(reached_ms, max(each.recorded_ms for each in progress)), reached_ms)


@dataclass(frozen=True, slots=True)
class StreamTimeAdvance:
    """What a tape has where stream time moves on. ``source``: place in the task's sources of the one that received it;
    ``sources``: by place, of every source that an advance can come from.
    """

    source: int
    sources: Mapping[int, SourceProgress]
    tape_time_ms: int
    """The largest time on the tape after it."""
    tick_ms: int | None = None
    """The wall clock has reached that, and stream time stays."""

    @property
    def time_ms(self) -> int:
        """Stream time of the task as a whole."""
        return combine(self.sources.values()).recorded_ms


class TimeSignal(NamedTuple):
    """A recorded time that a task forwards to those that read what it writes. ``place``: PLACE_COLUMNS of
    jobs/tape/input_queues.py; ``send``: which of the rows of its place comes first.
    """

    writer: int
    """The task's partition."""
    time_ms: int
    place: tuple[int, ...]
    send: int
    is_tick: bool = False
    """A tick of the wall clock, which comes before all that it caused."""
