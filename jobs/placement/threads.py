"""Which thread of a Kafka Streams client runs which task (Kafka's ``StreamsPartitionAssignor.assignTasksToThreads``).

Nothing here asks it: on Spark the next task goes to whichever core of the owner is free. It is for who compares an
assignment with that of an application whose clients have several threads.
"""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from .members import TaskId


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread of a client. ``lags``: of the tasks with state that it ran (RUNNING) or kept a standby of."""

    id: str
    lags: Mapping[TaskId, int] = field(default_factory=dict)

    @property
    def previous(self) -> list[TaskId]:
        """What it had, by (lag, id)."""
        return sorted(self.lags, key=lambda task: (self.lags[task], task))


def threads_of_tasks(
    active: Collection[TaskId],
    standby: Collection[TaskId],
    stateless: Collection[TaskId],
    threads: Collection[Thread],
) -> dict[str, tuple[TaskId, ...]]:
    """The tasks of one client, by thread: first those with state (``active``), then standbys, then those without.

    Threads are taken by ascending id; their numbers of tasks differ by one at most. Tasks with state return to the
    thread that had least to catch up with, as far as its share goes. ``threads``: at least one.
    """
    given: dict[str, list[TaskId]] = {thread.id: [] for thread in sorted(threads, key=lambda thread: thread.id)}
    for tasks, is_stateful in ((active, True), (standby, True), (stateless, False)):
        if tasks:
            _give(set(tasks), list(threads) if is_stateful else [], given)
    return {thread: tuple(tasks) for thread, tasks in given.items()}


def _give(left: set[TaskId], threads: Collection[Thread], given: dict[str, list[TaskId]]) -> None:
    """Put the tasks ``left`` to those already ``given``. ``threads``: those that may have had some of them."""
    share = (sum(map(len, given.values())) + len(left)) // len(given)
    previous = {thread.id: thread.previous for thread in threads}
    wanted_back: dict[TaskId, str] = {}
    for thread, tasks in given.items():
        for task in (task for task in previous.get(thread, []) if task in left):
            if len(tasks) < share:
                tasks.append(task)
                left.remove(task)
            else:
                wanted_back[task] = thread
    below = deque(thread for thread, tasks in given.items() if len(tasks) < share)
    while below:
        thread = below.popleft()
        task = min(left)
        given[thread].append(task)
        left.remove(task)
        if len(given[thread]) < share:
            below.append(thread)
    at_share = [thread for thread, tasks in given.items() if len(tasks) == share]
    for task, thread in sorted(wanted_back.items()):
        if task in left and thread in at_share:
            given[thread].append(task)
            left.remove(task)
            at_share.remove(thread)
    for task, thread in zip(sorted(left), at_share, strict=False):
        given[thread].append(task)
