"""The version of Kafka whose rows a pipeline makes: recorded with every increment, and refused where it is unknown."""

import re
from pathlib import Path

import pytest

from kstreams_replay.jobs.branches.backfill import backfill
from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, TimeWindows, Topology
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.orchestration.definitions import replay_definitions
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.ledger_rows import DoneRow, PlanRow
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop
from tests.planted import LandedRecord, plant


def topology() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(Serde.string(), Serde.string()))
    clicks.group_by_key().windowed_by(TimeWindows.of_size(10)).count().to_stream().to("counts")
    return builder.build()


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    planted = Warehouse(str(tmp_path / "w"))
    plant(planted, "clicks", [LandedRecord(0, b"ann", b"home", time_ms) for time_ms in (1, 2, 13, 24)], partitions=1)
    return planted


def ran(warehouse: Warehouse, pipeline: str = "p", **settings: object) -> None:
    one = replay(
        warehouse, topology(), pipeline=pipeline, runner=LocalRunner(), increments=1, max_records=1, **settings
    )  # fmt: skip
    list(one)


def recorded(warehouse: Warehouse, pipeline: str = "p") -> list[tuple[str | None, str | None]]:
    """Of every increment the version in its plan and in what came of it."""
    ledger = Ledger(warehouse.pipeline(pipeline).ledger)
    pairs = [ledger.rows_of(row.increment) for row in ledger.done_rows()]
    return [(planned.content.kafka_version if planned else None, done.content.kafka_version) for planned, done in pairs]


def test_the_ledger_says_whose_rows_an_increment_made_and_the_next_goes_on_with_it(warehouse):
    ran(warehouse)
    ran(warehouse, kafka_version="4.4")
    ran(warehouse)

    assert recorded(warehouse) == [("4.3", "4.3"), ("4.4", "4.4"), ("4.4", "4.4")]


def test_a_planned_increment_keeps_the_version_of_its_plan(warehouse):
    def stop(step: str) -> None:
        if step == "computed 1":
            raise RuntimeError

    with pytest.raises(RuntimeError):
        ran(warehouse, kafka_version="4.3", on_step=stop)
    ran(warehouse, kafka_version="4.4")
    ran(warehouse, kafka_version="4.4")

    assert recorded(warehouse) == [("4.3", "4.3"), ("4.4", "4.4")]


@pytest.mark.parametrize("version", ["4.2", "4.3.0", "4.5", "kafka"])
def test_a_version_whose_rows_nobody_compared_is_refused_before_anything_is_written(warehouse, version):
    words = re.escape(f"kafka_version: expected '4.3' or '4.4', got '{version}'; choose one; `replay upgrade-advice`")
    with pytest.raises(ConfigError, match=words):
        ran(warehouse, kafka_version=version)
    with pytest.raises(ConfigError, match="kafka_version"):
        replay_definitions(topology(), pipeline="p", warehouse=warehouse, kafka_version=version)

    assert warehouse.pipelines() == []


def test_rows_from_before_say_nothing_and_go_on_as_the_judge():
    assert DoneRow.from_json({"cut_to": {}}).kafka_version is None
    assert "kafka_version" not in PlanRow().to_json()


def test_branches_and_backfills_go_on_with_the_version_of_their_pipeline(warehouse):
    ran(warehouse)
    ran(warehouse, kafka_version="4.4")
    for at, name in ((0, "anew"), (1, "early"), (2, "late")):
        fork(warehouse, "p", at, name, topology=topology())
        ran(warehouse, name)
    for name, given in (("inherits", None), ("says", "4.3")):
        backfill(
            warehouse, topology(), pipeline="p", name=name, from_ms=0, to_ms=10, runner=LocalRunner(),
            kafka_version=given,
        )  # fmt: skip

    last = {name: recorded(warehouse, name)[-1][1] for name in ("anew", "early", "late", "inherits", "says")}
    assert last == {"anew": "4.4", "early": "4.3", "late": "4.4", "inherits": "4.4", "says": "4.3"}


def test_the_command_takes_it_and_lists_it(tmp_path, capsys):
    shop.drop_files(tmp_path / "in", "1-morning", shop.MORNING)
    where = ["--warehouse", str(tmp_path / "w")]
    assert main(["land", "clicks", *where, "--files", str(tmp_path / "in"), "--timestamp", "ms", "--local"]) == 0
    run = ["run", f"{Path(shop.__file__)}:topology", *where, "--pipeline", "shop", "--local"]
    assert main([*run, "--kafka-version", "4.2"]) == 2
    assert "expected '4.3' or '4.4', got '4.2'" in capsys.readouterr().err
    assert main([*run, "--kafka-version", "4.4"]) == 0

    assert recorded(Warehouse(str(tmp_path / "w")), "shop") == [("4.4", "4.4")]
