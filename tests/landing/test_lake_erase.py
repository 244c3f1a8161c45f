"""`on_change="erase"`: rows that are gone from a table are erased from the topic, and nothing else is."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kstreams_replay.jobs.history.fsck import fsck
from kstreams_replay.jobs.landing import lake_changes, landing
from kstreams_replay.jobs.tape.landed_topic import Landed
from kstreams_replay.state.errors import ConfigError, LandingError
from kstreams_replay.state.tables.ledger import LandingLedger
from kstreams_replay.state.tables.out_of_play import exclusions
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.lake_tables import LandingReport, LandingRules, Row, bronze, in_order, land, records_of, rows
from tests.landing.landed_rows import KilledError

ERASE = {"on_change": "erase"}
SECRET = b"ann.lee/4711"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "bronze"


@pytest.fixture(params=[False, True], ids=["copy", "in place"])
def in_place(request) -> bool:
    return bool(request.param)


def secret_rows(first: int, end: int) -> list[Row]:
    """As ``rows``; that of offset 1 of partition 0 has a secret as its key, its value and a header."""
    return [
        row._replace(key=SECRET, value=SECRET, headers=[("h", SECRET)]) if row[:2] == (0, 1) else row
        for row in rows(first, end)
    ]


def vacuum(path: Path) -> None:
    DeltaTable(str(path)).vacuum(0, dry_run=False, enforce_retention_duration=False)


def played(warehouse: Warehouse) -> list[tuple[int, int]]:
    """Partition and offset of the records that a replay reads now."""
    landed = Landed.of(warehouse, "clicks")
    return [
        (int(p), row["offset"])
        for p, end in landed.ends.items()
        for table in landed.slice(p, 0, end).chunks(4)
        for row in table.to_pylist()
    ]


def holding(warehouse: Warehouse) -> list[str]:
    """Files of the warehouse with the secret."""
    return [
        str(path)
        for path in Path(warehouse.root).rglob("*")
        if path.is_file()
        and (SECRET in path.read_bytes() or (path.suffix == ".parquet" and SECRET in repr(_rows(path)).encode()))
    ]


def _rows(path: Path) -> list[dict[str, object]]:
    with path.open("rb") as source:
        return pq.ParquetFile(source).read().to_pylist()


def erased(warehouse: Warehouse) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in exclusions(warehouse, "clicks") if each.is_erased]


def landed_and_deleted(warehouse: Warehouse, lake: Path, **options: object) -> LandingReport:
    """Ten records have landed; then two are deleted and four appended, and the topic is landed again."""
    bronze(lake, secret_rows(0, 10))
    land(warehouse, lake, **options)
    bronze(lake, rows(10, 14)).delete("offset = 1 AND partition = 0 OR offset = 3")
    return land(warehouse, lake, rules=ERASE, **options)


GONE = [(0, 1), (0, 3), (1, 3)]


def test_what_is_gone_is_erased_from_the_topic_and_booked(warehouse, lake, in_place):
    report = landed_and_deleted(warehouse, lake, in_place=in_place)

    assert (report.increments, report.records, report.cut_to) == ((2, 3), 4, {0: 7, 1: 7})
    assert report.warnings == (
        "clicks: 3 landed records are gone from the table (partition 0: offsets 1, 3; partition 1: offset 3), by "
        "DELETE in version 2; the topic has them erased",
    )
    assert erased(warehouse) == GONE
    (first, *_) = exclusions(warehouse, "clicks")
    assert first.why == f"erased: gone from Delta table {lake} as of version 2"
    assert played(warehouse) == [row[:2] for row in in_order(rows(0, 14)) if row[:2] not in GONE]
    assert holding(warehouse) == []
    assert fsck(warehouse).findings == []
    assert land(warehouse, lake, rules=ERASE, in_place=in_place).increments == ()


@pytest.mark.parametrize("end", [10, 14])
def test_what_was_copied_is_erased_where_the_topic_continues_in_place(warehouse, lake, end):
    bronze(lake, secret_rows(0, 10))
    land(warehouse, lake)
    table = bronze(lake, rows(10, end)) if end > 10 else DeltaTable(str(lake))
    table.delete("offset = 1 AND partition = 0 OR offset = 3")

    report = land(warehouse, lake, rules=ERASE, in_place=True)

    assert any(warning.endswith("the topic has them erased") for warning in report.warnings)
    assert erased(warehouse) == GONE
    assert played(warehouse) == [row[:2] for row in in_order(rows(0, end)) if row[:2] not in GONE]
    assert holding(warehouse) == []
    assert fsck(warehouse).findings == []
    assert land(warehouse, lake, rules=ERASE, in_place=True).increments == ()


def test_a_copy_keeps_the_places_and_times_of_what_was_erased(warehouse, lake):
    landed_and_deleted(warehouse, lake)

    assert records_of(warehouse) == in_order(
        Row(*row[:3], None, None, []) if row[:2] in GONE else row for row in secret_rows(0, 14)
    )


def test_deleted_rows_whose_files_are_gone_are_erased_in_place(warehouse, lake):
    bronze(lake, rows(0, 10))
    land(warehouse, lake, in_place=True)
    DeltaTable(str(lake)).delete("offset = 3 AND partition = 1")
    vacuum(lake)

    report = land(warehouse, lake, in_place=True, rules=ERASE)

    assert erased(warehouse) == [(1, 3)]
    assert any(warning.endswith("the topic has them erased") for warning in report.warnings)
    assert fsck(warehouse).findings == []


def test_where_offsets_of_what_is_gone_are_not_known_it_is_refused(warehouse, lake):
    bronze(lake, [row for row in rows(0, 20) if row.offset != 5])
    land(warehouse, lake, in_place=True)
    DeltaTable(str(lake)).delete("offset = 3 AND partition = 1")
    vacuum(lake)

    with pytest.raises(LandingError, match="1 landed records of partition 1 are gone from the table"):
        land(warehouse, lake, in_place=True, rules=ERASE)
    assert erased(warehouse) == []


@pytest.mark.parametrize("is_vacuumed", [False, True])
def test_rows_with_other_bytes_are_refused_and_nothing_is_erased(warehouse, lake, in_place, is_vacuumed):
    bronze(lake, rows(0, 10))
    land(warehouse, lake, in_place=in_place)
    DeltaTable(str(lake)).delete("offset = 3")
    DeltaTable(str(lake)).update(updates={"value": "key"}, predicate="offset = 2")
    if is_vacuumed:
        vacuum(lake)

    with pytest.raises(LandingError, match=r"2 landed records are changed|some that may be others"):
        land(warehouse, lake, in_place=in_place, rules=ERASE)
    assert erased(warehouse) == []
    assert len(LandingLedger(warehouse.landing_ledger("clicks")).plans()) == 1


@pytest.mark.parametrize("dies_in", ["book_erasure", "delete_files"])
def test_an_erasure_that_died_is_finished_by_the_next_landing(warehouse, lake, monkeypatch, in_place, dies_in):
    def die(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(landing, dies_in, die)
        with pytest.raises(KilledError):
            landed_and_deleted(warehouse, lake, in_place=in_place)
    assert in_place or holding(warehouse)

    land(warehouse, lake, rules=ERASE, in_place=in_place)

    assert erased(warehouse) == GONE
    assert holding(warehouse) == []
    assert fsck(warehouse).findings == []


def test_what_an_earlier_landing_ignored_stays(warehouse, lake):
    bronze(lake, rows(0, 10))
    land(warehouse, lake)
    DeltaTable(str(lake)).delete("offset = 1")
    land(warehouse, lake, rules={"on_change": "ignore"})
    DeltaTable(str(lake)).delete("offset = 3")

    land(warehouse, lake, rules=ERASE)

    assert erased(warehouse) == [(0, 3), (1, 3)]


def test_what_is_restored_in_the_table_stays_erased(warehouse, lake):
    landed_and_deleted(warehouse, lake)
    DeltaTable(str(lake)).restore(1)

    report = land(warehouse, lake, rules=ERASE)

    assert (report.records, erased(warehouse), holding(warehouse)) == (0, GONE, [])


@pytest.mark.parametrize("doubt", ["another table", "another mapping", "version 1", "3"])
def test_what_may_be_gone_by_mistake_is_refused(warehouse, lake, monkeypatch, doubt):
    bronze(lake, secret_rows(0, 10))
    land(warehouse, lake)
    source, rules = {}, dict(ERASE)
    if doubt == "3":
        monkeypatch.setattr(lake_changes, "ERASED_AT_MOST", 2)
    elif doubt == "another table":
        shutil.rmtree(lake)
        bronze(lake, secret_rows(0, 10))
    elif doubt == "another mapping":
        source, rules = {"timestamp_unit": "s"}, ERASE | {"new_mapping": True}
    else:
        source = {"version": 1}
    DeltaTable(str(lake)).delete("offset = 1 AND partition = 0 OR offset = 3")

    words = {"another table": "it is another one than"}.get(doubt, doubt)
    with pytest.raises(LandingError, match=f"records to erase, gone from the newest version .*, got .*{words}"):
        land(warehouse, lake, rules=rules, **source)
    assert erased(warehouse) == []
    assert holding(warehouse)


def test_a_word_that_is_no_setting_is_refused():
    with pytest.raises(ConfigError, match='expected "refuse", "ignore" or "erase", got \'forget\''):
        LandingRules(on_change="forget")
