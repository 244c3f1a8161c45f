"""A member copies the state of tasks that another one runs, and nothing else."""

import importlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from zipfile import ZipFile

import cloudpickle
import pytest

from kstreams_replay.jobs.execution import state_learner
from kstreams_replay.jobs.execution.state_learner import (
    Learned,
    Lesson,
    StateLearner,
    answer_of,
    learn,
    member_id,
    tags_of,
)
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, Topology
from kstreams_replay.state.runs import local_copies
from kstreams_replay.state.runs.local_copies import StateFile, copies_in, copy_name
from kstreams_replay.state.tables.data_files import read_files
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

PARTITIONS = 2


def topology() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(Serde.string(), Serde.string()))
    clicks.group_by_key().count(Materialized.as_("counts")).to_stream().to("counts")
    return builder.build()


@dataclass
class Started:
    """A process that would have been started: its command, and what it is given."""

    command: list[str]
    lesson: Lesson


@pytest.fixture
def started(monkeypatch):
    processes: list[Started] = []

    def start(command, *, stdin, **_):
        processes.append(Started(command, pickle.load(stdin)))

    monkeypatch.setattr(state_learner.subprocess, "Popen", start)
    return processes


@pytest.fixture
def lesson(warehouse):
    return Lesson("code 1", warehouse, "p", topology())


def learned(warehouse: Warehouse, partition: int) -> Learned:
    """The state of a task as of the last increment."""
    table = warehouse.pipeline("p").state("counts")
    files = [StateFile(table, file) for file in read_files(table) if file.partition == partition]
    return Learned(0, partition, {"counts": tuple(files)})


@pytest.fixture
def warehouse(tmp_path):
    found = Warehouse(tmp_path / "warehouse")
    clicks = [LandedRecord(n % PARTITIONS, b"key %d" % n, b"x", n) for n in range(40)]
    plant(found, "clicks", clicks, partitions=PARTITIONS)
    for _ in replay(found, topology(), pipeline="p", runner=LocalRunner(), max_records=20):
        pass
    return found


def names(task: Learned) -> set[str]:
    return {copy_name(file) for files in task.state.values() for file in files}


def test_a_member_keeps_its_id_and_says_which_copies_and_tags_it_has(tmp_path, monkeypatch):
    monkeypatch.setenv("REPLAY_CLIENT_TAGS", "zone=a, rack=r1,nonsense")
    cache, other = str(tmp_path / "cache"), str(tmp_path / "other")

    answer = answer_of(cache)

    assert answer.member == member_id(cache) != member_id(other)
    assert answer.tags == {"zone": "a", "rack": "r1"}
    assert answer.copies == frozenset()
    assert tags_of("") == {}


def test_a_learner_copies_what_its_member_is_told_and_nothing_of_other_tasks(tmp_path, warehouse, lesson, started):
    cache = str(tmp_path / "cache")

    learn(cache, lesson, [learned(warehouse, 1)])
    learner = StateLearner(cache, os.getpid(), lesson)
    assert learner.copy_what_is_new()

    assert set(copies_in(cache)) == names(learned(warehouse, 1))
    assert not learner.copy_what_is_new()  # nothing is new
    assert [process.command[1:3] for process in started] == [["-m", state_learner.__name__]]
    assert [process.lesson.key for process in started] == ["code 1"]


def test_what_lies_in_the_folder_is_json_and_names_neither_code_nor_credentials(tmp_path, warehouse, started):
    cache = str(tmp_path / "cache")
    there = Warehouse("s3://bucket/warehouse", {"aws_secret_access_key": "the-secret"})
    lesson = Lesson("code 1", there, "p", topology())

    learn(cache, lesson, [Learned(0, 1, {"counts": ()})])

    said = {path.name: path.read_bytes() for path in (tmp_path / "cache" / "learning").iterdir()}
    assert [json.loads(text) for text in said.values()] == [
        {"key": "code 1", "tasks": [{"sub_topology": 0, "partition": 1, "state": {"counts": []}}]}
    ]
    assert started[0].lesson.warehouse.storage_options == there.storage_options  # by its standard input
    assert "the-secret" not in " ".join(started[0].command)


class Trap:
    """Unpickling it leaves a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_pickle_that_somebody_has_put_into_the_folder_is_never_opened(tmp_path, lesson):
    cache, trap = tmp_path / "cache", tmp_path / "sprung"
    place = lesson.path(str(cache))
    place.parent.mkdir(parents=True)
    place.write_bytes(pickle.dumps(Trap(trap)))

    StateLearner(str(cache), os.getpid(), lesson).copy_what_is_new()
    StateLearner(str(cache), os.getpid(), lesson).run()

    assert not trap.exists()


@pytest.mark.parametrize("table", ["/etc", "{root}/../elsewhere", "{root}", "{root}/p/state/../../x", "s3://bucket/x"])
def test_a_table_outside_of_the_warehouse_is_not_copied(tmp_path, warehouse, lesson, started, table):
    cache = str(tmp_path / "cache")
    (found,) = learned(warehouse, 0).state["counts"][:1]
    there = table.format(root=warehouse.root)

    learn(cache, lesson, [Learned(0, 0, {"counts": (StateFile(there, found.file),)})])
    StateLearner(cache, os.getpid(), lesson).copy_what_is_new()

    assert copies_in(cache) == []


def test_a_learner_whose_code_is_not_wanted_any_more_makes_room_for_the_next(tmp_path, warehouse, lesson, started):
    cache = str(tmp_path / "cache")
    newer = Lesson("code 2", warehouse, "p", topology())
    learn(cache, lesson, [learned(warehouse, 0)])
    learn(cache, newer, [learned(warehouse, 1)])

    StateLearner(cache, os.getpid(), lesson).run()  # ends
    assert copies_in(cache) == []
    StateLearner(cache, os.getpid(), newer).copy_what_is_new()

    assert set(copies_in(cache)) == names(learned(warehouse, 1))
    assert [process.lesson.key for process in started] == ["code 1", "code 2"]


def test_nobody_is_started_beside_a_learner_with_the_same_code(tmp_path, warehouse, lesson, started):
    cache = str(tmp_path / "cache")
    learn(cache, lesson, [learned(warehouse, 0)])

    with state_learner._copying(lesson, cache, lambda: False) as is_alone:
        learn(cache, lesson, [learned(warehouse, 1)])
        learn(cache, Lesson("code 2", warehouse, "p", topology()), [learned(warehouse, 1)])

    assert is_alone
    assert [process.lesson.key for process in started] == ["code 1", "code 2"]


def test_a_task_that_finds_what_was_learned_reads_nothing_from_the_warehouse(tmp_path, warehouse, lesson, started):
    cache = str(tmp_path / "cache")
    tasks = [learned(warehouse, partition) for partition in range(PARTITIONS)]
    learn(cache, lesson, tasks)
    StateLearner(cache, os.getpid(), lesson).copy_what_is_new()
    for file in Path(warehouse.pipeline("p").state("counts")).glob("partition=*/*"):
        file.write_bytes(bytes(file.stat().st_size))  # whoever reads it fails
    plant(warehouse, "clicks", [LandedRecord(0, b"key 0", b"x", 99)], partitions=PARTITIONS)

    reports = list(replay(warehouse, topology(), pipeline="p", runner=LocalRunner(cache)))

    assert len(reports) == 1


def test_files_that_a_merge_has_made_useless_are_forgotten_and_missing_ones_passed_over(
    tmp_path, warehouse, lesson, started
):
    cache = str(tmp_path / "cache")
    first = learned(warehouse, 0)
    learn(cache, lesson, [first])
    learner = StateLearner(cache, os.getpid(), lesson)
    learner.copy_what_is_new()
    plant(warehouse, "clicks", [LandedRecord(0, b"key %d" % n, b"x", 99) for n in range(60)], partitions=PARTITIONS)
    for _ in replay(warehouse, topology(), pipeline="p", runner=LocalRunner()):
        pass
    merged = learned(warehouse, 0)
    assert names(merged).isdisjoint(names(first))

    learn(cache, lesson, [merged])
    learner.copy_what_is_new()

    assert set(copies_in(cache)) == names(merged)


@dataclass
class PlayedTime:
    """A clock that only sleeping moves. ``on_sleep``: called before each sleep; ``slept``: seconds of each."""

    on_sleep: Callable[[], None] = lambda: None
    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.on_sleep()
        self.slept.append(seconds)


@pytest.fixture
def clock(monkeypatch):
    """Pieces of 5 rows at 100 bytes a second; state files of 10 rows, so of two pieces."""
    played = PlayedTime()
    monkeypatch.setattr(state_learner, "time", played)
    monkeypatch.setattr(state_learner, "BYTES_PER_SECOND", 100)
    monkeypatch.setattr(local_copies, "_READ_ROWS", 5)
    return played


def of_ten_rows(task: Learned) -> Learned:
    """Its largest file alone."""
    ((store, files),) = task.state.items()
    chosen = max(files, key=lambda found: found.file.records)
    assert chosen.file.records >= 10
    return Learned(task.sub_topology, task.partition, {store: (chosen,)})


def left_unfinished(cache: str) -> list[str]:
    return [entry.name for entry in (Path(cache) / "unfinished").iterdir()]


def test_a_large_file_is_copied_in_pieces_and_the_learner_rests_after_each(tmp_path, warehouse, lesson, started, clock):
    cache, task = str(tmp_path / "cache"), of_ten_rows(learned(warehouse, 0))
    (file,) = task.state["counts"]
    learn(cache, lesson, [task])

    StateLearner(cache, os.getpid(), lesson).copy_what_is_new()

    pieces = [min(5, file.file.records - begin) for begin in range(0, file.file.records, 5)]
    assert len(pieces) > 1
    assert clock.slept == pytest.approx([rows * file.file.bytes / file.file.records / 100 for rows in pieces])
    assert set(copies_in(cache)) == names(task)


def test_what_is_there_already_is_not_waited_for_again(tmp_path, warehouse, lesson, started, clock):
    cache, task = str(tmp_path / "cache"), of_ten_rows(learned(warehouse, 0))
    for _ in range(2):
        learn(cache, lesson, [task])
        clock.slept.clear()
        StateLearner(cache, os.getpid(), lesson).copy_what_is_new()

    assert clock.slept == []


def test_a_file_that_is_not_wanted_any_more_is_given_up_between_two_pieces(tmp_path, warehouse, lesson, started, clock):
    cache, task = str(tmp_path / "cache"), of_ten_rows(learned(warehouse, 0))
    learn(cache, lesson, [task])
    clock.on_sleep = lambda: learn(cache, lesson, [])

    StateLearner(cache, os.getpid(), lesson).copy_what_is_new()

    assert len(clock.slept) == 1
    assert copies_in(cache) == left_unfinished(cache) == []


def test_a_large_file_is_finished_though_newer_files_are_told_of_meanwhile(tmp_path, warehouse, lesson, started, clock):
    cache, task = str(tmp_path / "cache"), of_ten_rows(learned(warehouse, 0))
    learn(cache, lesson, [task])
    clock.on_sleep = lambda: learn(cache, lesson, [task, learned(warehouse, 1)])

    StateLearner(cache, os.getpid(), lesson).copy_what_is_new()

    assert set(copies_in(cache)) == names(task)


def test_a_learner_ends_with_its_worker(tmp_path, warehouse, lesson, started):
    cache = str(tmp_path / "cache")
    learn(cache, lesson, [learned(warehouse, 0)])
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    before = os.nice(0)

    StateLearner(cache, gone, lesson).run()

    assert copies_in(cache) == []
    assert os.nice(0) >= before


@pytest.mark.slow
def test_the_process_itself_takes_its_lesson_from_standard_input(tmp_path, warehouse, lesson):
    cache = str(tmp_path / "cache")
    learn(cache, lesson, [learned(warehouse, 0)], lambda *_: None)
    child = subprocess.Popen(["true"])
    child.wait()

    ended = subprocess.run(
        [sys.executable, "-m", state_learner.__name__, cache, str(child.pid)],
        input=cloudpickle.dumps(lesson),
        check=False,
        env=os.environ | {"REPLAY_CACHE": cache},
        capture_output=True,
    )

    assert (ended.returncode, ended.stderr) == (0, b"")
    assert lesson.path(cache).with_name(f"{lesson.path(cache).name}.lock").read_text() == lesson.key


@pytest.mark.slow
def test_the_process_finds_modules_that_travelled_with_the_job(tmp_path, warehouse, monkeypatch):
    """Spark puts a zip of --py-files on the path of a worker, and into no variable."""
    with ZipFile(tmp_path / "travelled.zip", "w") as travelled:
        travelled.writestr("travelled_with_the_job.py", "def look(key, value):\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path / "travelled.zip"))
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(Serde.string(), Serde.string()))
    seen = clicks.peek(importlib.import_module("travelled_with_the_job").look)
    seen.group_by_key().count(Materialized.as_("counts")).to_stream().to("counts")
    cache, ended, started = str(tmp_path / "cache"), subprocess.Popen(["true"]), list[subprocess.Popen[bytes]]()
    ended.wait()

    class OfADeadWorker(subprocess.Popen):
        def __init__(self, command, **options):
            super().__init__([*command[:-1], str(ended.pid)], **{**options, "stderr": subprocess.PIPE})
            started.append(self)

    monkeypatch.setattr(state_learner.subprocess, "Popen", OfADeadWorker)
    monkeypatch.setenv("REPLAY_CACHE", cache)
    learn(cache, Lesson("code 1", warehouse, "p", builder.build()), [learned(warehouse, 0)])

    (learner,) = started
    _, said = learner.communicate()
    assert (learner.returncode, said) == (0, b"")
