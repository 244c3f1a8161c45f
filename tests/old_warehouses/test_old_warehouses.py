"""Warehouses that earlier versions wrote are read, run on, checked, explained and restored by this one.

Rule: a fixture is data of the version whose format it has: it is never written again, and the expected rows beside it
are those that the old version read in it.
"""

import json
import lzma
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kstreams_replay.expectations.verdicts import check_increment, is_in_order
from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.history.committed_tables import done_row, read_table
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.tables.names import DROPPED
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.old_warehouses.topologies import TOPOLOGIES
from tests.old_warehouses.written import BRANCH, EXPLAINED, PIPELINES, done, explained, land, rows_of, run
from tests.planted import tables_of

HERE = Path(__file__).parent
FORMATS = ("format_1",)

pytestmark = [pytest.mark.sampled, pytest.mark.slow]


@pytest.fixture(params=FORMATS)
def name(request) -> str:
    return request.param


@pytest.fixture
def old(name, tmp_path) -> Warehouse:
    with tarfile.open(HERE / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return Warehouse(str(tmp_path / "warehouse"))


@pytest.fixture
def told(name) -> dict[str, Any]:
    """``rows`` of every table by pipeline and increment, and what was ``explained``, as that version read them."""
    return json.loads(lzma.decompress((HERE / f"{name}.json.xz").read_bytes()))


def test_every_increment_is_read_as_the_version_that_wrote_it_did(old, told):
    assert {pipeline: [str(n) for n in done(old, pipeline)] for pipeline in told["rows"]} == {
        pipeline: list(increments) for pipeline, increments in told["rows"].items()
    }
    for pipeline, increments in told["rows"].items():
        topology = PIPELINES[pipeline]()
        for increment, tables in increments.items():
            got = rows_of(old, pipeline, topology, int(increment))
            for table, rows in tables.items():
                assert got[table] == rows, f"{pipeline}, increment {increment}, {table}"


@pytest.mark.parametrize("pipeline", TOPOLOGIES)
def test_it_runs_on_with_its_guarantees_and_becomes_what_a_replay_from_the_start_is(old, pipeline):
    """
    A row of a drop says whether its record counts as refused: where another operator took the record, too, by the rule
    of the version that wrote the row.
    """
    topology, last = TOPOLOGIES[pipeline](), done(old, pipeline)[-1]
    before = [bare(row) for row in read_table(old, pipeline, DROPPED).drop_columns(["increment"]).to_pylist()]
    land(old, 3)
    after = [*run(old, pipeline, increments=1), *run(old, pipeline, idle="proceed")]
    run(old, pipeline, idle="proceed", called=f"whole-{pipeline}")

    verdicts = [v for n in (last, *after) for v in check_increment(old, pipeline, replay_facts(topology), n)]
    assert after
    assert [verdict for verdict in verdicts if not is_in_order(verdict)] == []
    got, want = tables_of(old, pipeline, topology), tables_of(old, f"whole-{pipeline}", topology)
    for found in (got, want):
        found["dropped"] = [bare(row) if bare(row) in before else row for row in found["dropped"]]
    for table, rows in want.items():
        assert got[table] == rows, table


def bare(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a drop without what it counts as."""
    return {name: value for name, value in row.items() if name != "is_record"}


def test_a_branch_runs_on(old, told):
    before = done(old, BRANCH)[-1]

    assert run(old, BRANCH, increments=1) == [before + 1]
    assert rows_of(old, BRANCH, PIPELINES[BRANCH](), before) == told["rows"][BRANCH][str(before)]


@pytest.mark.parametrize("pipeline", EXPLAINED)
def test_a_record_of_it_is_explained(old, told, pipeline):
    assert explained(old, pipeline) == told["explained"][pipeline]


@pytest.mark.parametrize(("pipeline", "increment"), [("steps", 2), ("windows", 2), ("together", 1), ("tables", 3)])
def test_it_is_set_back_to_an_earlier_increment_and_runs_on(old, told, pipeline, increment):
    row = restore(old, pipeline, increment)

    assert rows_of(old, pipeline, TOPOLOGIES[pipeline]()) == told["rows"][pipeline][str(increment)]
    assert run(old, pipeline, idle="proceed", increments=1) == [row.increment + 1]
    assert done_row(old, pipeline).epoch == row.epoch
