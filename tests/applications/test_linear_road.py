"""A few cars on one expressway, by the benchmark's rules, with tolls where there is more than one car."""

import pytest

from kstreams_replay import StreamsBuilder
from tests.applications import linear_road as road
from tests.playing import InputRecord, assert_plays


def report(time_s, vid, seg, speed, *, lane=1, pos=0):
    segment = {"xway": 0, "seg": seg, "dir": 0}
    return InputRecord(
        "positions", segment, {"time_s": time_s, "vid": vid, "speed": speed, "lane": lane, "pos": pos}, 0
    )


def at(seg):
    return {"xway": 0, "seg": seg, "dir": 0}


def car(vid):
    return {"vid": vid, "xway": 0, "dir": 0}


def crossing(vid, time_s, seg, predecessor_s=None):
    value = {"time_s": time_s, "seg": seg, "lane": 1, "predecessor_s": predecessor_s}
    return car(vid), value, time_s * 1000


def test_the_first_report_of_a_car_in_a_segment_is_a_crossing(tmp_path):
    builder = StreamsBuilder()
    road.crossings(builder)
    tape = [
        report(0, 1, 10, 30),
        report(10, 2, 10, 30),
        report(30, 1, 10, 30),
        report(40, 2, 11, 30),
        report(60, 1, 11, 30),
        report(100, 1, 11, 30),  # ten seconds late: nobody knows where it was 30 s ago
    ]
    wanted = [
        crossing(1, 0, 10),
        crossing(2, 10, 10),
        crossing(2, 40, 11, 10),
        crossing(1, 60, 11, 0),
        crossing(1, 100, 11, 60),
    ]
    assert_plays(builder.build(), tape, {"segment-crossings": wanted}, tmp_path)


SLOW = [report(time_s, vid, 10, speed) for time_s in (0, 30, 60) for vid, speed in ((1, 30), (2, 20))]


def test_the_toll_of_a_segment_is_that_of_the_minute_before(tmp_path):
    """At 70 s the first minute is over: five reports of two cars, at 26 on average."""
    builder = StreamsBuilder()
    road.tolls(builder, 1)
    tape = [*SLOW[:-1], report(70, 2, 10, 20)]
    wanted = {
        "numbers-of-cars": [(at(10), {"minute": 1, "cars": 2}, 60_000)],
        "average-speeds": [
            (at(10), {"minute": 0, "end_minute": 0, "speed": 25.0}, 0),
            (at(10), {"minute": 1, "end_minute": 1, "speed": 26.0}, 60_000),
        ],
        "current-tolls": [(at(10), {"minute": 2, "toll": 2.0, "speed": 26.0}, 120_000)],
    }
    assert_plays(builder.build(), tape, wanted, tmp_path)


@pytest.mark.nightly
def test_who_enters_behind_an_accident_is_notified(tmp_path):
    """Two cars do not move for four reports, until 90 s: an accident of the second minute. In the third minute all are
    notified who enter its segment or one of the four before, except those that exit.
    """
    builder = StreamsBuilder()
    found = road.accidents(builder)
    road.accident_notifications(road.crossings(builder), found)
    stopped = [report(time_s, vid, 14, 0, pos=77) for time_s in (0, 30, 60, 90, 120, 150) for vid in (5, 6)]
    tape = [
        *stopped,
        report(160, 7, 13, 60),
        report(165, 8, 13, 60, lane=4),
        report(170, 9, 9, 60),  # too far behind it
    ]
    wanted = {
        "accidents": [(at(seg), {"minute": 2}, 120_000) for seg in (14, 13, 12, 11, 10)],
        "accident-notifications": [(None, {"time_s": 160, "seg": 13})],
    }
    assert_plays(builder.build(), tape, wanted, tmp_path)


@pytest.mark.nightly
def test_a_car_is_notified_of_the_toll_where_it_enters_and_pays_it_where_it_leaves(tmp_path):
    tape = [
        *SLOW,
        report(90, 2, 10, 20),
        report(100, 3, 10, 50),
        report(130, 3, 11, 50),
        InputRecord("account-balance-requests", 3, {"time_s": 140, "query": 7}, 140_000),
        InputRecord("account-balance-requests", 4, {"time_s": 140, "query": 8}, 140_000),
        InputRecord("toll-history", {"xway": 0, "vid": 3, "day": 9}, 12.5, 0),
        InputRecord("daily-expenditure-requests", 3, {"query": 9, "xway": 0, "day": 9}, 1),
        InputRecord("daily-expenditure-requests", 4, {"query": 10, "xway": 0, "day": 9}, 2),
    ]
    wanted = {
        "toll-notifications": [(at(10), {"vid": 3, "time_s": 100, "speed": 25.0, "toll": 2.0})],
        "account-balances": [
            (3, {"time_s": 140, "query": 7, "paid": 2.0}),
            (4, {"time_s": 140, "query": 8, "paid": 0.0}),
        ],
        "daily-expenditures": [
            ({"xway": 0, "vid": 3, "day": 9}, {"query": 9, "paid": 12.5}),
            ({"xway": 0, "vid": 4, "day": 9}, {"query": 10, "paid": 0.0}),
        ],
    }
    assert_plays(road.topology(least_cars=1), tape, wanted, tmp_path)
