"""assert_outputs: what is equal passes, what differs is shown with its neighbours and its cause."""

import re
import subprocess
import sys
import tomllib

import pytest

from kstreams_replay import (
    Consumed,
    Serde,
    StreamsBuilder,
    TestRecord,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    Windowed,
    assert_outputs,
)
from kstreams_replay.jobs.testing import pytest_plugin
from kstreams_replay.state.errors import ConfigError
from tests.source_tree import ROOT, text_of


def counted() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), Serde.long()))
    large = stream.filter("value > 1", name="large")
    large.group_by("value").count().to_stream().to("counts")
    stream.group_by_key().windowed_by(TimeWindows.of_size(10)).count().to("windows")
    builder.stream("other", Consumed(Serde.string(), Serde.long())).to("copies")
    return builder.build()


def piped() -> TopologyTestDriver:
    driver = TopologyTestDriver(counted(), auto_advance=1)
    driver.pipe_values("in", [5, 1])
    driver.read_output("copies")
    driver.pipe_key_values("in", [("k", 7), ("k", 5), ("k", 7)])
    driver.pipe_input("other", "o", 9, headers=[("trace", b"x")])
    return driver


def refused(driver: TopologyTestDriver, topic: str, expected: list[object]) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_outputs(driver, topic, expected)
    return str(caught.value)


def test_equal_records_pass_with_as_much_as_was_expected():
    driver = piped()
    assert_outputs(driver, "counts", [(5, 1), (7, 1), (5, 2), (7, 2)])
    assert_outputs(driver, "counts", [])
    assert_outputs(driver, "copies", [TestRecord("o", 9, headers=[("trace", b"x")])])
    assert_outputs(piped(), "copies", [("o", 9, 5)])
    assert_outputs(piped(), "windows", [(Windowed("k", 0, 10), n, n + 1) for n in (1, 2, 3)])
    assert_outputs(piped(), "counts", piped().read_outputs("counts"))


@pytest.mark.slow
def test_the_first_record_that_differs_is_shown_and_explained():
    said = refused(piped(), "counts", [(5, 1), (7, 1), (5, 3), (7, 2)]).splitlines()

    assert said[:7] == [
        "output 'counts' differs at record 2 (from 0): 4 expected, 4 got",
        "    key | value",
        "    5   | 1",
        "    7   | 1",
        "  - 5   | 3",
        "  + 5   | 2",
        "    7   | 2",
    ]
    assert said[7] == "The first record that differs came of in:0:3:"
    assert said[8:10] == ["    KSTREAM-SOURCE-0000000000: read: 'k' = 5, time 3", "    large: passes"]
    assert said[-3:] == [
        "    KSTREAM-AGGREGATE-0000000004: 5: 1 -> 2",
        "    KTABLE-TOSTREAM-0000000008: goes on",
        "    KSTREAM-SINK-0000000009: writes outputs/counts offset 2: 5 = 2, time 3",
    ]


def test_a_record_that_is_missing_and_one_too_many_are_told_apart():
    missing = refused(piped(), "copies", [("o", 9), ("p", 9)])
    too_many = refused(piped(), "copies", [])

    assert missing == (
        "output 'copies' differs at record 1 (from 0): 2 expected, 1 got\n    key | value\n    'o' | 9\n  - 'p' | 9"
    )
    assert too_many.startswith(
        "output 'copies' differs at record 0 (from 0): 0 expected, 1 got\n    key | value\n  + 'o' | 9\n"
        "The first record that differs came of other:0:0:"
    )


@pytest.mark.slow
def test_times_and_headers_are_compared_where_they_are_expected():
    assert "  - 'o' | 9     | 6\n  + 'o' | 9     | 5" in refused(piped(), "copies", [("o", 9, 6)])
    expected = [TestRecord("o", 9, headers=[("trace", b"y")])]
    assert "(('trace', b'y'),)" in refused(piped(), "copies", expected)


def test_only_the_neighbours_of_what_differs_are_shown():
    driver = TopologyTestDriver(counted())
    driver.pipe_values("other", range(20))
    said = refused(driver, "copies", [(None, 99 if n == 10 else n) for n in range(20)])

    assert re.findall(r"^  [ +-] None \| (\d+)$", said, re.MULTILINE) == [*"789", "99", "10", "11", "12", "13"]


def test_advanced_stream_time_is_not_explained_and_the_difference_still_shown():
    driver = piped()
    driver.advance_stream_time("other", 50)

    assert refused(driver, "copies", []).splitlines()[-1] == (
        "The record that it came of is not explained: explanation: expected records alone, got advance_stream_time; "
        "land the records, and ask replay explain"
    )


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ([("o", 9, 1), ("o", 9)], "expected records: expected times in all of them or in none, got 1 of 2 with a time"),
        ([5], "expected record: expected (key, value), (key, value, timestamp_ms) or a TestRecord, got 5"),
    ],
)
def test_what_is_no_expected_record_is_refused(expected, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        assert_outputs(piped(), "copies", expected)


def test_nan_is_expected_where_it_came():
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.json("of array<double>"))).to("out")
    driver = TopologyTestDriver(builder.build())
    value = {"of": [float("nan"), 1.0]}
    driver.pipe_input("in", "a", value)
    assert_outputs(driver, "out", [("a", value)])
    driver.pipe_input("in", "a", {"of": [1.0, 1.0]})
    assert "differs at record 0" in refused(driver, "out", [("a", value)])


def test_times_that_were_extracted_are_not_extracted_again_to_explain():
    def later(record):
        return record.timestamp_ms + 1_000

    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.long(), timestamp_extractor=later)).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1, timestamp_ms=0)
    message = refused(driver, "out", [("a", 2)])

    assert "1000" in message
    assert "2000" not in message


# --- the fixture ---------------------------------------------------------------------------------------------


def test_pytest_finds_the_fixture_by_its_entry_point():
    points = tomllib.loads(text_of("pyproject.toml"))["project"]["entry-points"]["pytest11"]

    assert list(points.values()) == [pytest_plugin.__name__]


USER = """
from kstreams_replay import Consumed, Serde, StreamsBuilder

def divided():
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), Serde.long()))
    stream.map_values(lambda value: 60 // value, returns=Serde.long()).to("out")
    return builder.build()

def test_right(topology_test_driver):
    driver = topology_test_driver(divided(), auto_advance="1s")
    driver.pipe_values("in", [5, 6])
    assert [record.timestamp_ms for record in driver.read_outputs("out")] == [0, 1000]

def test_nobody_reads(topology_test_driver):
    topology_test_driver(divided()).pipe_input("in", "a", 0)
"""


@pytest.mark.slow
def test_the_fixture_closes_its_drivers_after_the_test(tmp_path):
    (tmp_path / "test_user.py").write_text(USER)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]  # the entry point loads it

    said = subprocess.run([*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False).stdout

    assert "2 passed, 1 error" in said
    assert "it came with the record in-0 at offset 0: key 'a', value 0" in said
