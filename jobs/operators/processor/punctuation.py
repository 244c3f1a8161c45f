"""Schedules of a processor, and when they are due (PunctuationQueue, PunctuationSchedule of Kafka Streams).

Rule: a schedule is due when stream time has reached its time, and is then called once, with the stream time. Next it is
due an interval later, or at the first multiple of the interval after now when that has passed too. Of several that are
due the earliest goes first; ties go as in Java's PriorityQueue, whose heap this is. Schedules by the wall clock are due
by recorded ticks instead: the first of them starts the clock, and a schedule is due an interval after it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ....state.times import NO_TIMESTAMP_MS
from ...functions.processor_api import Cancellable
from ..base.operator import Counters

_ABSENT = -1
WALL_CLOCK = "wall_clock_ms"
"""Counter: the latest tick."""


@dataclass(eq=False, slots=True)
class Schedule(Cancellable):
    """``number``: of the schedules of its processor, in order of their making."""

    number: int
    due_ms: int
    interval_ms: int
    callback: Callable[[int], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def move_on(self, now_ms: int) -> None:
        """Next time that it is due, which is after ``now_ms``."""
        missed = (now_ms - self.due_ms) // self.interval_ms if now_ms >= self.due_ms + self.interval_ms else 0
        self.due_ms += (missed + 1) * self.interval_ms


class Punctuations:
    """All schedules of one processor that go by one clock."""

    name = "schedule"
    """With which counters begin."""

    def __init__(self) -> None:
        self._all: list[Schedule] = []
        self._heap: list[Schedule] = []

    def add(self, interval_ms: int, callback: Callable[[int], None], start_ms: int | None, now_ms: int) -> Schedule:
        """A new schedule, first due at ``start_ms`` (None: 0), or on from there when that is over."""
        schedule = Schedule(len(self._all), start_ms or 0, interval_ms, callback)
        if start_ms is not None and start_ms < now_ms:
            schedule.move_on(now_ms)
        self._all.append(schedule)
        self._offer(schedule)
        return schedule

    @property
    def next_due_ms(self) -> int | None:
        return self._heap[0].due_ms if self._heap else None

    def is_due(self, now_ms: int) -> bool:
        """Whether any schedule is due at ``now_ms``."""
        return bool(self._heap) and self._heap[0].due_ms <= now_ms

    def run_next(self, now_ms: int, call: Callable[[Schedule], None]) -> None:
        """``call`` the schedule that comes first of those that are due at ``now_ms``; there is one."""
        schedule = self._poll()
        if not schedule.is_cancelled:
            call(schedule)
        if not schedule.is_cancelled:
            schedule.move_on(now_ms)
            self._offer(schedule)

    def counters(self) -> Counters:
        """Of every schedule its time, its place in the heap (_ABSENT when it is over), and whether it is cancelled."""
        indices = {schedule.number: index for index, schedule in enumerate(self._heap)}
        counters: Counters = {}
        for schedule in self._all:
            numbers = schedule.due_ms, indices.get(schedule.number, _ABSENT), int(schedule.is_cancelled)
            counters |= dict(zip(self._names(schedule), numbers, strict=True))
        return counters

    def resume(self, counters: Counters) -> None:
        """Put the schedules, made again, where ``counters`` says; one that it does not know is as new."""
        listed = []
        for schedule in self._all:
            due, index, cancelled = self._names(schedule)
            if due in counters:
                schedule.due_ms, schedule.is_cancelled = counters[due], bool(counters[cancelled])
            listed.append((counters.get(index, len(self._all)), schedule.number, schedule))
        # Offered in the order of the saved heap, in which parents come before their children: so it is the same heap
        # again, and ties are broken as without a restart of the task.
        self._heap = []
        for at, _, schedule in sorted(listed, key=lambda one: one[:2]):
            if at != _ABSENT:
                self._offer(schedule)

    def _offer(self, schedule: Schedule) -> None:
        heap, index = self._heap, len(self._heap)
        heap.append(schedule)
        while index > 0 and schedule.due_ms < heap[(index - 1) // 2].due_ms:
            heap[index] = heap[(index - 1) // 2]
            index = (index - 1) // 2
        heap[index] = schedule

    def _poll(self) -> Schedule:
        heap = self._heap
        first, last = heap[0], heap.pop()
        if not heap:
            return first
        index = 0
        while 2 * index + 1 < len(heap):
            child = 2 * index + 1
            if child + 1 < len(heap) and heap[child].due_ms > heap[child + 1].due_ms:
                child += 1
            if last.due_ms <= heap[child].due_ms:
                break
            heap[index] = heap[child]
            index = child
        heap[index] = last
        return first

    def _names(self, schedule: Schedule) -> tuple[str, str, str]:
        """Counters of a schedule."""
        begin = f"{self.name}_{schedule.number}"
        return f"{begin}_due_ms", f"{begin}_place", f"{begin}_cancelled"


class Ticks(Punctuations):
    """Schedules by the wall clock, which stays at ``now_ms`` until the first tick (NO_TIMESTAMP_MS)."""

    name = "wall_clock_schedule"

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = NO_TIMESTAMP_MS
        self._starts: list[int | None] = []

    def add(self, interval_ms: int, callback: Callable[[int], None], start_ms: int | None, now_ms: int) -> Schedule:
        """First due an interval after now, or at ``start_ms``; before the clock has started, after the first tick."""
        self._starts.append(start_ms)
        if self.now_ms != NO_TIMESTAMP_MS:
            return super().add(interval_ms, callback, self._first(interval_ms, start_ms), now_ms)
        # There is no now to count from. The first tick gives it a time and enters it into the heap.
        schedule = Schedule(len(self._all), NO_TIMESTAMP_MS, interval_ms, callback)
        self._all.append(schedule)
        return schedule

    def tick(self, now_ms: int) -> bool:
        """The wall clock has reached ``now_ms``. Whether schedules may be due: the first tick only starts the clock."""
        had_started = self.now_ms != NO_TIMESTAMP_MS
        self.now_ms = max(self.now_ms, now_ms)
        if not had_started:
            for schedule, start_ms in zip(self._all, self._starts, strict=True):
                schedule.due_ms = self._first(schedule.interval_ms, start_ms)
                if start_ms is not None and start_ms < self.now_ms:
                    schedule.move_on(self.now_ms)
                self._offer(schedule)
        return had_started

    def counters(self) -> Counters:
        """Nothing of a processor without such schedules that never saw a tick."""
        clock = {} if self.now_ms == NO_TIMESTAMP_MS else {WALL_CLOCK: self.now_ms}
        return super().counters() | clock

    def resume(self, counters: Counters) -> None:
        super().resume(counters)
        if self.now_ms == NO_TIMESTAMP_MS:
            self._heap = []

    def _first(self, interval_ms: int, start_ms: int | None) -> int:
        return self.now_ms + interval_ms if start_ms is None else start_ms
