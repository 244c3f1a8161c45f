"""Suppress once more: change by change, in plain Python, from Kafka's rules and nothing else.

Rule: clarity over speed, no code shared with jobs/. Values are text, so that a size is a number of bytes.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

UNBOUNDED = 2**63 - 1


class ForwardedChange(NamedTuple):
    """What a table forwards; ``window`` None: a plain key. ``headers``: (key, value) pairs."""

    key: str
    window: tuple[int, int] | None
    time: int
    new: str | None
    old: str | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    topic: str = "in"
    offset: int = 0


class Emitted(NamedTuple):
    """``step``: number of the change that evicted it."""

    step: int
    change: ForwardedChange
    stream_time: int


class Full(Exception):
    """The buffer is over its limit: (step, what left at that step before)."""


@dataclass
class SuppressModel:
    """KTableSuppressProcessorSupplier and InMemoryTimeOrderedKeyValueChangeBuffer."""

    wait: int
    is_final: bool
    is_session: bool = False
    max_records: int = UNBOUNDED
    max_bytes: int = UNBOUNDED
    emits_early: bool = False
    buffer: dict[bytes, list[Any]] = field(default_factory=dict)
    stream_time: int = -1
    measured: list[tuple[int, int]] = field(default_factory=list)
    step: int = -1

    def process(self, change: ForwardedChange) -> list[Emitted]:
        self.step += 1
        self.stream_time = max(self.stream_time, change.time)
        serialized = self.serialized(change)
        if serialized in self.buffer:
            self.buffer[serialized][2:] = [change, self.stream_time]
        else:
            time = change.window[1] if self.is_final and change.window else change.time
            self.buffer[serialized] = [time, change.old, change, self.stream_time]
        self.measure()
        emitted = self.evict(lambda first: first[0] <= self.stream_time - self.wait)
        if self.is_full():
            if not self.emits_early:
                raise Full(self.step, emitted)
            emitted += self.evict(lambda _: self.is_full())
        return emitted

    def evict(self, while_: Any) -> list[Emitted]:
        emitted, before = [], len(self.buffer)
        while self.buffer:
            first = min(self.buffer, key=lambda serialized: (self.buffer[serialized][0], serialized))
            if not while_(self.buffer[first]):
                break
            _, _, change, _ = self.buffer.pop(first)
            if change.new is not None or not self.is_final:
                emitted.append(Emitted(self.step, change, self.stream_time))
        if len(self.buffer) < before:
            self.measure()
        return emitted

    def serialized(self, change: ForwardedChange) -> bytes:
        if change.window is None:
            return change.key.encode()
        start, end = (bound.to_bytes(8, "big") for bound in change.window)
        return change.key.encode() + (end + start if self.is_session else start)

    def measure(self) -> None:
        self.measured.append((len(self.buffer), self.size()))

    def is_full(self) -> bool:
        return len(self.buffer) > self.max_records or self.size() > self.max_bytes

    def size(self) -> int:
        return sum(self.entry_size(serialized, entry) for serialized, entry in self.buffer.items())

    def entry_size(self, serialized: bytes, entry: list[Any]) -> int:
        _, prior, change, _ = entry
        size = (
            8
            + len(serialized)
            + _bytes(prior)
            + (0 if change.old == prior else _bytes(change.old))
            + _bytes(change.new)
        )
        headers = sum(len(key.encode("utf-16-le")) // 2 + len(value or b"") for key, value in change.headers)
        return size + 8 + 8 + 4 + len(change.topic) + headers


def _bytes(text: str | None) -> int:
    return 0 if text is None else len(text.encode())
