"""Tapes: the input that Kafka's unit tests piped into a ``TopologyTestDriver``, and its output, as ``record.py`` wrote
it.

Rule: a line of the file is one test driver of one test; a test that makes none is a line without events.
"""

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

TAPES = Path(__file__).parent / "tapes"

Event = dict[str, Any]
_LEAF = re.compile(r"^ +Processor: (\S+) .*\n +--> none$", re.MULTILINE)
_IS_TABLE_OR_STEP = re.compile(r"^K(STREAM|TABLE)-(?!PROCESSOR|FOREACH|PRINTER)")


@dataclass(frozen=True)
class RecordedStep:
    """One record that was piped, and what it caused, by channel and in order.

    ``caused``: by output topic or name of a processor that nothing follows. ``thrown``: the event of what it raised.
    """

    piped: Event
    caused: dict[str, list[Event]] = field(default_factory=dict)
    thrown: Event | None = None


@dataclass(frozen=True)
class RecordedTape:
    """``line``: as it was recorded. ``name``: class, method, parameters, and which of the test's drivers."""

    line: dict[str, Any]

    @property
    def name(self) -> str:
        numbers = f"#{self.line['driver']}" if self.line.get("driver") else ""
        parameters = f"({self.line['parameters']})" if self.line["parameters"] else ""
        return f"{self.test}{parameters}{numbers}"

    @property
    def test(self) -> str:
        return f"{self.line['class'].rpartition('.')[2]}.{self.line['method']}"

    @property
    def driver(self) -> int:
        return int(self.line.get("driver", 0))

    @property
    def parameters(self) -> str:
        return str(self.line["parameters"])

    @property
    def events(self) -> list[Event]:
        return self.line.get("events", [])

    @property
    def is_piped(self) -> bool:
        """Whether there is anything to play."""
        return any("in" in event for event in self.events)

    @property
    def stores(self) -> dict[str, list[list[Any]]]:
        """Rows (key, value) at the end of those stores that can be iterated, and whose rows JSON can hold."""
        stores = self.line.get("at_end", {})
        return {
            name: rows for name, rows in stores.items() if isinstance(rows, list) and '"class"' not in json.dumps(rows)
        }

    def channels(self) -> list[str]:
        """Processors that only look, in the order in which they were made."""
        found = _LEAF.findall(self.line["topology"])
        return sorted((name for name in found if not _IS_TABLE_OR_STEP.match(name)), key=_number)

    def steps(self) -> list[RecordedStep]:
        """Up to the first record that raised something."""
        steps: list[RecordedStep] = []
        for event in self.events:
            if "in" in event:
                steps.append(RecordedStep(event))
            elif "throws" in event:
                return [*steps[:-1], RecordedStep(steps[-1].piped, steps[-1].caused, event)]
            elif channel := event.get("out", event.get("at")):
                steps[-1].caused.setdefault(channel, []).append(event)
        return steps


def _number(name: str) -> tuple[str, str]:
    """By number where the name has one."""
    return (name[-10:], "") if name[-10:].isdecimal() else ("", name)


@cache
def tapes() -> tuple[RecordedTape, ...]:
    """All of them."""
    return tuple(RecordedTape(line) for path in sorted(TAPES.glob("*.jsonl.gz")) for line in _lines(path))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
