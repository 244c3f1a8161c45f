"""A process beside a worker that copies state files of tasks which another worker runs: learner tasks and standbys.

Owns what a member answers of itself, and the copying. Rule: it holds no task slot of Spark, runs at a low priority,
and never blocks a task. State files never change, a copy appears when it is whole, and a task that needs it sooner
makes it. The code that it needs comes from the process that starts it, by a pipe; what lies in the folder is data, and
credentials are in neither.

    <cache>/member                   id of this member: its warm copies are what makes it one
    <cache>/learning/<digest>        what a pipeline wants to be learned here
    <cache>/learning/<digest>.lock   held by the process that copies it, and names its lesson
"""

import fcntl
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import cloudpickle

from ...state.child_python import environment_with_path
from ...state.errors import ReplayError
from ...state.runs.local_copies import StateFile, copies_in, copy_name, forget_others, make_copy, own_cache
from ...state.tables.data_files import DataFile
from ...state.tables.kept_below import why_outside
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

_MEMBER, _LEARNING = "member", "learning"


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
        # Processes that share the cache may ask at once. A link fails where the name is there, so the first id stays; a
        # rename would replace it, and opening the file itself would show it empty to others.
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


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a learner knows from its start: the code that makes sense of a pipeline's state, and how its files are
    reached. ``key``: of this code and no other.
    """

    key: str
    warehouse: Warehouse
    pipeline: str
    topology: Topology

    def path(self, cache: str) -> Path:
        """The file of the tasks that are learned in ``cache``."""
        digest = sha256(f"{self.warehouse.root}/{self.pipeline}".encode()).hexdigest()[:16]
        return Path(cache) / _LEARNING / digest


def start_process(cache: str, lesson: Lesson) -> None:
    """Have a process copy with ``lesson``, unless one is at it. Its standard input is a file without a name, so that
    nobody else can have written it; it ends with the daemon of the worker that calls this.
    """
    if _key_at_work(lesson.path(cache)) == lesson.key:
        return
    with tempfile.TemporaryFile() as given:
        cloudpickle.dump(lesson, given)
        given.seek(0)
        subprocess.Popen(
            # A worker is forked for some tasks; its parent, PySpark's daemon, lives as long as the executor.
            [sys.executable, "-m", __name__, cache, str(os.getppid())],
            stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            env=environment_with_path(),
        )  # fmt: skip


StartLearner = Callable[[str, Lesson], None]
"""Sees to it that somebody copies with a lesson into a cache."""


def learn(cache: str, lesson: Lesson, tasks: Sequence[Learned], start: StartLearner = start_process) -> None:
    """Have the state of ``tasks``, and of no others of the lesson's pipeline, kept warm here. Returns at once."""
    path = lesson.path(cache)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{uuid.uuid4().hex}")
    unfinished.write_text(json.dumps({"key": lesson.key, "tasks": [_to_json(task) for task in tasks]}))
    unfinished.replace(path)
    if tasks:
        start(cache, lesson)


def _to_json(task: Learned) -> dict[str, Any]:
    state = {name: [[each.table, each.file.to_dict()] for each in files] for name, files in task.state.items()}
    return {"sub_topology": task.sub_topology, "partition": task.partition, "state": state}


def _from_json(content: Mapping[str, Any], warehouse: Warehouse) -> Learned:
    """Raises ValueError for a table that is not of ``warehouse``."""
    state = {}
    for name, files in content["state"].items():
        for table, _ in files:
            if not table.startswith(f"{warehouse.root}/") or why_outside(table.removeprefix(f"{warehouse.root}/")):
                raise ValueError(table)
        state[name] = tuple(StateFile(table, DataFile.from_dict(file)) for table, file in files)
    return Learned(int(content["sub_topology"]), int(content["partition"]), state)


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _key_at_work(path: Path) -> str | None:
    """Key of the lesson of the process that copies; None: nobody does."""
    # The key in the file outlives its process; only a lock that is held shows that somebody copies.
    with suppress(FileNotFoundError), _lock_of(path).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return lock.read()
    return None


@contextmanager
def _copying(lesson: Lesson, cache: str, waits: Callable[[], bool]) -> Iterator[bool]:
    """Whether this process is now the one that copies. It waits for one with another lesson, as long as ``waits()``."""
    path = lesson.path(cache)
    # Opened to append, since that empties nothing: the key in it is another process's until the lock is held.
    with _lock_of(path).open("a+") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                lock.seek(0)
                if lock.read() == lesson.key or not waits():
                    yield False
                    return
                time.sleep(LOOKS_EVERY_S)
        lock.truncate(0)
        lock.write(lesson.key)
        lock.flush()
        yield True


class StateLearner:
    """The process. ``worker``: process id of the daemon whose end ends it."""

    def __init__(self, cache: str, worker: int, lesson: Lesson) -> None:
        self.cache, self.worker, self.lesson = cache, worker, lesson
        self._seen: int | None = None
        self._looked_at: tuple[int | None, bool] = (None, False)

    def run(self) -> None:
        os.nice(10)
        with _copying(self.lesson, self.cache, self._is_wanted) as is_alone:
            heard = time.monotonic()
            while is_alone and self._is_wanted() and time.monotonic() - heard < IDLE_S:
                if self.copy_what_is_new():
                    heard = time.monotonic()
                else:
                    time.sleep(LOOKS_EVERY_S)

    def copy_what_is_new(self) -> bool:
        """Copy what was wanted since the last look; whether anything was."""
        request = _RequestedState(self.lesson, self.cache)
        if request.at in (None, self._seen):
            return False
        # Before the copying: if a file is gone, the same request would fail for ever, and the next
        # one names other files.
        self._seen = request.at
        with suppress(OSError, ReplayError):  # a file that a merge has made useless may be gone already
            for task in _instruction(self.lesson, self.cache) or ():
                self._copy(self.lesson.topology, task, request)
        return True

    def _is_wanted(self) -> bool:
        """Whether the worker lives, and what it wants is of this lesson."""
        at = _said_at(self.lesson, self.cache)
        if at != self._looked_at[0]:
            self._looked_at = at, _instruction(self.lesson, self.cache) is not None
        return self._looked_at[1] and self._has_worker()

    def _copy(self, topology: Topology, learned: Learned, request: "_RequestedState") -> None:
        task = Task(topology, topology.sub_topology(learned.sub_topology), learned.partition)
        for store, files in learned.state.items():
            # An older request would delete copies that only the newer one names.
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
    """The files that the pipeline wants, as of one instruction. A newer instruction may come while a large file of this
    one is copied. The copy is finished if the newer one has it, too: with frequent instructions it would else never
    be whole.
    """

    def __init__(self, lesson: Lesson, cache: str) -> None:
        self._lesson, self._cache = lesson, cache
        self.at = _said_at(lesson, cache)
        self._newer: tuple[int | None, frozenset[str]] = (self.at, frozenset())

    def is_newest(self) -> bool:
        return _said_at(self._lesson, self._cache) == self.at

    def has(self, file: StateFile) -> bool:
        """Whether the newest instruction has ``file``, which is of this one."""
        at = _said_at(self._lesson, self._cache)
        if at == self.at:
            return True
        if at != self._newer[0]:
            tasks = _instruction(self._lesson, self._cache) or ()
            self._newer = at, frozenset(copy_name(f) for task in tasks for files in task.state.values() for f in files)
        return copy_name(file) in self._newer[1]


def _said_at(lesson: Lesson, cache: str) -> int | None:
    """When the pipeline last said what it wants; None: it never did."""
    with suppress(FileNotFoundError):
        return lesson.path(cache).stat().st_mtime_ns
    return None


def _instruction(lesson: Lesson, cache: str) -> list[Learned] | None:
    """What the pipeline wants now; None: nothing of this lesson, or nothing that is whole."""
    with suppress(OSError, ValueError, TypeError, LookupError, AttributeError, ReplayError):
        instruction = json.loads(lesson.path(cache).read_bytes())
        if instruction["key"] == lesson.key:
            return [_from_json(task, lesson.warehouse) for task in instruction["tasks"]]
    return None


if __name__ == "__main__":
    StateLearner(own_cache(sys.argv[1]), int(sys.argv[2]), pickle.load(sys.stdin.buffer)).run()
