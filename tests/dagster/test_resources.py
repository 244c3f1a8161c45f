"""Engines: nothing starts before it is asked for, and both give the same tables."""

import subprocess
import sys

import dagster as dg
import pytest

from kstreams_replay.jobs.landing.landing import KafkaSource
from kstreams_replay.orchestration.resources import LocalEngine, SparkEngine
from kstreams_replay.orchestration.settings.connections import KafkaResource
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop
from tests.dagster.conftest import errors
from tests.planted import tables_of

pytestmark = pytest.mark.sampled


def test_definitions_for_spark_load_without_java_and_without_great_expectations(tmp_path):
    code = (
        "import sys, dagster as dg\n"
        "from kstreams_replay.orchestration.definitions import replay_definitions\n"
        "from tests.dagster import shop\n"
        f"definitions = replay_definitions(shop.topology(), pipeline='p', warehouse={str(tmp_path)!r})\n"
        "dg.Definitions.validate_loadable(definitions)\n"
        "print('great_expectations' in sys.modules, 'kstreams_replay.jobs.execution.spark_runner' in sys.modules)\n"
    )
    no_java = {"PATH": "", "JAVA_HOME": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=no_java)

    assert done.stdout == "False False\n"


@pytest.mark.parametrize("kafka", [KafkaSource("broker:9092"), KafkaResource(bootstrap_servers="broker:9092")])
def test_a_topic_of_kafka_needs_no_spark(tmp_path, kafka):
    definitions = shop.definitions(tmp_path, engine=LocalEngine(), sources={"clicks": kafka})

    dg.Definitions.validate_loadable(definitions)


def test_the_master_comes_from_the_field_then_from_the_settings(monkeypatch):
    opened = []
    monkeypatch.setattr(
        "kstreams_replay.jobs.execution.spark_session.open_spark",
        lambda master, **settings: opened.append((master, settings)),
    )

    SparkEngine(master="local[1]", settings={"spark.x": "1"}).session()
    SparkEngine(settings={"spark.master": "spark://host:7077", "spark.x": "1"}).session()
    SparkEngine().session()

    assert opened == [
        ("local[1]", {"app_name": "replay", "extra": {"spark.x": "1"}}),
        ("spark://host:7077", {"app_name": "replay", "extra": {"spark.x": "1"}}),
        (None, {"app_name": "replay", "extra": {}}),
    ]


@pytest.mark.jvm
def test_spark_materializes_the_tables_that_this_process_would(small_shop, tmp_path, spark):
    definitions = shop.definitions(small_shop.root, engine=SparkEngine(master="local[2]"), check_engine="plain")
    here = Warehouse(tmp_path / "here" / "warehouse")
    shop.drop_files(tmp_path / "here" / "clicks", "1-morning", shop.MORNING)

    result = small_shop.run(definitions)
    job = shop.definitions(tmp_path / "here", check_engine="plain").resolve_job_def("shop_replay")
    job.execute_in_process(instance=small_shop.instance)

    assert result.success
    assert errors(result) == []
    assert tables_of(small_shop.warehouse, "shop", shop.topology()) == tables_of(here, "shop", shop.topology())
    pages = definitions.resolve_asset_graph().get(dg.AssetKey(["shop", "outputs", "pages"]))
    assert pages.kinds == {"spark", "deltalake"}
