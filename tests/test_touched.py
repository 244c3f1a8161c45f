"""Which tests `bash .ci/run changed` plays beside the default tier."""

import pytest

from tests.sampling import ROOT
from tests.touched import BESIDE, touched


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("jobs/explain/sentences.py", ["tests/explain"]),
        ("jobs/operators/suppress/suppress.py", ["tests/conformance", "tests/kafka_suite", "tests/operators/suppress"]),
        ("jobs/topology/dsl/kstream.py", ["tests/topology"]),
        ("state/serdes/avro/program.py", ["tests/state/serdes/avro"]),
        ("expectations/final_once.py", ["tests/expectations"]),
        ("orchestration/cli/main.py", ["tests/dagster", "tests/orchestration/cli"]),
        ("tests/explain/test_explanation.py", ["tests/explain/test_explanation.py"]),
        ("tests/explain/explained.py", ["tests/explain"]),
        ("tests/planted.py", []),
        ("tests/laws/test_that_is_gone.py", []),
        ("README.md", []),
    ],
)
def test_a_file_has_the_tests_of_its_room(path, want):
    assert touched([path]) == want


def test_a_file_within_a_folder_that_is_played_is_not_named_again():
    assert touched(["jobs/explain/sentences.py", "tests/explain/test_explanation.py"]) == ["tests/explain"]


def test_what_stands_beside_a_room_is_there():
    named = [path for paths in BESIDE.values() for path in paths]

    assert [path for path in [*BESIDE, *named] if not (ROOT / path).exists()] == []
