"""Progress of a replay while it works: records done and to do, rate, stream time, increment, step.

Owns what is drawn. Rule: a terminal gets one line that is drawn over, anything else one line an increment; it goes to
stderr, so that results can be piped.
"""

import shutil
import time
from collections.abc import Callable
from typing import TextIO

from jobs.increment_report import IncrementReport
from jobs.planner import Landed
from jobs.topology import Topology
from orchestration.text_tables import utc
from state.ledger import Ledger
from state.tables import Warehouse

BAR_WIDTH = 12


def unread_records(warehouse: Warehouse, topology: Topology, pipeline: str) -> int:
    """Landed records that no done increment has read. Raises ConfigError for a topic that was never landed."""
    last = Ledger(warehouse.pipeline(pipeline).ledger, warehouse.storage_options).last_done()
    read = {} if last is None else last.content["cut_to"]
    total = 0
    for topic in topology.source_topics():
        landed = Landed.of(warehouse, topic)
        for partition, end in landed.ends.items():
            total += landed.slice(partition, read.get(topic, {}).get(partition, 0), end).count()
    return total


class Progress:
    """Told of steps and reports; ``to_do``: records at the start."""

    def __init__(self, stream: TextIO, to_do: int, *, seconds: Callable[[], float] = time.monotonic) -> None:
        self.stream, self.to_do, self._seconds = stream, to_do, seconds
        self.done = 0
        self._started = seconds()
        self._increment: int | None = None
        self._stream_time_ms: int | None = None
        self._step = "planning"
        self._is_terminal = stream.isatty()
        self._width = shutil.get_terminal_size().columns - 1
        self._drawn = 0

    def on_step(self, step: str) -> None:
        """As `jobs.replay` tells them: "planned 3", "committed outputs/x 3" …"""
        self._step, _, number = step.rpartition(" ")
        self._increment = int(number)
        if self._is_terminal:
            self._draw()

    def on_report(self, report: IncrementReport) -> None:
        """An increment is done."""
        self.done += report.books.read
        self._increment, self._step = report.increment, "done"
        times = [task["stream_time_ms"] for task in report.done["tasks"].values()]
        self._stream_time_ms = max(times, default=None)
        if self._is_terminal:
            self._draw()
        else:
            print(self._line(), file=self.stream, flush=True)

    def close(self) -> None:
        """Leave the line as it is and go to the next one."""
        if self._drawn:
            print(file=self.stream, flush=True)
            self._drawn = 0

    def rate(self) -> float:
        """Records a second since the start."""
        return self.done / max(self._seconds() - self._started, 1e-9)

    def _draw(self) -> None:
        line = f"{self._bar()} {self._line()} · {self._step}"[: self._width]  # a line that wraps cannot be drawn over
        print(f"\r{line.ljust(self._drawn)}", end="", file=self.stream, flush=True)
        self._drawn = len(line)

    def _line(self) -> str:
        parts = [] if self._increment is None else [f"increment {self._increment}"]
        parts += [f"{self.done:,} of {self.to_do:,} records", f"{self.rate():,.0f}/s"]
        if self._stream_time_ms is not None and self._stream_time_ms >= 0:
            parts.append(f"stream time {utc(self._stream_time_ms)}")
        return " · ".join(parts)

    def _bar(self) -> str:
        share = 1.0 if self.to_do == 0 else min(self.done / self.to_do, 1.0)
        full = int(share * BAR_WIDTH)
        return f"[{'#' * full}{'-' * (BAR_WIDTH - full)}] {share:4.0%}"
