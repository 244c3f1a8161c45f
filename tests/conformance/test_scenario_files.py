"""The worked examples of the KIPs, as files to read: they play, and they hold what the golden files hold."""

import json

import pytest

from tests.conformance import readable
from tests.conformance.__main__ import report, reports
from tests.conformance.scenarios import GOLDENS, scenario_of

FILES = readable.scenario_files()
EXAMPLES = {line["name"]: line for line in map(json.loads, (GOLDENS / "kip_examples.jsonl").read_text().splitlines())}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_does_what_it_says(path):
    scenario = scenario_of(readable.read(path))

    why = report(scenario)

    assert why is None, f"{scenario.name}\n{why}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_is_written_as_it_would_be_stamped(path):
    assert readable.written(readable.read(path)) == path.read_text()


CUT = [
    path
    for path in FILES
    if path.parent.name in ("intermediate_topic", "loop", "several_topics", "timestamp_extractor", "wall_clock")
]


@pytest.mark.slow
@pytest.mark.sampled("folder")
@pytest.mark.parametrize(
    ("folder", "path"), [(path.parent.name, path) for path in CUT], ids=[path.stem for path in CUT]
)
def test_cut_at_every_record_a_file_gives_what_it_gives_whole(folder, path):
    scenario = scenario_of(readable.read(path))

    (why,) = reports([scenario], "tables", cuts="every")

    assert why is None, f"{scenario.name}\n{why}"


def test_every_worked_example_has_a_file_with_the_result_of_the_golden_line():
    by_name = {name.replace("/", "-").replace("_", "-"): line for name, line in EXAMPLES.items()}
    found = {path.stem: readable.read(path) for path in FILES if path.stem in by_name}

    assert found.keys() == by_name.keys()
    for name, line in found.items():
        want = by_name[name]
        known = {field: value for field, value in want["result"].items() if field in line["result"]}
        assert (line["topology"], line["records"], line["result"]) == (want["topology"], want["records"], known)


def test_a_number_that_is_changed_in_a_file_is_seen():
    path = next(path for path in FILES if path.stem == "kip328-05-time-limit")
    changed = path.read_text().replace('2    | "A" | -      | "x"   | 1 ', '2    | "A" | -      | "x"   | 9 ')

    why = report(scenario_of(readable.parsed(changed, "changed")))

    assert why is not None
    assert "'A' = 'x' ts 9" in why
