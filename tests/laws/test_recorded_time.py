"""Laws 2 and 3 with recorded times among the records: any cut, any death, the same tables; and by another pipeline."""

import random

import pytest

from jobs.recorded_time import record_time
from jobs.replay import replay
from jobs.runner import LocalRunner
from jobs.topology import Topology
from state.tables import Warehouse
from tests.laws import joined, topologies
from tests.laws.joined import TOPICS
from tests.planted import plant, tables_of

RECORDS = 70


def land_clicks(warehouse: Warehouse, seed: int, records: int = RECORDS) -> None:
    """Clicks in four landings, with recorded times between them: of all partitions, of one, before the stream time of
    some and behind that of others, and two at one place.
    """
    rows, generator = topologies.tape(seed, records), random.Random(seed)
    cuts = [0, *sorted(generator.sample(range(1, records), 3)), records]
    for first, after in zip(cuts, cuts[1:], strict=False):
        plant(warehouse, "clicks", rows[first:after], partitions=topologies.PARTITIONS)
        newest_ms = max(row.timestamp_ms for row in rows[:after])
        for _ in range(2):
            time_ms = max(0, newest_ms + generator.choice((-60, -5, 0, 1, 20, 90)))
            record_time(warehouse, "clicks", time_ms, partition=generator.choice((None, None, 0, 1, 2)))


def land_topics(warehouse: Warehouse, seed: int) -> None:
    tapes, generator = joined.tapes(seed, RECORDS), random.Random(seed)
    newest_ms = 0
    for first, after in ((0, 7), (7, 14), (14, RECORDS)):
        for topic in TOPICS:
            plant(warehouse, topic, tapes[topic][first:after], partitions=joined.PARTITIONS)
            newest_ms = max([newest_ms, *(row.timestamp_ms for row in tapes[topic][first:after])])
        for topic in TOPICS:
            time_ms = newest_ms + generator.choice((-30, 0, 1, 60))
            record_time(warehouse, topic, time_ms, partition=generator.choice((None, None, 0, 1)))


def run(warehouse: Warehouse, topology: Topology, pipeline: str, limits: list[int | None]) -> dict[str, list[dict]]:
    """One call a limit, the last with the end of history, so that nothing waits; the tables."""
    for limit in limits:
        idle = "proceed" if limit is None else "wait"
        for _ in replay(warehouse, topology, pipeline=pipeline, runner=LocalRunner(), max_records=limit, idle=idle):
            pass
    return tables_of(warehouse, pipeline, topology)


@pytest.mark.parametrize(("seed", "limit"), [(1, 13), (2, 40), (3, 5), (4, 1)])
def test_increments_of_any_size_leave_the_tables_of_one_big_increment(tmp_path, seed, limit):
    warehouse, topology = Warehouse(tmp_path), topologies.everything()
    land_clicks(warehouse, seed, 20 if limit == 1 else RECORDS)

    whole = run(warehouse, topology, "whole", [None])

    assert run(warehouse, topology, "cut", [limit, None]) == whole


@pytest.mark.parametrize(("seed", "limit"), [(1, 13), (2, 5), (3, 30), (4, 2)])
def test_the_same_where_topics_meet(tmp_path, seed, limit):
    warehouse, topology = Warehouse(tmp_path), joined.joined()
    land_topics(warehouse, seed)

    whole = run(warehouse, topology, "whole", [None])

    assert run(warehouse, topology, "cut", [limit, None]) == whole
