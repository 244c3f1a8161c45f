"""Increments that followed each other, as one: sums, what ended it, and what has no sum."""

from typing import Any

from kstreams_replay.jobs.replay.increment_report import report_of
from kstreams_replay.jobs.replay.increments_as_one import as_one
from kstreams_replay.state.tables.ledger_rows import DoneRow, PlanRow


def books(read: int, dropped: int) -> dict[str, Any]:
    counts = {"read": read, "applied": read - dropped, "left_out": 0, "dropped": dropped, "undecodable": 0}
    return counts | {"windows_refused": 1, "dropped_by_reason": {"late": dropped}, "refused": {}}


def increment(cut: tuple[int, int], lateness: dict[str, int], **numbers: Any) -> tuple[PlanRow, DoneRow]:
    """An increment that read ``cut`` of partition 0 of `clicks`; ``lateness``: its records by how late they were."""
    read, late = cut[1] - cut[0], {int(late_ms): records for late_ms, records in lateness.items()}
    average = sum(late_ms * records for late_ms, records in late.items()) / read
    of_sub = {"0": {"avg": average, "max": max(late)}}
    done = DoneRow(
        books=books(read, 1) | {"by_sub_topology": {"0": books(read, 1)}},
        lateness=of_sub["0"],
        lateness_by_sub_topology=of_sub,
        lateness_counts_by_sub_topology={"0": lateness},
        **numbers,
    )
    return PlanRow(cut_from={"clicks": {"0": cut[0]}}, cut_to={"clicks": {"0": cut[1]}}, records=read), done


FIRST = increment(
    (0, 3), {"0": 2, "30": 1}, outputs={"pages": 4}, seconds={"plan": 1.0}, requests={"GET": 2}, rss_bytes_max=9,
    operators={"held": {"emitted": 4, "count_current": 7, "count_max": 8, "count_avg": 6.0, "overtime_min_ms": None}},
)  # fmt: skip
SECOND = increment(
    (3, 4), {"10": 1}, outputs={"pages": 1, "more": 2}, seconds={"plan": 0.5, "compute": 2.0}, rss_bytes_max=5,
    operators={"held": {"emitted": 1, "count_current": 2, "count_max": 7, "count_avg": 3.0, "overtime_min_ms": 5}},
)  # fmt: skip


def test_what_was_read_written_and_spent_is_summed():
    plan, done = as_one([FIRST, SECOND])
    report = report_of(2, plan, done)

    assert (report.cut_from, report.cut_to) == ({"clicks": {"0": 0}}, {"clicks": {"0": 4}})
    assert (report.books.read, report.books.applied, report.books.dropped) == (4, 2, 2)
    assert report.books_by_sub_topology["0"].dropped_by_reason == {"late": 2}
    assert report.outputs == {"pages": 5, "more": 2}
    assert report.seconds == {"plan": 1.5, "compute": 2.0}
    assert (report.requests, report.rss_bytes_max) == ({"GET": 2}, 9)


def test_the_lateness_is_that_of_all_records():
    """Of 0, 0, 30 and 10 ms."""
    report = report_of(2, *as_one([FIRST, SECOND]))

    assert report.lateness_by_sub_topology == {"0": {"avg": 10.0, "max": 30}}
    assert [report.lateness_percentile_ms("0", percent) for percent in (50, 75, 99)] == [0, 10, 30]


def test_of_an_operator_the_last_count_the_largest_and_what_was_emitted():
    """No average: nobody has counted of how much each was."""
    report = report_of(2, *as_one([FIRST, SECOND]))

    assert report.operators == {
        "held": {"emitted": 5, "count_current": 2, "count_max": 8, "count_avg": None, "overtime_min_ms": 5}
    }


def test_one_increment_is_itself():
    assert as_one([FIRST]) == FIRST
