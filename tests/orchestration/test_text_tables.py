"""Small tables as text, and on a terminal."""

import io
import re
import sys
from decimal import Decimal

import pytest

from kstreams_replay.orchestration.text_tables import flat_row, print_table, text_table, utc

EPOCH = "1970-01-01 00:00:00"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_numbers_stand_to_the_right_and_text_to_the_left():
    got = text_table([{"name": "ann", "count": 7}, {"name": "b", "count": 12345, "more": None}])

    want = """\
name  count  more
----  -----  ----
ann       7
b     12345"""
    assert got == want


def test_counts_get_separators_when_they_are_asked_for():
    assert text_table([{"read": 1234567, "share": 0.12345}], thousands=True).splitlines()[-1] == "1,234,567  0.123"


def test_a_struct_becomes_columns_that_keep_apart_from_those_that_are_there():
    row = {"key": {"user": "ann", "shop": 1}, "value": {"user": "bob", "count": 2}, "record_time_ms": 1500}

    want = {"user": "ann", "shop": 1, "value.user": "bob", "count": 2, "record_time": "1970-01-01 00:00:01.500"}
    assert flat_row(row) == want


@pytest.mark.parametrize(
    ("row", "want"),
    [
        (
            {"value": {"record_time": 5}, "record_time_ms": 0},
            {"value.record_time": 5, "record_time": "1970-01-01 00:00:00"},
        ),
        ({"end_ms": 0, "end": "x"}, {"end_ms": "1970-01-01 00:00:00", "end": "x"}),
        ({"end_ms": None, "value": {"end": 1}}, {"end": None, "value.end": 1}),
        ({"avg_ms": 1500.5, "sum_ms": Decimal("7.5")}, {"avg": "1970-01-01 00:00:01.500", "sum": f"{EPOCH}.007"}),
        ({"none_ms": float("nan"), "word_ms": "late"}, {"none": "nan ms", "word": "late"}),
    ],
)
def test_no_column_takes_the_place_of_another_and_only_numbers_become_times(row, want):
    assert flat_row(row) == want


@pytest.mark.parametrize(
    ("time_ms", "want"),
    [
        (0, "1970-01-01 00:00:00"),
        (1_357_018_620_000, "2013-01-01 05:37:00"),
        (-1, "1969-12-31 23:59:59.999"),
        (2**62, f"{2**62} ms"),
    ],
)
def test_a_time_is_shown_in_utc_and_one_that_no_calendar_has_in_milliseconds(time_ms, want):
    assert utc(time_ms) == want


def test_a_long_value_is_cut_unless_the_table_is_wide():
    row = {"key": "x" * 50}

    assert text_table([row]).splitlines()[-1] == "x" * 39 + "…"
    assert text_table([row], wide=True).splitlines()[-1] == "x" * 50


def test_what_a_terminal_would_obey_is_shown_as_text():
    assert text_table([{"key": "a\x1b[2Jb\nc"}]).splitlines()[2:] == ["a\\x1b[2Jb\\nc"]


def test_a_narrow_terminal_cuts_text_and_no_number(monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "xterm")

    print_table([{"name": "y" * 39, "count": 1_234_567_890, "late": 7}], thousands=True)

    row = re.sub(r"\x1b\[[\d;]*m", "", terminal.getvalue()).splitlines()[-1]
    assert len(row.rstrip()) <= 30
    assert row.split()[0].endswith("y…")
    assert row.split()[1:] == ["1,234,567,890", "7"]


def test_a_terminal_gets_the_same_cells_drawn_by_rich(monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    rows = [{"name": "[red]ann[/red]", "count": 1234}, {"name": "y" * 39, "count": 7}]

    print_table(rows, thousands=True)

    lines = re.sub(r"\x1b\[[\d;]*m", "", terminal.getvalue()).splitlines()
    assert [line.split() for line in (lines[0], *lines[2:])] == [
        ["name", "count"], ["[red]ann[/red]", "1,234"], ["y" * 39, "7"],
    ]  # fmt: skip
    assert "\x1b[1m" in terminal.getvalue(), "the header is bold"
