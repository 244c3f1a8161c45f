"""A re-run that differs from what its increment committed says so: functions that count or look outside, not pure ones.

What they look at is a variable of the environment, since a value that is part of the code would be other code.
"""

import os
import re

from kstreams_replay.jobs.explain.explanation import explain
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.topology import StreamsBuilder, Suppressed, TimeWindows, Topology
from tests.explain.explained import STRING, Tape, played, stream

TAPE: Tape = [("a", "x", 3), ("b", "y", 4), ("a", "z", 30)]


def outside() -> str:
    return os.environ["OUTSIDE"]


def called() -> int:
    os.environ["OUTSIDE"] = str(int(outside()) + 1)
    return int(outside())


def numbered() -> Topology:
    builder = StreamsBuilder()
    stream(builder).map_values(lambda key, value: f"{value}{called()}", returns=STRING).to("out")
    return builder.build()


def kept() -> Topology:
    builder = StreamsBuilder()
    stream(builder).filter(lambda key, value: outside() == "yes").to("out")
    return builder.build()


def suppressed() -> Topology:
    builder = StreamsBuilder()
    words = stream(builder).map_values(lambda key, value: value + outside(), returns=STRING)
    windowed = words.group_by_key().windowed_by(TimeWindows.of_size(10, grace=5))
    longest = windowed.reduce(lambda one, other: max(one, other))
    longest.suppress(Suppressed.until_window_closes(name="final")).to("out")
    return builder.build()


def late() -> Topology:
    """Whether b moves the time on decides whether what comes after it is late."""
    builder = StreamsBuilder()
    taken = stream(builder).filter(lambda key, value: key != "b" or outside() == "yes")
    taken.group_by_key().windowed_by(TimeWindows.of_size(10, grace=5)).count(name="counts")
    return builder.build()


def test_a_counter_is_told_with_the_row_the_committed_value_and_that_of_the_rerun(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTSIDE", "0")
    warehouse = played(tmp_path, numbered(), {"in": TAPE})
    committed = read_table(warehouse, "p", "outputs/out")["value"].to_pylist()
    monkeypatch.setenv("OUTSIDE", "100")

    told = explain(warehouse, "p", numbered(), "in:0:1").difference

    pattern = r"increment 1 committed: outputs/out 0:1 has value '(\w+)', the re-run writes value 'y(\d+)'\. "
    found = re.search(pattern, told or "")
    assert found is not None
    assert found[1] == committed[1]
    assert int(found[2]) > 100
    assert "Functions must be pure" in told


def test_a_row_that_only_the_table_has_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTSIDE", "yes")
    warehouse = played(tmp_path, kept(), {"in": TAPE})
    monkeypatch.setenv("OUTSIDE", "no")

    told = explain(warehouse, "p", kept(), "in:0:2").difference or ""

    assert "outputs/out 0:2 has offset 2, " in told
    assert "the re-run writes no such row" in told


def test_a_row_that_only_the_rerun_has_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTSIDE", "no")
    warehouse = played(tmp_path, kept(), {"in": TAPE})
    monkeypatch.setenv("OUTSIDE", "yes")

    told = explain(warehouse, "p", kept(), "in:0:2").difference or ""

    assert "outputs/out 0:2 has no such row, the re-run writes offset 2, " in told


def test_a_result_that_waited_for_a_later_record_is_compared_too(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTSIDE", "1")
    warehouse = played(tmp_path, suppressed(), {"in": TAPE})

    assert explain(warehouse, "p", suppressed(), "in:0:0").difference is None
    monkeypatch.setenv("OUTSIDE", "2")
    told = explain(warehouse, "p", suppressed(), "in:0:0").difference or ""

    assert "outputs/out 0:0 has value 'x1', the re-run writes value 'x2'" in told


def test_a_record_that_was_refused_and_is_taken_now_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTSIDE", "yes")
    warehouse = played(tmp_path, late(), {"in": [("a", "x", 3), ("b", "y", 30), ("a", "z", 4)]})

    assert explain(warehouse, "p", late(), "in:0:2").difference is None
    monkeypatch.setenv("OUTSIDE", "no")
    told = explain(warehouse, "p", late(), "in:0:2").difference or ""

    assert "dropped 0:2 has sub_topology 0, " in told
    assert "the re-run writes no such row" in told
