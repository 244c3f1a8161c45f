"""Suppress once more, behind a window's model: record by record, in plain Python, from Kafka's rules and nothing else.

Rule: clarity over speed, no code shared with jobs/. Results are those of tests/operators/aggregates/window_models.py.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.operators.aggregates.window_models import Model, Record, Result


@dataclass
class WindowSuppressModel:
    """KTableSuppressProcessorSupplier: until the window closes, without a limit."""

    wait: int
    is_session: bool
    buffer: dict[bytes, list[Any]] = field(default_factory=dict)
    stream_time: int = -1

    def process(self, update: Result) -> list[Result]:
        step, key, (start, end), value, time = update
        self.stream_time = max(self.stream_time, time)
        suffix = end.to_bytes(8, "big") + start.to_bytes(8, "big") if self.is_session else start.to_bytes(8, "big")
        self.buffer[key.encode() + suffix] = [end, key, (start, end), value, time]
        final = []
        for serialized in sorted(self.buffer, key=lambda entry: (self.buffer[entry][0], entry)):
            if self.buffer[serialized][0] > self.stream_time - self.wait:
                break
            _, key, window, value, time = self.buffer.pop(serialized)
            if value is not None:
                final.append((step, key, window, value, time))
        return final


def run(model: Model, tape: list[Record], suppress: WindowSuppressModel | None = None) -> list[Result]:
    """What the model forwards for the whole tape."""
    updates = [update for step, record in enumerate(tape) for update in model.process(step, record)]
    return updates if suppress is None else [final for update in updates for final in suppress.process(update)]
