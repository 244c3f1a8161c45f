"""Schedules of a processor, and when they are due (PunctuationQueue, PunctuationSchedule of Kafka Streams).

Rule: a schedule is due when stream time has reached its time, and is then called once, with the stream time; next it is
due an interval later, or at the first multiple of the interval after now when that has passed too. Of several that are
due the earliest goes first; ties go as in Java's PriorityQueue, whose heap this is.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ...functions.processor_api import Cancellable
from ..operator import Counters

_ABSENT = -1


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
    """All schedules of one processor."""

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
        places = {schedule.number: place for place, schedule in enumerate(self._heap)}
        counters: Counters = {}
        for schedule in self._all:
            numbers = schedule.due_ms, places.get(schedule.number, _ABSENT), int(schedule.is_cancelled)
            counters |= dict(zip(_names(schedule), numbers, strict=True))
        return counters

    def resume(self, counters: Counters) -> None:
        """Put the schedules, made anew, where ``counters`` says; one that it does not know is as new."""
        placed = []
        for schedule in self._all:
            due, place, cancelled = _names(schedule)
            if due in counters:
                schedule.due_ms, schedule.is_cancelled = counters[due], bool(counters[cancelled])
            placed.append((counters.get(place, len(self._all)), schedule.number, schedule))
        self._heap = []
        for at, _, schedule in sorted(placed, key=lambda one: one[:2]):
            if at != _ABSENT:
                self._offer(schedule)

    def _offer(self, schedule: Schedule) -> None:
        heap, place = self._heap, len(self._heap)
        heap.append(schedule)
        while place > 0 and schedule.due_ms < heap[(place - 1) // 2].due_ms:
            heap[place] = heap[(place - 1) // 2]
            place = (place - 1) // 2
        heap[place] = schedule

    def _poll(self) -> Schedule:
        heap = self._heap
        first, last = heap[0], heap.pop()
        if not heap:
            return first
        place = 0
        while 2 * place + 1 < len(heap):
            child = 2 * place + 1
            if child + 1 < len(heap) and heap[child].due_ms > heap[child + 1].due_ms:
                child += 1
            if last.due_ms <= heap[child].due_ms:
                break
            heap[place] = heap[child]
            place = child
        heap[place] = last
        return first


def _names(schedule: Schedule) -> tuple[str, str, str]:
    """Counters of a schedule."""
    begin = f"schedule_{schedule.number}"
    return f"{begin}_due_ms", f"{begin}_place", f"{begin}_cancelled"
