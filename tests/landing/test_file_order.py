"""The order of files is the order of the log: names in natural order, and a word where the times contradict it."""

import json

import numpy as np
import pytest

from kstreams_replay.jobs.landing.files.file_order import Disorder, TimeSpan, spans_of
from kstreams_replay.jobs.landing.landed_disorder import landed_disorder
from kstreams_replay.jobs.landing.landing_rules import LandingRules
from kstreams_replay.state.errors import ConfigError, LandingError
from kstreams_replay.state.tables.ledger import LandingLedger
from tests.landing.file_folders import land, write
from tests.landing.landed_rows import landed, values

HOUR = 3_600_000
T0 = 1_767_258_000_000
"""2026-01-01T09:00:00Z."""


def lines(*times_ms: int, **fields: int) -> str:
    return "".join(json.dumps({"t": time_ms, **fields}) + "\n" for time_ms in times_ms)


@pytest.mark.parametrize(
    "names",
    [
        ["dump-1.jsonl", "dump-2.jsonl", "dump-10.jsonl"],
        ["dt=2026-01-01/hour=9/a.jsonl", "dt=2026-01-01/hour=10/a.jsonl", "dt=2026-01-02/hour=1/a.jsonl"],
        ["clicks/0/0.jsonl", "clicks/0/90.jsonl", "clicks/0/1000.jsonl"],
        ["a1b.jsonl", "a1c.jsonl", "a01d.jsonl", "b.jsonl"],  # equal numbers, then text
    ],
)
def test_numbers_in_names_count_by_their_value(warehouse, tmp_path, names):
    directory = write(tmp_path / "in", {name: f'{{"t":1,"v":"{name}"}}\n' for name in reversed(names)})

    land(warehouse, directory, value="v")

    want = sorted(names, key=lambda name: ["a01d", "a1b", "a1c", "b"].index(name[:-6])) if "b.jsonl" in names else names
    assert values(warehouse) == [name.encode() for name in want]


def test_times_that_go_back_further_between_files_than_within_one_are_told_with_both_names(warehouse, tmp_path):
    within = lines(T0 + 9 * HOUR, T0 + 9 * HOUR - 60_000, T0 + 10 * HOUR)
    directory = write(tmp_path / "in", {"a.jsonl": within, "b.jsonl": lines(T0, T0 + 1_000)})

    report = land(warehouse, directory)

    assert report.warnings[0].startswith(
        "t: times go back by 10 h from a.jsonl to b.jsonl (partition 0), and within a file by 1 min at most"
    )
    assert report.records == 5


@pytest.mark.parametrize(
    "files",
    [
        {"a.jsonl": lines(T0, T0 + 5), "b.jsonl": lines(T0 + 5, T0 + 9)},  # equal times
        {"a.jsonl": lines(T0 + HOUR, T0), "b.jsonl": lines(T0 + 1, T0 + 2)},  # no further than within a
        {"a.jsonl": lines(T0 + HOUR)},
    ],
)
def test_nothing_is_told_where_times_go_back_no_further_than_within_a_file(warehouse, tmp_path, files):
    assert land(warehouse, write(tmp_path / "in", files)).warnings == ()


def test_times_that_go_back_behind_what_has_landed_are_told_with_both_names(warehouse, tmp_path):
    """A file that comes late is read behind those that have landed, whatever its name."""
    directory = write(tmp_path / "in", {"dump-10.jsonl": lines(T0 + HOUR, T0 + HOUR - 5, T0 + 2 * HOUR)})
    land(warehouse, directory)
    write(directory, {"dump-11.jsonl": lines(T0 + HOUR + 1)})
    land(warehouse, directory)
    write(directory, {"dump-2.jsonl": lines(T0)})

    with pytest.raises(LandingError, match=r"go back by 2 h from dump-10.jsonl \(landed before\) to dump-2.jsonl"):
        land(warehouse, directory, rules={"on_disorder": "stop"})
    report = land(warehouse, directory)

    assert report.warnings[0].startswith(
        "t: times go back by 2 h from dump-10.jsonl (landed before) to dump-2.jsonl (partition 0), and within a file "
        "by 5 ms at most"
    )


def test_nothing_is_told_where_what_comes_later_goes_back_no_further_than_a_file_that_has_landed(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": lines(T0 + HOUR, T0, T0 + HOUR)})
    land(warehouse, directory)
    write(directory, {"b.jsonl": lines(T0 + 1)})

    assert land(warehouse, directory).warnings == ()


def test_times_are_compared_within_a_partition(warehouse, tmp_path):
    files = {"p0.jsonl": lines(T0, T0 + HOUR, p=0), "p1.jsonl": lines(T0, T0 + HOUR, p=1)}

    assert land(warehouse, write(tmp_path / "in", files), partition="p", partitions=2).warnings == ()


def test_asked_to_stop_at_disorder_a_landing_has_landed_nothing(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": lines(T0 + HOUR), "b.jsonl": lines(T0)})

    with pytest.raises(
        LandingError, match=r"expected files whose times continue .*go back by 1 h from a.jsonl to b.jsonl"
    ):
        land(warehouse, directory, rules={"on_disorder": "stop"})

    assert warehouse.topics() == []


ONE_OF_FIVE = {"a.jsonl": lines(T0 + HOUR, T0 + HOUR - 5, T0 + 2 * HOUR), "b.jsonl": lines(T0 + HOUR, T0 + 3 * HOUR)}
"""The first record of b is an hour behind a, and within the files nothing is more than 5 ms behind."""


@pytest.mark.parametrize("format_", ["json", "csv"])
def test_asked_for_a_share_a_landing_stops_where_more_records_are_late(warehouse, tmp_path, format_):
    files = ONE_OF_FIVE
    if format_ == "csv":
        rows = {name: [json.loads(line)["t"] for line in text.splitlines()] for name, text in files.items()}
        files = {name.replace("jsonl", "csv"): "t\n" + "".join(f"{t}\n" for t in of) for name, of in rows.items()}
    directory = write(tmp_path / "in", files)

    with pytest.raises(
        LandingError,
        match=r"go back by 1 h from a\.\w+ to b\.\w+, which makes 1 of 5 records late \(--max-late-share 0\.19\)",
    ):
        land(warehouse, directory, rules={"on_disorder": "stop", "max_late_share": 0.19})
    assert warehouse.topics() == []

    report = land(warehouse, directory, rules={"on_disorder": "stop", "max_late_share": 0.2})

    assert report.records == 5
    assert report.warnings[0].startswith("t: times go back by 1 h from a.")
    assert landed_disorder(warehouse, "t") is not None


def test_late_records_are_counted_by_partition_and_behind_what_has_landed(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": lines(T0 + HOUR, T0 + HOUR - 5, p=0) + lines(T0, p=1)})
    land(warehouse, directory, partition="p", partitions=2)
    later = lines(T0 + HOUR - 6, T0 + HOUR - 5, T0 + HOUR, p=0) + lines(T0 - 1, T0, T0, p=1)
    write(directory, {"b.jsonl": later})

    with pytest.raises(LandingError, match="which makes 2 of 6 records late"):
        land(
            warehouse,
            directory,
            partition="p",
            partitions=2,
            rules={"on_disorder": "stop", "max_late_share": 0.33},
        )
    rules = {"on_disorder": "stop", "max_late_share": 0.34}
    assert land(warehouse, directory, partition="p", partitions=2, rules=rules).records == 6


def test_a_share_of_late_records_is_asked_for_beside_stop_alone():
    with pytest.raises(ConfigError, match=r'max_late_share: expected it beside on_disorder "stop", got 0\.1'):
        LandingRules(max_late_share=0.1)
    with pytest.raises(ConfigError, match="max_late_share: expected a share from 0 to 1, got 2"):
        LandingRules(on_disorder="stop", max_late_share=2)


def test_files_that_are_left_out_for_their_names_are_counted(warehouse, tmp_path):
    files = {"_audit/0.jsonl": lines(1), "_audit/1.jsonl": lines(2), "_SUCCESS": "", "a.jsonl": lines(3)}
    directory = write(tmp_path / "in", files)

    report = land(warehouse, directory)
    topic = land(warehouse, directory / "_audit", topic="_audit")

    assert report.warnings[0] == (
        "t: 3 files are left out, as names that begin with . or _ are (_SUCCESS); to land _SUCCESS, name it "
        f"(--files {directory}/_SUCCESS)"
    )
    assert (report.records, topic.records) == (1, 2)
    assert landed(warehouse, "_audit", "timestamp") == [(1,), (2,)]


def test_a_folder_of_nothing_but_such_names_is_not_empty(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"_audit/0.jsonl": lines(1), "_audit/1.jsonl": lines(2)})

    first, again = land(warehouse, directory), land(warehouse, directory)

    said = (
        "t: 2 files are left out, as names that begin with . or _ are (_audit/0.jsonl); to land _audit, name it "
        f"(--files {directory}/_audit)"
    )
    none = "t: no file has landed yet, so no record; its number of partitions may still change"
    assert (first.records, first.warnings) == (0, (said, none))
    assert (again.increments, again.warnings) == ((), (said,))


def test_the_ledger_has_the_worst_border_at_the_file_behind_it(warehouse, tmp_path):
    files = {"a.jsonl": lines(T0 + HOUR), "b.jsonl": lines(T0 + 5, T0), "c.jsonl": lines(T0 + HOUR - 1)}
    directory = write(tmp_path / "in", files)
    assert landed_disorder(warehouse, "t") is None  # nothing has landed

    land(warehouse, directory)

    assert landed_disorder(warehouse, "t") == Disorder("a.jsonl", "b.jsonl", 0, HOUR, 5)
    [plan] = LandingLedger(warehouse.landing_ledger("t")).plans()
    assert [file["name"] for file in plan.content.files if "disorder" in file] == ["b.jsonl"]
    write(directory, {"d.jsonl": lines(T0 - 1)})
    land(warehouse, directory)
    assert landed_disorder(warehouse, "t") == Disorder("a.jsonl (landed before)", "d.jsonl", 0, HOUR + 1, 5)


def test_the_ledger_has_no_border_where_files_continue_or_columns_order_the_rows(warehouse, tmp_path):
    land(warehouse, write(tmp_path / "in", {"a.jsonl": lines(T0), "b.jsonl": lines(T0 + 1)}))
    land(warehouse, write(tmp_path / "u", {"a.jsonl": lines(T0 + 1), "b.jsonl": lines(T0)}), topic="u", order_by=["t"])

    assert (landed_disorder(warehouse, "t"), landed_disorder(warehouse, "u")) == (None, None)


def test_times_at_both_ends_of_a_long_go_back_by_their_whole_distance():
    ends = np.array([2**53 - 1, -(2**63)])

    assert spans_of(ends, np.zeros(2, np.int32)) == {0: TimeSpan(-(2**63), 2**53 - 1, 9_232_379_236_109_516_799)}
