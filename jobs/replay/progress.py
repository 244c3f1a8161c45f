"""How far a replay is, reported while it works: at every step, and from within a stage by the notes of its tasks.

Owns the sums. Rule: the numbers are for display only. They never go back, and a report that fails while tasks run is
left out, so no run fails because of it.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ...state.tables.ledger_rows import DoneRow
from ...state.times import NO_TIMESTAMP_MS
from ..execution.progress_notes import Notes
from ..execution.task_description import TaskDescription
from ..topology.topology import SubTopology, Topology
from .plan import Plan

NOTE_SECONDS = 2.0
"""A task notes at most every so many seconds."""

LOOK_SECONDS = 1.0
"""The driver looks so often while a stage runs."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far this replay is: it has read ``records_done`` of the ``records_to_do`` landed records that were unread
    when it began.

    A record that is repartitioned is partly done until the last stage has processed it. ``records_per_second``: since
    the replay began. ``stream_time_ms``: the highest of all tasks, -1 before the first record. ``step``: "planned",
    "compiling kernels 12 of 40", "sub-topology 0", "computed", "committed outputs/x", "done".
    """

    increment: int
    records_done: int
    records_to_do: int
    records_per_second: float
    stream_time_ms: int
    step: str


OnProgress = Callable[[Progress], None]
"""Called at every step, in the thread of the replay; while tasks run also every LOOK_SECONDS, in another thread, but
never by two at once. What it raises at a step stops the run there; what it raises in between is logged.
"""


class Meter:
    """Counts for one replay. ``on_progress`` None: nobody looks, and nothing is counted or noted."""

    def __init__(self, on_progress: OnProgress | None = None, *, seconds: Callable[[], float] = time.monotonic) -> None:
        self._on_progress, self._seconds = on_progress, seconds
        # A run of the same increment that was killed may have left its notes in the same exchange folder.
        self._started, self._run = seconds(), uuid.uuid4().hex[:16]
        self._unread: Callable[[], int] | None = None
        self._done = self._to_do = self._records = 0
        self._work: dict[int, int] = {}
        self._worked = 0.0
        self._last = Progress(0, 0, 0, 0.0, NO_TIMESTAMP_MS, "")

    def after(self, on_step: Callable[[str], None]) -> Callable[[str], None]:
        """A listener to steps that calls ``on_step`` first."""

        def on_each(step: str) -> None:
            on_step(step)
            self._on_step(step.rpartition(" ")[0])

        return on_step if self._on_progress is None else on_each

    def expect(self, unread: Callable[[], int]) -> None:
        """Records to do are counted when the next increment begins, by ``unread``, which knows what has landed."""
        self._unread = unread

    def begin(self, plan: Plan, topology: Topology) -> None:
        """An increment begins."""
        if self._on_progress is None:
            return
        if self._unread is not None:
            self._to_do, self._unread = self._done + self._unread(), None
        self._records, self._work, self._worked = plan.row.records, _work(plan, topology), 0.0
        self._last = replace(self._last, increment=plan.increment)

    def reached(self, done: DoneRow) -> None:
        """An increment is done."""
        self._done, self._records = self._done + self._records, 0
        self._last = replace(self._last, stream_time_ms=max(done.stream_time_ms, self._last.stream_time_ms))

    def count(self, words: str, done: int, of: int) -> None:
        """What the replay waits for, and how far it is."""
        if self._on_progress is not None:
            self._on_step(f"{words} {done} of {of}")

    @contextmanager
    def stage(self, sub: SubTopology, tasks: list[TaskDescription], folder: str) -> Iterator[list[TaskDescription]]:
        """While the stage runs; its tasks, which write their notes below ``folder``."""
        if self._on_progress is None:
            yield tasks
            return
        notes = Notes(f"{folder}/progress-{self._run}", NOTE_SECONDS, time.time())
        sizes = {task.id: task.size for task in tasks}
        self._on_step(f"sub-topology {sub.id}")
        with _every(LOOK_SECONDS, lambda: self._look(sub, sizes, notes)):
            yield [replace(task, notes=notes) for task in tasks]
        self._worked += self._work.get(sub.id, 0)

    def _look(self, sub: SubTopology, sizes: dict[str, int], notes: Notes) -> None:
        """Report what the tasks of a stage have noted by now."""
        noted = {task: note for task, note in notes.read().items() if task in sizes}
        if noted:
            share = sum(sizes[task] * share for task, (share, _) in noted.items()) / max(sum(sizes.values()), 1)
            stream_time_ms = max(stream_time_ms for _, stream_time_ms in noted.values())
            self._report(self._worked + share * self._work.get(sub.id, 0), stream_time_ms, self._last.step)

    def _on_step(self, step: str) -> None:
        self._report(self._worked, self._last.stream_time_ms, step)

    def _report(self, worked: float, stream_time_ms: int, step: str) -> None:
        assert self._on_progress is not None, "somebody looks"
        work = max(sum(self._work.values()), 1)
        done = self._done + int(self._records * min(worked, work) / work)
        done = max(done, self._last.records_done)
        self._last = Progress(
            increment=self._last.increment,
            records_done=done,
            records_to_do=max(self._to_do, done),
            records_per_second=done / max(self._seconds() - self._started, 1e-9),
            stream_time_ms=max(stream_time_ms, self._last.stream_time_ms),
            step=step,
        )
        self._on_progress(self._last)


def _work(plan: Plan, topology: Topology) -> dict[int, int]:
    """Rows that every sub-topology will read if each forwards one row for each that it reads."""
    work: dict[int, int] = {}
    for sub in topology.sub_topologies:
        topics = [source.topic for source in sub.sources if source.landed_topic is not None]
        landed = sum(
            end - plan.row.cut_from.get(topic, {}).get(p, 0)
            for topic in topics
            for p, end in plan.row.cut_to[topic].items()
        )
        above = [other for other in topology.sub_topologies if set(other.repartitions) & set(sub.sources)]
        work[sub.id] = landed + sum(work.get(other.id, 0) for other in above)
    return work


@contextmanager
def _every(seconds: float, look: Callable[[], None]) -> Iterator[None]:
    """Call ``look`` in a thread of its own every so many seconds; it has ended when the block has."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(seconds):
            try:
                look()
            except Exception:
                _LOG.warning("progress is not reported until the stage ends", exc_info=True)
                return

    thread = threading.Thread(target=watch, name="replay-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
