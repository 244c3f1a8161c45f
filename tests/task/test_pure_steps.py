"""A step with chance or a counter is reported: with its name and the first record about which its answers differ."""

import functools
import itertools
import random

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_table
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
        return known.setdefault(value, ord(value)) if is_pure else next(numbers)

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


@pytest.mark.parametrize("is_cached", [True, False])
def test_what_a_function_remembers_of_records_is_told_of(tmp_path, is_cached):
    """It numbers words by when they came first. In another process "b", in the second piece, comes first."""
    warehouse, seen = Warehouse(tmp_path), list[str]()
    plant(
        warehouse, "words", [LandedRecord(0, b"k", word.encode(), at) for at, word in enumerate("abcbca")], partitions=1
    )

    def first_seen(value: str) -> int:
        if is_cached or value not in seen:
            seen.append(value)
        return seen.index(value) if is_cached else len(seen)

    number = functools.cache(first_seen) if is_cached else first_seen
    builder = StreamsBuilder()
    words = builder.stream("words", Consumed(STRING, STRING))
    words.map_values(lambda value: number(value), returns=LONG, name="number").to("numbers")

    (report,) = replay(warehouse, builder.build(), pipeline="p", runner=LocalRunner())

    (warning,) = warnings_of([report])
    assert "; the variable 'seen' changes while records are processed; keep it in a store" in warning
    rows = read_table(warehouse, "p", "outputs/numbers").sort_by("offset").to_pylist()
    assert [row["value"] for row in rows] == ([0, 1, 2, 1, 2, 0] if is_cached else [1, 2, 3, 3, 3, 3])


def test_a_cache_that_hides_chance_may_be_what_changes(tmp_path):
    """A function without parameters keeps what it has cached, as a model that was loaded once."""
    warehouse = Warehouse(tmp_path)
    land(warehouse)

    @functools.cache
    def number(value: str) -> int:
        return random.getrandbits(62)

    @functools.cache
    def model() -> int:
        with open(tmp_path / "loads", "a") as file:
            file.write("x")
        return 0

    builder = StreamsBuilder()
    words = builder.stream("words", Consumed(STRING, STRING))
    words.map_values(lambda value: number(value) + model(), returns=LONG, name="number").to("numbers")

    (report,) = replay(warehouse, builder.build(), pipeline="p", runner=LocalRunner())

    (warning,) = warnings_of([report])
    assert warning.endswith(
        "; the cache of number() may change while records are processed; keep it in a store; functions must be pure"
    )
    assert (tmp_path / "loads").read_text() == "x"
