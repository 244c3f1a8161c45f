"""Progress: one line an increment, or on a terminal one line that is drawn over."""

import io
import itertools
import shutil
from pathlib import Path

from jobs.replay import replay
from jobs.runner import LocalRunner
from orchestration.progress import Progress, unread_records
from state.tables import Warehouse
from tests.dagster import shop


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Half a second a look."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 0.5
        return self.seconds


def drive(warehouse: Warehouse, progress: Progress) -> None:
    settings = {"runner": LocalRunner(), "max_records": 4, "on_step": progress.on_step}
    for report in replay(warehouse, shop.topology(), pipeline="again", **settings):
        progress.on_report(report)
    progress.close()


def test_a_file_gets_one_line_an_increment(replayed, tmp_path):
    stream = io.StringIO()

    drive(copied(replayed, tmp_path), Progress(stream, 8, seconds=Clock()))

    assert stream.getvalue() == (
        "increment 1 · 4 of 8 records · 8/s · stream time 1970-01-01 00:00:00.200\n"
        "increment 2 · 8 of 8 records · 8/s · stream time 1970-01-01 00:00:00.400\n"
    )


def test_a_terminal_gets_a_bar_that_is_drawn_over(replayed, tmp_path, monkeypatch):
    stream = Terminal()
    monkeypatch.setenv("COLUMNS", "200")

    drive(copied(replayed, tmp_path), Progress(stream, 8, seconds=Clock()))

    drawn = stream.getvalue().split("\r")
    assert stream.getvalue().count("\n") == 1
    assert drawn[1].startswith("[------------]   0% increment 1 · 0 of 8 records · ")
    assert drawn[1].rstrip().endswith("/s · planned")
    assert drawn[-1].startswith("[############] 100% increment 2 · 8 of 8 records · ")
    assert drawn[-1].rstrip().endswith("stream time 1970-01-01 00:00:00.400 · done")
    for before, line in itertools.pairwise(drawn[1:]):
        assert len(line) >= len(before.rstrip()), "the end of the longer line before would stay"


def test_a_line_is_cut_to_the_width_of_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()

    Progress(stream, 8, seconds=Clock()).on_step("committed outputs/sessions 3")

    assert stream.getvalue() == "\r[------------]   0% increment 3 · 0 of "


def test_unread_records_are_those_behind_the_last_done_cut(replayed, tmp_path):
    assert unread_records(replayed, shop.topology(), "shop") == 0
    assert unread_records(replayed, shop.topology(), "another") == 8

    warehouse = copied(replayed, tmp_path)
    next(replay(warehouse, shop.topology(), pipeline="again", runner=LocalRunner(), max_records=3))
    assert unread_records(warehouse, shop.topology(), "again") == 5


def copied(warehouse: Warehouse, folder: Path) -> Warehouse:
    shutil.copytree(warehouse.root, folder / "copy")
    return Warehouse(folder / "copy")
