"""Durations in words, and what is said of increments that another topology made, or that read nothing."""

import pytest

from kstreams_replay import Consumed, Serde, StreamsBuilder
from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.orchestration.metadata import duration_in_words, increment_metadata, refusals_metadata
from kstreams_replay.orchestration.pipeline import REFUSALS, Pipeline
from kstreams_replay.orchestration.reported_increments import INCREMENT, NOTHING_NEW, TABLE
from kstreams_replay.orchestration.resources import LocalEngine
from tests.planted import LandedRecord, plant

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("duration_ms", "words"),
    [
        (0, "0 ms"),
        (16.4, "16 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (61_500, "1 min 1 s"),
        (3 * HOUR + 20 * 60_000 + 5_000, "3 h 20 min"),
        (25 * HOUR, "1 d 1 h"),
        (24 * HOUR + 5, "1 d"),
        (2_400 * HOUR * 24, "2,400 d"),
    ],
)
def test_a_duration_is_told_in_its_two_largest_units(duration_ms, words):
    assert duration_in_words(duration_ms) == words


def pages(*outputs):
    """Outputs by the topic that each copies."""
    builder = StreamsBuilder()
    for topic, output in outputs:
        builder.stream(topic, Consumed(Serde.string(), Serde.string())).to(output)
    return builder.build()


def said_of(warehouse, topology, pipeline="p"):
    """Of the first increment, by table."""
    mine = Pipeline(pipeline, topology=topology, storage=warehouse, engine=LocalEngine())
    said = {table.name: increment_metadata(mine, sub, table, 1) for sub, table in mine.all_tables()}
    return said | {name: refusals_metadata(mine, name, 1) for name in REFUSALS}


@pytest.fixture
def two_topics(warehouse):
    plant(warehouse, "clicks", [LandedRecord(0, b"a", b"x", 5)] * 3, partitions=1)
    plant(warehouse, "orders", [LandedRecord(0, b"a", b"x", 5)], partitions=1)
    topology = pages(("clicks", "pages"), ("orders", "carts"))
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner()))
    return warehouse


def test_numbers_of_sub_topologies_are_left_out_of_an_increment_of_another_topology(two_topics):
    same = said_of(two_topics, pages(("clicks", "pages"), ("orders", "carts")))
    swapped = said_of(two_topics, pages(("orders", "carts"), ("clicks", "pages")))

    assert [same[f"outputs/{name}"]["records_read"] for name in ("pages", "carts")] == [3, 1]
    assert not {"records_read", "lateness_max_ms", "stream_time_ms"} & set(swapped["outputs/pages"])
    assert [swapped[f"outputs/{name}"]["records_emitted"] for name in ("pages", "carts")] == [3, 1]


def test_an_output_that_changed_code_has_added_has_nothing_of_an_increment_before(two_topics):
    more = said_of(two_topics, pages(("clicks", "pages"), ("orders", "carts"), ("orders", "more")))

    assert more["outputs/more"].items() >= {INCREMENT: 1, NOTHING_NEW: True}.items()
    assert more["outputs/pages"]["dagster/row_count"] == 3


def test_the_first_row_of_a_fork_has_nothing_new(two_topics):
    fork(two_topics, "p", 1, "branch")

    said = said_of(two_topics, pages(("clicks", "pages"), ("orders", "carts")), "branch")

    assert all(each[NOTHING_NEW] for each in said.values())
    assert said["outputs/pages"][TABLE].endswith("/branch/outputs/pages")
