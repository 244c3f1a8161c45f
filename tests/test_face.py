"""The names that users import: ``from kstreams_replay import …``."""

import ast
import subprocess
import sys

import pytest

import kstreams_replay
from tests.source_tree import ROOT, text_of

HEAVY = {"pyspark", "deltalake", "dagster", "great_expectations", "numba", "polars", "pyarrow"}


def loaded_by(code: str) -> set[str]:
    """Top-level modules that are loaded after ``code``, in a fresh process."""
    said = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split(".")[0] for name in said.stdout.split()}


def test_importing_the_package_loads_nothing_else():
    assert loaded_by("import kstreams_replay").isdisjoint(HEAVY)


def test_a_topology_comes_without_spark_delta_and_dagster():
    loaded = loaded_by("from kstreams_replay import Consumed, Serde, StreamsBuilder, TimeWindows, fold")

    assert loaded.isdisjoint({"pyspark", "deltalake", "dagster", "great_expectations"})


@pytest.mark.parametrize(
    "code",
    [
        "from kstreams_replay import TopologyTestDriver, assert_outputs",
        "import kstreams_replay.jobs.testing.pytest_plugin",
    ],
)
def test_what_tests_of_a_topology_import_comes_without_spark_and_delta(code):
    assert loaded_by(code).isdisjoint({"pyspark", "deltalake", "dagster", "great_expectations"})


def test_who_lands_and_replays_in_this_process_does_without_spark():
    code = (
        "from kstreams_replay import LocalRunner, FileSource, KafkaSource, land_files, land_kafka, land_records, replay"
    )

    assert loaded_by(code).isdisjoint({"pyspark", "py4j"})


def test_a_test_that_passes_loads_no_tables_and_no_spark():
    code = """
from kstreams_replay import Consumed, Serde, StreamsBuilder, TopologyTestDriver, assert_outputs
builder = StreamsBuilder()
builder.stream("in", Consumed(Serde.string(), Serde.string())).to("out")
driver = TopologyTestDriver(builder.build())
driver.pipe_input("in", "k", "v", timestamp_ms=0)
assert_outputs(driver, "out", [("k", "v")])
"""

    assert loaded_by(code).isdisjoint({"pyspark", "deltalake", "dagster", "great_expectations"})


@pytest.mark.parametrize("name", kstreams_replay.__all__)
def test_every_name_of_the_face_is_there(name):
    assert getattr(kstreams_replay, name) is not None


def test_the_face_is_typed_as_it_is_loaded():
    """
    Type checkers read the stub's imports, Python its lines.
    """
    stub = ast.parse(text_of("kstreams_replay/__init__.pyi"))
    typed = {
        alias.asname: "." * node.level + (node.module or "")
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert typed == kstreams_replay._MODULES


@pytest.mark.parametrize("name", ["To", "Cancellable", "ReadOnlyKeyValueStore"])
def test_a_class_of_kafkas_that_is_none_here_says_what_to_write(name):
    with pytest.raises(ImportError, match=f"kstreams_replay has no '{name}'; write "):
        getattr(kstreams_replay, name)


def test_a_name_that_is_not_of_the_face_is_no_attribute():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        kstreams_replay.nothing  # noqa: B018
