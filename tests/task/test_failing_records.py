"""A record on which a step fails stops the run, which names it, or becomes a dead letter, wherever the tape is cut."""

import pytest

from kstreams_replay.expectations.verdicts import check_increment
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_changelog, read_table
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, KStream, Serde, StreamsBuilder, TimeWindows, Topology
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.errors import ConfigError, TaskFailed, TopologyError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

STRING, LONG = Serde.string(), Serde.long()
WORDS = ["1", "x", "3", "", "5", "six", "7", "8"]
BAD = [1, 3, 5]
"""Offsets of the words that are no numbers."""

STEPS = {
    "expression": lambda stream, **how: stream.map_values("CAST(value AS BIGINT)", name="number", **how),
    "callable": lambda stream, **how: stream.map_values(lambda k, v: int(v), returns=LONG, name="number", **how),
    "filter": lambda stream, **how: stream.filter(lambda k, v: int(v) > 0, name="number", **how),
    "select_key": lambda stream, **how: stream.select_key(lambda k, v: int(v), returns=LONG, name="number", **how),
    "map": lambda stream, **how: stream.map(
        lambda k, v: (int(v), v), returns_key=LONG, returns=STRING, name="number", **how
    ),
    "flat_map_values": lambda stream, **how: stream.flat_map_values(
        lambda k, v: [int(v)], returns=LONG, name="number", **how
    ),
}


def topology(step=STEPS["expression"], **how) -> Topology:
    builder = StreamsBuilder()
    step(builder.stream("words", Consumed(STRING, STRING)), **how).to("numbers")
    return builder.build()


def replayed(warehouse: Warehouse, made: Topology, **options) -> list:
    plant(warehouse, "words", [LandedRecord(0, b"k", word.encode(), at) for at, word in enumerate(WORDS)], partitions=1)
    return list(replay(warehouse, made, pipeline="p", runner=LocalRunner(), **options))


@pytest.mark.parametrize("kind", STEPS)
def test_what_stops_a_run_names_topic_partition_offset_and_step(tmp_path, kind):
    with pytest.raises(TaskFailed) as caught:
        replayed(Warehouse(tmp_path), topology(STEPS[kind]))

    said = str(caught.value)
    assert said.startswith("number: expected ")
    assert "of the record words-0, offset 1; " in said
    assert ("with TRY_CAST a value that cannot be cast is null" in said) == (kind == "expression")
    assert 'on_error="dead_letter"' in said


@pytest.mark.slow
@pytest.mark.sampled("kind")
@pytest.mark.parametrize("max_records", [None, 1, 3])
@pytest.mark.parametrize("kind", STEPS)
def test_such_records_become_dead_letters_wherever_the_tape_is_cut(tmp_path, kind, max_records):
    warehouse, made = Warehouse(tmp_path), topology(STEPS[kind], on_error="dead_letter")

    reports = replayed(warehouse, made, max_records=max_records)

    letters = read_table(warehouse, "p", "dead_letter").to_pylist()
    assert [(row["offset"], row["node"], row["value"]) for row in letters] == [
        (offset, "number", WORDS[offset].encode()) for offset in BAD
    ]
    assert all(row["reason"].startswith("step: ") for row in letters)
    outputs = read_changelog(warehouse, "p", "numbers").to_pylist()
    assert [row["cause_offset"] for row in outputs] == [0, 2, 4, 6, 7]
    books = [report.books for report in reports]
    assert (sum(each.applied for each in books), sum(each.undecodable for each in books)) == (5, 3)
    verdicts = check_increment(warehouse, "p", replay_facts(made), engine="plain")
    assert {v.guarantee: v.answer for v in verdicts}["G3"] == "true"


def test_the_test_driver_has_the_dead_letters_too():
    driver = TopologyTestDriver(topology(on_error="dead_letter"), chunk_records=3)
    for at, word in enumerate(WORDS):
        driver.pipe_input("words", "k", word, timestamp_ms=at)

    assert [record.value for record in driver.read_outputs("numbers")] == [1, 3, 5, 7, 8]
    assert [letter.offset for letter in driver.dead_letters] == BAD
    assert all(letter.reason.startswith("step: ") for letter in driver.dead_letters)


def test_a_record_that_has_a_dead_letter_is_not_applied_or_dropped_as_well(tmp_path):
    """
    One branch takes what the step of the other fails on.
    """
    builder = StreamsBuilder()
    words = builder.stream("words", Consumed(STRING, STRING))
    words.to("all")
    STEPS["expression"](words, on_error="dead_letter").to("numbers")

    (report,) = replayed(Warehouse(tmp_path), builder.build())

    assert (report.books.applied, report.books.undecodable, report.books.balance) == (5, 3, True)
    assert report.outputs == {"all": 8, "numbers": 5}


def below_a_window(stream: KStream) -> KStream:
    return stream.group_by_key().windowed_by(TimeWindows.of_size(5)).count().to_stream()


def test_a_result_of_many_records_is_no_dead_letter():
    """
    It would not name its record.
    """
    builder = StreamsBuilder()
    counts = below_a_window(builder.stream("words", Consumed(STRING, STRING)))

    with pytest.raises(
        TopologyError, match=r"step that records reach straight from a topic .* put the step ahead of it"
    ):
        counts.map_values("value", name="number", on_error="dead_letter")


def test_a_step_below_what_an_earlier_part_hands_over_keeps_no_dead_letters():
    """
    Rows of the words were counted where they were written to ``marked``; their letters were lost.
    """
    builder = StreamsBuilder()
    words = builder.stream("words", Consumed(STRING, STRING))
    words.filter("value LIKE 's%'").to("marked")
    both = words.merge(builder.stream("marked", Consumed(STRING, STRING)), name="both")
    STEPS["callable"](both, on_error="dead_letter").to("numbers")

    with pytest.raises(TopologyError, match=r"number: .* got one below both, .* put the step ahead of both"):
        builder.build()


def test_an_unknown_answer_is_refused():
    with pytest.raises(ConfigError, match='number on_error: expected "stop" or "dead_letter", got \'skip\''):
        topology(on_error="skip")


def test_it_may_be_changed_without_another_topology():
    assert topology(on_error="dead_letter").fingerprint == topology().fingerprint
