"""Progress of a replay while it works, as people see it: in a terminal, in a file, in Dagster's log.

Owns what is drawn and how often. Rule: a terminal gets one line that is drawn over; anything else a line for every
increment, and within a long one every LINE_SECONDS. The command's goes to stderr, so that results can be piped.
"""

import shutil
import time
from collections.abc import Callable
from typing import TextIO

from ..jobs.replay.progress import Progress
from .text_tables import utc

BAR_WIDTH = 12
LINE_SECONDS = 10.0


def progress_line(progress: Progress) -> str:
    """Increment, records, rate and stream time in one line."""
    parts = [
        f"increment {progress.increment}",
        f"{progress.records_done:,} of {progress.records_to_do:,} records",
        f"{progress.records_per_second:,.0f}/s",
    ]
    if progress.stream_time_ms >= 0:
        parts.append(f"stream time {utc(progress.stream_time_ms)}")
    return " · ".join(parts)


class ProgressLines:
    """One line after the other, by ``write``."""

    def __init__(self, write: Callable[[str], None], *, seconds: Callable[[], float] = time.monotonic) -> None:
        self._write, self._seconds = write, seconds
        self._written = seconds()

    def show(self, progress: Progress) -> None:
        """A line when the increment is done; else, with the step, when none was written for LINE_SECONDS."""
        now, is_done = self._seconds(), progress.step == "done"
        if is_done or now - self._written >= LINE_SECONDS:
            self._written = now
            self._write(progress_line(progress) + ("" if is_done else f" · {progress.step}"))

    def count(self, words: str, done: int, of: int) -> None:
        """A line when all is done; else when none was written for LINE_SECONDS."""
        if done == of or self._seconds() - self._written >= LINE_SECONDS:
            self._written = self._seconds()
            self._write(f"{words} {done} of {of}")

    def close(self) -> None:
        """Nothing is open."""


class ProgressBar:
    """A bar and a line on a terminal, drawn over."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self._drawn = stream, 0
        self._width = shutil.get_terminal_size().columns - 1

    def show(self, progress: Progress) -> None:
        """Draw it."""
        bar = _bar(progress.records_done, progress.records_to_do)
        self._draw(f"{bar} {progress_line(progress)} · {progress.step}")

    def count(self, words: str, done: int, of: int) -> None:
        """Draw how many are done."""
        self._draw(f"{_bar(done, of)} {words} {done} of {of}")

    def _draw(self, line: str) -> None:
        line = line[: self._width]  # a line that wraps cannot be drawn over
        print(f"\r{line.ljust(self._drawn)}", end="", file=self.stream, flush=True)
        self._drawn = len(line)

    def close(self) -> None:
        """Leave the line as it is and go to the next one."""
        if self._drawn:
            print(file=self.stream, flush=True)
            self._drawn = 0


def progress_on(stream: TextIO) -> ProgressBar | ProgressLines:
    """What suits ``stream``."""
    return ProgressBar(stream) if stream.isatty() else ProgressLines(lambda line: print(line, file=stream, flush=True))


def _bar(done: int, of: int) -> str:
    share = done / of if of else 1.0
    full = int(share * BAR_WIDTH)
    return f"[{'#' * full}{'-' * (BAR_WIDTH - full)}] {share:4.0%}"
