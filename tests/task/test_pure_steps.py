"""A step with chance or a counter is reported: with its name and the first record about which its answers differ."""

import itertools

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.orchestration.cli.run_outcome import warnings_of
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

STRING, LONG = Serde.string(), Serde.long()


def numbered(*, is_pure: bool) -> Topology:
    """A counter in a step, or a function that remembers what it answered, which no record shows."""
    numbers, known = itertools.count(), dict[str, int]()

    def number(key: str, value: str) -> int:
        return known.setdefault(value, len(known)) if is_pure else next(numbers)

    builder = StreamsBuilder()
    words = builder.stream("words", Consumed(STRING, STRING))
    words.filter("value <> 'b'").map_values(number, returns=LONG, name="number").to("numbers")
    return builder.build()


def land(warehouse: Warehouse) -> None:
    plant(
        warehouse, "words", [LandedRecord(0, b"k", word.encode(), at) for at, word in enumerate("abcdef")], partitions=1
    )


@pytest.mark.parametrize("is_pure", [True, False])
def test_a_counter_in_a_step_is_told_of_at_the_first_increment(tmp_path, is_pure):
    warehouse = Warehouse(tmp_path)
    land(warehouse)

    first, second = replay(warehouse, numbered(is_pure=is_pure), pipeline="p", runner=LocalRunner(), max_records=3)

    said = (
        "step number does not answer alike twice: of the record words-0, offset 0, it gave key 'k', value 0, and then "
        "key 'k', value 2; the variable 'numbers' changes while records are processed; keep it in a store; "
        "functions must be pure"
    )
    assert warnings_of([first]) == ([] if is_pure else [said])
    assert warnings_of([second]) == []  # it is asked once


def test_a_step_that_drops_by_chance_is_told_of(tmp_path):
    warehouse, turns = Warehouse(tmp_path), itertools.count()
    land(warehouse)
    builder = StreamsBuilder()
    words = builder.stream("words", Consumed(STRING, STRING))
    words.filter(lambda key, value: next(turns) % 4 == 0, name="some").to("some")

    (report,) = replay(warehouse, builder.build(), pipeline="p", runner=LocalRunner())

    (warning,) = warnings_of([report])
    assert warning.startswith("step some does not answer alike twice: of the record words-0, offset ")
