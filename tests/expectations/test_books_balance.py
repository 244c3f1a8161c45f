"""G3: the books balance in every increment: read = applied + left out + dropped + undecodable."""

import pytest

from kstreams_replay.expectations.verdicts import ReplayFacts, SourceTopic, SubTopologyFacts
from kstreams_replay.state.tables.ledger import LandingLedger
from kstreams_replay.state.tables.ledger_rows import DoneRow, LandingDoneRow, LandingPlanRow, PlanRow
from kstreams_replay.state.tables.warehouse import LANDED_SCHEMA
from tests.expectations.conftest import BOOKS_2, DROPS_2, LANDED_2

pytestmark = pytest.mark.guarantee("G3")

SECOND = PlanRow(cut_from={"clicks": {"0": 4}}, cut_to={"clicks": {"0": 7}})
BALANCED = {
    "read": 3,
    "applied": 2,
    "left_out": 0,
    "dropped": 1,
    "undecodable": 0,
    "missing": 0,
    "read_unbooked": 0,
    "dropped_unbooked": 0,
    "undecodable_unbooked": 0,
    "stray": 0,
    "refusals_unbooked": 0,
    "rows_unbooked": 0,
    "landed_unbooked": 0,
}


def test_every_record_is_applied_or_dropped(planted):
    planted.run_first()
    planted.run_second()

    verdict = planted.verdict("G3")

    assert (verdict.answer, verdict.observed, verdict.witnesses) == ("true", BALANCED, [])


def test_a_record_that_the_replay_lost_is_missing(planted):
    """
    Three landed, one applied, one dropped: one is lost, and the ledger's own sum shows it.
    """
    planted.run_first()
    planted.run_second(books={**BOOKS_2, "applied": 1})

    verdict = planted.verdict("G3")

    assert (verdict.answer, verdict.broken) == ("false", ("expect_books_to_balance",))
    assert verdict.witnesses == [{"sub_topology": 0, **BALANCED, "applied": 1, "missing": 1}]


def test_a_record_that_the_replay_never_read_is_missing_though_the_ledger_balances(planted):
    """
    The ledger says 2 = 1 + 1 and is content; three are landed inside the cut.
    """
    planted.run_first()
    planted.run_second(books={"read": 2, "applied": 1, "dropped": 1, "undecodable": 0})

    verdict = planted.verdict("G3")

    assert verdict.broken == ("expect_books_to_balance", "expect_reads_to_be_booked")
    assert verdict.witnesses == [{"sub_topology": 0, **BALANCED, "applied": 1, "missing": 1, "read_unbooked": 1}]


def test_a_landed_record_that_disappeared_is_noticed(planted):
    planted.run_first()
    planted.run_second(landed=LANDED_2[:2])

    verdict = planted.verdict("G3")

    assert verdict.broken == ("expect_books_to_balance", "expect_reads_to_be_booked")
    assert verdict.witnesses == [{"sub_topology": 0, **BALANCED, "read": 2, "missing": -1, "read_unbooked": -1}]
    assert (verdict.observed["missing"], verdict.observed["read_unbooked"]) == (1, 1)


def test_a_drop_without_its_row_is_noticed(planted):
    planted.run_first()
    planted.run_second(dropped=[])

    verdict = planted.verdict("G3")

    assert verdict.broken == ("expect_books_to_balance", "expect_drops_to_be_booked")
    assert verdict.witnesses == [{"sub_topology": 0, **BALANCED, "dropped": 0, "missing": 1, "dropped_unbooked": -1}]


def test_a_record_that_a_step_left_out_is_neither_applied_nor_missing(planted):
    planted.run_first()
    planted.run_second(books={**BOOKS_2, "applied": 1, "left_out": 1})

    assert planted.verdict("G3").observed == {**BALANCED, "applied": 1, "left_out": 1}


@pytest.mark.parametrize(
    ("refused", "unbooked"),
    [
        ({"counted": {"expired-window": [1, 1]}}, 0),
        ({"counted": {"expired-window": [1, 2]}}, 1),
        ({"counted": {"null-key": [1, 1]}}, 2),
        ({}, 1),
        ({"counted": {"expired-window": [1, 1]}, "once": {"null-key": [1, 1]}}, 1),
    ],
)
def test_refusals_are_recounted_from_their_rows_by_operator_and_reason(planted, refused, unbooked):
    planted.run_first()
    planted.run_second(dropped=[{**DROPS_2[0], "node": "counted"}], books={**BOOKS_2, "refused": refused})

    verdict = planted.verdict("G3")

    assert verdict.observed["refusals_unbooked"] == unbooked
    assert verdict.broken == (("expect_refusals_to_be_booked",) if unbooked else ())


def test_a_record_dropped_at_two_nodes_counts_once(planted):
    planted.run_first()
    planted.run_second(dropped=[*DROPS_2, {**DROPS_2[0], "node": "another"}])

    assert planted.verdict("G3").observed == BALANCED


def test_a_refused_window_of_an_applied_record_is_no_drop(planted):
    planted.run_first()
    one_window = {"topic": "clicks", "offset": 5, "is_record": False, "window_start_ms": 0, "window_end_ms": 10}
    planted.run_second(dropped=[*DROPS_2, one_window])

    assert planted.verdict("G3").observed == BALANCED


def test_drops_of_other_increments_in_one_compacted_file_do_not_count(planted):
    planted.run_first()
    planted.run_second(dropped=[{**DROPS_2[0], "offset": 1, "increment": 1}, *DROPS_2])

    assert planted.verdict("G3").observed == BALANCED


def test_an_undecodable_record_is_counted_by_its_dead_letter(planted):
    planted.run_first()
    dead = [{"topic": "clicks", "offset": 5, "reason": "not JSON"}]
    planted.run_second(dead_letter=dead, books={"read": 3, "applied": 1, "dropped": 1, "undecodable": 1})

    assert planted.verdict("G3").observed == {**BALANCED, "applied": 1, "undecodable": 1}


def test_a_dead_letter_that_the_ledger_does_not_know_is_noticed(planted):
    planted.run_first()
    planted.run_second(dead_letter=[{"topic": "clicks", "offset": 5, "reason": "not JSON"}])

    verdict = planted.verdict("G3")

    assert verdict.broken == ("expect_books_to_balance", "expect_dead_letters_to_be_booked")
    assert verdict.witnesses == [
        {"sub_topology": 0, **BALANCED, "undecodable": 1, "missing": -1, "undecodable_unbooked": 1}
    ]


def test_a_record_with_a_dead_letter_is_not_dropped_as_well(planted):
    planted.run_first()
    dead = [{"topic": "clicks", "offset": 4, "reason": "not JSON"}]
    planted.run_second(dead_letter=dead, books={"read": 3, "applied": 2, "dropped": 0, "undecodable": 1})

    assert planted.verdict("G3").observed == {**BALANCED, "dropped": 0, "undecodable": 1}


def test_an_output_with_other_rows_than_the_ledger_says_is_false(planted):
    """
    As when the ledger was lost, and the increment written down again: its files were there already.
    """
    planted.run_first()
    planted.run_second(outputs={"counts": 3})

    verdict = planted.verdict("G3")

    assert (verdict.answer, verdict.broken) == ("false", ("expect_results_to_be_booked",))
    assert verdict.observed == {**BALANCED, "rows_unbooked": 1}
    assert verdict.witnesses == [{"output": "counts", "rows": 2, "booked": 3}]


def test_an_output_with_the_rows_that_the_ledger_says_is_true(planted):
    planted.run_first()
    planted.run_second(outputs={"counts": 2})

    assert planted.verdict("G3").answer == "true"


def test_a_file_of_an_earlier_increment_that_is_gone_is_noticed(planted, tmp_path):
    """
    The audits of the second increment need no file of the first.
    """
    planted.run_first()
    planted.run_second()
    (file,) = (tmp_path / "flights" / "outputs" / "counts" / "partition=0").glob("1-*.parquet")
    file.unlink()

    verdict = planted.verdict("G3")

    assert verdict.answer == "unknown"
    assert f"{file}, of increment 1: expected the file as it was committed, got no file" in verdict.reason


def test_a_drop_of_a_record_outside_the_cut_is_a_stray(planted):
    planted.run_first()
    planted.run_second(dropped=[{**DROPS_2[0], "offset": 3}])

    verdict = planted.verdict("G3")

    assert verdict.broken == ("expect_refusals_to_be_landed_records",)
    assert verdict.witnesses == [{"sub_topology": 0, "topic": "clicks", "partition": 0, "offset": 3}]


def test_the_cut_is_half_open(planted):
    """
    Offsets [4, 7): 3 is of the increment before, 7 of the one after, though both are landed.
    """
    planted.run_first()
    planted.run_second(landed=[*LANDED_2, (7, 32), (8, 33)])

    assert planted.verdict("G3").observed == BALANCED


def test_a_repartition_table_is_read_in_the_increment_that_wrote_it(planted):
    facts = ReplayFacts(
        (SubTopologyFacts(0, (SourceTopic("clicks"),)), SubTopologyFacts(1, (SourceTopic("by-page", "repartition"),)))
    )
    planted.run_first()
    planted.land(2, LANDED_2)
    path = planted.tables.repartition("by-page")
    planted.write(path, LANDED_SCHEMA, 1, [{"offset": 0, "timestamp": 3}])
    version = planted.write(path, LANDED_SCHEMA, 2, [{"offset": 1, "timestamp": 26}, {"offset": 2, "timestamp": 31}])
    planted.ledger.plan(2, SECOND, written_at_ms=2)
    first = planted.ledger.last_done().content.versions
    books = {"0": {"read": 3, "applied": 3, "dropped": 0, "undecodable": 0}, "1": {**BOOKS_2, "read": 2, "dropped": 0}}
    done = DoneRow(books={"by_sub_topology": books}, versions={**first, "repartition/by-page": version})
    planted.ledger.done(2, done, written_at_ms=2)

    verdict = planted.verdict("G3", facts=facts)

    assert (verdict.answer, verdict.observed["read"], verdict.observed["applied"]) == ("true", 5, 5)


def test_losses_that_cancel_each_other_are_both_seen(planted):
    """
    One sub-topology lost a record, the other has one too many: the sum is right and the books are not.
    """
    facts = ReplayFacts((SubTopologyFacts(0, (SourceTopic("clicks"),)), SubTopologyFacts(1, (SourceTopic("clicks"),))))
    planted.run_first()
    planted.land(2, LANDED_2)
    first = planted.ledger.last_done().content.versions
    planted.ledger.plan(2, SECOND, written_at_ms=2)
    books = {str(n): {"read": 3, "applied": applied, "dropped": 0, "undecodable": 0} for n, applied in ((0, 2), (1, 4))}
    planted.ledger.done(2, DoneRow(books={"by_sub_topology": books}, versions=first), written_at_ms=2)

    verdict = planted.verdict("G3", facts=facts)

    assert (verdict.answer, verdict.observed["missing"]) == ("false", 2)
    assert [(row["sub_topology"], row["missing"]) for row in verdict.witnesses] == [(0, 1), (1, -1)]


def test_a_landed_topic_with_fewer_records_than_have_landed_is_noticed(planted):
    """
    The ledger of the landing says four and four; the table has four and three, all of them inside the cut.
    """
    planted.run_first()
    planted.run_second()
    ledger = LandingLedger(planted.warehouse.landing_ledger("clicks"))
    for increment in (1, 2):
        ledger.plan(increment, LandingPlanRow(), written_at_ms=0)
        ledger.done(increment, LandingDoneRow(records=4), written_at_ms=0)

    verdict = planted.verdict("G3")

    assert verdict.broken == ("expect_landings_to_be_booked",)
    assert verdict.observed == {**BALANCED, "landed_unbooked": 1}
    assert verdict.witnesses == [{"topic": "clicks", "landed": 7, "booked": 8}]
