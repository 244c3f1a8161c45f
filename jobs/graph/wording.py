"""How rows, windows, times and changes of stores are said, whatever the operator.

Owns the words that all nodes share. Rule: a sentence has the numbers that decided; windows have their brackets:
``[start, end)`` for time windows, ``[start, end]`` for sessions and sliding windows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .observations import Observation, Row, RowChange, Wait, bounds_of


@dataclass(frozen=True)
class Wording:
    """``time``: how a time is said."""

    time: Callable[[int], str] = str

    def row(self, row: Row, kind: str | None = None) -> str:
        """Key, window, value and what it replaced. ``kind``: of its window."""
        window = "" if row.window is None else f" {self.window(row.window, kind)}"
        was = "" if row.old is None else f", was {row.old!r}"
        return f"{row.key!r}{window} = {row.value!r}{was}"

    def window(self, window: tuple[int, int], kind: str | None) -> str:
        """In brackets."""
        start, end = map(self.time, window)
        return f"[{start}, {end}{')' if kind == 'time' else ']'}"

    def until(self, seen: Observation, wait: Wait) -> str:
        """Until when something waits, and what became of it."""
        return f"stream time {self.time(wait.until_ms)}{self.outcome(seen, wait)}"

    def outcome(self, seen: Observation, wait: Wait) -> str:
        """What became of something that waits, as the end of a sentence; empty when nothing is known."""
        return f"; {seen.outcomes[wait]}" if wait in seen.outcomes else ""

    def change(self, change: RowChange, kind: str | None) -> str:
        """A row of a store, before and after. ``kind``: of its window."""
        entry = change.after or change.before or {}
        bounds, name = bounds_of(entry), repr(entry.get("key", entry.get("id")))
        if bounds is not None:
            name += f" {self.window(bounds, entry.get('window') or kind)}"
        if "valid_from_ms" in entry:
            name += f" from {self.time(entry['valid_from_ms'])}"
        if "store" in entry:
            name = f"{entry['store']}, {name}"
        if change.before is None:
            return f"{name}: begins with {self._value(entry)}"
        if change.after is not None and self._value(change.after) == self._value(change.before):
            return f"{name}: stays {self._value(change.after)}"
        after = "gone" if change.after is None else self._value(change.after)
        return f"{name}: {self._value(change.before)} -> {after}"

    def _value(self, entry: Mapping[str, Any]) -> str:
        """Of a row; of a processor's store with what is kept beside it."""
        said = repr(entry["value"])
        if "store" in entry and "record_time_ms" in entry:
            said += f" at {self.time(entry['record_time_ms'])}"
        return said + (f" with headers {entry['headers']!r}" if "store" in entry and entry.get("headers") else "")

    def store_and_forwarded(self, seen: Observation, kind: str | None) -> list[str]:
        """Changes of the store and forwarded records, for any operator."""
        said = [self.change(change, kind) for change in seen.changes if _has_value(change)]
        said += [f"forwards {self.row(row, kind)}" for row in seen.forwarded]
        return said or ([] if seen.refusals else ["forwards nothing"])


def _has_value(change: RowChange) -> bool:
    return "value" in (change.after or change.before or {})
