"""Looking at a run changes nothing: its tables are those of the run that nobody looked at, wherever it dies at a note
and whatever the disk says to one.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay import progress
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.runs.local_copies import default_cache
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.border import StorageStep, watched
from tests.laws.crash import DiedInACrash
from tests.laws.pipelines import NAME, PIPELINES, RECORDS, begun, drive, undisturbed
from tests.laws.whole import first_difference

pytestmark = pytest.mark.sampled

PIPELINE, TAPE, BEGUN, TARGET = "brief", 1, 3, 4


@pytest.fixture(autouse=True)
def _always(monkeypatch):
    """A note after every chunk of few records; the driver reads them all the time."""
    monkeypatch.setattr("kstreams_replay.jobs.task.task.CHUNK_RECORDS", 4)
    monkeypatch.setattr(progress, "NOTE_SECONDS", 0.0)
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.002)


def looked_at(warehouse: Warehouse) -> None:
    """Run the next increment, which reports its progress."""
    told: list[progress.Progress] = []
    options = {"max_records": RECORDS, "increments": 1, "idle": "proceed", "progress": told.append}
    topology = PIPELINES[PIPELINE].topology
    list(replay(warehouse, topology, pipeline=NAME, runner=LocalRunner(default_cache()), **options))
    assert told[-1].step == "done"


def is_note(step: StorageStep) -> bool:
    return "/progress-" in step.path


def difference(warehouse: Warehouse) -> str | None:
    want = undisturbed(PIPELINE, TAPE).warehouse
    return first_difference(warehouse, want, PIPELINES[PIPELINE].topology, since=BEGUN, until=TARGET)


class Reaper:
    """Lets the run die in the middle of note step number ``at``; ``has_struck`` whether there was such a step."""

    def __init__(self, at: int) -> None:
        self.left, self.has_struck = at, False

    def on_step(self, step: StorageStep) -> None:
        self.left -= is_note(step)
        if self.left < 0 and not self.has_struck:
            self.has_struck = True
            if step.half is not None:
                step.half()
            raise DiedInACrash


def test_a_run_may_die_at_any_note():
    at = 0
    while True:
        reaper = Reaper(at)
        with begun(PIPELINE, TAPE, BEGUN) as warehouse:
            with suppress(DiedInACrash), watched(Path(warehouse.root).parent, reaper.on_step):
                looked_at(warehouse)
            if not reaper.has_struck:
                break
            looked_at(warehouse)
            assert difference(warehouse) is None, f"died at note step {at}"
        at += 7
    assert at > 20, "there were notes to die at"


def test_a_disk_that_takes_no_note_changes_nothing():
    refused = 0

    def on_step(step: StorageStep) -> None:
        nonlocal refused
        if is_note(step):
            refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with begun(PIPELINE, TAPE, BEGUN) as warehouse:
        with watched(Path(warehouse.root).parent, on_step):
            looked_at(warehouse)
        assert difference(warehouse) is None

    assert refused > 0


def test_a_run_that_died_with_notes_is_the_same_to_one_that_nobody_looks_at():
    with begun(PIPELINE, TAPE, BEGUN) as warehouse:
        with suppress(DiedInACrash), watched(Path(warehouse.root).parent, Reaper(9).on_step):
            looked_at(warehouse)
        drive(warehouse, PIPELINES[PIPELINE].topology, TARGET)
        assert difference(warehouse) is None
