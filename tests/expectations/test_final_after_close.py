"""G2: no final result before its window closed."""

import pytest

from kstreams_replay.expectations.verdicts import FinalOutput, ReplayFacts, SourceTopic, SubTopologyFacts
from kstreams_replay.state.tables.ledger_rows import DoneRow, PlanRow

pytestmark = pytest.mark.guarantee("G2")

B = {"offset": 1, "key": "b", "window_start_ms": 10, "window_end_ms": 20, "cause_offset": 5, "stream_time_ms": 26}


def test_results_that_waited_for_the_grace_are_after_the_close(planted):
    planted.run_first()
    planted.run_second()

    verdict = planted.verdict("G2")

    assert (verdict.answer, verdict.observed) == ("true", {"finals": 2, "early": 0, "unproven": 0})


def test_a_result_before_the_close_is_early(planted):
    """
    26 < 22 + 5: the window [12, 22) closes at 27.
    """
    planted.run_first()
    planted.run_second(finals=[B, {**B, "offset": 2, "window_start_ms": 12, "window_end_ms": 22}])

    verdict = planted.verdict("G2")

    assert (verdict.answer, verdict.observed) == ("false", {"finals": 2, "early": 1, "unproven": 0})
    assert verdict.broken == ("expect_no_final_before_close",)
    assert verdict.witnesses == [
        {
            "key": "b",
            "window_start_ms": 12,
            "window_end_ms": 22,
            "offset": 2,
            "increment": 2,
            "cause_offset": 5,
            "stream_time_ms": 26,
            "partition": 0,
            "highest_landed_ms": 26,
            "closed_at_ms": 27,
            "is_early": True,
            "is_unproven": False,
        }
    ]


@pytest.mark.parametrize(("window_end_ms", "answer"), [(20, "true"), (21, "true"), (22, "false")])
def test_exactly_at_the_close_is_closed(planted, window_end_ms, answer):
    """
    Stream time 26, wait 5: windows that end at 21 or before are closed.
    """
    planted.run_first()
    planted.run_second(finals=[{**B, "window_end_ms": window_end_ms}])

    assert planted.verdict("G2").answer == answer


@pytest.mark.parametrize(("gap_and_grace_ms", "answer"), [(16, "true"), (17, "false")])
def test_a_session_waits_for_gap_and_grace_from_its_inclusive_end(planted, gap_and_grace_ms, answer):
    facts = ReplayFacts(
        (SubTopologyFacts(0, (SourceTopic("clicks"),)),),
        (FinalOutput("counts", 0, "session", wait_ms=gap_and_grace_ms),),
    )
    planted.run_first()
    planted.run_second(finals=[{**B, "window_start_ms": 10, "window_end_ms": 10}])

    assert planted.verdict("G2", facts=facts).answer == answer


def test_where_an_extractor_makes_the_times_only_the_close_itself_is_judged(planted):
    """
    Nothing landed has 27, but it is not what stream time goes by; that 27 is before the close at 22 + 6 is seen.
    """
    timed = (SubTopologyFacts(0, (SourceTopic("clicks", has_own_times=False),)),)
    planted.run_first()
    planted.run_second(finals=[{**B, "stream_time_ms": 27, "window_end_ms": 22}])

    for wait_ms, want in ((5, (0, 0)), (6, (1, 0))):
        facts = ReplayFacts(timed, (FinalOutput("counts", 0, "time", wait_ms=wait_ms),))
        observed = planted.verdict("G2", facts=facts).observed
        assert (observed["early"], observed["unproven"]) == want


def test_a_stream_time_that_no_landed_record_had_is_unproven(planted):
    """
    The row claims 27; up to its cause, offset 5, the highest landed time is 26. That 31 comes later is no excuse.
    """
    planted.run_first()
    planted.run_second(finals=[{**B, "stream_time_ms": 27}])

    verdict = planted.verdict("G2")

    assert (verdict.answer, verdict.observed) == ("false", {"finals": 1, "early": 0, "unproven": 1})
    assert verdict.broken == ("expect_stream_time_to_be_landed",)
    assert [(row["offset"], row["stream_time_ms"], row["highest_landed_ms"]) for row in verdict.witnesses] == [
        (1, 27, 26)
    ]


def test_the_highest_time_may_have_landed_in_an_earlier_increment(planted):
    """
    The cause, offset 4, has time 2; stream time 15 is that of offset 3, in a file that is not opened.
    """
    planted.run_first()
    planted.run_second(
        finals=[{**B, "window_start_ms": 0, "window_end_ms": 10, "cause_offset": 4, "stream_time_ms": 15}]
    )

    assert planted.verdict("G2").observed == {"finals": 1, "early": 0, "unproven": 0}


@pytest.mark.parametrize(("stream_time_ms", "unproven"), [(15, 0), (16, 1)])
def test_a_cause_that_compaction_removed_stands_on_the_records_before_it(planted, stream_time_ms, unproven):
    """
    Offsets 4 and 5 are gone; the highest time up to 4 is 15, of offset 3. Offset 6 is after it.
    """
    planted.run_first()
    window = {"window_start_ms": 0, "window_end_ms": 10}
    gone = {**B, **window, "cause_offset": 4, "stream_time_ms": stream_time_ms}
    planted.run_second(landed=[(6, 31)], finals=[gone, {**B, "offset": 2, "cause_offset": 6}])

    assert planted.verdict("G2").observed == {"finals": 2, "early": 0, "unproven": unproven}


def test_between_two_landed_records_the_one_before_counts(planted):
    """
    Offset 5 is gone: 31 of offset 6 is no evidence for it, 26 of offset 4 is.
    """
    planted.run_first()
    causes = [{**B, "stream_time_ms": 31}, {**B, "offset": 2, "cause_offset": 6, "stream_time_ms": 31}]
    planted.run_second(landed=[(4, 26), (6, 31)], finals=causes)

    verdict = planted.verdict("G2")

    assert [(row["cause_offset"], row["highest_landed_ms"]) for row in verdict.witnesses] == [(5, 26)]


def test_a_later_landing_does_not_change_the_verdict(planted):
    planted.run_first(
        finals=[{**B, "window_start_ms": 0, "window_end_ms": 10, "cause_offset": 3, "stream_time_ms": 99}]
    )
    planted.land(2, [(4, 100)])

    assert planted.verdict("G2").observed == {"finals": 1, "early": 0, "unproven": 1}


def test_a_cause_in_a_partition_without_records_is_unproven(planted):
    planted.land(1, [(3, 15)], partition=1)
    planted.run(
        1, (0, 4), finals=[{**B, "cause_offset": 3}], books={"read": 0, "applied": 0, "dropped": 0, "undecodable": 0}
    )

    assert planted.verdict("G2").observed == {"finals": 1, "early": 0, "unproven": 1}


TWO_TOPICS = ReplayFacts(
    (SubTopologyFacts(0, (SourceTopic("clicks"), SourceTopic("views"))),),
    (FinalOutput("counts", 0, "time", wait_ms=5),),
)


@pytest.mark.parametrize(("stream_time_ms", "unproven"), [(40, 0), (41, 1)])
def test_with_two_inputs_the_highest_time_inside_the_cut_is_the_bound(planted, stream_time_ms, unproven):
    """
    The cause may be of either topic; views lands 40 inside the cut and 90 after it.
    """
    planted.land(1, [(0, 3), (1, 9)])
    planted.land(1, [(0, 40), (1, 90)], topic="views")
    plan = PlanRow(cut_to={"clicks": {"0": 2}, "views": {"0": 1}})
    planted.ledger.plan(1, plan, written_at_ms=1)
    final = {**B, "value": 1, "stream_time_ms": stream_time_ms, "cause_offset": 0, "record_time_ms": 12}
    from tests.expectations.conftest import COUNTS_SCHEMA

    version = planted.write(planted.tables.output("counts"), COUNTS_SCHEMA, 1, [final])
    planted.ledger.done(1, DoneRow(versions={"outputs/counts": version}), written_at_ms=1)

    assert planted.verdict("G2", facts=TWO_TOPICS).observed == {"finals": 1, "early": 0, "unproven": unproven}


def test_without_the_landed_table_the_answer_is_unknown(planted):
    planted.run(1, (0, 4), finals=[B], books={"read": 0, "applied": 0, "dropped": 0, "undecodable": 0})

    verdict = planted.verdict("G2")

    assert (verdict.answer, verdict.holds) == ("unknown", None)
    assert verdict.reason.endswith("expected a landed table of topic clicks, got no table; land the topic")


@pytest.mark.parametrize(("taken", "answer"), [(1, "false"), (2, "true")])
def test_a_recorded_time_proves_a_stream_time_once_an_increment_has_taken_it(planted, taken, answer):
    planted.run_first()
    planted.record(3, 35)
    planted.record(4, 40)
    planted.run_second(finals=[{**B, "cause_offset": -1, "stream_time_ms": 40}], recorded=taken)

    assert planted.verdict("G2").answer == answer
