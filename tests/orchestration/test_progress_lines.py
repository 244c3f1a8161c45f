"""Progress as people see it: lines in a file, one line that is drawn over on a terminal, and Dagster's log."""

import io
import re
import threading

import dagster as dg
import pytest

from kstreams_replay.jobs.replay.progress import Progress
from kstreams_replay.orchestration import progress_lines
from kstreams_replay.orchestration.progress_lines import ProgressLines, progress_on
from tests.dagster import shop


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(done: int, step: str, *, increment: int = 3, stream_time_ms: int = 1_400) -> Progress:
    return Progress(increment, done, 8_000, 2_000.4, stream_time_ms, step)


def test_lines_come_at_the_end_of_an_increment_and_every_ten_seconds_within_a_long_one():
    got, clock = [], iter([0.0, 9.9, 10.0, 10.1, 19.9, 20.0, 20.5])
    lines = ProgressLines(got.append, seconds=lambda: next(clock))

    for done, step in enumerate(["planned", "sub-topology 0", "done", "planned", "computed", "done"]):
        lines.show(told(done * 1_000, step))

    assert got == [
        "increment 3 · 1,000 of 8,000 records · 2,000/s · stream time 1970-01-01 00:00:01.400 · sub-topology 0",
        "increment 3 · 2,000 of 8,000 records · 2,000/s · stream time 1970-01-01 00:00:01.400",
        "increment 3 · 5,000 of 8,000 records · 2,000/s · stream time 1970-01-01 00:00:01.400",
    ]


def test_lines_count_what_is_waited_for_every_ten_seconds_and_at_its_end():
    got, clock = [], iter([0.0, 9.9, 10.0, 10.0, 10.1])
    lines = ProgressLines(got.append, seconds=lambda: next(clock, 11.0))

    for done in (0, 1, 3):
        lines.count("compiling kernels", done, 3)

    assert got == ["compiling kernels 1 of 3", "compiling kernels 3 of 3"]


def test_what_takes_long_is_named_after_three_seconds_and_then_every_ten(monkeypatch):
    monkeypatch.setattr(progress_lines, "SILENCE_SECONDS", 3.0)
    got, now = [], [0.0]
    lines = ProgressLines(got.append, seconds=lambda: now[0])

    def look_until(second: int) -> None:
        while now[0] < second:
            now[0] += 0.5
            lines.look()

    lines._begin("starting Spark", 0.0)
    look_until(2)
    assert got == []
    look_until(20)
    lines._begin("planning the first increment", 20.0)
    look_until(22)
    lines.show(told(1_000, "planned"))
    look_until(26)

    assert got == [
        "starting Spark · for 3 s",
        "starting Spark · for 13 s",
        "increment 3 · 1,000 of 8,000 records · 2,000/s · stream time 1970-01-01 00:00:01.400 · planned · for 3 s",
    ]


def test_a_thread_looks_until_the_lines_are_closed(monkeypatch):
    monkeypatch.setattr(progress_lines, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(progress_lines, "SILENCE_SECONDS", 0.0)
    said = threading.Event()
    lines = ProgressLines(lambda line: said.set())

    for _ in range(2):
        before = set(threading.enumerate())
        lines.doing("starting Spark")
        assert said.wait(60)
        (watch,) = [new for new in set(threading.enumerate()) - before if new.name == "replay-progress"]
        lines.close()
        watch.join(60)
        assert not watch.is_alive()
        said.clear()
        lines._written = 0.0


def test_a_terminal_names_what_takes_long_at_once(monkeypatch):
    stream = Terminal()
    monkeypatch.setenv("COLUMNS", "200")
    bar = progress_on(stream)

    bar.doing("starting Spark")
    bar.count("compiling kernels", 12, 12)
    bar.close()

    assert drawn(stream)[0].endswith("starting Spark")
    assert drawn(stream)[-1].endswith("100% compiling kernels 12 of 12")


def test_a_terminal_counts_what_is_waited_for_in_its_bar(monkeypatch):
    stream = Terminal()
    monkeypatch.setenv("COLUMNS", "200")
    bar = progress_on(stream)

    for done in (0, 6, 12):
        bar.count("compiling kernels", done, 12)
    bar.close()

    lines = drawn(stream)
    assert [words for words in ("0%", "50%", "100%") if any(f" {words} " in line for line in lines)] == [
        "0%", "50%", "100%",
    ]  # fmt: skip
    assert lines[-1].endswith("100% compiling kernels 12 of 12")


def test_before_the_first_record_there_is_no_stream_time():
    got = []

    ProgressLines(got.append).show(told(0, "done", stream_time_ms=-1))

    assert got == ["increment 3 · 0 of 8,000 records · 2,000/s"]


def test_a_terminal_gets_a_bar_that_is_drawn_over(monkeypatch):
    stream = Terminal()
    monkeypatch.setenv("COLUMNS", "200")
    bar = progress_on(stream)

    for done, step in [(0, "planned"), (4_000, "committed outputs/x"), (8_000, "done")]:
        bar.show(told(done, step))
    bar.close()
    bar.close()

    numbers = "2,000/s · stream time 1970-01-01 00:00:01.400"
    lines = list(dict.fromkeys(line[line.index("%") - 3 :] for line in drawn(stream)))
    assert lines == [
        f"  0% increment 3 · 0 of 8,000 records · {numbers} · planned",
        f" 50% increment 3 · 4,000 of 8,000 records · {numbers} · committed outputs/x",
        f"100% increment 3 · 8,000 of 8,000 records · {numbers} · done",
    ]
    assert stream.getvalue().count("\n") == 1


def test_a_line_is_cut_to_the_width_of_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    stream = Terminal()

    bar = progress_on(stream)
    bar.show(told(0, "committed outputs/sessions"))
    bar.close()

    assert {len(line) <= 60 for line in drawn(stream)} == {True}
    assert drawn(stream)[-1].endswith("  0% increment 3 · 0 of 8,000 records · 2,00…")


def drawn(stream: Terminal) -> list[str]:
    """What was on the terminal's line, one after the other, without colours."""
    plain = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", stream.getvalue())
    return [line.rstrip() for line in plain.splitlines() if "━" in line]


@pytest.mark.slow
def test_dagsters_log_has_a_line_for_every_increment(tmp_path):
    shop.drop_files(tmp_path / "clicks", "1-morning", shop.MORNING)
    job = shop.definitions(tmp_path, max_records=4, check_engine="plain").resolve_job_def("shop_replay")

    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance)
        messages = [each.user_message for each in instance.all_logs(result.run_id)]

    messages = [message for message in messages if re.search(r" records · .* stream time [\d.: -]+$", message)]
    assert [message.split("/s")[0].rpartition(" ")[0] for message in messages] == [
        "increment 1 · 4 of 6 records ·",
        "increment 2 · 6 of 6 records ·",
    ]
