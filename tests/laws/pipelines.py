"""The pipelines that runs are killed on and raced over, each with the run that nobody disturbs.

Owns what goes in, and how far. Rule: of every pipeline an undisturbed warehouse is made once a test run, with a copy of
its state before some of its increments; a scenario begins with such a copy.
"""

import functools
import os
import pickle
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kstreams_replay.jobs.execution.task_description import Runner
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import StreamsBuilder, Topology, fold
from kstreams_replay.orchestration.settings.topology_loading import load_topology
from kstreams_replay.state.runs.local_copies import CACHE_VARIABLE, default_cache
from kstreams_replay.state.tables import compaction
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.clicks import CLICKS, final_sessions, page_counts
from tests.laws import joined, topologies
from tests.laws.border import StorageStep, watched
from tests.laws.object_stores import ObjectStore
from tests.once_a_run import once_a_run, run_folder
from tests.planted import LandedRecord, plant

NAME = "p"
INCREMENTS = 12
"""Tables get Delta's first checkpoint with increment 9 of an undisturbed run, the ledger with 5 and with 10."""

BEGINNINGS = (0, 1, 3, 4, 8, 9, 10)
"""Done increments when a scenario begins: none, some, and those before a checkpoint is written."""

RECORDS = 20
"""Records of an increment."""

MERGED_EVERY = 3
"""Increments between two merges of small files."""
_STEPS = "steps.pickle"
_MERGING, _USUAL = threading.Lock(), list[tuple[int, int]]()


def brief() -> Topology:
    """Two sub-topologies with a repartition table between, three kinds of stores."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", CLICKS)
    folds = {"clicks": fold.count(), "total": fold.sum("ms")}
    final_sessions(clicks, store="sessions-store", held="final-sessions", **folds).to("sessions")
    page_counts(clicks.filter("ms >= 0"), store="pages-store").to("pages")
    return builder.build()


def _clicks(seed: int, records: int) -> dict[str, list[LandedRecord]]:
    return {"clicks": topologies.tape(seed, records)}


@dataclass(frozen=True)
class LawPipeline:
    """``reference``: the topology's name on the command line; ``tapes(seed, records)``: records by topic."""

    reference: str
    tapes: Callable[[int, int], dict[str, list[LandedRecord]]]
    partitions: int

    def build(self) -> Topology:
        """Another one every time."""
        return load_topology(self.reference)

    @functools.cached_property
    def topology(self) -> Topology:
        """One for all who take turns."""
        return self.build()


PIPELINES = {
    "brief": LawPipeline("tests.laws.pipelines:brief", _clicks, topologies.PARTITIONS),
    "everything": LawPipeline("tests.laws.topologies:everything", _clicks, topologies.PARTITIONS),
    "joined": LawPipeline("tests.laws.joined:joined", joined.tapes, joined.PARTITIONS),
}


def done_of(warehouse: Warehouse) -> int:
    """Increments that are done."""
    last = Ledger(warehouse.pipeline(NAME).ledger).last_done()
    return 0 if last is None else last.increment


def drive(warehouse: Warehouse, topology: Topology, target: int, *, runner: Runner | None = None) -> None:
    """Replay until increment ``target`` is done."""
    left = target - done_of(warehouse)
    if left > 0:
        with merging(MERGED_EVERY):
            for _ in replay(
                warehouse,
                topology,
                pipeline=NAME,
                runner=runner or LocalRunner(default_cache()),
                max_records=RECORDS,
                increments=left,
                idle="proceed",
            ):
                pass


@contextmanager
def merging(every: int) -> Iterator[None]:
    """Merge small files with every so many increments, but those of the last. Several may be at it at once."""
    with _MERGING:
        _USUAL.append((compaction.EVERY, compaction.NEWEST))
        compaction.EVERY, compaction.NEWEST = every, 1
    try:
        yield
    finally:
        with _MERGING:
            compaction.EVERY, compaction.NEWEST = _USUAL.pop()


@dataclass(frozen=True)
class Undisturbed:
    """``warehouse``: all increments done. ``before[n]``: as it was when ``n`` were. ``steps[n]``: what
    increment ``n`` + 1 did to the disk.
    """

    warehouse: Warehouse
    before: dict[int, Path]
    steps: list[list[StorageStep]]


@functools.cache
def undisturbed(pipeline: str, tape: int) -> Undisturbed:
    """The run over tape number ``tape`` that nobody kills."""
    folder = once_a_run(f"{pipeline}-{tape}", lambda folder: _run_undisturbed(PIPELINES[pipeline], tape, folder))
    before = {done: folder / f"before-{done}" for done in BEGINNINGS}
    steps = pickle.loads((folder / _STEPS).read_bytes())
    return Undisturbed(Warehouse(str(folder / "warehouse")), before, steps)


def _run_undisturbed(chosen: LawPipeline, tape: int, folder: Path) -> None:
    """Make the warehouse and its copies in ``folder``, and write down the steps."""
    warehouse = Warehouse(str(folder / "warehouse"))
    for topic, records in chosen.tapes(tape, INCREMENTS * RECORDS).items():
        plant(warehouse, topic, records, partitions=chosen.partitions)
    steps = []
    with _cache_in(folder):
        for done in range(INCREMENTS):
            if done in BEGINNINGS:
                shutil.copytree(warehouse.root, folder / f"before-{done}")
            taken: list[StorageStep] = []
            with watched(folder, taken.append):
                drive(warehouse, chosen.topology, done + 1)
            steps.append([StorageStep(step.name, step.path) for step in taken])
    (folder / _STEPS).write_bytes(pickle.dumps(steps))


@contextmanager
def begun(pipeline: str, tape: int, increments: int, store: ObjectStore | None = None) -> Iterator[Warehouse]:
    """The pipeline as it was when ``increments`` were done, in a folder of its own, where warm copies go too; gone
    afterwards. ``store``: the tables are there, only warm copies in the folder.
    """
    folder = Path(tempfile.mkdtemp(dir=run_folder()))
    try:
        before = undisturbed(pipeline, tape).before[increments]
        with _cache_in(folder):
            if store is not None:
                yield store.filled(before)
            else:
                yield Warehouse(shutil.copytree(before, folder / "warehouse", copy_function=_link))
    finally:
        shutil.rmtree(folder)


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    kept = os.environ.get(CACHE_VARIABLE)
    os.environ[CACHE_VARIABLE] = str(folder / "cache")
    try:
        yield
    finally:
        os.environ.pop(CACHE_VARIABLE)
        if kept is not None:
            os.environ[CACHE_VARIABLE] = kept


def _link(source: str, target: str) -> None:
    """A file of rows, or a version of a log, is never written again, so that it need not be copied."""
    (os.link if re.match(r"\d", os.path.basename(source)) else shutil.copy2)(source, target)
