"""How far a replay is, from the notes of its tasks to the numbers that are reported. Nobody sleeps: tests wait for
reported numbers.
"""

import json
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kstreams_replay.jobs.execution.progress_notes import Notes, NoteWriter
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay import progress as progress_module
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.replay.progress import Meter, Progress
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.state.compilation.kernel_tiers import tiers
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

STRING = Serde.string()
WAIT_S = 60.0
"""Longer than anything here takes; who waits so long has failed."""


def through(function: Any, *, repartitioned: bool = False) -> Topology:
    builder = StreamsBuilder()
    lines = builder.stream("in", Consumed(STRING, STRING))
    lines = lines.repartition() if repartitioned else lines
    lines.map_values(function, returns=STRING).to("out")
    return builder.build()


def landed(warehouse: Warehouse, count: int, *, first: int = 0, partitions: int = 1) -> None:
    """Record n of value n has the time 100 n; they go to the partitions in turn."""
    records = [LandedRecord(n % partitions, b"k", b"%d" % n, 100 * n) for n in range(first, first + count)]
    plant(warehouse, "in", records, partitions=partitions)


def run(warehouse: Warehouse, topology: Topology, progress: Any, **options: Any) -> None:
    for _ in replay(warehouse, topology, pipeline="p", runner=LocalRunner(), progress=progress, **options):
        pass


@pytest.fixture
def eager(monkeypatch):
    """Tasks take four records at a time and note after each; the driver looks all the time."""
    monkeypatch.setattr("kstreams_replay.jobs.task.task.CHUNK_RECORDS", 4)
    monkeypatch.setattr(progress_module, "NOTE_SECONDS", 0.0)
    monkeypatch.setattr(progress_module, "LOOK_SECONDS", 0.005)


class Listener:
    """Keeps what is reported; ``wait_for`` a number of records done, reported while tasks run."""

    def __init__(self) -> None:
        self.all: list[Progress] = []
        self._changed = threading.Condition()

    def __call__(self, progress: Progress) -> None:
        with self._changed:
            self.all.append(progress)
            self._changed.notify_all()

    def wait_for(self, records: int) -> None:
        with self._changed:
            came = self._changed.wait_for(lambda: any(each.records_done == records for each in self.all), WAIT_S)
        assert came, f"{records} records done was never told while the task ran"


def test_a_task_tells_how_far_it_is_while_it_runs(eager, warehouse):
    told = Listener()

    def slow(key: str, value: str) -> str:
        if value == "9":  # two of four chunks are behind it
            told.wait_for(8)
        return value

    landed(warehouse, 16)
    run(warehouse, through(slow), told)

    within = [each for each in told.all if each.records_done == 8]
    assert {(each.increment, each.records_to_do, each.stream_time_ms, each.step) for each in within} == {
        (1, 16, 700, "sub-topology 0")
    }
    assert (told.all[-1].records_done, told.all[-1].stream_time_ms, told.all[-1].step) == (16, 1_500, "done")


def test_a_task_that_is_done_counts_whole_while_the_next_one_runs(eager, warehouse):
    told = Listener()

    def slow(key: str, value: str) -> str:
        if value == "1":  # the first of partition 1
            told.wait_for(2)
        return value

    landed(warehouse, 4, partitions=2)
    run(warehouse, through(slow), told)

    (within,) = {(each.records_done, each.stream_time_ms) for each in told.all if 0 < each.records_done < 4}
    assert within == (2, 200)


def test_what_is_told_at_the_steps_adds_up_over_increments_and_stages(warehouse):
    told = Listener()
    landed(warehouse, 12)
    run(warehouse, through(lambda key, value: value, repartitioned=True), told, max_records=8)

    steps = [(each.increment, each.step, each.records_done) for each in told.all if "committed" not in each.step]
    assert steps == [
        (1, "planned", 0),
        (1, "sub-topology 0", 0),
        (1, "sub-topology 1", 4),  # eight records, half of their way
        (1, "computed", 8),
        (1, "done", 8),
        (2, "planned", 8),
        (2, "sub-topology 0", 8),
        (2, "sub-topology 1", 10),
        (2, "computed", 12),
        (2, "done", 12),
    ]
    assert {each.records_to_do for each in told.all} == {12}
    assert [each.stream_time_ms for each in told.all if each.step == "done"] == [700, 1_100]


def test_a_run_counts_what_was_unread_when_it_began_and_an_unfinished_increment_with_it(warehouse):
    topology = through(lambda key, value: value)
    landed(warehouse, 3)
    run(warehouse, topology, None)
    landed(warehouse, 4, first=3)
    with pytest.raises(InterruptedError):
        run(warehouse, topology, None, on_step=_dies_at("computed"))
    landed(warehouse, 5, first=7)
    told = Listener()

    run(warehouse, topology, told)

    done = [(each.increment, each.records_done) for each in told.all if each.step in ("planned", "done")]
    assert done == [(2, 0), (2, 4), (3, 4), (3, 9)]
    assert {each.records_to_do for each in told.all} == {9}


def _dies_at(wanted: str) -> Any:
    def on_step(step: str) -> None:
        if step.startswith(wanted):
            raise InterruptedError

    return on_step


def test_the_rate_is_of_all_records_done_since_the_replay_began(warehouse, monkeypatch):
    clock = iter(range(0, 1_000, 2))  # two seconds a look
    monkeypatch.setattr("kstreams_replay.jobs.replay.pipeline_run.Meter", partial(Meter, seconds=lambda: next(clock)))
    told = Listener()
    landed(warehouse, 12)

    run(warehouse, through(lambda key, value: value), told)

    got = [(each.step, each.records_per_second) for each in told.all if "committed" not in each.step]
    committed = sum("committed" in each.step for each in told.all)
    assert got == [
        ("planned", 0.0),
        ("sub-topology 0", 0.0),
        ("computed", 12 / 6),
        ("done", 12 / (8 + 2 * committed)),
    ]


def test_a_note_is_written_when_so_many_seconds_have_passed_and_then_once_more(tmp_path):
    clock = iter([101.9, 102.0, 103.9, 104.0, 104.1, 104.2])
    notes = Notes(str(tmp_path / "notes"), 2.0, begun=100.0)
    writer = NoteWriter(notes, "0_1", clock=lambda: next(clock))
    writer.rows = 80

    got = []
    for stream_time_ms in (1, 2, 3, 4, 5):
        writer.take(10, stream_time_ms)
        got.append(notes.read())
    writer.end()

    assert got == [{}, *[{"0_1": (0.25, 2)}] * 2, *[{"0_1": (0.5, 4)}] * 2]
    assert notes.read() == {"0_1": (1.0, 5)}


def test_a_short_stage_writes_no_note(tmp_path):
    notes = Notes(str(tmp_path / "notes"), 2.0, begun=100.0)
    writer = NoteWriter(notes, "0_1", clock=lambda: 101.9)

    writer.take(10, 1)
    writer.end()

    assert not Path(notes.folder).exists()


def test_a_note_that_is_half_written_is_left_out(tmp_path):
    whole = json.dumps({"share": 0.25, "stream_time_ms": 7})
    for name, text in (("0_0", whole), ("0_1", whole[:9]), ("0_2", "")):
        (tmp_path / f"{name}.json").write_text(text)

    assert Notes(str(tmp_path), 2.0, begun=0.0).read() == {"0_0": (0.25, 7)}


def test_a_note_that_cannot_be_written_does_not_fail_the_run(eager, warehouse):
    told = Listener()

    def blocks(progress: Progress) -> None:
        told(progress)
        if progress.step.startswith("sub-topology"):  # a file stands where the folder of notes would
            exchange = Path(warehouse.root, "p/_exchange/00000001")
            exchange.parent.mkdir(parents=True)
            exchange.write_text("in the way")

    def clears(step: str) -> None:
        if step.startswith("computed"):
            Path(warehouse.root, "p/_exchange/00000001").unlink()

    landed(warehouse, 16)
    run(warehouse, through(lambda key, value: value), blocks, on_step=clears)

    assert [each.records_done for each in told.all if "committed" not in each.step] == [0, 0, 16, 16]


def test_what_the_listener_raises_stops_the_run_at_a_step_and_is_logged_in_between(eager, warehouse, caplog):
    told, has_failed = Listener(), threading.Event()

    def listener(progress: Progress) -> None:
        told(progress)
        if 0 < progress.records_done < 16:
            has_failed.set()
            raise OSError("the log is full")

    def slow(key: str, value: str) -> str:
        assert value != "9" or has_failed.wait(WAIT_S)
        return value

    landed(warehouse, 16)
    run(warehouse, through(slow), listener)

    assert told.all[-1].step == "done"
    assert [record.message for record in caplog.records] == ["progress is not reported until the stage ends"]

    def refuses(progress: Progress) -> None:
        raise InterruptedError

    landed(warehouse, 1, first=16)
    with pytest.raises(InterruptedError):
        run(warehouse, through(slow), refuses)


def test_notes_are_gone_when_the_increment_is_done(eager, warehouse):
    seen: set[str] = set()

    def on_step(step: str) -> None:
        seen.update(path.name for path in Path(warehouse.root, "p/_exchange").rglob("*.json"))

    landed(warehouse, 16, partitions=2)
    run(warehouse, through(lambda key, value: value), Listener(), on_step=on_step)

    assert seen == {"0_0.json", "0_1.json"}
    assert not list(Path(warehouse.root, "p/_exchange").iterdir())


def test_where_nobody_looks_no_task_is_asked_for_notes(eager, warehouse):
    asked = []

    class InterruptedRunner(LocalRunner):
        def run(self, topology, descriptions):
            asked.extend(description.notes for description in descriptions)
            return super().run(topology, descriptions)

    landed(warehouse, 16, partitions=2)
    list(replay(warehouse, through(lambda key, value: value), pipeline="p", runner=InterruptedRunner()))

    assert asked == [None, None]


def test_a_replay_that_waits_for_the_compiler_says_so(warehouse, monkeypatch):
    def expect(records: int, call_all: Any, tell: Any = None) -> None:
        if tell is not None:
            tell("compiling kernels", 12, 40)

    monkeypatch.setattr(tiers, "expect", expect)
    landed(warehouse, 5)
    told: list[Progress] = []

    run(warehouse, through(lambda _, value: value), told.append)

    assert [each.step for each in told][:2] == ["compiling kernels 12 of 40", "planned"]
