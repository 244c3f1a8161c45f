"""Nobody counts twice: a reader that applies only the new changes has the output's rows, restated or not."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.branches.promotion import promote
from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.history.committed_tables import done_row, read_changelog
from kstreams_replay.jobs.history.output_changes import read_changes
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables import compaction
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.pipelines import merging
from tests.laws.restated import CHANGED, OUTPUTS, copy_of, forked, run
from tests.laws.topologies import PARTITIONS, tape
from tests.once_a_run import once_a_run
from tests.planted import plant

pytestmark = pytest.mark.sampled


def row_of(change: dict) -> str:
    """A row as it is in the output, whatever increment published it."""
    return repr({name: value for name, value in change.items() if name not in ("change", "increment")})


def truth(warehouse: Warehouse, pipeline: str, output: str, increment: int) -> Counter[str]:
    return Counter(map(row_of, read_changelog(warehouse, pipeline, output, increment=increment).to_pylist()))


def applied(seen: Counter[str], changes: list[dict]) -> Counter[str]:
    """``seen`` after the changes. A row that is retracted must be there: nobody gives back what he never got."""
    result = Counter(seen)
    for change in changes:
        row = row_of(change)
        result[row] += {"insert": 1, "retract": -1}[change["change"]]
        assert result[row] >= 0, f"retracted and never inserted: {row}"
    return +result


@pytest.fixture(
    params=[compaction.EVERY, pytest.param(2, marks=pytest.mark.nightly)],
    ids=["files as they were written", "files merged"],
)
def restated(request) -> Iterator[Warehouse]:
    """Pipeline p: 6 increments; a branch from 3 promoted as 7; two more; set back to 8 as 10; one more; back to 5,
    which was restated long ago, as 12; two more. Made once a test run, and only read.
    """
    with merging(request.param):
        made = once_a_run(f"often-restated-{request.param}", lambda folder: often_restated(folder / "warehouse"))
        yield Warehouse(str(made / "warehouse"))


def often_restated(folder: Path) -> None:
    warehouse = forked(folder)
    promote(warehouse, "b")
    plant(warehouse, "clicks", tape(2, 20), partitions=PARTITIONS)
    assert run(warehouse, "p", CHANGED) == [8, 9]
    restore(warehouse, "p", 8)
    assert run(warehouse, "p", CHANGED) == [11]
    restore(warehouse, "p", 5)
    assert run(warehouse, "p", CHANGED, max_records=20) == [13, 14]


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("seed", range(12))
def test_the_sum_of_all_changes_is_the_output_wherever_a_consumer_stopped(restated, output, seed):
    generator = random.Random(seed)
    stops = sorted(generator.sample(range(1, 14), generator.randrange(6)))
    seen: Counter[str] = Counter()

    for after, increment in zip([0, *stops], [*stops, 14], strict=True):
        changes = read_changes(restated, "p", output, after=after, increment=increment).to_pylist()
        seen = applied(seen, changes)
        assert seen == truth(restated, "p", output, increment), f"after {after}, stops {stops}"


def test_ordinary_increments_only_insert_and_a_promote_takes_back_what_it_restates(restated):
    def counted(after: int, increment: int) -> Counter[str]:
        return Counter(read_changes(restated, "p", "counts", after=after, increment=increment)["change"].to_pylist())

    before = len(read_changelog(restated, "p", "counts", increment=6))
    fork_at = len(read_changelog(restated, "p", "counts", increment=3))
    now = len(read_changelog(restated, "p", "counts", increment=7))
    assert counted(3, 6) == {"insert": before - fork_at}
    assert counted(6, 7) == {"retract": before - fork_at, "insert": now - fork_at}
    assert counted(3, 7) == {"insert": now - fork_at}  # what came and went in between is not mentioned


def test_a_retraction_is_the_very_row_that_was_inserted(restated):
    inserted = read_changes(restated, "p", "counts", after=3, increment=6).to_pylist()
    changes = read_changes(restated, "p", "counts", after=6, increment=7).to_pylist()
    retracted = [change for change in changes if change["change"] == "retract"]

    assert [change | {"change": "insert"} for change in retracted] == inserted


def test_a_branch_goes_on_with_the_changes_of_its_parent(restated, tmp_path):
    """
    Who has seen p up to 6 follows a branch that was forked at 9: p's promote, then what the branch made.
    """
    warehouse = copy_of(Path(restated.root), tmp_path)
    fork(warehouse, "p", 9, "late")
    run(warehouse, "late", CHANGED)
    last = done_row(warehouse, "late").increment

    for after in (2, 6, 8, 9):
        changes = read_changes(warehouse, "late", "counts", after=after).to_pylist()
        assert applied(truth(warehouse, "p", "counts", after), changes) == truth(warehouse, "late", "counts", last)


def test_who_has_seen_everything_has_nothing_to_apply_and_a_number_below_nothing_is_refused(restated):
    assert read_changes(restated, "p", "counts", after=14).num_rows == 0
    with pytest.raises(ConfigError, match="after: expected an increment, or 0 for nothing, got -1"):
        read_changes(restated, "p", "counts", after=-1)
