"""Records of several tasks at one time: a task takes them in the order of one thread, in which Kafka's are judged."""

import random
from pathlib import Path

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.bootstrap import kept
from tests.bootstrap.test_bootstrap import APPLICATIONS, PARTITIONS, Life, kafkas_rows, our_rows, written_by
from tests.jvm.streams import compiled
from tests.planted import plant
from tests.sampling import seed as seed_of_run

pytestmark = [pytest.mark.jvm, pytest.mark.xdist_group("oracle")]


# Most have the time of others, in this and in other topics; some are late.
FEW_TIMES = {"start_ms": 1_000, "steps_ms": (0, 0, 0, 10), "late_ms": (0, 0, 0, 10, 30), "keys": 4}


@pytest.fixture(scope="module")
def classes() -> Path:
    with compiled(APPLICATIONS) as command:
        yield Path(command[command.index("-cp") + 1].split(":")[0])


@pytest.mark.sampled
@pytest.mark.parametrize("max_records", [None, 9])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("twin", [kept.tables, kept.meeting, kept.beside, kept.looking], ids=lambda twin: twin.__name__)
def test_records_of_one_time_are_taken_as_one_thread_would(twin, seed, max_records, classes, tmp_path):
    topology, warehouse = twin(), Warehouse(str(tmp_path / "tables"))
    generator = random.Random(seed + seed_of_run())
    life = Life({topic: written_by(generator, topic, 60, **FEW_TIMES) for topic in topology.source_topics()}, cut_ms=0)
    for topic, records in life.topics.items():
        plant(warehouse, topic, records, partitions=PARTITIONS)

    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), max_records=max_records, idle="proceed"))

    expected = kafkas_rows(life.run(tmp_path / "kafka", classes, twin.__name__, whole=True), "out")
    assert our_rows(warehouse, topology, "out") == expected
    assert all(expected)
