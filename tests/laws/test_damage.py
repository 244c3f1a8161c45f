"""Law 3, with an enemy: what was damaged says so, or changes nothing.

`python -m tests.laws.damage --seeds 1000` is the long run.
"""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from kstreams_replay.expectations.verdicts import check_increment
from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.history.committed_tables import read_changelog
from kstreams_replay.jobs.history.fsck import fsck
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.errors import Damaged, DamagedFile, DamagedLedger, DamagedTable, LandingError
from kstreams_replay.state.tables.data_files import read_files
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.damage import KINDS, DamageScenario, outcome_of
from tests.laws.pipelines import NAME, PIPELINES, begun, drive, undisturbed
from tests.sampling import is_nightly, sampled

TOPOLOGY = PIPELINES["brief"].topology
DONE = 4
SEEDS = range(1, 61)
FIRST_SEEDS = SEEDS[:30]
"""One seed takes about three CPU seconds, so the default tier has three of these."""


@pytest.mark.every_run
@pytest.mark.parametrize("seed", SEEDS if is_nightly() else sampled(FIRST_SEEDS, share=30))
def test_a_damage_is_named_or_changes_nothing(seed):
    outcome = outcome_of(seed)

    assert outcome.silent is None, str(outcome)


def test_the_seeds_have_every_kind_of_damage():
    assert {DamageScenario.of(seed).damage.kind for seed in FIRST_SEEDS} == set(KINDS)


def put_back(warehouse: Warehouse, table: str, done: int) -> None:
    """``table`` as it was when ``done`` increments were."""
    shutil.rmtree(Path(warehouse.root, table))
    shutil.copytree(undisturbed("brief", 1).before[done] / table, Path(warehouse.root, table))


def test_a_run_without_its_ledger_stops_and_writes_nothing():
    with begun("brief", 1, DONE) as warehouse:
        ledger = Path(warehouse.pipeline(NAME).ledger)
        shutil.rmtree(ledger)
        with pytest.raises(DamagedLedger, match=r"expected increment 4, which .* is marked with, got no increment"):
            drive(warehouse, TOPOLOGY, 1)

        assert not ledger.exists()


def test_a_ledger_as_it_once_was_is_named_by_those_who_read_and_those_who_run():
    with begun("brief", 1, DONE) as warehouse:
        put_back(warehouse, f"{NAME}/ledger", 1)
        got = "is marked with, got increment 1 as its newest"
        with pytest.raises(DamagedLedger, match=got):
            drive(warehouse, TOPOLOGY, 2)
        with pytest.raises(DamagedLedger, match=got):
            read_changelog(warehouse, NAME, "pages")
        (verdict, *_) = check_increment(warehouse, NAME, replay_facts(TOPOLOGY), engine="plain")

        assert verdict.answer == "unknown"
        assert got in verdict.reason


@pytest.mark.parametrize("table", ["outputs/pages", "state/pages-store", "dropped"])
def test_a_table_as_it_once_was_stops_the_next_increment(table):
    with begun("brief", 1, DONE) as warehouse:
        put_back(warehouse, f"{NAME}/{table}", 1)

        with pytest.raises(DamagedTable, match=f"{NAME}/{table}: expected version"):
            drive(warehouse, TOPOLOGY, DONE + 1)


def test_the_ledger_of_a_landing_that_is_gone_stops_run_and_landing():
    with begun("brief", 1, DONE) as warehouse:
        shutil.rmtree(warehouse.landing_ledger("clicks"))
        got = r"expected increment 1, which .*landed/clicks is marked with, got no increment"
        with pytest.raises(DamagedLedger, match=got):
            drive(warehouse, TOPOLOGY, DONE + 1)
        records = pa.table({"partition": [0], "timestamp": [1], "key": [b"k"], "value": [b"v"]})
        with pytest.raises(DamagedLedger, match=got):
            land_records(warehouse, "clicks", records, partitions=3)


def test_a_landing_without_its_done_row_is_named_as_one_that_died_is():
    with begun("brief", 1, DONE) as warehouse:
        ledger = Path(warehouse.landing_ledger("clicks"))
        max((ledger / "_delta_log").glob("*.json")).unlink()
        expected = r"/clicks/ledger: expected a landing that has ended, got increment 1, which is planned and not done"
        with pytest.raises(LandingError, match=expected):
            drive(warehouse, TOPOLOGY, DONE + 1)


def test_a_mark_that_cannot_be_read_names_its_table():
    with begun("brief", 1, DONE) as warehouse:
        log = Path(warehouse.pipeline(NAME).dropped, "_delta_log")
        newest = max(log.glob("*.json"))
        text = newest.read_text()
        newest.unlink()
        newest.write_text(text.replace('"appId"', '"appIe"'))

        with pytest.raises(DamagedTable, match=f"{NAME}/dropped: expected a Delta log that can be read"):
            drive(warehouse, TOPOLOGY, DONE + 1)


def test_a_state_file_that_is_gone_is_noticed_though_its_warm_copy_lives():
    with begun("brief", 1, DONE) as warehouse:
        drive(warehouse, TOPOLOGY, DONE + 1)  # makes the copies
        store = warehouse.pipeline(NAME).state("pages-store")
        for file in read_files(store):
            Path(store, file.path).unlink()

        with pytest.raises(DamagedFile, match=r"state/pages-store.* got no file"):
            drive(warehouse, TOPOLOGY, DONE + 2)


def test_an_output_file_that_is_gone_is_noticed_by_check_and_fsck():
    with begun("brief", 1, DONE) as warehouse:
        output = warehouse.pipeline(NAME).output("pages")
        file = next(file for file in read_files(output) if file.bounds["increment"][1] < DONE)
        Path(output, file.path).unlink()
        verdicts = check_increment(warehouse, NAME, replay_facts(TOPOLOGY), engine="plain")
        findings = fsck(warehouse, NAME).findings

        assert file.path in next(verdict.reason for verdict in verdicts if verdict.guarantee == "G3")
        assert [finding for finding in findings if file.path in finding.place and "no file" in finding.wrong]


def test_a_branch_knows_a_changed_log_of_its_parent():
    with begun("brief", 1, DONE) as warehouse:
        fork(warehouse, NAME, DONE, "b")
        output = warehouse.pipeline(NAME).output("pages")
        for entry in Path(output, "_delta_log").glob("*.json"):
            text = entry.read_text()
            entry.unlink()
            entry.write_text(text.replace('\\"numRecords\\": 1', '\\"numRecords\\": 7'))

        with pytest.raises(DamagedTable, match=f"{NAME}/outputs/pages"):
            read_changelog(warehouse, "b", "pages")


# --- fsck ---------------------------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_fsck_finds_nothing_in_what_nobody_damaged(pipeline):
    with begun(pipeline, 1, 10) as warehouse:
        told: list[str] = []
        examined = fsck(warehouse, NAME, told.append)

        assert examined.findings == []
        assert examined.files > 50
        assert {f"{NAME}/ledger", "landed/clicks" if pipeline == "brief" else told[-1]} <= set(told)


def test_fsck_names_every_table_that_is_damaged_and_no_other():
    with begun("brief", 1, DONE) as warehouse:
        for table in ("outputs/pages", "state/sessions-store"):
            path = warehouse.pipeline(NAME).table(table)
            file = Path(path, read_files(path)[0].path)
            whole = bytearray(file.read_bytes())
            whole[-20] ^= 16  # of the footer
            file.unlink()
            file.write_bytes(whole)
        put_back(warehouse, f"{NAME}/dropped", 0 if DONE == 0 else 1)
        places = {
            finding.place.removeprefix(f"{warehouse.pipeline(NAME).root}/") for finding in fsck(warehouse).findings
        }

        assert {"/".join(place.split("/")[:2]) for place in places} == {
            "outputs/pages",
            "state/sessions-store",
            "dropped",
        }


def test_every_damage_is_an_error_of_one_kind():
    assert all(issubclass(kind, Damaged) for kind in (DamagedFile, DamagedTable, DamagedLedger))
