"""A process beside a worker that copies state files of tasks which another worker runs: learner tasks and standbys.

Owns what a member answers of itself, and the copying. Rule: it holds no task slot of Spark, runs at a low priority,
and never blocks a task. State files never change, a copy appears when it is whole, and a task that needs it sooner
makes it.

    <cache>/member              id of this member: its warm copies are what makes it one
    <cache>/learning/<digest>   what a pipeline wants to be learned here
    <cache>/learner.lock        held by the process that copies
"""

import fcntl
import os
import pickle
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import cloudpickle

from ...state.errors import ReplayError
from ...state.runs.local_copies import StateFile, copies_in, copy_name, forget_others, make_copy
from ...state.tables.warehouse import Warehouse
from ..task.task import Task
from ..topology.topology import Topology
from .store_files import form_of

BYTES_PER_SECOND = 64 << 20
"""At most so much is copied, whole files and pieces of a large one alike; a network has more to do."""

LOOKS_EVERY_S = 0.1
IDLE_S = 600.0
"""A learner without instructions for so long ends; the next instruction starts another."""

TAGS_VARIABLE = "REPLAY_CLIENT_TAGS"
"""Environment variable of a worker: where it is, as ``zone=a,rack=r1`` (Kafka's ``client.tag.…``)."""

_MEMBER, _LEARNING, _LOCK = "member", "learning", "learner.lock"


@dataclass(frozen=True, slots=True)
class MemberAnswer:
    """What a member says of itself. ``copies``: names of its warm copies."""

    member: str
    tags: Mapping[str, str]
    copies: frozenset[str]


@dataclass(frozen=True, slots=True)
class Learned:
    """A task whose state is to be kept warm: its files, by store, oldest first."""

    sub_topology: int
    partition: int
    state: Mapping[str, tuple[StateFile, ...]]


def member_id(cache: str) -> str:
    """The id of the member that has this cache, which is given when it is first asked for."""
    path = Path(cache) / _MEMBER
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        own_file = path.with_name(f"{_MEMBER}-{uuid.uuid4().hex}")
        own_file.write_text(str(uuid.uuid4()))
        with suppress(FileExistsError):
            os.link(own_file, path)
        own_file.unlink()
    return path.read_text()


def answer_of(cache: str) -> MemberAnswer:
    """What the member with ``cache`` says of itself; its tags are those of this process's environment."""
    return MemberAnswer(member_id(cache), tags_of(os.environ.get(TAGS_VARIABLE, "")), frozenset(copies_in(cache)))


def tags_of(text: str) -> dict[str, str]:
    """``zone=a,rack=r1`` by key; what is no tag is left out."""
    pairs = (part.partition("=") for part in text.split(",") if "=" in part)
    return {key.strip(): value.strip() for key, _, value in pairs}


def learn(cache: str, warehouse: Warehouse, pipeline: str, topology: Topology, tasks: Sequence[Learned]) -> None:
    """Have the state of ``tasks``, and of no others of ``pipeline``, kept warm here.

    Returns at once. The warehouse travels along, since it knows how its store is reached. Called in a worker, whose
    daemon's end is the learner's end.
    """
    path = Path(cache) / _LEARNING / sha256(f"{warehouse.root}/{pipeline}".encode()).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{uuid.uuid4().hex}")
    unfinished.write_bytes(cloudpickle.dumps((warehouse, topology, list(tasks))))
    unfinished.replace(path)
    with _lock(cache) as is_free:
        pass
    if tasks and is_free:
        subprocess.Popen(
            [sys.executable, "-m", __name__, cache, str(os.getppid())],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip


@contextmanager
def _lock(cache: str) -> Iterator[bool]:
    """Whether this process is now the one that copies."""
    with (Path(cache) / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


class StateLearner:
    """The process. ``worker``: process id of the daemon whose end ends it."""

    def __init__(self, cache: str, worker: int) -> None:
        self.cache, self.worker = cache, worker
        self._seen: dict[str, int] = {}

    def run(self) -> None:
        os.nice(10)
        with _lock(self.cache) as has_lock:
            heard = time.monotonic()
            while has_lock and self._has_worker() and time.monotonic() - heard < IDLE_S:
                if self.copy_what_is_new():
                    heard = time.monotonic()
                else:
                    time.sleep(LOOKS_EVERY_S)

    def copy_what_is_new(self) -> bool:
        """Copy what was wanted since the last look; whether anything was."""
        news = {name: at for name, at in _wanted(self.cache).items() if self._seen.get(name) != at}
        for name, at in news.items():
            self._seen[name] = at
            with suppress(OSError, ReplayError):  # a file that a merge has made useless may be gone already
                topology, tasks = _instruction(self.cache, name)
                for task in tasks:
                    self._copy(topology, task, _RequestedState(self.cache, name, at))
        return bool(news)

    def _copy(self, topology: Topology, learned: Learned, request: "_RequestedState") -> None:
        task = Task(topology, topology.sub_topology(learned.sub_topology), learned.partition)
        for store, files in learned.state.items():
            for table in {file.table for file in files} if request.is_newest() else ():
                own = [file.file for file in files if file.table == table]
                forget_others(self.cache, table, learned.partition, own)
            for file in files:
                if not (request.is_newest() and self._has_worker()):
                    return
                make_copy(file, form_of(task.stores[store]), self.cache, self._at_a_pace(file, request))

    def _at_a_pace(self, file: StateFile, request: "_RequestedState") -> Callable[[int], bool]:
        """Waits after each piece of a file until it may have been copied; then says whether to continue."""
        began, bytes_a_row = time.monotonic(), file.file.bytes / max(1, file.file.records)

        def goes_on(rows: int) -> bool:
            time.sleep(max(0.0, rows * bytes_a_row / BYTES_PER_SECOND - (time.monotonic() - began)))
            return self._has_worker() and request.has(file)

        return goes_on

    def _has_worker(self) -> bool:
        """Whether the worker lives."""
        try:
            os.kill(self.worker, 0)
        except ProcessLookupError:
            return False
        return True


class _RequestedState:
    """The files that a pipeline wants, as of one instruction. A newer instruction may come while a large file of this
    one is copied. The copy is finished if the newer one has it, too: with frequent instructions it would else never
    be whole.
    """

    def __init__(self, cache: str, name: str, at: int) -> None:
        self._cache, self._name, self._at = cache, name, at
        self._newer: tuple[int | None, frozenset[str]] = (at, frozenset())

    def is_newest(self) -> bool:
        return _wanted(self._cache).get(self._name) == self._at

    def has(self, file: StateFile) -> bool:
        """Whether the newest instruction has ``file``, which is of this one."""
        at = _wanted(self._cache).get(self._name)
        if at == self._at:
            return True
        if at != self._newer[0]:
            _, tasks = _instruction(self._cache, self._name)
            self._newer = at, frozenset(copy_name(f) for task in tasks for files in task.state.values() for f in files)
        return copy_name(file) in self._newer[1]


def _wanted(cache: str) -> dict[str, int]:
    """Which pipelines want what, by the time at which they said so."""
    folder = Path(cache) / _LEARNING
    found = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        if not path.name.startswith("."):
            with suppress(FileNotFoundError):
                found[path.name] = path.stat().st_mtime_ns
    return found


def _instruction(cache: str, name: str) -> tuple[Topology, list[Learned]]:
    """What a pipeline wants now."""
    _, topology, tasks = pickle.loads((Path(cache) / _LEARNING / name).read_bytes())
    return topology, tasks


if __name__ == "__main__":
    StateLearner(sys.argv[1], int(sys.argv[2])).run()
