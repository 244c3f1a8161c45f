"""Progress of a replay while it works, as people see it: in a terminal, in a file, in Dagster's log.

Owns what is drawn and how often. Rule: a terminal gets one line that is drawn over (by rich); anything else a line for
every increment, and within a long one every LINE_SECONDS. The command's goes to stderr, so that results can be piped.
"""

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
    """A bar and a line on a terminal, drawn over by rich."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            SpinnerColumn(),
            BarColumn(BAR_WIDTH),
            TaskProgressColumn(),
            TextColumn("{task.description}", markup=False),
            console=Console(file=stream, force_terminal=True),
            redirect_stdout=False,
            redirect_stderr=False,
            refresh_per_second=4,
        )
        self._task = self._bar.add_task("", visible=False)

    def show(self, progress: Progress) -> None:
        """Draw it."""
        self._draw(progress.records_done, progress.records_to_do, f"{progress_line(progress)} · {progress.step}")

    def count(self, words: str, done: int, of: int) -> None:
        """Draw how many are done."""
        self._draw(done, of, f"{words} {done} of {of}")

    def _draw(self, done: int, of: int, words: str) -> None:
        room = self._bar.console.width - len(f"⠋ {'━' * BAR_WIDTH} 100% ")  # a line that wraps cannot be drawn over
        words = words if len(words) <= room else f"{words[: max(room - 1, 0)]}…"
        self._bar.start()
        self._bar.update(
            self._task, completed=done if of else 1, total=of or 1, description=words, visible=True, refresh=True
        )

    def close(self) -> None:
        """Leave the line as it is and go to the next one."""
        self._bar.stop()


def progress_on(stream: TextIO) -> ProgressBar | ProgressLines:
    """What suits ``stream``."""
    return ProgressBar(stream) if stream.isatty() else ProgressLines(lambda line: print(line, file=stream, flush=True))
