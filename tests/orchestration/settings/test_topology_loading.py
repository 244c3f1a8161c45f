"""Finding the topology that a command names; whatever is wrong with the file is one sentence."""

import sys
from pathlib import Path

import cloudpickle
import pytest

from kstreams_replay.orchestration.settings.topology_loading import load_function, load_topology
from kstreams_replay.state.errors import ConfigError, TopologyError
from tests.dagster import shop

FILE = """
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder

def build():
    builder = StreamsBuilder()
    stream = builder.stream("clicks", Consumed(Serde.string(), Serde.long()))
    stream.filter(is_even).to("even")
    return builder.build()

def is_even(key, value):
    return value % 2 == 0

number = 7
broken = lambda: 1 / 0
refused = lambda: StreamsBuilder().stream("", Consumed(Serde.string(), Serde.long()))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "counts.py"
    path.write_text(FILE)
    return path


def test_a_file_or_a_module_gives_a_topology_or_a_function_that_builds_one(file):
    assert load_topology(f"{file}:build").source_topics() == ["clicks"]
    assert load_topology(str(file)).source_topics() == ["clicks"]
    assert load_topology("tests.dagster.shop:topology").fingerprint == shop.topology().fingerprint


def test_functions_of_a_file_travel_to_workers_that_have_not_got_it(file, monkeypatch):
    pickled = cloudpickle.dumps(load_topology(f"{file}:build"))
    monkeypatch.delitem(sys.modules, "replay_topology_counts")
    file.unlink()

    assert cloudpickle.loads(pickled).source_topics() == ["clicks"]


@pytest.mark.parametrize(
    ("attribute", "sentence"),
    [
        (":number", "expected a Topology, or a function that builds one, got int; name another attribute"),
        (":nothing", "expected an attribute nothing, got a file with Consumed, Serde, StreamsBuilder, build, "),
        (":broken", "expected a file that runs, got ZeroDivisionError: division by zero ("),
    ],
)
def test_a_wrong_attribute_is_one_sentence(file, attribute, sentence):
    with pytest.raises(ConfigError) as refused:
        load_topology(f"{file}{attribute}")

    assert sentence in str(refused.value)


def test_an_error_of_the_dsl_comes_as_it_is(file):
    with pytest.raises(TopologyError, match="topic"):
        load_topology(f"{file}:refused")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = (", "got SyntaxError: '(' was never closed ("),
        ("x = 1\ny = z\n", "got NameError: name 'z' is not defined ("),
        (
            "import json\nimport nowhere_at_all\n",
            "expected a file that runs, got ModuleNotFoundError: No module named 'nowhere_at_all' (",
        ),
        ("open('nowhere.csv')\n", "FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.csv' ("),
        ("", "expected an attribute topology or build, got an empty file; name it after a colon"),
    ],
)
def test_a_file_that_does_not_run_is_one_sentence_with_its_line(tmp_path, text, sentence):
    path = tmp_path / "wrong.py"
    path.write_text(text)

    with pytest.raises(ConfigError) as refused:
        load_topology(str(path))

    assert sentence in str(refused.value)
    assert ("nowhere_at_all" in text) == ("; install what has nowhere_at_all, or" in str(refused.value))
    assert ("line" in str(refused.value)) == ("Error:" in sentence)


@pytest.mark.parametrize(
    ("reference", "got"),
    [
        ("nowhere_at_all:topology", "No module named 'nowhere_at_all'"),
        ("tests.nowhere_at_all:topology", "No module named 'tests.nowhere_at_all'"),
        ("nowhere_at_all/topology.py", "no file nowhere_at_all/topology.py"),
    ],
)
def test_a_topology_that_is_not_there_is_named(reference, got):
    with pytest.raises(ConfigError) as refused:
        load_topology(reference)

    assert str(refused.value) == (
        f"{reference}: expected a module or a file, got {got}; check the path, or run it from its folder"
    )


def test_a_module_that_a_module_lacks_is_named_with_the_line(tmp_path, monkeypatch):
    (tmp_path / "lacks_one.py").write_text("import json\nimport nowhere_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ConfigError, match=r"No module named 'nowhere_at_all' \(.*lacks_one.py, line 2\); install"):
        load_topology("lacks_one:topology")


def test_each_file_imports_what_is_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    for folder in ("a", "b"):
        (tmp_path / folder / "own_parts").mkdir(parents=True)
        (tmp_path / folder / "own_rules.py").write_text(f"NAME = {folder!r}\n")
        (tmp_path / folder / "own_parts" / "__init__.py").write_text("")
        (tmp_path / folder / "own_parts" / "more.py").write_text(f"NAME = {folder!r}\n")
        (tmp_path / folder / "topology.py").write_text(
            "from own_rules import NAME\nfrom own_parts import more\ndef names(): return NAME, more.NAME\n"
        )

    loaded = [load_function(f"{tmp_path}/{folder}/topology.py:names") for folder in ("a", "b", "a")]

    assert [names() for names in loaded] == [("a", "a"), ("b", "b"), ("a", "a")]
