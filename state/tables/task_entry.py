"""Where a task continues: its entry in a pipeline's done row."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from ..times import NO_TIMESTAMP_MS
from .row_content import RowContent


@dataclass(frozen=True, kw_only=True)
class TaskEntry(RowContent):
    """``TaskEntry()``: of a task that has not run."""

    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    """Store → numbers that live with it, its stream times among them."""
    row_keys: dict[str, list[str]] = field(default_factory=dict)
    """Store → columns that name a row of it."""
    stream_time_ms: int = NO_TIMESTAMP_MS
    tape_time_ms: int = NO_TIMESTAMP_MS
    """The largest record time that it has read, of whatever source."""
    tape_position: int = 0
    """Rows that it has read."""
    next_offsets: dict[str, int] = field(default_factory=dict)
    """Table that it writes → offset of its next row there."""
    heap: list[int] | None = None
    """Numbers of the queues in the heap of its PartitionGroup, as Kafka's PriorityQueue has them; None: empty."""
    recorded_times: dict[str, dict[str, int]] = field(default_factory=dict)
    """Repartition topic or earlier part → writer, as text → the recorded time that it has forwarded."""
    partition_times: dict[str, int] = field(default_factory=dict)
    """Topic with a timestamp extractor → the largest time that it gave a record of the partition."""

    json_names: ClassVar[Mapping[str, str]] = {"counters": "clocks", "recorded_times": "told"}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """As of RowContent; two fields have an older name there."""
        fields = {older: name for name, older in cls.json_names.items()}
        return super().from_json({fields.get(name, name): value for name, value in content.items()})

    def to_json(self) -> dict[str, Any]:
        """The reverse of ``from_json``; what few tasks have is left out where it is empty."""
        written = super().to_json()
        left_out = {name for name in ("recorded_times", "partition_times") if not written[name]}
        return {self.json_names.get(name, name): value for name, value in written.items() if name not in left_out}

    def _nulls(self) -> tuple[str, ...]:
        return ("heap",)
