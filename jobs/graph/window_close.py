"""When windows close that have a size and a grace."""

from typing import Protocol


class _Windows(Protocol):
    @property
    def size_ms(self) -> int: ...

    @property
    def grace_ms(self) -> int: ...


class ClosedAfterGrace:
    """Windows that are closed when stream time has reached their end and the grace behind it."""

    __slots__ = ()

    @property
    def wait_ms(self: _Windows) -> int:
        """From a window's end until its close."""
        return self.grace_ms

    @property
    def retention_ms(self: _Windows) -> int:
        """How long a store keeps windows by default, by stream time."""
        return self.size_ms + self.grace_ms
