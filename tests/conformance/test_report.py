"""The comparison itself: a written difference is seen, and shown where it is; nothing is passed over in silence."""

import json
from copy import deepcopy

import pytest

from tests.conformance.__main__ import main, report
from tests.conformance.scenarios import Scenario

NODES = [
    {"id": "s", "op": "stream", "topic": "in"},
    {"id": "g", "op": "group_by_key", "inputs": ["s"]},
    {"id": "w", "op": "window", "type": "tumbling", "size": 10, "grace": 0, "inputs": ["g"]},
    {"id": "c", "op": "aggregate", "function": "count", "inputs": ["w"]},
    {"id": "f", "op": "suppress", "until": "window_closes", "inputs": ["c"]},
]
JOIN = {"id": "x", "op": "stream_stream_join", "inputs": ["s", "s"], "type": "inner"}
JOIN |= {"before": 1, "after": 1, "grace": 0}
RECORDS = [
    {"topic": "in", "key": "a", "value": 1, "ts": 3},
    {"topic": "in", "key": None, "value": 1, "ts": 4},
    {"topic": "in", "key": "b", "value": 1, "ts": 12},
]
BUFFER = {
    "suppression-emit-total": 1,
    "suppression-buffer-count-current": 1,
    "suppression-buffer-count-max": 2,
    "suppression-buffer-size-current": 55,
    "suppression-buffer-size-max": 110,
}
WANT = {
    "outputs": [[], [], [{"key": "a", "window": [0, 10], "value": 1, "ts": 3}]],
    "dropped": [0, 1, 0],
    "metrics": {
        "dropped-records-total": 1,
        "record-lateness-avg": 0,
        "record-lateness-max": 0,
        "suppress": {"f": BUFFER},
    },
}


def scenario(want=WANT, *, nodes=NODES, records=RECORDS, sensitive=()):
    return Scenario("planted", {"nodes": nodes}, records, want, sensitive)


def planted(path, value):
    """The right result with one thing changed."""
    want = deepcopy(WANT)
    inner = want
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return want


def test_a_right_result_passes():
    assert report(scenario()) is None


@pytest.mark.parametrize(
    ("path", "value", "step"),
    [
        (("outputs", 2, 0, "key"), "b", "record 2"),
        (("outputs", 2, 0, "key"), None, "record 2"),
        (("outputs", 2, 0, "window"), [0, 9], "record 2"),
        (("outputs", 2, 0, "window"), None, "record 2"),
        (("outputs", 2, 0, "value"), 2, "record 2"),
        (("outputs", 2, 0, "value"), "1", "record 2"),
        (("outputs", 2, 0, "ts"), 4, "record 2"),
        (("outputs", 2), [], "record 2"),
        (("outputs", 0), [{"key": "a", "window": [0, 10], "value": 1, "ts": 3}], "record 0"),
        (("dropped", 1), 0, "record 1"),
        (("metrics", "dropped-records-total"), 2, "metrics"),
        (("metrics", "record-lateness-avg"), 0.5, "metrics"),
        (("metrics", "record-lateness-max"), None, "metrics"),
        (("metrics", "suppress", "f", "suppression-emit-total"), 0, "metrics"),
        (("metrics", "suppress", "f", "suppression-buffer-count-current"), 0, "metrics"),
        (("metrics", "suppress", "f", "suppression-buffer-count-max"), 1, "metrics"),
        (("metrics", "suppress", "f", "suppression-buffer-size-current"), 54, "metrics"),
        (("metrics", "suppress", "f", "suppression-buffer-size-max"), 111, "metrics"),
        (("metrics", "suppress", "g"), BUFFER, "metrics"),
        (("phase",), "record", "how it ended"),
        (("failed_at",), 2, "how it ended"),
        (("phase",), "build", "how it began"),
    ],
    ids=str,
)
def test_one_planted_difference_is_seen_at_its_step(path, value, step):
    why = report(scenario(planted(path, value)))

    assert why is not None
    assert why.lstrip().startswith(step)


def test_the_first_differing_step_is_shown_as_a_table():
    got = report(scenario(planted(("outputs", 2, 0, "value"), 7)))

    want = [
        "  record 2: in 'b' = 1 at 12",
        "     what      want                    got",
        "  ≠  output 0  'a' @ [0, 10] = 7 ts 3  'a' @ [0, 10] = 1 ts 3",
        "     dropped   0                       0",
    ]
    assert got.splitlines() == want


def test_sizes_are_left_out_where_they_depend_on_an_internal_name():
    wrong = planted(("metrics", "suppress", "f", "suppression-buffer-size-max"), 1)

    assert report(scenario(wrong, sensitive=("buffer_size",))) is None


@pytest.mark.parametrize(
    ("nodes", "missing"),
    [
        ([{"id": "x", "op": "teleport", "topic": "in"}], "operator teleport"),
        ([*NODES[:2], {**NODES[2], "type": "moon"}], "window moon"),
        ([NODES[0], {"id": "m", "op": "map_values", "mapper": "guess", "inputs": ["s"]}], "mapper guess"),
        ([NODES[0], {"id": "m", "op": "filter", "predicate": "guess", "inputs": ["s"]}], "predicate guess"),
        ([NODES[0], {"id": "m", "op": "select_key", "key": "guess", "inputs": ["s"]}], "selector guess"),
        ([*NODES[:3], {**NODES[3], "function": "guess"}], "aggregate function guess"),
        ([*NODES[:3], {**NODES[3], "emit": "sometimes"}], "emit sometimes"),
        ([*NODES[:4], {**NODES[4], "until": "sunrise"}], "suppress until sunrise"),
        ([NODES[0], {"id": "j", "op": "merge", "inputs": ["s", "s"]}, {**JOIN, "joiner": "guess"}], "joiner guess"),
        ([NODES[0], {**JOIN, "type": "cross"}], "stream_stream_join cross"),
    ],
    ids=str,
)
def test_what_is_not_covered_fails_and_is_named(nodes, missing):
    assert report(scenario(nodes=nodes)) == f"  NotCovered: {missing}"


def test_an_engine_that_raises_fails_the_scenario_with_the_cause():
    got = report(scenario(records=[{"topic": "elsewhere", "key": "a", "value": 1, "ts": 3}]))

    assert "pipe_input: expected a topic of ['in'], got 'elsewhere'" in got


def test_a_line_without_a_result_fails():
    assert report(scenario(want=None)) == "  the line holds no result to compare with"


def test_the_command_counts_and_exits_with_1_on_a_failure(tmp_path, capsys):
    lines = [
        {"name": name, "topology": {"nodes": NODES}, "records": RECORDS, "result": want}
        for name, want in (("right", WANT), ("wrong", planted(("dropped", 1), 0)))
    ]
    both, right = tmp_path / "both.jsonl", tmp_path / "right.jsonl"
    both.write_text("".join(json.dumps(line) + "\n" for line in lines))
    right.write_text(json.dumps(lines[0]) + "\n")

    codes = main([str(right)]), main([str(both), "--engine", "driver", "--cuts", "none"])
    said = capsys.readouterr().out

    assert codes == (0, 1)
    assert said.splitlines() == [
        "1 passed, 0 failed",
        "FAILED wrong",
        "  record 1: in null = 1 at 4",
        "     what     want  got",
        "  ≠  dropped  0     1",
        "",
        "1 passed, 1 failed",
    ]
