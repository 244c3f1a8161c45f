"""G1: one final result per key and window."""

import pyarrow as pa
import pytest

from kstreams_replay.state.tables.ledger_rows import DoneRow, PlanRow
from kstreams_replay.state.tables.warehouse import output_schema

pytestmark = pytest.mark.guarantee("G1")

A = {"key": "a", "window_start_ms": 0, "window_end_ms": 10, "cause_offset": 5, "stream_time_ms": 26}
B = {"key": "b", "window_start_ms": 10, "window_end_ms": 20, "cause_offset": 5, "stream_time_ms": 26}
NOTHING = {"read": 0, "applied": 0, "dropped": 0, "undecodable": 0}


def test_different_keys_and_windows_are_final_once(planted):
    planted.run_first()
    planted.run_second()

    verdict = planted.verdict("G1")

    assert (verdict.answer, verdict.observed, verdict.witnesses) == ("true", {"finals": 2, "repeated": 0}, [])


def test_a_final_result_that_an_earlier_increment_gave_is_repeated(planted):
    planted.run_first()
    planted.run_second(finals=[{**A, "offset": 1}, {**B, "offset": 2}])

    verdict = planted.verdict("G1")

    assert (verdict.answer, verdict.observed) == ("false", {"finals": 2, "repeated": 1})
    assert verdict.broken == ("expect_one_final_row_per_key_window",)
    assert verdict.witnesses == [
        {
            "key": "a",
            "window_start_ms": 0,
            "window_end_ms": 10,
            "offset": 1,
            "increment": 2,
            "cause_offset": 5,
            "stream_time_ms": 26,
            "partition": 0,
            "first_increment": 1,
            "first_partition": 0,
            "first_offset": 0,
            "closed_at_ms": 15,
        }
    ]


def test_a_final_result_given_twice_in_one_increment_is_repeated(planted):
    planted.run_first()
    planted.run_second(finals=[{**B, "offset": 1}, {**B, "offset": 2}, {**B, "offset": 3}])

    verdict = planted.verdict("G1")

    assert (verdict.answer, verdict.observed) == ("false", {"finals": 3, "repeated": 2})
    assert [(row["offset"], row["first_increment"], row["first_offset"]) for row in verdict.witnesses] == [
        (2, 2, 1),
        (3, 2, 1),
    ]


def test_the_same_key_in_another_window_or_the_same_window_of_another_key_is_not_repeated(planted):
    planted.run_first()
    other_start = {**A, "window_start_ms": 5, "offset": 1}
    other_end = {**A, "window_end_ms": 11, "offset": 2}
    other_key = {**A, "key": "A", "offset": 3}
    planted.run_second(finals=[other_start, other_end, other_key])

    assert planted.verdict("G1").answer == "true"


@pytest.mark.parametrize("of_increment", [1, 2])
def test_a_tombstone_does_not_count(planted, of_increment):
    finals = {n: [{**A, "offset": n, "value": None if n == of_increment else 7}] for n in (1, 2)}
    planted.run_first(finals=finals[1])
    planted.run_second(finals=finals[2])

    assert planted.verdict("G1").answer == "true"


def test_a_struct_is_a_tombstone_only_when_it_is_null(planted):
    """
    A struct whose fields are all null is a value.
    """
    schema = output_schema(pa.string(), pa.struct([("n", pa.int64())]), windowed=True)
    planted.run_first(schema=schema, finals=[{**A, "offset": 0, "value": {"n": None}}])
    planted.run_second(
        schema=schema, finals=[{**A, "offset": 1, "value": None}, {**A, "offset": 2, "value": {"n": None}}]
    )

    verdict = planted.verdict("G1")

    assert verdict.observed == {"finals": 1, "repeated": 1}
    assert [row["offset"] for row in verdict.witnesses] == [2]


@pytest.mark.parametrize(
    ("kind", "key", "shown"),
    [
        (pa.string(), None, None),
        (pa.binary(), b"\xffk", "\\xffk"),
        (pa.int64(), 7, 7),
        (pa.float64(), 0.5, "0.5"),  # as text, by which 0.0 and -0.0 differ
        (pa.struct([("user", pa.string()), ("n", pa.int64())]), {"user": "u", "n": None}, {"user": "u", "n": None}),
    ],
)
def test_keys_of_every_type_are_compared(planted, kind, key, shown):
    schema = output_schema(kind, pa.int64(), windowed=True)
    planted.run_first(schema=schema, finals=[{**A, "key": key, "offset": 0}])
    planted.run_second(schema=schema, finals=[{**A, "key": key, "offset": 1}])

    verdict = planted.verdict("G1")

    assert [(row["key"], row["offset"]) for row in verdict.witnesses] == [(shown, 1)]


def test_no_more_than_twenty_rows_are_shown(planted):
    planted.run_first(finals=[{**A, "offset": offset} for offset in range(30)])

    verdict = planted.verdict("G1")

    assert verdict.observed == {"finals": 30, "repeated": 29}
    assert [row["offset"] for row in verdict.witnesses] == list(range(1, 21))


def test_a_past_increment_is_judged_as_it_was_then(planted):
    planted.run_first()
    planted.run_second(finals=[{**A, "offset": 1}])

    assert [planted.verdict("G1", n).answer for n in (1, 2)] == ["true", "false"]


def test_rows_of_other_increments_in_one_compacted_file_are_not_the_increments_own(planted):
    planted.run_first(finals=[])
    planted.run_second(finals=[{**A, "offset": 0, "increment": 1}, {**A, "offset": 1}, {**B, "offset": 2}])

    verdict = planted.verdict("G1")

    assert verdict.observed == {"finals": 2, "repeated": 1}
    assert [(row["offset"], row["first_increment"], row["first_offset"]) for row in verdict.witnesses] == [(1, 1, 0)]


def test_an_increment_without_final_results_repeats_nothing(planted):
    planted.run_first(finals=[])

    assert planted.verdict("G1").observed == {"finals": 0, "repeated": 0}


def test_old_files_whose_windows_ended_elsewhere_are_not_opened(planted, monkeypatch):
    """
    Cost follows the increment: [0, 10) cannot be among windows that end at 20.
    """
    planted.run_first()
    planted.run_second()
    opened = []

    def spy(scope, path, files, columns):
        opened.extend(file.bounds["increment"] for file in files)
        return scan(scope, path, files, columns)

    from kstreams_replay.expectations.audits import Scope

    scan = Scope.scan
    monkeypatch.setattr(Scope, "scan", spy)

    from kstreams_replay.expectations.audits import open_scope
    from kstreams_replay.expectations.final_once import audit_final_once
    from tests.expectations.conftest import FACTS

    audit_final_once(open_scope(planted.warehouse, "flights", FACTS, 2), FACTS.final_outputs[0])
    assert opened == [(2, 2)]


def test_a_key_that_lives_in_two_partitions_has_two_final_results(planted):
    """
    A topic that was not partitioned by key: each task gives its own final result, and the reader gets both.
    """
    planted.land(1, [(0, 3), (1, 15)])
    planted.land(2, [(0, 3), (1, 26)], partition=1)
    planted.run(1, (0, 2), finals=[{**A, "offset": 0}], books=NOTHING)
    path, schema = planted.tables.output("counts"), output_schema(pa.string(), pa.int64(), windowed=True)
    final = {**A, "offset": 0, "value": 1, "record_time_ms": 3}
    planted.ledger.plan(2, PlanRow(), written_at_ms=2)
    version = planted.write(path, schema, 2, [final], partition=1)
    planted.ledger.done(2, DoneRow(versions={"outputs/counts": version}), written_at_ms=2)

    verdict = planted.verdict("G1")

    assert [(row["partition"], row["first_partition"], row["first_increment"]) for row in verdict.witnesses] == [
        (1, 0, 1)
    ]
