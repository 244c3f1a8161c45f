"""Both semantics: every scenario file is played with "kip" as well, and jobs/SEMANTICS.md says where that matters."""

from dataclasses import replace

import pytest

from tests.conformance import readable
from tests.conformance.comparison import NOT_KNOWN, first_difference
from tests.conformance.engines import play_with_driver
from tests.conformance.scenarios import Scenario, scenario_of
from tests.conformance.tables_engine import play_with_tables
from tests.conformance.test_scenario_files import EXAMPLES
from tests.source_tree import ROOT
from tests.test_docs import only_table

LINES = {f"{path.parent.name}/{path.stem}": readable.read(path) for path in readable.scenario_files()}
CHANGED = sorted(name for name, line in LINES.items() if "kip_want" in line)
PLACE, KIP, SCENARIOS_OF = "place", 'semantics="kip"', "scenarios"
TABLE = only_table((ROOT / "jobs/SEMANTICS.md").read_text(), PLACE)


def with_kip(name: str) -> Scenario:
    """The scenario with these semantics, wanted as its file says."""
    line = LINES[name]
    scenario = scenario_of(line)
    want = line["kip_want"] | {"metrics": {}} if "kip_want" in line else scenario.want
    return replace(scenario, topology=scenario.topology | {"semantics": "kip"}, want=want)


def why(scenario: Scenario, got: dict) -> str | None:
    """How ``got`` differs; a result that was written by hand has no metrics."""
    assert scenario.want is not None
    got = got | {"metrics": NOT_KNOWN} if scenario.want.get("metrics") == {} else got
    difference = first_difference(scenario, scenario.want, got)
    return None if difference is None else str(difference)


@pytest.mark.parametrize("name", LINES)
def test_with_semantics_kip_a_file_does_what_it_says_of_them_or_else_the_same(name):
    scenario = with_kip(name)

    assert why(scenario, play_with_driver(scenario)) is None


@pytest.mark.sampled
@pytest.mark.parametrize("name", CHANGED)
def test_cuts_change_nothing(name):
    scenario = with_kip(name)

    assert why(scenario, play_with_tables(scenario, cuts="every")) is None


@pytest.mark.parametrize("name", CHANGED)
def test_what_is_written_by_hand_is_something_else_than_kafka_streams_did(name):
    line = LINES[name]

    assert line["kip_want"] != {part: line["result"][part] for part in line["kip_want"]}


# --- the table -----------------------------------------------------------------------------------------------


def named(row: dict[str, str]) -> list[str]:
    """Scenarios of a row."""
    return [name.strip("` ") for name in row[SCENARIOS_OF].split(",") if name.strip("` ")]


def is_changed(row: dict[str, str]) -> bool:
    verdict = row[KIP].partition(":")[0]
    assert verdict in ("**changed**", "same"), f"{row[PLACE]}: begin with changed or same, and a colon"
    return verdict == "**changed**"


def test_every_scenario_of_the_table_is_a_file():
    missing = [name for row in TABLE for name in named(row) if name not in LINES and not (ROOT / name).is_file()]

    assert missing == []


def test_every_change_is_shown_and_every_file_that_shows_one_is_in_the_table():
    shown = {name for row in TABLE if is_changed(row) for name in named(row) if name in LINES}

    assert [row[PLACE] for row in TABLE if is_changed(row) and not named(row)] == []
    assert sorted(shown) == CHANGED


def test_a_row_that_is_the_same_names_no_file_that_only_shows_changes():
    changed_rows = {name for row in TABLE if is_changed(row) for name in named(row)}
    same = {name for row in TABLE if not is_changed(row) for name in named(row)}

    assert sorted(same & set(CHANGED) - changed_rows) == []


def test_every_example_in_which_kafka_streams_disagrees_is_in_the_table():
    stems = {name.rpartition("/")[2] for row in TABLE for name in named(row)}
    disagree = [name.replace("/", "-").replace("_", "-") for name, line in EXAMPLES.items() if line["agrees"] is False]

    assert [name for name in disagree if name not in stems] == []
    assert len(disagree) == 25


def test_a_kip_result_that_an_example_knows_is_this_one_unless_the_record_at_the_edge_is_refused_there():
    """
    The examples of 01, 01b and 02 refuse the record at the closing millisecond; the table says why this does not.
    """
    differs = [
        name
        for name in CHANGED
        if "kip_expected" in LINES[name]
        for said, got in zip(LINES[name]["kip_expected"], LINES[name]["kip_want"]["outputs"], strict=True)
        if said is not None and said != got
    ]

    assert sorted(set(differs)) == [
        "session_windows/kip94-05-late-beyond-grace",
        "suppress/kafka-01-session-final-result-twice",
        "suppress/kafka-01b-session-final-result-twice-default-retention",
        "suppress/kafka-02-sliding-final-result-twice",
    ]
