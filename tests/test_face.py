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


@pytest.mark.parametrize("name", kstreams_replay.__all__)
def test_every_name_of_the_face_is_there(name):
    assert getattr(kstreams_replay, name) is not None


def test_the_face_is_typed_as_it_is_loaded():
    """
    Type checkers read the imports under TYPE_CHECKING, Python the table.
    """
    tree = ast.parse(text_of("kstreams_replay/__init__.py"))
    typed = {
        alias.asname: "." * node.level + (node.module or "")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }

    assert typed == kstreams_replay._MODULES


def test_a_name_that_is_not_of_the_face_is_no_attribute():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        kstreams_replay.nothing  # noqa: B018
