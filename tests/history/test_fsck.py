"""What `fsck` compares: files with Delta's log, rows with the ledgers, increments and offsets with one another."""

from dataclasses import replace

import pyarrow as pa
import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history import fsck as module
from kstreams_replay.jobs.history.fsck import fsck
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.landing.recorded_time import record_time
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse

INCREMENTS = 3


@pytest.fixture
def warehouse(tmp_path) -> Warehouse:
    """Three landings of two records and three increments, whose output has as many rows."""
    warehouse, builder = Warehouse(str(tmp_path)), StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.string())).to("out")
    topology = builder.build()
    for _ in range(INCREMENTS):
        rows = {
            "partition": pa.array([0, 0], pa.int32()),
            "timestamp": [1, 2],
            "key": [b"a", b"b"],
            "value": [b"x", b"y"],
        }
        land_records(warehouse, "in", pa.table(rows), partitions=1)
        list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed"))
    return warehouse


def found(warehouse: Warehouse) -> list[tuple[str, str]]:
    """Place below the warehouse, and what is wrong there."""
    findings = fsck(warehouse).findings
    return [(finding.place.removeprefix(f"{warehouse.root}/"), finding.wrong) for finding in findings]


def test_what_is_whole_has_no_findings(warehouse):
    assert found(warehouse) == []


def test_an_increment_that_is_missing_between_others_is_found(warehouse, monkeypatch):
    of_before = Ledger.done_rows
    monkeypatch.setattr(Ledger, "done_rows", lambda *asked: [row for row in of_before(*asked) if row.increment != 2])

    assert found(warehouse) == [("p/ledger", "expected a done row of increment 2, got 3 as the next")]


def test_rows_of_an_output_that_the_ledger_has_and_the_table_has_not_are_found(warehouse, monkeypatch):
    of_before = module.table_files
    monkeypatch.setattr(module, "table_files", lambda *asked: of_before(*asked)[1:])

    wrong = {text for place, text in found(warehouse) if place.startswith("p/outputs/out, increment")}
    assert wrong == {"expected 2 rows, as the ledger says, got 0"}


def test_a_file_with_other_rows_than_the_log_says_is_found(warehouse, monkeypatch):
    of_before = module.landed_files
    monkeypatch.setattr(
        module, "landed_files", lambda *asked: [replace(file, records=file.records + 1) for file in of_before(*asked)]
    )

    wrong = [text for place, text in found(warehouse) if place.startswith("landed/in/")]
    assert wrong == ["expected 3 rows, as the log says, got 2"] * INCREMENTS


def test_records_that_landed_and_are_gone_are_found(warehouse, monkeypatch):
    of_before = module.landed_files
    monkeypatch.setattr(module, "landed_files", lambda *asked: of_before(*asked)[1:])

    assert found(warehouse) == [("landed/in", "expected 6 records, as its ledger says, got 4")]


def test_offsets_that_do_not_rise_are_found(warehouse, monkeypatch):
    of_before = module.landed_files
    monkeypatch.setattr(
        module,
        "landed_files",
        lambda *asked: sorted(of_before(*asked), key=lambda file: -file.bounds["increment"][0]),
    )

    assert [wrong for _, wrong in found(warehouse)] == ["expected offsets that rise after 5, got others"]


def test_offsets_beyond_what_the_ledger_has_are_found(warehouse, monkeypatch):
    of_before = module.landed_files

    def fewer(warehouse, topic, last, *more):
        files = of_before(warehouse, topic, last, *more)
        last.content.cut_to["0"] = 5
        return files

    monkeypatch.setattr(module, "landed_files", fewer)

    assert found(warehouse) == [("landed/in", "expected offsets below 5 in partition 0, got offset 5")]


def test_a_ledger_that_knows_less_than_a_table_is_marked_with_is_found(warehouse, monkeypatch):
    rows = Ledger.done_rows
    monkeypatch.setattr(Ledger, "done_rows", lambda *asked: [row for row in rows(*asked) if row.increment < INCREMENTS])
    monkeypatch.setattr(Ledger, "last_done", lambda ledger: ledger.done_rows()[-1])
    monkeypatch.setattr(Ledger, "newest", lambda ledger: INCREMENTS - 1)

    [wrong] = [text for place, text in found(warehouse) if place == "p/ledger"]
    assert wrong.startswith("expected increment 3, which ")
    assert wrong.endswith(" is marked with, got increment 2 as its newest")


def test_recorded_times_that_the_ledger_has_and_the_table_has_not_are_found(warehouse, monkeypatch):
    record_time(warehouse, "in", 60_000)
    assert found(warehouse) == []
    of_before = module.read_files
    monkeypatch.setattr(
        module, "read_files", lambda path, **asked: [] if "recorded" in path else of_before(path, **asked)
    )

    [(_, wrong)] = found(warehouse)
    assert wrong == "expected 1 recorded times, as the ledger says, got 0"
