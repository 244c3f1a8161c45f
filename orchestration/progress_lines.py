"""Progress of a replay while it works, as people see it: in a terminal, in a file, in Dagster's log.

Owns what is drawn and how often. Rule: a terminal gets one line that is drawn over (by rich); anything else a line for
every increment, and within a long one every LINE_SECONDS. Whatever takes long is named: a step that nothing was said
about is said after SILENCE_SECONDS, and then every LINE_SECONDS. The command's goes to stderr, so that results can be
piped.
"""

import time
from collections.abc import Callable
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, TextIO

from .text_tables import utc

if TYPE_CHECKING:  # so that it can say what is imported while it is
    from ..jobs.replay.progress import Progress

BAR_WIDTH = 12
LINE_SECONDS = 10.0
SILENCE_SECONDS = 3.0
LOOK_SECONDS = 0.5


def progress_line(progress: "Progress") -> str:
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
    """One line after the other, by ``write``. ``doing`` and ``show`` may be called by several threads."""

    def __init__(self, write: Callable[[str], None], *, seconds: Callable[[], float] = time.monotonic) -> None:
        self._write, self._seconds = write, seconds
        self._written = self._began = seconds()
        self._doing = ""
        self._lock, self._closed = RLock(), Event()
        self._closed.set()

    def show(self, progress: "Progress") -> None:
        """A line when the increment is done; else, with the step, when none was written for LINE_SECONDS."""
        with self._lock:
            now, is_done = self._seconds(), progress.step == "done"
            line = progress_line(progress)
            if is_done or now - self._written >= LINE_SECONDS:
                self._written = now
                self._write(line + ("" if is_done else f" · {progress.step}"))
            self._begin("planning the next increment" if is_done else f"{line} · {progress.step}", now)

    def count(self, words: str, done: int, of: int) -> None:
        """A line when all is done; else when none was written for LINE_SECONDS."""
        with self._lock:
            if done == of or self._seconds() - self._written >= LINE_SECONDS:
                self._written = self._seconds()
                self._write(f"{words} {done} of {of}")

    def doing(self, words: str) -> None:
        """What begins now. Until ``close`` a thread looks every LOOK_SECONDS whether it takes long."""
        with self._lock:
            self._begin(words, self._seconds())
            if self._closed.is_set():
                # A new event, since the thread of an earlier `doing` may not have seen yet that its own is set.
                self._closed = Event()
                Thread(target=self._look, args=(self._closed,), name="replay-progress", daemon=True).start()

    def look(self) -> None:
        """A line when what is being done takes SILENCE_SECONDS without a word, or LINE_SECONDS since the last one."""
        with self._lock:
            now = self._seconds()
            is_named = self._written > self._began
            quiet = now - max(self._written, self._began)
            if self._doing and quiet >= (LINE_SECONDS if is_named else SILENCE_SECONDS):
                self._written = now
                self._write(f"{self._doing} · for {now - self._began:.0f} s")

    def close(self) -> None:
        """Nothing is being done, until the next ``doing``."""
        self._closed.set()

    def _begin(self, words: str, now: float) -> None:
        if words != self._doing:
            self._doing, self._began = words, now

    def _look(self, closed: Event) -> None:
        while not closed.wait(LOOK_SECONDS):
            self.look()


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
        self._task = self._bar.add_task("", visible=False, total=None)

    def show(self, progress: "Progress") -> None:
        """Draw it."""
        self._draw(progress.records_done, progress.records_to_do, f"{progress_line(progress)} · {progress.step}")

    def count(self, words: str, done: int, of: int) -> None:
        """Draw how many are done."""
        self._draw(done, of, f"{words} {done} of {of}")

    def doing(self, words: str) -> None:
        """Draw what begins now, with a bar that only moves."""
        self._draw(0, None, words)

    def _draw(self, done: int, of: int | None, words: str) -> None:
        room = self._bar.console.width - len(f"⠋ {'━' * BAR_WIDTH} 100% ")  # a line that wraps cannot be drawn over
        words = words if len(words) <= room else f"{words[: max(room - 1, 0)]}…"
        self._bar.start()
        (task,) = self._bar.tasks
        task.total, task.completed = (1, 1) if of == 0 else (of, done)
        self._bar.update(self._task, description=words, visible=True, refresh=True)

    def close(self) -> None:
        """Leave the line as it is and go to the next one, where the next ``doing`` draws."""
        self._bar.stop()


def progress_on(stream: TextIO) -> ProgressBar | ProgressLines:
    """What suits ``stream``."""
    return ProgressBar(stream) if stream.isatty() else ProgressLines(lambda line: print(line, file=stream, flush=True))
