"""The component in process: what its YAML becomes, and the example that its scaffolder writes."""

from contextlib import contextmanager
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any, get_args

import dagster as dg
import pytest
import yaml
from dagster.components.core.component_tree import ComponentTreeException
from dagster.components.testing import create_defs_folder_sandbox

from kstreams_replay import LagSensor, LandedBy, ReplayPipelineComponent, replay_definitions
from kstreams_replay.jobs.history.committed_tables import read_changelog
from kstreams_replay.jobs.landing.lake.layouts import LAYOUTS
from kstreams_replay.jobs.landing.landing import FileSource, KafkaSource, LakeSource
from kstreams_replay.orchestration.component.attributes import (
    CheckAttributes,
    KafkaAttributes,
    LakeAttributes,
    SensorAttributes,
    SourceAttributes,
)
from kstreams_replay.state.tables.warehouse import Warehouse


@contextmanager
def project(attributes: dict[str, Any] | None = None, **params: Any):
    """Definitions of a scaffolded component, and its project's root; ``attributes`` over those of the example."""
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.scaffold_component(
            component_cls=ReplayPipelineComponent, defs_path="clicks", scaffold_params=params
        )
        file = folder / "defs.yaml"
        if attributes is not None:
            written = yaml.safe_load(file.read_text())
            written["attributes"] |= attributes
            file.write_text(yaml.safe_dump(written))
        with sandbox.build_all_defs() as definitions:
            yield definitions, Path(sandbox.project_root)


def test_the_example_of_the_scaffolder_runs():
    with project() as (definitions, root), dg.DagsterInstance.ephemeral() as instance:
        result = definitions.resolve_job_def("clicks_replay").execute_in_process(instance=instance)

        assert result.success
        rows = read_changelog(Warehouse(root / "warehouse"), "clicks", "pages-by-hour")
        assert rows.select(["key", "window_start_ms", "value"]).to_pylist() == [
            {"key": "home", "window_start_ms": 1767225600000, "value": 2},
            {"key": "cart", "window_start_ms": 1767229200000, "value": 1},
            {"key": "cart", "window_start_ms": 1767312000000, "value": 1},
            {"key": "home", "window_start_ms": 1767312000000, "value": 1},
        ]
        assert [schedule.cron_schedule for schedule in definitions.schedules or ()] == ["0 4 * * *"]


def test_yaml_says_names_partitions_and_checks():
    attributes = {
        "pipeline": "web",
        "partitions": {"type": "daily", "start_date": "2026-01-01"},
        "translator": {
            "group": "site",
            "internal_group": "inside",
            "owners": ["team:web"],
            "descriptions": {"pages-by-hour": "Hour by hour."},
        },
        "checks": {"engine": "plain"},
        "cron_timezone": "Asia/Tokyo",
    }
    with project(attributes) as (definitions, _):
        zones = {schedule.execution_timezone for schedule in definitions.schedules or ()}
        specs = {spec.key.to_user_string(): spec for spec in definitions.resolve_all_asset_specs()}

    pages = specs["web/outputs/pages-by-hour"]
    assert (pages.group_name, list(pages.owners), pages.description) == ("site", ["team:web"], "Hour by hour.")
    assert isinstance(pages.partitions_def, dg.DailyPartitionsDefinition)
    assert specs["web/landed/clicks"].partitions_def is None
    assert zones == {"Asia/Tokyo"}
    assert "inside" in {spec.group_name for spec in specs.values()}


SUITE = """
name: pages_seen
meta: {table: outputs/pages-by-hour}
expectations:
  - type: expect_column_values_to_not_be_null
    kwargs: {column: key}
"""


def test_yaml_says_suites_of_ones_own_the_sensor_freshness_and_the_jobs_of_operators(tmp_path):
    """
    The suite judges, the freshness warns, and the sensor asks for a run of the two files.
    """
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "pages.yaml").write_text(SUITE)
    attributes = {
        "checks": {
            "expectations": str(tmp_path / "suites"),
            "data_docs": "docs",
            "fresh_within": "2h",
            "freshness_policy": True,
            "refused_max": 0.5,
            "refused_severity": "error",
        },
        "sensor": {"min_files": 2, "max_wait": "5m"},
        "operator_jobs": True,
        "max_runtime": "3h",
    }
    with project(attributes) as (definitions, root), dg.DagsterInstance.ephemeral() as instance:
        (sensor,) = definitions.sensors or ()
        context = dg.build_sensor_context(instance=instance, definitions=definitions)
        requests = sensor.evaluate_tick(context).run_requests
        assert [request.job_name for request in requests or ()] == ["clicks_replay"]

        job = definitions.resolve_job_def("clicks_replay")
        assert job.tags["dagster/max_runtime"] == str(3 * 3600)
        result = job.execute_in_process(instance=instance)
        assert result.success
        told = {check.check_name: check.passed for check in result.get_asset_check_evaluations()}
        assert (told["pages_seen"], told["stream_time_is_fresh"]) == (True, False)
        assert list((root / "docs").rglob("*.html"))
        (share,) = (
            spec
            for checks in definitions.asset_checks or ()
            for spec in checks.check_specs
            if spec.name == "few_records_are_dropped"
        )
        assert (
            share.description == "At most 50 % of the records that came to any operator, and never all that were read."
        )
        pages = {spec.key.path[-1]: spec.metadata.get("data_docs") for spec in definitions.resolve_all_asset_specs()}
        assert pages["pages-by-hour"] == dg.MetadataValue.url(f"{(root / 'docs').resolve().as_uri()}/index.html")
        assert pages["clicks"] is None
        for name in ("plan", "promote", "restore", "vacuum", "backfill", "freshness"):
            assert definitions.resolve_job_def(f"clicks_{name}")


def test_every_argument_of_the_factory_is_an_attribute():
    """
    But for those that are Python objects, and the number of increments of a run.
    """
    of_checks = {"check_engine": "engine", "expectations": "expectations", "data_docs": "data_docs"}
    of_checks |= {name: name for name in ("fresh_within", "freshness_policy", "verify_increments", "production")}
    of_checks |= {"refused": "refused_max"}  # and the severity beside it
    named = set(ReplayPipelineComponent.model_fields) | {"cron", *of_checks}
    assert {*of_checks.values(), "refused_severity"} == set(CheckAttributes.model_fields)
    assert set(signature(replay_definitions).parameters) - named == {"retry_policy", "increments"}
    assert set(SensorAttributes.model_fields) == {field.name for field in fields(LagSensor)}


def test_the_scaffolder_takes_ones_own_topology_and_files():
    own = "tests.dagster.shop:topology"
    with project(None, topology=own, files="in", key="user", timestamp="ms") as (definitions, root):
        keys = {spec.key.to_user_string() for spec in definitions.resolve_all_asset_specs()}
        assert {"clicks/outputs/sessions", "clicks/landed/clicks"} <= keys
        assert not (root / "clicks").exists()


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"topology": "gone.py:topology"}, "expected a module or a file"),
        (
            {"sources": {"clicks": {"pattern": "*.csv"}}},
            "sources: clicks: expected one of files, lake, kafka and",
        ),
        (
            {"sources": {"clicks": {"lake": {"delta": "bronze"}, "key": "user", "pattern": "*.csv"}}},
            "sources: clicks: expected nothing of files beside lake, got pattern, key; indent key below lake",
        ),
        (
            {"sources": {"clicks": {"kafka": {"bootstrap_servers": "b:1"}, "partitions": 6, "topic": "t"}}},
            "sources: clicks: expected nothing of files beside kafka, got partitions, topic; indent topic below kafka",
        ),
        (
            {"sources": {"clicks": {"landed_by": "shop", "timestamp": "ms"}}},
            "sources: clicks: expected nothing of files beside landed_by, got timestamp; leave it out",
        ),
        ({"spark": {"master": "local[1]"}}, "spark: expected no settings of Spark beside `engine: local`"),
        ({"wharehouse": "w"}, "wharehouse"),
        ({"kafka_version": "4.2"}, "kafka_version: expected '4.3' or '4.4', got '4.2'"),
        ({"kafka_version": 4.1}, "kafka_version: expected '4.3' or '4.4', got '4.1'"),
        ({"partitions": {"type": "static", "partition_keys": ["a"]}}, "partitions"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_loaded(attributes, words):
    with pytest.raises(ComponentTreeException) as error, project(attributes):
        pass

    reasons, reason = list[str](), error.value
    while reason is not None:
        reasons.append(str(reason))
        reason = reason.__cause__
    assert words in " ".join(reasons)


def test_a_source_is_files_kafka_or_anothers():
    files = SourceAttributes(files="in", timestamp="ms", key="user", value=["page"], types={"ms": "long"})
    assert files.source("t", "root") == FileSource(
        "root/in", timestamp="ms", key="user", value="page", types={"ms": "long"}
    )
    kafka = SourceAttributes(kafka=KafkaAttributes(bootstrap_servers="broker:9092", topic="t-1"))
    assert kafka.source("t", "root") == KafkaSource("broker:9092", topic="t-1")
    assert SourceAttributes(landed_by="shop").source("t", "root") == LandedBy("shop")
    lake = SourceAttributes(lake=LakeAttributes(delta="bronze", layout="spark", value=["page"], in_place=True))
    assert lake.source("t", "root") == LakeSource("root/bronze", layout="spark", value=("page",), in_place=True)
    own = set(SourceAttributes.model_fields) - {"files", "lake", "kafka", "landed_by"}
    of_a_serde = {"json_types", "key_json_types"}  # the serdes say it (jobs/landing/serde_mapping.py)
    assert own | {"path"} == set(FileSource.__dataclass_fields__) - of_a_serde
    assert set(KafkaAttributes.model_fields) == set(KafkaSource.__dataclass_fields__)
    assert set(LakeAttributes.model_fields) == set(LakeSource.__dataclass_fields__)
    assert get_args(LakeAttributes.model_fields["layout"].annotation) == ("auto", *LAYOUTS)
